"""Snapshots on a cluster: a small Spark job, not a batch, whose tasks read the slots' arrays where they are.

Each slot reports its executor with its statistics. A question becomes a task for each executor, which maps
the arrays of its slots, and answers from them like a client on one machine. The shares form an answer if all
slots are at one step, which is the delivered one or a later one. While a batch is in progress the question is
retried. If this fails, the answer is a miss: the client uses the control log, and the next batch sends the
question to the slots.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark import RDD, SparkContext

from stqsh.core.snapshots.select import answer, knows, whole
from stqsh.core.state.slot_state import SlotClock, SlotState
from stqsh.engine.config import TUNING
from stqsh.engine.delivery.deliver import with_places
from stqsh.engine.operators.slot_task import EVALUATE
from stqsh.engine.spark.spark_internals import POOL_PROPERTY, executor_location, located_tasks
from stqsh.errors import NotPublishedError
from stqsh.spec.chunk import pack, unpack
from stqsh.spec.query import AskSpec, SnapshotSpec, focal_keys
from stqsh.spec.stats import TaskTiming
from stqsh.storage.arena_cleanup import host_folders
from stqsh.storage.home import SessionHome
from stqsh.storage.rows import Progress
from stqsh.storage.slot_files import PublishedSlots
from stqsh.storage.snapshot_answers import LocatedAsk, take_asks, write_answer, write_miss

_log = logging.getLogger("stqsh.engine")

POOL = "snapshots"
"""The scheduling pool of these jobs, which gets a free core before the tasks of batches."""

RunTasks = Callable[["AnswerSlots", Sequence[tuple[tuple[int, ...], str]]], list["SlotShares"]]
"""Runs a task for each group of slots at its executor's location, and returns their results."""


@dataclass(frozen=True, slots=True)
class SlotShares:
    """The answer of the slots of one executor.

    Attributes:
        shares: the packed shares of the slots that have one.
        clock: the time of all these slots.
        missed: the reason why there is no answer; "" if there is one.
        is_elsewhere: whether the reason is that the task ran in another executor.
    """

    shares: tuple[bytes, ...] = ()
    clock: SlotClock = field(default_factory=SlotClock)
    missed: str = ""
    is_elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class AnswerSlots:
    """A worker's task: answer a question on some slots of its executor.

    Attributes:
        arena: the folders of slot state, or the name of their arena, see `host_folders`.
        ask: the question.
        least: the minimum step of the slots.
    """

    arena: tuple[Path, ...]
    ask: AskSpec
    least: int

    def __call__(self, part: tuple[tuple[int, ...], str]) -> SlotShares:
        """Return the shares of some slots at one step; a miss if this is not their executor."""
        slots, location = part
        if executor_location() != location:
            return SlotShares(missed=f"{location} is gone or has no core free", is_elsewhere=True)
        reader = _readers.get((self.arena, slots))
        if reader is None:
            _readers.clear()  # they may be of slots that have moved
            reader = _readers[self.arena, slots] = PublishedSlots(host_folders(self.arena), slots)
        try:
            return reader.read(self._answer, self.least, lambda: 0.0)
        except NotPublishedError as error:
            return SlotShares(missed=error.message)

    def _answer(self, states: list[SlotState]) -> SlotShares:
        if not all(knows(state, self.ask.spec) for state in states):
            raise NotPublishedError("the slots do not know a table or region yet")
        found = (answer(state, self.ask) for state in states)
        return SlotShares(tuple(pack(share) for share in found if share is not None), states[0].clock)


_readers: dict[tuple[tuple[Path, ...], tuple[int, ...]], PublishedSlots] = {}
"""The slots that this worker has mapped, by folders and slot numbers."""


