"""The planner: which steps, records and commands a batch takes, from the log, the stores and the clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace as changed
from support.specs import entry
from support.typed import query_spec

from stqsh.core.queries.registrations import unpack_alike
from stqsh.engine.config import TUNING
from stqsh.engine.ingest.task_reader import chunks
from stqsh.engine.planning.planner import Planner
from stqsh.engine.planning.tasks import SourceTask
from stqsh.lang.binder.parameters import Hole
from stqsh.routing.initial_routing import sampled_grid
from stqsh.routing.table import RoutingTable
from stqsh.sources.replay_store.manifest import read_manifest, write_manifest
from stqsh.sources.replay_store.store import StoreWriter
from stqsh.spec.chunk import Chunk, pack, unpack, unpack_json
from stqsh.spec.log import StreamRouted
from stqsh.spec.offset import Offset
from stqsh.spec.query import with_members
from stqsh.spec.stats import BatchStats
from stqsh.storage import control_log
from stqsh.storage.attachments import AttachmentWriter
from stqsh.storage.control_log import ControlDb, append, last_seq
from stqsh.storage.progress import record_progress
from stqsh.storage.queries.bulk_register import register_rows
from stqsh.storage.queries.query_templates import NAMES, QueryTemplate
from stqsh.storage.rows import Progress
from stqsh.storage.stream_routes import append_route

SECOND = 1_000_000
COLUMNS = [["oid", "STRING"], ["x", "DOUBLE"], ["y", "DOUBLE"], ["ts", "TIMESTAMP"]]


class World:
    """A session home with a control log, stores made of (tick, key) lists, and a planner over both."""

    def __init__(self, home: Path, *, slots: int = 1, max_records: int = 100) -> None:
        self.home = home
        self.db = ControlDb(home, create=True)
        self.planner = Planner(home, slots, max_records)
        self.at = Offset()

    def log(self, kind: Any, payload: bytes | None = None, /, **spec: Any) -> int:
        return append(self.db, entry(kind, spec), payload=payload).seq

    def stream(self, rows: list[tuple[int, str]], *, complete: bool = True, **more: Any) -> int:
        spec = {"name": "s", "columns": COLUMNS, "key": "oid", "x": "x", "y": "y", "time": "ts", **more}
        stream = self.log("create_stream", tick_us=SECOND, **spec)
        self.store(stream, rows, complete=complete)
        return stream

    def store(self, stream: int, rows: list[tuple[int, str]], *, complete: bool = True) -> None:
        ticks = np.array([tick for tick, _ in rows], dtype=np.int64)
        keys = pa.array([key for _, key in rows], pa.string())
        zeros = pa.array(np.zeros(len(rows)))
        times = pa.array(ticks * SECOND).cast(pa.timestamp("us", "UTC"))
        writer = StoreWriter(self.home / "streams" / str(stream), COLUMNS)
        if rows:
            writer.append(
                pa.RecordBatch.from_arrays(
                    [keys, zeros, zeros, times, pa.array(ticks)], names=["oid", "x", "y", "ts", "_tick"]
                )
            )
        writer.publish(complete=complete)

    def query(self, stream: int, focal: str | None = None) -> int:
        region = {"type": "moving_rect", "focal": focal, "xdist": 1, "ydist": 1} if focal else {"type": "all"}
        return self.log("register", stream="s", stream_id=stream, text="", kind="range", region=region)

    def batch(self, now_us: int = 0) -> list[Chunk] | None:
        """Take the next batch; None where there is nothing to do."""
        start, end = self.at, self.planner.latest(self.at, now_us)
        if end == start:
            return None
        self.at = end
        return [chunk for task in self.planner.plan(start, end) for chunk in chunks(task)]

    def all_batches(self) -> list[list[Chunk]]:
        taken = []
        while (batch := self.batch()) is not None:
            taken.append(batch)
            assert len(taken) < 1000
        return taken


def of_kind(batch: list[Chunk], kind: str, slot: int = 0) -> list[Chunk]:
    return sorted(
        (c for c in batch if c.kind == kind and c.slot == slot), key=lambda chunk: (chunk.stream, chunk.order)
    )


def clock(batch: list[Chunk]) -> dict[str, Any]:
    (only,) = of_kind(batch, "clock")
    content: dict[str, Any] = unpack_json(only.payload)
    return content


def records(batch: list[Chunk], kind: str = "records", slot: int = 0) -> list[tuple[int, str]]:
    """(step, key) of all records of one kind of chunk, in order."""
    found = [chunk.content for chunk in of_kind(batch, kind, slot)]
    return [pair for b in found for pair in zip(b["_step"].to_pylist(), b["oid"].to_pylist(), strict=True)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_streams_stand_still_until_run(world: World) -> None:
    world.query(world.stream([(5, "a")]))
    assert world.batch() is None


def test_the_first_tick_of_the_first_run_is_step_one(world: World) -> None:
    world.stream([(5, "a"), (7, "b")])
    run = world.log("run", mode="end")
    batch = world.batch()
    assert batch is not None
    assert records(batch) == [(1, "a"), (3, "b")]
    said = clock(batch)
    assert (said["first_step"], said["last_step"], said["base_tick"]) == (1, 3, 5)
    assert (said["run_done"], said["ended"], said["running"]) == (run, True, False)
    assert world.batch() is None


def test_commands_come_with_the_first_batch_that_has_steps_and_once(world: World) -> None:
    stream = world.stream([(1, "a"), (2, "b")])
    query = world.query(stream)
    world.log("run", mode="steps", n=1)
    first = world.batch()
    assert first is not None
    assert [c["op"] for c in unpack_json(of_kind(first, "commands")[0].payload)] == ["register"]
    assert unpack_json(of_kind(first, "define")[0].payload)["id"] == stream
    world.log("drop", id=query, stream_id=stream)
    assert world.batch() is None
    world.log("run", mode="end")
    second = world.batch()
    assert second is not None
    assert unpack_json(of_kind(second, "commands")[0].payload) == [{"op": "drop", "id": query}]
    assert not of_kind(second, "define")


@pytest.mark.parametrize(
    ("run", "last"),
    [
        ({"mode": "steps", "n": 4}, 4),
        ({"mode": "for", "us": 3 * SECOND}, 3),
        ({"mode": "for", "us": 3 * SECOND + 1}, 4),
        ({"mode": "until", "t_us": 12 * SECOND}, 2),
        ({"mode": "until", "t_us": 12 * SECOND + 1}, 3),
        ({"mode": "until", "t_us": 5 * SECOND}, 0),
        ({"mode": "steps", "n": 400}, 11),
        ({"mode": "end"}, 11),
    ],
)
def test_a_run_goes_as_far_as_it_says_and_no_further_than_the_data(
    world: World, run: dict[str, Any], last: int
) -> None:
    world.stream([(10, "a"), (20, "b")])
    seq = world.log("run", **run)
    batches = world.all_batches()
    assert world.at.step == last
    assert clock(batches[-1])["run_done"] == seq


def test_a_run_to_the_end_passes_over_a_gap_of_half_a_century(world: World) -> None:
    far = 53 * 366 * 86_400_000  # in ticks of a millisecond
    world.stream([(1, "a"), (far, "b")])
    world.log("run", mode="end")
    taken = [step for batch in world.all_batches() for step, _ in records(batch)]
    assert taken == [1, far]
    assert world.at.step == far


def test_a_batch_takes_whole_ticks_and_about_max_records(tmp_path: Path) -> None:
    world = World(tmp_path, max_records=3)
    world.stream([(1, "a"), (1, "b"), (2, "c"), (2, "d"), (9, "e"), (9, "f"), (9, "g"), (9, "h"), (10, "i")])
    world.log("run", mode="end")
    taken = [records(batch) for batch in world.all_batches()]
    assert [[step for step, _ in batch] for batch in taken] == [[1, 1], [2, 2], [9, 9, 9, 9], [10]]


def test_a_batch_is_the_same_when_it_is_planned_again(tmp_path: Path) -> None:
    world = World(tmp_path, slots=3)
    stream = world.stream([(tick, f"k{tick % 7}") for tick in range(50)])
    world.query(stream, "k1")
    world.log("run", mode="end")
    start, end = world.at, world.planner.latest(world.at, 0)
    first = [chunk for task in world.planner.plan(start, end) for chunk in chunks(task)]
    world.log("drop", id=99, stream_id=stream)
    again = Planner(tmp_path, 3, 100)
    assert [chunk for task in again.plan(start, end) for chunk in chunks(task)] == first


def test_each_slot_gets_its_objects_and_focal_records_go_to_all(tmp_path: Path) -> None:
    world = World(tmp_path, slots=3)
    stream = world.stream([(tick, f"k{tick % 7}") for tick in range(70)])
    world.query(stream, "k1")
    world.log("run", mode="end")
    batch = world.batch()
    assert batch is not None
    owners = [{key for _, key in records(batch, slot=slot)} for slot in range(3)]
    assert sum(len(owner) for owner in owners) == 7
    assert set.union(*owners) == {f"k{n}" for n in range(7)}
    focal = [records(batch, "focal", slot) for slot in range(3)]
    assert focal[0] == focal[1] == focal[2] == [(step, "k1") for step in range(2, 71, 7)]


def test_a_new_focal_object_is_looked_up_before_its_query_takes_effect(tmp_path: Path) -> None:
    world = World(tmp_path, slots=2)
    stream = world.stream([(1, "a"), (2, "b"), (3, "a")])
    world.log("run", mode="steps", n=2)
    assert world.batch() is not None
    query = world.query(stream, "a")
    world.log("run", mode="end")
    asked = world.batch()
    assert asked is not None
    said = clock(asked)
    assert (said["asked"], said["last_step"], said["first_step"]) == (query, 2, 3)
    assert [unpack_json(of_kind(asked, "lookup", slot)[0].payload) for slot in (0, 1)] == [["a"], ["a"]]
    assert not of_kind(asked, "commands")
    assert world.batch() is None, "the planner waits for what Deliver found"
    last = pa.RecordBatch.from_arrays(
        [pa.array(["a"]), pa.array([0.0]), pa.array([0.0]), pa.array([SECOND], pa.timestamp("us", "UTC"))],
        names=["oid", "x", "y", "ts"],
    )
    world.log("found", pack(last), stream_id=stream, up_to=query)
    batch = world.batch()
    assert batch is not None
    assert records(batch, "focal", 1) == [(2, "a"), (3, "a")]
    assert of_kind(batch, "commands")


@pytest.mark.parametrize("own", [("a", "b", "a"), ()])
def test_focal_objects_of_queries_that_come_together_are_looked_up_as_others_are(
    own: tuple[str, ...], world: World
) -> None:
    stream = world.stream([(tick, key) for tick in range(1, 9) for key in "abc"])
    world.log("run", mode="steps", n=2)
    assert world.batch() is not None
    place, hole = ("focal", Hole("c", "STRING")) if own else ("xdist", Hole("c", "length"))
    region = {"type": "moving_rect", "focal": "a", "xdist": 1.0, "ydist": 1.0}
    spec = query_spec({"stream": "s", "stream_id": stream, "text": "", "kind": "range", "region": region})
    spec = with_members(spec, region=changed(spec.region, **{place: hole}))
    world.db.connection().execute("INSERT INTO streams VALUES (?, 's', '{}', NULL)", (stream,))
    rows = pa.RecordBatch.from_pydict({NAMES: ["q1", "q2", "q3"], "c": [*own] or [1.0] * 3})
    assert not register_rows(world.db, QueryTemplate.of(spec, "SELECT :c", ""), rows).any()
    first = last_seq(world.db) - 2
    world.log("run", mode="steps", n=2)
    asked = world.batch()
    assert asked is not None
    followed = sorted({*own} or {"a"})
    assert unpack_json(of_kind(asked, "lookup")[0].payload) == followed
    world.log("found", pack(pa.RecordBatch.from_pylist([])), stream_id=stream, up_to=clock(asked)["asked"])
    batch = world.batch()
    assert batch is not None
    assert records(batch, "focal") == [(step, key) for step in (3, 4) for key in followed]
    [new] = [unpack_alike(chunk.payload) for chunk in of_kind(batch, "register_alike")]
    assert new.moving(pa.string())[1].to_pylist() == [*own] or ["a"] * 3
    for id_ in (first, first + 2):  # nobody follows a any more, where they differ
        world.log("drop", id=id_, stream_id=stream)
    world.log("run", mode="end")
    last = world.batch()
    assert last is not None
    assert {key for _, key in records(last, "focal")} == ({"b"} if own else {"a"})


def test_nothing_is_kept_of_moving_queries_and_runs_that_are_over(world: World) -> None:
    stream = world.stream([(tick, key) for tick in range(9) for key in "ab"])
    first, second = (world.query(stream, focal=key) for key in "ab")
    for query in (None, first):
        if query:
            world.log("drop", id=query, stream_id=stream)
        world.log("run", mode="steps", n=1)
        world.all_batches()
    log = world.planner._view.log
    assert log.planner_state.focal == {stream: {"b": 1}} and set(log.planner_state._focal_of_query) == {
        second
    }
    assert not log._clock_rows
    world.log("drop_stream", id=stream, name="s")
    world.log("run", mode="steps", n=1)
    world.all_batches()
    assert not log.planner_state._focal_of_query


def test_a_focal_object_that_is_broadcast_already_is_not_looked_up(world: World) -> None:
    stream = world.stream([(1, "a"), (2, "a")])
    world.query(stream, "a")
    world.log("run", mode="steps", n=1)
    assert world.batch() is not None
    world.query(stream, "a")
    world.log("run", mode="end")
    batch = world.batch()
    assert batch is not None
    assert clock(batch)["asked"] == 0
    assert clock(batch)["ended"]


def test_commands_after_the_end_get_a_step_of_their_own(world: World) -> None:
    stream = world.stream([(1, "a")])
    query = world.query(stream)
    world.log("run", mode="end")
    world.all_batches()
    world.log("drop", id=query, stream_id=stream)
    world.log("run", mode="steps", n=1)
    (batch,) = world.all_batches()
    assert (clock(batch)["first_step"], clock(batch)["last_step"]) == (2, 2)
    assert of_kind(batch, "commands")


def test_a_routing_after_the_end_lets_no_time_pass(world: World) -> None:
    stream = world.stream([(1, "a")])
    world.log("run", mode="end")
    world.all_batches()
    append_route(world.db, StreamRouted(stream, strategy="object"), RoutingTable.by_object(3))
    seq = world.log("run", mode="end")
    (batch,) = world.all_batches()
    assert clock(batch)["run_done"] == seq
    assert world.at.step == 1


def test_a_run_at_the_end_with_nothing_to_do_is_done_at_once(world: World) -> None:
    world.stream([(1, "a")])
    world.log("run", mode="end")
    world.all_batches()
    seq = world.log("run", mode="end")
    (batch,) = world.all_batches()
    assert clock(batch)["run_done"] == seq
    assert world.at.step == 1


def test_a_run_without_any_record_is_done_at_once(world: World) -> None:
    world.query(world.stream([]))
    seq = world.log("run", mode="end")
    (batch,) = world.all_batches()
    assert clock(batch)["run_done"] == seq


def test_a_run_waits_for_streams_that_are_still_being_read(world: World) -> None:
    spec = {"name": "s", "columns": COLUMNS, "key": "oid"}
    stream = world.log("create_stream", tick_us=SECOND, **spec)
    world.log("run", mode="end")
    assert world.batch() is None
    world.store(stream, [(4, "a")])
    batch = world.batch()
    assert batch is not None
    assert records(batch) == [(1, "a")]


def test_a_run_is_stopped_at_the_next_batch(tmp_path: Path) -> None:
    world = World(tmp_path, max_records=1)
    world.stream([(tick, "a") for tick in range(10)])
    run = world.log("run", mode="end")
    world.batch()
    world.log("stop_run", run=run)
    stopped = world.batch()
    assert stopped is not None
    assert (clock(stopped)["run_done"], clock(stopped)["running"]) == (run, False)
    assert not records(stopped)
    assert world.batch() is None
    world.log("run", mode="steps", n=1)
    batch = world.batch()
    assert batch is not None
    assert clock(batch)["last_step"] == 2


def test_streams_share_the_clock_and_late_records_come_with_the_next_step(world: World) -> None:
    one = world.stream([(5, "a"), (6, "b")])
    world.log("run", mode="end")
    world.all_batches()
    two = world.stream([(1, "c"), (7, "d")])
    world.log("run", mode="end")
    batch = world.batch()
    assert batch is not None
    assert [(chunk.stream, records([chunk])) for chunk in of_kind(batch, "records")] == [
        (two, [(3, "c"), (3, "d")])
    ]
    assert one != two


def test_a_stream_from_before_the_clock_is_taken_in_one_step(world: World) -> None:
    world.stream([(50, "a")])
    world.log("run", mode="end")
    world.all_batches()
    world.stream([(1, "c"), (2, "d")])
    world.log("run", mode="end")
    batch = world.batch()
    assert batch is not None
    assert records(batch) == [(2, "c"), (2, "d")]
    assert clock(batch)["ended"]


def test_playing_a_stream_leaps_to_its_first_record_where_no_other_is_under_way(world: World) -> None:
    one = world.stream([(5, "a"), (6, "a")])
    world.log("play", id=one, pace=1)
    for second in range(3):
        world.batch(second * SECOND)
    assert world.at.step == 2
    two = world.stream([(5_000, "b"), (5_001, "b"), (5_002, "b")])
    world.log("play", id=two, pace=1)
    steps = []
    for second in (10, 10, 11, 12):
        world.batch(second * SECOND)
        steps.append(world.at.step)
    assert steps == [4_996, 4_996, 4_997, 4_998]


def test_a_stream_that_plays_follows_the_wall_clock_at_its_pace(world: World) -> None:
    stream = world.stream([(tick, "a") for tick in range(100)])
    world.log("play", id=stream, pace=10)
    began = 1_000 * SECOND
    steps = []
    for passed_us in (0, SECOND // 20, SECOND // 10, SECOND, SECOND, 60 * SECOND):
        world.batch(began + passed_us)
        steps.append(world.at.step)
    assert steps == [1, 1, 2, 11, 11, 100]


def test_a_stream_that_plays_goes_on_at_once_after_a_run(world: World) -> None:
    stream = world.stream([(tick, "a") for tick in range(1_000)])
    world.log("play", id=stream, pace=1)
    world.batch(0)
    world.log("run", mode="for", us=120 * SECOND)
    while world.at.step < 121:
        assert world.batch(SECOND) is not None
    steps = []
    for now_us in (2 * SECOND, 2 * SECOND, 3 * SECOND, 13 * SECOND):
        world.batch(now_us)
        steps.append(world.at.step)
    assert steps == [122, 122, 123, 133]


def test_a_run_that_took_long_leaves_nothing_to_catch_up_with(world: World) -> None:
    stream = world.stream([(tick, "a") for tick in range(1_000)])
    world.log("play", id=stream, pace=10)
    world.batch(0)
    world.log("run", mode="steps", n=5)
    world.batch(60 * SECOND)
    batch = world.batch(60 * SECOND)
    assert batch is not None
    assert world.at.step == 7


@pytest.mark.parametrize(("pace", "gap"), [(1, 31), (600, 9 * 86_400)])
def test_a_stream_that_plays_skips_a_long_gap_and_says_so(world: World, pace: int, gap: int) -> None:
    stream = world.stream([(1, "a"), *((gap + tick, "b") for tick in (1, 2, 25, 650))])
    world.log("play", id=stream, pace=pace)
    first, second = clock(world.batch(0) or []), clock(world.batch(0) or [])
    assert first["playback"] == {"pace": pace, "next_us": gap * SECOND, "gap_us": 0, "gap_end": 0}
    assert (second["first_step"], second["last_step"]) == (2, 1 + gap), "its steps still count"
    assert second["playback"] == {
        "pace": pace, "next_us": SECOND, "gap_us": gap * SECOND, "gap_end": 1 + gap,
    }  # fmt: skip
    assert second["due_us"] == 0, "the time that was skipped is no lag"
    third = clock(world.batch(SECOND) or [])
    assert third["last_step"] == 1 + gap + pace, "from there on it keeps its pace"
    again = Planner(world.home, 1, 100)
    assert again.latest(world.at, 2 * SECOND).gap == (1, 1 + gap)


def test_a_stream_that_plays_waits_out_a_short_gap(world: World) -> None:
    stream = world.stream([(1, "a"), (31, "b")])
    world.log("play", id=stream, pace=1)
    steps = []
    for second in (0, 0, 1, 29, 30):
        world.batch(second * SECOND)
        steps.append(world.at.step)
    assert steps == [1, 1, 2, 30, 31]


def test_no_time_is_skipped_while_a_stream_that_plays_is_still_made(world: World) -> None:
    stream = world.stream([(1, "a"), (2_000, "b")])
    endless = world.stream([(1, "c")], complete=False, name="t")
    for id_ in (stream, endless):
        world.log("play", id=id_, pace=1)
    world.batch(0)
    assert world.batch(0) is None
    assert world.at.step == 1


def refreshed_query(world: World, stream: int) -> None:
    """Register a query with SYNC 10 s."""
    kind, region = "aggregate", {"type": "all"}
    sync = {"sync_us": 10 * SECOND}
    world.log("register", stream="s", stream_id=stream, text="", kind=kind, region=region, aggregates=sync)


@pytest.mark.parametrize("pace", [10, "max"])
def test_queries_with_sync_are_refreshed_where_a_play_reaches_the_end(world: World, pace: object) -> None:
    stream = world.stream([(1, "a"), (15, "b")])
    refreshed_query(world, stream)
    world.log("play", id=stream, pace=pace)
    world.batch(0)
    last = clock(world.batch(60 * SECOND) or []) if pace == 10 else None
    assert (world.at.step, world.at.closing) == (16, 16)
    assert last is None or (last["closing"], last["ended"]) == (16, True)
    assert world.batch(90 * SECOND) is None, "once"
    world.log("run", mode="end")
    world.all_batches()
    assert world.at.step == 16


def test_a_play_of_one_stream_closes_nothing_while_another_has_records(world: World) -> None:
    stream = world.stream([(1, "a"), (5, "b")])
    paused = world.stream([(1, "a"), (9, "b")], name="t")
    refreshed_query(world, stream)
    world.log("play", id=stream, pace="max")
    world.all_batches()
    assert (world.at.step, world.at.closing) == (5, 0)
    world.log("play", id=paused, pace="max")
    world.all_batches()
    assert (world.at.step, world.at.closing) == (10, 10)


def test_a_wall_clock_that_is_set_back_does_not_stop_a_stream(world: World) -> None:
    stream = world.stream([(tick, "a") for tick in range(100)])
    world.log("play", id=stream, pace=10)
    steps = []
    for now_us in (5_000 * SECOND, 5_001 * SECOND, SECOND, 2 * SECOND, 2 * SECOND, SECOND // 2, SECOND):
        world.batch(now_us)
        steps.append(world.at.step)
    assert steps == [1, 11, 11, 21, 21, 21, 26]


@pytest.mark.parametrize("by_s", [-3_000, 3_000])
def test_a_stream_does_not_leap_when_the_clock_is_set(tmp_path: Path, by_s: int) -> None:
    passed = 0
    world = World(tmp_path)
    world.planner = Planner(tmp_path, 1, steady=lambda: passed)
    stream = world.stream([(tick, "a") for tick in range(100)])
    world.log("play", id=stream, pace=10)
    steps, due = [], []
    for second, set_s in enumerate((0, 0, by_s, by_s, 0)):
        passed = second * SECOND
        now_us = 5_000 * SECOND + passed + set_s * SECOND
        batch = world.batch(now_us)
        steps.append(world.at.step)
        due.append(now_us - clock(batch or [])["due_us"])
    assert (steps, due) == ([1, 11, 21, 31, 41], [0] * 5)


def test_a_stream_that_cannot_keep_its_pace_says_how_far_it_lags(tmp_path: Path) -> None:
    world = World(tmp_path, max_records=2)
    stream = world.stream([(tick, "a") for tick in range(100)])
    world.log("play", id=stream, pace=10)
    began = 1_000 * SECOND
    first, second = clock(world.batch(began) or []), clock(world.batch(began + SECOND) or [])
    assert (first["due_us"], first["backlog"]) == (began, 0)
    assert (second["last_step"], second["due_us"], second["backlog"]) == (3, began + SECOND // 5, 8)
    rest = [clock(world.batch(began + SECOND) or [])["backlog"] for _ in range(4)]
    assert rest == [6, 4, 2, 0]


def test_a_backlog_of_several_streams_is_cut_where_all_of_them_have_room(tmp_path: Path) -> None:
    world = World(tmp_path, max_records=10)
    world.stream([(tick, "a") for tick in range(4, 40)])
    world.stream([(tick, "b") for tick in range(0, 40, 4)])
    world.log("run", mode="end")
    sizes = [len(of_kind(batch, "records")) and sum(c.rows for c in of_kind(batch, "records"))
             for batch in world.all_batches()]  # fmt: skip
    assert sum(sizes) == 46
    assert all(8 <= size <= 10 for size in sizes[:-1])


def test_wide_records_come_in_smaller_batches(tmp_path: Path) -> None:
    world = World(tmp_path, max_records=1000)
    world.planner = Planner(tmp_path, 1, 1000, max_bytes=4_000)
    world.stream([(tick, "a" * 500) for tick in range(40)])
    world.log("run", mode="end")
    assert max(len(records(batch)) for batch in world.all_batches()) <= 7


def test_the_size_of_batches_follows_what_the_last_one_cost(tmp_path: Path) -> None:
    world = World(tmp_path, max_records=1_000_000)
    world.stream([(tick // 1000, "a") for tick in range(300_000)])
    world.log("run", mode="end")
    first = clock(world.batch() or [])
    assert (first["rows"], first["room"]) == ({"1": 65_000}, 65_536)
    took = {"room": 65_536, "records": 65_000, "time": {"total_us": 1_000_000, "kernel_us": 900_000}}
    record_progress(world.db, Progress(batch=1, stats=msgspec.convert(took, BatchStats)))
    second = clock(world.batch() or [])
    assert (second["rows"], second["room"]) == ({"1": 209_000}, 144_444)


def test_a_command_comes_with_a_small_batch(tmp_path: Path) -> None:
    world = World(tmp_path, max_records=1_000_000)
    stream = world.stream([(tick // 1000, "a") for tick in range(400_000)])
    record_progress(world.db, Progress(batch=1, stats=BatchStats(room=200_000)))
    world.query(stream)
    world.log("run", mode="end")
    rows = [clock(batch)["rows"]["1"] for batch in world.all_batches()]
    assert rows == [65_000, 265_000, 400_000]


def test_a_stream_that_is_paused_stands_still(world: World) -> None:
    stream = world.stream([(tick, "a") for tick in range(100)])
    world.log("play", id=stream, pace=None)
    world.batch(0)
    world.log("pause", id=stream)
    paused = world.batch(90 * SECOND)
    assert paused is not None
    assert (clock(paused)["playing"], records(paused)) == (False, [])
    assert world.batch(90 * SECOND) is None


def test_a_drop_after_a_playing_stream_has_ended_is_delivered(world: World) -> None:
    stream = world.stream([(1, "a")])
    world.log("play", id=stream, pace="max")
    assert world.batch() is not None
    assert world.batch() is None
    world.query(stream)
    batch = world.batch()
    assert batch is not None
    assert clock(batch)["last_step"] == 2


@pytest.mark.parametrize("run", [{"mode": "end"}, {"mode": "for", "us": SECOND << 40}])
def test_a_run_whose_endless_stream_is_dropped_ends_there(world: World, run: dict[str, Any]) -> None:
    stream = world.stream([(tick, "a") for tick in range(20)], complete=False)
    done = world.log("run", **run)
    world.all_batches()
    assert (world.at.step, world.at.run is None) == (20, False)
    world.log("drop_stream", id=stream, name="s")
    world.all_batches()
    assert (world.at.step, world.at.run, world.at.run_done) == (21, None, done), "the drop takes a step"
    again = world.stream([(25, "b")])
    world.log("run", mode="end")
    world.all_batches()
    assert (world.at.step, world.at.rows[again]) == (26, 1)


def test_a_run_ends_with_the_data_where_another_stream_without_end_is_dropped(tmp_path: Path) -> None:
    world = World(tmp_path, max_records=3)
    kept = world.stream([(tick, "a") for tick in range(20)])
    endless = world.stream([(tick, "b") for tick in range(5)], complete=False, name="t")
    world.log(
        "register",
        stream="s",
        stream_id=kept,
        text="",
        kind="aggregate",
        region={"type": "all"},
        aggregates={"sync_us": SECOND},
    )
    done = world.log("run", mode="end")
    world.all_batches()
    assert world.at.step == 5
    world.log("drop_stream", id=endless, name="t")
    world.all_batches()
    assert (world.at.step, world.at.run_done) == (21, done)
    assert world.at.closing == 21, "the query with SYNC is refreshed after the end"


@pytest.mark.parametrize("run", [{"mode": "end"}, {"mode": "for", "us": SECOND << 40}])
def test_a_run_ends_where_only_a_stream_without_records_is_left(world: World, run: dict[str, Any]) -> None:
    endless = world.stream([(tick, "a") for tick in range(20)], complete=False)
    world.stream([], name="t")
    world.log("run", **run)
    world.all_batches()
    world.log("drop_stream", id=endless, name="s")
    world.all_batches()
    assert (world.at.step, world.at.run) == (21, None), "the drop takes a step"
    world.log("run", **run)
    world.all_batches()
    assert world.at.step == 21


def test_time_stands_still_where_a_stream_without_records_plays(world: World) -> None:
    dropped = world.stream([(tick, "a") for tick in range(20)])
    world.log("run", mode="end")
    world.all_batches()
    world.log("drop_stream", id=dropped, name="s")
    world.log("play", id=world.stream([], name="t"), pace="max")
    *_, last = world.all_batches()
    assert (world.at.step, clock(last)["ended"]) == (21, True), "the drop takes a step"


def test_an_endless_stream_is_taken_as_far_as_it_is_made(world: World) -> None:
    world.stream([(1, "a"), (2, "a")], complete=False)
    world.log("run", mode="for", us=10 * SECOND)
    batch = world.batch()
    assert batch is not None
    assert (clock(batch)["last_step"], clock(batch)["running"]) == (2, True)
    assert world.batch() is None


def test_no_step_is_taken_while_the_disk_is_full(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.stream([(1, "a"), (2, "a")])
    world.log("run", mode="end")
    with monkeypatch.context() as patch:
        patch.setattr("stqsh.engine.planning.planner.is_full", lambda home: True)
        obeyed = world.batch()
        assert obeyed is not None and clock(obeyed)["last_step"] == 0
        assert world.batch() is None
    batch = world.batch()
    assert batch is not None and clock(batch)["last_step"] == 2


def test_a_batch_for_few_slots_is_read_by_a_task_for_each_with_the_same_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, slots=3, max_records=8)
    stream = world.stream([(tick, f"k{tick % 7}") for tick in range(16)])
    asked = world.query(stream, "k3")
    world.log("found", b"", stream_id=0, up_to=asked)
    world.log("run", mode="end")
    world.batch()  # the log's rows are read once, however small their batch
    few = made_by_slot_or_not(world)
    assert {chunk.kind for chunk in few} == {"clock", "records", "focal"}


def made_by_slot_or_not(world: World) -> list[Chunk]:
    """The chunks of the next batch, which are the same however it is read."""
    made, slots = {}, world.planner.slots
    for most in (0, slots):
        tuning = replace(TUNING, by_slot_records=0, by_slot_slots=most, by_slot_routed=slots)
        planner = Planner(world.home, slots, max_records=8, tuning=tuning)
        planned = planner.plan(world.at, planner.latest(world.at, 0))
        assert [task.only for task in planned] == ([*range(slots)] if most else [None])
        made[most] = made_by(planned)
    many, few = made.values()
    assert few == many
    return few


def test_where_tasks_may_not_fold_they_read_for_all_slots_whatever_an_offset_says(tmp_path: Path) -> None:
    world = World(tmp_path, slots=2, max_records=8)
    world.stream([(tick, f"k{tick % 5}") for tick in range(6)])
    world.log("run", mode="steps", n=2)
    world.batch()
    world.log("run", mode="end")
    light = world.planner.latest(world.at, 0)
    assert light.readers_fold
    whole = [chunk for task in world.planner.plan(world.at, light) for chunk in chunks(task)]
    assert any(chunk.batch is not None for chunk in whole)
    world.planner.folds = False
    assert not world.planner.latest(world.at, 0).by_slot
    planned = world.planner.plan(world.at, light)
    assert [(task.only, task.folds) for task in planned] == [(None, False)]
    assert all(chunk.batch is None for task in planned for chunk in chunks(task))
    assert made_by(planned) == sorted((chunk.packed() for chunk in whole), key=repr)


def made_by(tasks: Sequence[SourceTask]) -> list[Chunk]:
    return sorted((canonical(chunk.packed()) for task in tasks for chunk in chunks(task)), key=repr)


def canonical(chunk: Chunk) -> Chunk:
    """A chunk whose records are packed from a copy: those of a view keep a few bytes behind them."""
    if chunk.kind not in ("records", "focal"):
        return chunk
    records = unpack(chunk.payload)
    return replace(chunk, payload=pack(pa.RecordBatch.from_pylist(records.to_pylist(), records.schema)))


BOUNDS, SAMPLE = (0.0, 0.0, 1.0, 1.0), ((0.0, 0.0), (1.0, 1.0))
RECTANGLE = {"type": "rect", "x1": 0.0, "y1": 0.0, "x2": 0.1, "y2": 0.1}


def event_stream(world: World) -> int:
    """A stream of events that is dealt by place."""
    stream = world.stream([(tick, f"k{tick % 7}") for tick in range(16)], kind="event")
    folder = world.home / "streams" / str(stream)
    manifest = replace(read_manifest(folder), bounds=BOUNDS, sample=SAMPLE, has_coarse_grid=False)
    write_manifest(folder, manifest)
    return stream


@pytest.mark.parametrize("slots", [1, 2, 3, 7])
def test_a_small_batch_that_changes_a_routing_is_read_by_slot_with_the_same_chunks(
    tmp_path: Path, slots: int
) -> None:
    world = World(tmp_path, slots=slots, max_records=8)
    stream = event_stream(world)
    corners = [(0.0, 0.0, 0.1, 0.1), (0.9, 0.9, 1.0, 1.0)]
    for corner in corners:
        region = {"type": "rect", **dict(zip(("x1", "y1", "x2", "y2"), corner, strict=True))}
        world.log("register", stream="s", stream_id=stream, text="", kind="range", region=region)
    world.log("run", mode="steps", n=8)
    world.batch()
    append_route(world.db, StreamRouted(stream, strategy="object"), RoutingTable.by_object(slots))
    world.log("run", mode="end")
    learned = {chunk.slot for chunk in made_by_slot_or_not(world) if chunk.kind == "register_alike"}
    known = sampled_grid(BOUNDS, SAMPLE, slots).slots_touching(np.array(corners))
    assert learned == set(np.flatnonzero(~known.all(axis=0)).tolist())


@pytest.mark.parametrize(("least", "is_within"), [(1 << 16, True), (0, False)])
def test_older_queries_are_read_once_for_all_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int, is_within: bool
) -> None:
    monkeypatch.setattr(AttachmentWriter.put, "__kwdefaults__", {"least": least})
    world = World(tmp_path, slots=2)
    stream = event_stream(world)
    for number in range(2):
        region = {"type": "nearest", "x": 0.0, "y": 0.0, "k": 1 + number}
        world.log("register", stream="s", stream_id=stream, text="", kind="nearest", region=region)
        world.log("register", stream="s", stream_id=stream, text="", kind="range", region=RECTANGLE)
    world.log("run", mode="steps", n=1)
    world.batch()
    append_route(world.db, StreamRouted(stream, strategy="object"), RoutingTable.by_object(2))
    world.log("run", mode="steps", n=1)
    planned = world.planner.plan(world.at, end := world.planner.latest(world.at, 0))
    assert len(planned) == 2
    logs = [task.head.log for task in planned if task.head]
    assert logs[0] is logs[1] and logs[0] is not None and bool(logs[0].content) == is_within
    learned = of_kind(made_by(planned), "register_alike", 0) + of_kind(made_by(planned), "register_alike", 1)
    assert [unpack_alike(chunk.payload).ids.tolist() for chunk in learned] == [[3, 5]]
    blobs = [path for path in (tmp_path / "heads").rglob("*") if path.is_file()]
    assert len(blobs) == (0 if is_within else 2)  # the first batch's, and this one's
    world.planner.committed(end)
    assert not any(path.is_file() for path in (tmp_path / "heads").rglob("*"))


def test_what_a_batch_takes_in_of_the_log_decides_how_it_is_read(tmp_path: Path) -> None:
    world = World(tmp_path, slots=3)
    stream = world.stream([(tick, "a") for tick in range(9)])

    def by_slot() -> bool:
        world.log("run", mode="steps", n=1)
        assert world.batch() is not None
        return world.at.by_slot

    assert not by_slot()  # there is a new stream
    assert by_slot()
    world.query(stream)
    assert not by_slot()
    assert by_slot()
    append_route(world.db, StreamRouted(stream, strategy="object"), RoutingTable.by_object(3))
    assert not by_slot()  # more than two slots
    assert by_slot()


def test_statements_are_on_the_disk_before_an_offset_names_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    monkeypatch.setattr(control_log, "force", lambda path: events.append(path.name))
    latest = world.planner.latest

    def told(start: Offset, now_us: int) -> Offset:
        end = latest(start, now_us)
        events.append(f"{end.names} named")
        return end

    monkeypatch.setattr(world.planner, "latest", told)
    stream = world.stream([(5, "a"), (6, "b"), (7, "c")])
    world.log("run", mode="steps", n=1)
    world.batch()
    assert events == ["control.db-wal", "2 named"]
    world.query(stream)
    world.log("run", mode="steps", n=2)
    world.planner._most = replace(world.planner._most, records=1)
    world.all_batches()
    assert events[2:] == ["control.db-wal", "4 named", "4 named", "4 named"]
