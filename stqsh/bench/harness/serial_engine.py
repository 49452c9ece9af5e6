"""An engine in this process: a batch's tasks run one after the other, and each is measured in thread time.

Planner, tasks and Deliver are the engine's own, as on a cluster: no task reads for one slot only, and the
chunks of a slot go to its tasks as Spark would bring them. There is no Spark, and nothing runs beside.
"""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import thread_time
from typing import TypeVar

import orjson
import pyarrow as pa

from stqsh.client.api import Session
from stqsh.client.connection import Connection
from stqsh.engine.config import TUNING, EngineSettings
from stqsh.engine.delivery.deliver import Delivery
from stqsh.engine.ingest.stream_preparer import SessionFiles, StreamPreparer
from stqsh.engine.ingest.task_output import read_task_batches
from stqsh.engine.operators.local_operators import LocalSlotTask
from stqsh.engine.operators.pipeline import payload_spool
from stqsh.engine.operators.slot_task import AGGREGATE, EVALUATE, OperatorContext
from stqsh.engine.planning.batch_size import BatchSizes
from stqsh.engine.planning.planner import Planner
from stqsh.engine.spark.spark_internals import commit_file, offset_file
from stqsh.engine.state.payload_files import Spool
from stqsh.engine.state.slot_runner import Fold
from stqsh.profile import load_profile
from stqsh.spec.chunk import Chunk, from_table, to_table
from stqsh.spec.offset import Offset
from stqsh.storage.arena_cleanup import claim_arena
from stqsh.storage.blobs import home_blobs
from stqsh.storage.control_log import ControlDb, wall_clock_us
from stqsh.storage.engine_info import EngineInfo
from stqsh.storage.home import SessionHome, open_home
from stqsh.storage.progress import read_progress
from stqsh.storage.rows import Progress

T = TypeVar("T")

_UNBOUNDED = 1 << 40
"""Records and bytes: batches are as large as the steps that a RUN asks for."""


@dataclass(frozen=True)
class BatchTimes:
    """The thread time of a batch, in seconds.

    Attributes:
        records: its records.
        updates: its updates.
        planner: deciding and planning it, and packing its tasks.
        deliver: delivering it.
        source, evaluate, aggregate: each task of these.
    """

    records: int
    updates: int
    planner: float
    deliver: float
    source: tuple[float, ...]
    evaluate: tuple[float, ...]
    aggregate: tuple[float, ...]

    @property
    def driver(self) -> float:
        """What nothing else runs beside."""
        return self.planner + self.deliver


