"""The data source between two batches: it rests where it has nothing to do, and misses nothing that comes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

from engine.test_planner import SECOND, World
from stqsh.engine.config import TUNING
from stqsh.engine.operators import data_source
from stqsh.engine.operators.data_source import HOLD_FILE, StqshReader
from stqsh.spec.offset import Offset
from stqsh.storage.progress import set_stream_status
from stqsh.storage.rows import StreamStatus

BOOT = "now"
ROWS = [(tick, "a") for tick in range(5, 25)]


class Resting:
    """A reader by a made-up clock, asked as Spark asks it; `comes` is done once in its sleep."""

    def __init__(self, world: World) -> None:
        self.world, self.now = world, 1000.0
        self.comes: Callable[[], object] | None = None
        self.reader = StqshReader(world.home, (1, 100, 1 << 20, 2, 0), BOOT)
        self.at: dict[str, Any] = {**self.reader.initialOffset(), "boot": BOOT}

    def monotonic(self) -> float:
        return self.now

    def time_ns(self) -> int:
        return round(self.now * 1e9)

    monotonic_ns = time_ns

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.comes:
            event, self.comes = self.comes, None
            event()

    def ask(self) -> bool:
        """Whether there is another batch."""
        before = self.at
        self.at = self.reader.latestOffset(before, cast("Any", None))
        return self.at != before

    def until_rest(self) -> None:
        while self.ask():
            pass

    def looks(self, monkeypatch: pytest.MonkeyPatch) -> int:
        """How often the planner is asked in the answer to one question."""
        counter, planner = count(), self.reader.planner
        with monkeypatch.context() as patch:
            latest = planner.latest
            patch.setattr(planner, "latest", lambda *given: (next(counter), latest(*given))[1])
            assert not self.ask()
        return next(counter)


@pytest.fixture
def resting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Resting:
    resting = Resting(World(tmp_path))
    monkeypatch.setattr(data_source, "time", resting)
    return resting


def test_where_nothing_runs_the_planner_looks_once_in_a_while(
    resting: Resting, monkeypatch: pytest.MonkeyPatch
) -> None:
    resting.world.stream(ROWS)
    resting.world.log("run", mode="steps", n=3)
    resting.until_rest()
    before = resting.now
    assert Offset.from_json(resting.at).is_idle
    assert resting.looks(monkeypatch) == 1
    assert resting.now == pytest.approx(before + TUNING.idle_answer_s, abs=TUNING.idle_look_s)


@pytest.mark.parametrize("pace", ["max", 1])
def test_where_a_stream_plays_the_planner_looks_all_the_time(
    resting: Resting, monkeypatch: pytest.MonkeyPatch, pace: Any
) -> None:
    resting.world.log("play", id=resting.world.stream(ROWS, complete=False), pace=pace)
    resting.until_rest()
    assert not Offset.from_json(resting.at).is_idle
    assert resting.looks(monkeypatch) > 5


def test_a_query_without_dealers_takes_no_batch_after_the_one_that_makes_them(
    resting: Resting, monkeypatch: pytest.MonkeyPatch
) -> None:
    resting.world.stream(ROWS)
    resting.world.log("run", mode="steps", n=3)
    resting.at["dealers"] = {"1": 0}
    resting.reader.deals = False
    assert resting.looks(monkeypatch) == 0
    resting.reader.deals = True
    assert resting.ask()


def test_a_query_that_goes_on_from_another_one_begins_with_its_offset(resting: Resting) -> None:
    resting.reader.initial = '{"seq": 4, "step": 7}'
    assert Offset.from_json(resting.reader.initialOffset()) == Offset(seq=4, step=7)


def a_run(world: World, stream: int) -> None:
    world.log("run", mode="steps", n=1)


def a_play(world: World, stream: int) -> None:
    world.log("play", id=stream, pace=1)


def a_table(world: World, stream: int) -> None:
    world.log("create_area", name="r")


def a_snapshot(world: World, stream: int) -> None:
    world.log("ask", spec={"stream_id": 1, "kind": "range", "region": {"type": "all"}})


@pytest.mark.parametrize("comes", [a_run, a_play, a_table, a_snapshot])
@pytest.mark.parametrize("played", [False, True])
def test_what_the_log_brings_is_seen_at_the_next_look(
    resting: Resting, comes: Callable[[World, int], None], played: bool
) -> None:
    world = resting.world
    stream = world.stream(ROWS)
    if played:
        world.log("play", id=stream, pace=1)
        resting.until_rest()
        world.log("pause", id=stream)
    resting.until_rest()
    resting.comes = lambda: comes(world, stream)
    before = resting.now
    assert resting.ask()
    assert resting.now == pytest.approx(before + TUNING.idle_look_s)


def test_a_run_that_waits_for_its_stream_is_taken_up_when_the_stream_is_ready(resting: Resting) -> None:
    world = resting.world
    stream = world.log("create_stream", tick_us=SECOND, name="s", columns=[], key="oid")
    world.log("run", mode="end")
    resting.until_rest()

    def is_ready() -> None:
        world.store(stream, ROWS)
        set_stream_status(world.db, StreamStatus(stream, "ready", rows=len(ROWS)))

    resting.comes = is_ready
    before = resting.now
    assert resting.ask()
    assert resting.now == pytest.approx(before + TUNING.idle_look_s)
    resting.until_rest()
    assert resting.at["step"] == len(ROWS)


def test_a_stream_that_is_ready_without_a_word_in_the_log_is_seen_when_spark_asks_again(
    resting: Resting,
) -> None:
    stream = resting.world.log("create_stream", tick_us=SECOND, name="s", columns=[], key="oid")
    resting.world.log("run", mode="end")
    resting.until_rest()
    resting.world.store(stream, ROWS)
    assert resting.ask()


def test_the_wall_clock_brings_a_step_that_is_due(resting: Resting) -> None:
    resting.world.log("play", id=resting.world.stream(ROWS), pace=0.25)
    resting.until_rest()
    begun, step = resting.now, resting.at["step"]
    while not resting.ask():
        assert resting.now < begun + 5
    assert resting.at["step"] == step + 1


def test_a_run_goes_on_once_there_is_room_on_the_disk(
    resting: Resting, monkeypatch: pytest.MonkeyPatch
) -> None:
    resting.world.stream(ROWS)
    with monkeypatch.context() as patch:
        patch.setattr("stqsh.engine.planning.planner.is_full", lambda home: True)
        resting.world.log("run", mode="steps", n=3)
        resting.until_rest()
    resting.until_rest()
    assert resting.at["step"] == 3


@pytest.mark.parametrize("runs", [False, True])
def test_an_engine_that_is_to_stop_is_not_waited_for(resting: Resting, runs: bool) -> None:
    resting.world.stream(ROWS)
    resting.until_rest()
    resting.comes = (resting.world.home / HOLD_FILE).touch
    if runs:
        (resting.world.home / HOLD_FILE).touch()
        resting.world.log("run", mode="end")
    before = resting.now
    assert not resting.ask()
    assert resting.now <= before + TUNING.idle_look_s
