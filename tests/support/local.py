"""A session whose engine runs in this process, without Spark: all that Spark would call is the engine's own.

It advances whenever somebody looks at its progress, so nothing waits and nothing runs in the background.
"""

from __future__ import annotations

import shutil
from collections.abc import Container, Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast
from unittest import mock

import orjson
from pyspark.sql import DataFrame

from stqsh.client.api import Session
from stqsh.client.connection import Connection
from stqsh.core.state.slot_state import SlotState
from stqsh.engine.config import TUNING, EngineSettings, EngineTuning
from stqsh.engine.delivery.deliver import Delivery
from stqsh.engine.ingest.stream_preparer import (
    ReportedRows,
    RetiredRoutes,
    SessionFiles,
    StreamPreparer,
    has_dealers,
)
from stqsh.engine.operators.data_source import StqshReader
from stqsh.engine.operators.local_operators import LocalOperators
from stqsh.engine.operators.pipeline import payload_spool, run_batch
from stqsh.engine.operators.slot_task import AGGREGATE, EVALUATE, OperatorContext
from stqsh.engine.spark import worker_daemon
from stqsh.engine.spark.spark_internals import commit_file, offset_file
from stqsh.engine.state import slot_runner
from stqsh.engine.state.arena import Arena
from stqsh.profile import load_profile
from stqsh.spec.offset import Offset
from stqsh.storage.arena_cleanup import claim_arena
from stqsh.storage.control_log import ControlDb, set_meta, wall_clock_us
from stqsh.storage.engine_info import EngineInfo
from stqsh.storage.home import SessionHome, open_home
from stqsh.storage.rows import Progress
from stqsh.storage.slot_files import slot_name
from support.cluster_operators import ClusterOperators
from support.frames import Frame
from support.memory_slots import MemorySlots

#: Payloads of fewer bytes are handed on as they are, as in an engine under Spark.
SPOOL_BYTES = EngineSettings(Path()).spool_bytes