class LocatedSnapshots:
    """Answers the questions that clients write into the session's home.

    Args:
        home: the session's home.
        slots: the number of slots.
        run: runs tasks, see `on_executors`.
    """

    def __init__(self, home: SessionHome, slots: int, run: RunTasks) -> None:
        self._home, self._slots, self._run = home, slots, run
        self._places: dict[int, str] = {}
        self._stopped = threading.Event()
        self._workers = ThreadPoolExecutor(TUNING.located_asks, "snapshot")

    def delivered(self, timings: Iterable[TaskTiming]) -> None:
        """Record the slots' executors in a delivered batch."""
        found = {one.slot: one.executor for one in timings if one.at == EVALUATE.name and one.executor}
        self._places = self._places | found

    def start(self) -> None:
        """Start a thread that checks for questions."""
        threading.Thread(target=self._look_on, name="snapshots", daemon=True).start()

    def stop(self) -> None:
        """Stop checking for questions."""
        self._stopped.set()
        self._workers.shutdown(wait=False, cancel_futures=True)

    def answer(self, spec: SnapshotSpec, least: int) -> tuple[list[bytes], Progress] | str:
        """Return the slots' packed shares of an answer and its step, or the reason why there is none.

        Args:
            spec: the snapshot.
            least: the minimum step.
        """
        deadline, elsewhere = time.monotonic() + TUNING.located_wait_s, 0
        if len(self._places) < self._slots:
            return "it is not known yet where the slots are"
        while True:
            ask = AskSpec(ask=0, spec=spec)
            found = self._asked(ask, least)
            if not found.missed and focal_keys(spec):
                step, (placed, place) = found.clock.step, with_places(spec, found.shares)
                found = self._asked(msgspec.structs.replace(ask, spec=placed, place=place), step)
                if not found.missed and found.clock.step != step:
                    found = SlotShares(missed="a focal object's slot is at an earlier step")
            if not found.missed:
                clock = found.clock
                progress = Progress(step=clock.step, base_tick=clock.base_tick, tick_us=clock.tick_us)
                return list(found.shares), progress
            elsewhere = elsewhere + 1 if found.is_elsewhere else 0
            if elsewhere == TUNING.located_attempts or time.monotonic() > deadline:
                return found.missed
            if self._stopped.wait(TUNING.located_again_s):
                return "the engine stops"

    def table(self, spec: SnapshotSpec) -> pa.Table:
        """Return an answer as a table.

        Raises:
            NotPublishedError: the slots do not answer now.
        """
        found = self.answer(spec, least=0)
        if isinstance(found, str):
            raise NotPublishedError(found)
        shares, _ = found
        if not shares:
            raise NotPublishedError("no slot has objects of the stream yet")
        return whole([unpack(share) for share in shares], spec)

    def _asked(self, ask: AskSpec, least: int) -> SlotShares:
        """Query all slots once; their shares are valid if they are at one step."""
        places, groups = self._places, dict[str, list[int]]()
        for slot in range(self._slots):
            groups.setdefault(places[slot], []).append(slot)
        task = AnswerSlots(self._home.arena.on_hosts, ask, least)
        found = self._run(task, [(tuple(slots), location) for location, slots in groups.items()])
        for one in found:
            if one.missed:
                return one
        if len({one.clock.step for one in found}) > 1:
            return SlotShares(missed="the slots are at different steps")
        return replace(found[0], shares=tuple(share for one in found for share in one.shares))

    def _look_on(self) -> None:
        while not self._stopped.wait(TUNING.located_look_s):
            for name, asked in take_asks(self._home):
                self._workers.submit(self._serve, name, asked)

    def _serve(self, name: str, asked: LocatedAsk) -> None:
        try:
            found = self.answer(asked.spec, asked.least)
        except Exception as error:  # an executor or all of Spark may die during it
            _log.info("a snapshot goes through the log: %s", str(error).partition("\n")[0])
            found = type(error).__name__
        if isinstance(found, str):
            write_miss(self._home, name, found)
        else:
            write_answer(self._home, name, *found)


def on_executors(context: SparkContext) -> RunTasks:
    """Return a function that runs tasks as Spark jobs in the pool `POOL`, from any thread."""
    kept: dict[tuple[tuple[tuple[int, ...], str], ...], RDD[tuple[tuple[int, ...], str]]] = {}

    def run(task: AnswerSlots, parts: Sequence[tuple[tuple[int, ...], str]]) -> list[SlotShares]:
        context.setLocalProperty(POOL_PROPERTY, POOL)
        located = kept.get(tuple(parts))
        if located is None:  # slots stay where they are for a long time
            located = located_tasks(context, [(part, part[1]) for part in parts])
            kept.clear()
            kept[tuple(parts)] = located
        found: list[SlotShares] = located.map(task).collect()
        return found

    return run
