"""The planner and live streams: steps by the wall clock, and offsets that name the messages of a batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from support.spools import write

from stqsh.engine.config import TUNING
from stqsh.engine.ingest.task_reader import chunks
from stqsh.engine.planning.planner import Planner
from stqsh.sources.live.line_spool import PART, SPOOL, SpoolSource, SpoolWriter
from stqsh.sources.live.protocol import SourceState
from stqsh.spec.chunk import ChunkKind, unpack, unpack_struct
from stqsh.spec.clock import BatchClock
from stqsh.spec.log import RunFor, RunSteps, RunToEnd, StreamDropped, StreamPaused, StreamPlayed
from stqsh.spec.offset import Offset
from stqsh.spec.stats import TakenMessages
from stqsh.spec.stream import ColumnSpec, StdinSourceSpec, StreamKind, StreamSpec
from stqsh.storage.control_log import ControlDb, append

TICK, NOW = 250_000, 1_800_000_000_000_000
COLUMNS = (("oid", "STRING"), ("lon", "DOUBLE"), ("lat", "DOUBLE"), ("ts", "TIMESTAMP"))


class World:
    """A session with one live stream that reads a spool."""

    def __init__(self, home: Path, slots: int = 2, kind: StreamKind = "moving") -> None:
        self.db = ControlDb(home, create=True)
        columns = tuple(ColumnSpec(*column) for column in COLUMNS)
        spec = StreamSpec(
            name="s",
            kind=kind,
            columns=columns,
            key="oid",
            x="lon",
            y="lat",
            time="ts",
            tick_us=TICK,
            source=StdinSourceSpec(),
        )
        self.stream = append(self.db, spec).seq
        self.planner = Planner(home, slots)
        self.spool = SpoolWriter(home / "streams" / str(self.stream) / SPOOL)
        self.at = Offset()

    def say(self, *keys: str) -> None:
        for key in keys:
            write(self.spool, orjson.dumps({"oid": key, "lon": 1, "lat": 2, "ts": 5}) + b"\n")

    def play(self) -> None:
        append(self.db, StreamPlayed(self.stream, "s"))

    def batch(self, after_us: int) -> Offset | None:
        """Take the next batch that has steps; None where there is nothing to do."""
        for _ in range(3):
            before, self.at = self.at, self.planner.latest(self.at, NOW + after_us)
            if self.at == before:
                return None
            if self.at.step > before.step:
                self.before = before
                return self.at
        return None

    def records(self, first: Offset, last: Offset) -> list[tuple[int, str]]:
        """Return step and key of the records between two offsets, by slot."""
        made = [chunk for task in self.planner.plan(first, last) for chunk in chunks(task)]
        batches = [unpack(chunk.payload) for chunk in made if chunk.kind == ChunkKind.RECORDS]
        return [(row["_step"], row["oid"]) for batch in batches for row in batch.to_pylist()]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_stream_that_does_not_play_stands_still(world: World) -> None:
    world.say("a")
    assert world.batch(0) is None
    assert world.at.step == 0


def test_a_source_that_was_created_again_is_told_and_nothing_of_it_is_passed_over(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.play()
    world.say("a", "b", "c")
    world.batch(0)
    monkeypatch.setattr(SpoolSource, "state", lambda _: SourceState({PART: 0}, {PART: 1}))
    assert told(world, TICK * 5) == "", "what is read ahead may be newer than the ends for a moment"
    world.planner.live.truncation.patience_s = 0.0
    assert told(world, TICK * 10).startswith(
        "the stream waits: lines was truncated, or created again: it ends at 1, and the"
    )
    assert world.at.live[world.stream].next == {PART: 3}


def told(world: World, after_us: int) -> str:
    """What the next batch tells of the stream."""
    assert world.batch(after_us) is not None
    made = [chunk for task in world.planner.plan(world.before, world.at) for chunk in chunks(task)]
    clock, *_ = [unpack_struct(chunk.payload, BatchClock) for chunk in made if chunk.kind == ChunkKind.CLOCK]
    return clock.live[world.stream].message


HOUR = 3_600_000_000


def test_a_live_stream_goes_on_when_the_clock_is_set_back(world: World) -> None:
    world.play()
    steps = []
    for passed, key in enumerate("abcdef"):
        world.say(key)
        world.batch(passed * TICK - (HOUR if passed >= 3 else 0))
        steps.append(world.at.step)
    assert steps == [1, 2, 3, 3, 4, 5]


def test_a_live_stream_follows_a_clock_that_is_set_back_and_forward_again(world: World) -> None:
    passed = 0
    world.planner = Planner(world.db.path.parent, 2, steady=lambda: passed * TICK)
    world.play()
    steps, lags = [], []
    for key in "abcdefgh":
        world.say(key)
        now_us = passed * TICK - (HOUR if passed in (3, 4, 5) else 0)
        batch = world.batch(now_us)
        assert batch is not None
        steps.append(batch.step)
        lags.append(NOW + now_us - (batch.due_us or 0))
        passed += 1
    assert (steps, lags) == ([1, 2, 3, 4, 5, 6, 7, 8], [0] * 8)


def test_a_session_that_ran_with_a_clock_ahead_goes_on_at_once(world: World) -> None:
    world.play()
    world.say("a")
    world.batch(0)
    world.planner = Planner(world.db.path.parent, 2)
    append(world.db, RunFor(2 * TICK))
    ran = []
    for passed in range(4):
        world.say("b")
        batch = world.batch(passed * TICK - HOUR)
        ran.append(None if batch is None else (batch.step, batch.run is None))
    assert ran[:3] == [None, (2, False), (3, True)]


def test_records_belong_to_the_tick_in_which_they_are_taken(world: World) -> None:
    world.play()
    world.say("a")
    first = world.batch(0)
    assert first is not None and first.step == 1 and first.base_tick == NOW // TICK
    assert world.records(world.before, first) == [(1, "a")]
    world.say("b", "c")
    assert world.batch(TICK - 1) is None
    later = world.batch(5 * TICK)
    assert later is not None and later.step == 6
    assert sorted(world.records(world.before, later)) == [(6, "b"), (6, "c")]


def test_time_passes_without_records_but_not_in_each_tick(world: World) -> None:
    world.play()
    begun = world.batch(0)
    assert begun is not None and begun.step == 1
    assert world.batch(3 * TICK) is None
    idle = world.batch(4 * TICK)
    assert idle is not None and (idle.step, world.records(world.before, idle)) == (5, [])


def test_a_repeated_batch_is_the_same_whatever_has_come_since(world: World) -> None:
    world.play()
    world.say("a", "b")
    end = world.batch(0)
    assert end is not None
    start, found = world.before, world.records(world.before, end)
    world.say("c")
    again = Planner(world.planner.home, 2)
    again.latest(start, NOW)
    world.planner = again
    assert world.records(Offset.from_json(start.to_json()), Offset.from_json(end.to_json())) == found


def test_all_events_of_a_key_go_to_one_slot_wherever_they_are(tmp_path: Path) -> None:
    world = World(tmp_path, slots=4, kind="event")
    world.play()
    for key in "abcdefgh":
        for lon in (-170, -10, 10, 170):
            write(world.spool, orjson.dumps({"oid": key, "lon": lon, "lat": lon / 2, "ts": 5}) + b"\n")
    end = world.batch(0)
    assert end is not None
    made = [chunk for task in world.planner.plan(world.before, end) for chunk in chunks(task)]
    slots: dict[str, set[int]] = {}
    for chunk in made:
        if chunk.kind == ChunkKind.RECORDS:
            for row in unpack(chunk.payload).to_pylist():
                slots.setdefault(row["oid"], set()).add(chunk.slot)
    assert sorted(slots) == list("abcdefgh")
    assert all(len(some) == 1 for some in slots.values())
    assert len(set.union(*slots.values())) > 1


@pytest.mark.parametrize("by_slot", [False, True])
def test_what_is_taken_is_reported_once(world: World, by_slot: bool) -> None:
    world.play()
    world.say("a")
    write(world.spool, b"oops\n")
    end = world.batch(0)
    assert end is not None
    tasks = world.planner.plan(world.before, replace(end, by_slot=by_slot))
    taken = [
        unpack_struct(chunk.payload, TakenMessages)
        for task in tasks
        for chunk in chunks(task)
        if chunk.kind == ChunkKind.TAKEN
    ]
    assert [(each.records, each.dead) for each in taken] == [(1, 1)]
    assert orjson.loads(taken[0].letters)["line"] == 2


def test_messages_are_read_for_each_slot_only_where_they_are_few(world: World) -> None:
    world.planner = Planner(world.planner.home, 2, tuning=replace(TUNING, by_slot_messages=8))
    world.play()
    for number, (count, is_few) in enumerate(
        [(1, False), (4, True), (5, False)]
    ):  # the first brings commands
        world.say(*"abcdefgh"[:count])
        end = world.batch(number * TICK)
        assert end is not None
        assert end.by_slot == is_few
        assert len(world.records(world.before, end)) == count


def test_a_run_ends_with_its_steps_and_one_to_the_end_with_the_source(world: World) -> None:
    append(world.db, RunSteps(2))
    world.say("a")
    one = world.batch(0)
    assert one is not None and one.step == 1 and one.run is not None
    two = world.batch(9 * TICK)
    assert two is not None and two.step == 2 and two.run is None and two.run_done == 2
    append(world.db, RunFor(2 * TICK))
    last = world.batch(100 * TICK)
    assert last is not None and last.run is not None
    assert (last.step, last.run.until) == (101, 102)
    assert world.batch(101 * TICK) is not None
    append(world.db, RunToEnd())
    world.say("b")
    world.spool.finish()
    done = world.batch(103 * TICK)
    assert done is not None and done.ended and done.run is None
    assert [key for _, key in world.records(world.before, done)] == ["b"]


def test_a_run_whose_live_stream_is_dropped_ends_there(world: World) -> None:
    done = append(world.db, RunToEnd()).seq
    world.say("a")
    assert (first := world.batch(0)) is not None
    append(world.db, StreamDropped(world.stream, "s"))
    assert (last := world.batch(TICK * 4)) is not None
    assert (last.step, last.run, last.run_done) == (first.step + 1, None, done)


def test_a_stream_that_is_paused_takes_up_where_it_stopped(world: World) -> None:
    world.play()
    world.say("a")
    assert world.batch(0) is not None
    append(world.db, StreamPaused(world.stream, "s"))
    world.say("b")
    assert world.batch(8 * TICK) is None
    world.play()
    after = world.batch(9 * TICK)
    assert after is not None and world.records(world.before, after) == [(10, "b")]


def test_a_source_that_does_not_answer_yet_is_not_at_its_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = SpoolSource.begin
    monkeypatch.setattr(SpoolSource, "begin", lambda source: None)
    world.play()
    assert world.batch(0) is not None
    made = [chunk for task in world.planner.plan(world.before, world.at) for chunk in chunks(task)]
    clock = next(chunk for chunk in made if chunk.kind == ChunkKind.CLOCK)
    assert not unpack_struct(clock.payload, BatchClock).ended
    monkeypatch.setattr(SpoolSource, "begin", begin)
    world.say("a")
    last = world.batch(10 * TICK)
    assert last is not None
    assert [key for _, key in world.records(world.before, last)] == ["a"]