class LocalEngine:
    """Takes batches of a home until there is nothing to do.

    Each batch in `mishaps` is delivered and then lost before it is committed: it is done a second time, by a
    planner that knows nothing of the first. After each batch before one in `restarts` it restarts. `memory`:
    what keeps the slots instead of files. `tuning`: the tunables of its planners.
    """

    def __init__(
        self,
        settings: EngineSettings,
        mishaps: Container[int] = (),
        memory: MemorySlots | None = None,
        tuning: EngineTuning = TUNING,
        *,
        on_cluster: bool = False,
        restarts: Container[int] = (),
    ) -> None:
        self.on_cluster, self.restarts = on_cluster, restarts
        self.memory, self.tuning = memory, tuning
        self.settings, self.home, self.mishaps = settings, SessionHome(settings.home), mishaps
        self.control = ControlDb(self.home.path, create=True)
        reported = ReportedRows(settings.slots, partial(has_dealers, self.control))
        logged = reported.first if on_cluster else None
        files = SessionFiles.of(self.home, self.control, blobs=settings.blobs, logged=logged)
        self.preparer = StreamPreparer(files)
        self.retired = RetiredRoutes(replace(files, tuning=replace(TUNING, dropped_look_s=0.0)))
        claim_arena(self.home)
        self.spool = payload_spool(settings)
        assert self.spool is not None
        self.spool.prepare()
        self.delivery = Delivery(
            self.home, self.control, spool=self.spool, on_timings=reported.delivered if on_cluster else None
        )
        self.delivery.shedding.every = tuning.shedding_steps
        context = OperatorContext(
            settings.slots, self.home.arena.folders, self.home.path, settings.blobs, self.spool
        )
        local = LocalOperators(EVALUATE, AGGREGATE, context)
        self.operators = ClusterOperators(context) if on_cluster else local
        self.reader = self._new_reader()
        self.offset = Offset()
        self.number = 0

    def advance(self) -> None:
        """Run batches until the planner has none."""
        self.preparer.prepare_new()
        self.reader.stage()
        while (end := self.reader.planner.latest(self.offset, wall_clock_us())) != self.offset:
            if self.number in self.mishaps:
                self._batch(end)
                self.reader.stop()
                self.reader = self._new_reader()
            self._batch(end)
            self.offset, self.number = end, self.number + 1
            if self.number in self.restarts:
                self.restart(arena=self.memory is None)
            self.reader.stage()
            self.preparer._endless.extend_all()
            if self.memory is None:  # otherwise no file says to which routings the slots' logs refer
                self.retired.forget()

    def restart(self, *, arena: bool) -> None:
        """Lose what is not kept on disk; `arena`: what lies in shared memory, too."""
        self.reader.stop()
        self.reader = self._new_reader()
        self._forget(arena=arena)

    def states(self, operator: str = EVALUATE.name) -> list[SlotState]:
        """What each slot of an operator holds."""
        return [self._state(slot_name(operator, slot), slot) for slot in range(self.settings.slots)]

    def _state(self, name: str, slot: int) -> SlotState:
        arena = (self.memory.arena if self.memory else Arena)(self.home.arena.folders, name)
        head = arena.read_head()
        # A copy, as who looks may create the arrays that are missing, which are then not the engine's.
        return SlotState.fresh(slot) if head is None else SlotState(deepcopy(head.header), arena.load(head))

    def leave(self) -> None:
        """Stop between two batches; what is kept in files stays."""
        self._forget(arena=False)
        self.reader.stop()
        self.preparer._live.keep(set())
        self.control.close()

    def close(self) -> None:
        """Stop, and lose the shared memory."""
        self.leave()
        shutil.rmtree(self.home.arena.folder, ignore_errors=True)

    def _new_reader(self) -> StqshReader:
        settings = self.settings
        numbers = settings.slots, settings.max_records, settings.max_bytes, self.tuning.slices, 0
        reader = StqshReader(self.home.path, numbers, "")
        reader.spool, reader.folds, reader.blobs = self.spool, not self.on_cluster, settings.blobs
        reader.planner._tuning = self.tuning
        return reader

    def _forget(self, *, arena: bool) -> None:
        folder = self.home.arena.folder
        for key in [key for key in slot_runner._warm if key[0] == str(folder)]:
            del slot_runner._warm[key]
        if arena and self.memory:
            self.memory.arrays.clear()
        for file in folder.glob("*.*") if arena else ():
            file.unlink()

    def _batch(self, end: Offset) -> None:
        """Do what Spark does with a batch: plan, read its tasks, run the operators, deliver, commit."""
        planned = self.home.checkpoint / offset_file(self.number)
        planned.parent.mkdir(parents=True, exist_ok=True)
        planned.write_bytes(orjson.dumps(end.to_json()))
        tasks = self.reader.partitions(self.offset.to_json(), end.to_json())
        # What a worker does for its garbage collection is not for a process that runs tests.
        unfrozen = mock.patch.object(worker_daemon, "freeze_objects")
        told = mock.patch("stqsh.engine.operators.local_operators.batch_of_task", lambda: self.number)
        place = "executor_here_0" if self.on_cluster else ""
        placed = mock.patch("stqsh.engine.operators.slot_task.executor_location", lambda: place)
        with unfrozen, told, placed, self.memory.in_place() if self.memory else nullcontext():
            chunks = cast(DataFrame, Frame([list(self.reader.read(task)) for task in tasks]))
            found = run_batch(chunks, self.number, self.operators)
        self.delivery.deliver(found, self.number)
        committed = self.home.checkpoint / commit_file(self.number)
        committed.parent.mkdir(parents=True, exist_ok=True)
        committed.write_text("v1\n{}", encoding="ascii")


@dataclass
class LocalConnection(Connection):
    """A client's hold on a session that advances by being looked at."""

    engine: LocalEngine | None = None

    def progress(self) -> Progress:
        if self.engine is not None:
            self.engine.advance()
        return super().progress()

    def restart(self) -> EngineInfo:
        return EngineInfo(0, 0, wall_clock_us(), "ready")

    def _look(self) -> None:
        self.check_streams()


@contextmanager
def local_session(
    folder: Path,
    slots: int = 1,
    max_records: int = 400_000,
    mishaps: Container[int] = (),
    *,
    published: bool = False,
    spool_bytes: int = SPOOL_BYTES,
    tuning: EngineTuning = TUNING,
    storage: str = "",
    on_cluster: bool = False,
    restarts: Container[int] = (),
) -> Iterator[Session]:
    """A session in a new home below `folder`.

    published: the slots' state lies in files, and clients know where. spool_bytes: larger payloads go from
    task to task by name. tuning: the tunables of the engine. storage: the URI of its files, "" for its home.
    on_cluster: operators are those of a cluster; the slots' state has to lie in files. restarts: before these
    batches the engine restarts, and slots in files are rebuilt from them.
    """
    home = open_home("local", root=folder)
    connection = LocalConnection(home, ControlDb(home.path, create=True))
    settings = EngineSettings(
        home.path, slots=slots, max_records=max_records, spool_bytes=spool_bytes, storage=storage
    )
    connection.engine = engine = LocalEngine(
        settings,
        mishaps,
        None if published else MemorySlots(),
        tuning,
        on_cluster=on_cluster,
        restarts=restarts,
    )
    if published:
        set_meta(connection.db, "slots", str(slots))
    try:
        with Session(home, load_profile(None, {}), autoplay=False, connection=connection) as session:
            yield session
    finally:
        engine.close()