class _AnySize(BatchSizes):
    """Batches of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.room = _UNBOUNDED

    def follow(self, progress: object) -> None:
        """Learn nothing."""


class SerialEngine:
    """The engine of a session's home.

    Args:
        home: the home.
        slots: the number of slots, and of cores.

    Attributes:
        batches: the times of each batch.
    """

    def __init__(self, home: SessionHome, slots: int) -> None:
        self._home, self._control = home, ControlDb(home.path)
        self._settings = EngineSettings(home.path, slots=slots)
        claim_arena(home)
        spool = payload_spool(self._settings)
        spool.prepare()
        self._spool = spool
        self._context = OperatorContext(slots, home.arena.folders, home.path, home_blobs(home.path), spool)
        self._delivery = Delivery(home, self._control, spool=spool)
        self._preparer = StreamPreparer(SessionFiles.of(home, self._control))
        tuning = replace(TUNING, slices=slots, by_slot_slots=0, by_slot_records=0)
        self._planner = Planner(home.path, slots, _UNBOUNDED, _UNBOUNDED, tuning)
        self._planner.sizes = _AnySize()
        self._offset, self._took_part = Offset(), dict[tuple[str, int], int]()
        self.batches: list[BatchTimes] = []

    def advance(self) -> None:
        """Run batches until there is nothing to do."""
        self._preparer.prepare_new()
        while True:
            decide_s, end = _timed(lambda: self._planner.latest(self._offset, wall_clock_us()))
            if end == self._offset:
                return
            self._batch(end, decide_s)
            self._offset = end

    def close(self) -> None:
        """Stop, and lose the state."""
        self._control.close()
        shutil.rmtree(self._home.arena.folder, ignore_errors=True)

    def _batch(self, end: Offset, decide_s: float) -> None:
        number = len(self.batches)
        plan_s, tasks = _timed(lambda: self._planner.plan(self._offset, end))
        pack_s, packed = _timed(lambda: [pickle.dumps(task, protocol=5) for task in tasks])
        _note(self._home.checkpoint / offset_file(number), orjson.dumps(end.to_json()))
        slots, spool = self._settings.slots, self._spool
        source = [_timed(partial(_read, task, slots, spool)) for task in packed]
        read = [chunk for _, batches in source for batch in batches for chunk in from_table(batch)]
        evaluate_s, evaluated = self._fold(EVALUATE, read, number)
        partials = [chunk for chunk in evaluated if AGGREGATE.accepts(chunk)]
        aggregate_s, merged = self._fold(AGGREGATE, partials, number)
        kept = [chunk for chunk in evaluated if not AGGREGATE.accepts(chunk)]
        table = to_table([*kept, *merged])
        deliver_s, _ = _timed(lambda: self._delivery.deliver(table, number))
        _note(self._home.checkpoint / commit_file(number), b"v1\n{}")
        stats = read_progress(self._control).stats
        planner_s, source_s = decide_s + plan_s + pack_s, tuple(seconds for seconds, _ in source)
        self.batches.append(
            BatchTimes(stats.records, stats.updates, planner_s, deliver_s, source_s, evaluate_s, aggregate_s)
        )

    def _fold(self, fold: Fold, chunks: Iterable[Chunk], batch: int) -> tuple[tuple[float, ...], list[Chunk]]:
        """Fold chunks on their slots; return the seconds of each slot, and what the slots send."""
        slots: dict[int, list[Chunk]] = {}
        for chunk in chunks:
            slots.setdefault(chunk.slot, []).append(chunk)
        before = {slot: self._took_part.get((fold.name, slot), -1) for slot in slots}
        self._took_part |= {(fold.name, slot): batch for slot in slots}
        task = LocalSlotTask(fold, self._context, batch, before)
        done = [_timed(partial(task.run, mine)) for _, mine in sorted(slots.items())]
        return tuple(seconds for seconds, _ in done), [chunk for _, sent in done for chunk in sent]


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    """Return the thread time of some work in seconds, and its result."""
    begun = thread_time()
    result = work()
    return thread_time() - begun, result


def _read(task: bytes, slots: int, spool: Spool) -> list[pa.RecordBatch]:
    return list(read_task_batches(pickle.loads(task), slots, spool))


def _note(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


@dataclass
class _SerialConnection(Connection):
    """A client's connection to an engine in this process, which advances when somebody looks at it."""

    engine: SerialEngine | None = None

    def progress(self) -> Progress:
        """Return how far the engine has come, once there is nothing left to do."""
        if self.engine is not None:
            self.engine.advance()
        return super().progress()

    def restart(self) -> EngineInfo:
        """Return that the engine is there."""
        return EngineInfo(0, 0, wall_clock_us(), "ready")

    def _look(self) -> None:
        self.check_streams()


@contextmanager
def serial_session(folder: Path, slots: int) -> Iterator[tuple[Session, SerialEngine]]:
    """Open a session in a new home below a folder, with an engine that advances when it is told to."""
    home = open_home("serial", root=folder)
    connection = _SerialConnection(home, ControlDb(home.path, create=True))
    connection.engine = engine = SerialEngine(home, slots)
    try:
        with Session(home, load_profile(None, {}), autoplay=False, connection=connection) as session:
            yield session, engine
    finally:
        engine.close()
