"""The Python data source `stqsh`: Spark's interface to the planner and the task reader.

One long-lived process beside the driver's JVM computes the offsets; workers read the tasks. Spark starts two
more short-lived processes that only inspect the class, so this module imports heavy modules within functions.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from stqsh.arrow_alone import keep_pandas_out
from stqsh.engine.config import TUNING
from stqsh.engine.spark.schema import SPARK_SCHEMA
from stqsh.garbage import collect_seldom
from stqsh.spec.offset import Offset, OffsetJson
from stqsh.storage.blobs import home_blobs
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import SessionHome
from stqsh.storage.staging import SAVING, hold_requested, stage_requested

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from stqsh.engine.planning.planner import Planner
    from stqsh.engine.planning.tasks import SourceTask
    from stqsh.engine.state.payload_files import Spool

#: While a file of this name is in the home, no further batches start: the engine is stopping.
HOLD_FILE = "hold"


def _steady_us() -> int:
    return time.monotonic_ns() // 1000


def _import_routing() -> None:
    """Import the modules for the first change of a routing in advance: its batch would wait for them."""
    keep_pandas_out()
    import_module("stqsh.engine.ingest.stream_routing")


class StqshSource(DataSource):
    """One source for the control log, the clock and all streams.

    Its options:
        home: the session's directory.
        slots: the number of slots.
        max_records: the maximum number of records in a batch.
        max_bytes: the maximum size of a batch in bytes.
        cores: the number of Spark's cores, and therefore of the slices in which a batch is read.
        max_results: the maximum size of the results that the driver gets from a batch's tasks, in bytes; 0
            for any.
        boot: identifies this start of the query, whose first batch processes no data but starts all
            processes.
        storage: the URI of the session's files, "" if they are in its home.
        cache: the folder for this machine's copies of these files, "" on a cluster.
        transit: the folder or the URI for large payloads, see `stqsh.engine.state.payload_files`.
        spool_bytes: the minimum size in bytes of a payload that goes to `transit`.
        folds: `true` if tasks may fold the data that they read, because no Spark operator does it after them.
        deals: `true` if the query has dealers; otherwise no batch follows the one that first needs them.
        initial: the offset before the first batch, as JSON.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for `spark.readStream.format`."""
        return "stqsh"

    def schema(self) -> str:
        """Return the columns of a chunk and the key to group by."""
        return SPARK_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader that lives as long as the query."""
        from stqsh.engine.state.payload_files import open_spool
        from stqsh.storage.blobs import open_blobs

        options = self.options
        names = ("slots", "max_records", "max_bytes", "cores", "max_results")
        numbers = tuple(int(options[name]) for name in names)
        reader = StqshReader(Path(options["home"]), numbers, options["boot"])
        reader.spool = open_spool(Path(options["home"]), options["transit"], int(options["spool_bytes"]))
        reader.folds = options.get("folds") == "true"
        reader.deals = options.get("deals") != "false"
        reader.initial = options.get("initial", "")
        if options.get("storage"):
            reader.blobs = open_blobs(options["storage"], options["cache"])
        return reader


class TaskPartition(InputPartition):
    """One task of a batch on its way to a worker."""

    def __init__(self, task: SourceTask) -> None:
        super().__init__(None)
        self.task = task


class StqshReader(DataSourceStreamReader):
    """Implements Spark's reader interface with a planner, which is created on first use.

    The first batch after a start changes only the offset's `boot`.

    Args:
        home: the session's directory.
        numbers: the number of slots, the maximum records and bytes of a batch, the number of cores, and the
            maximum bytes of a batch's results.
        boot: identifies this start of the query.

    Attributes:
        spool: the place for large payloads, if they may be passed by name.
        folds: whether tasks may fold the data that they read.
        deals: whether the query has dealers for streams that need them.
        initial: the offset before the first batch, as JSON; "" for the offset of a new session.
        blobs: the session's files.
    """

    spool: Spool | None = None
    folds = False
    deals = True
    initial = ""

    def __init__(self, home: Path, numbers: tuple[int, ...], boot: str) -> None:
        self._home, self._numbers, self._boot = home, numbers, boot
        self._hold, self.blobs = home / HOLD_FILE, home_blobs(home)
        self._planner: Planner | None = None
        self._control: ControlDb | None = None

    def __getstate__(self) -> dict[str, object]:
        """Return the state for workers, which need no planner."""
        return {**self.__dict__, "_planner": None, "_control": None}

    @property
    def planner(self) -> Planner:
        """The planner of this process."""
        if self._planner is None:
            collect_seldom()
            keep_pandas_out()  # before the planner's modules make their first arrays
            from stqsh.engine.planning.batch_size import BatchBounds, BatchSizes
            from stqsh.engine.planning.planner import Planner

            slots, max_records, max_bytes, cores, max_results = self._numbers
            tuning = replace(TUNING, slices=cores)
            self._planner = Planner(self._home, slots, max_records, max_bytes, tuning, steady=_steady_us)
            self._planner.folds = self.folds
            self._planner.share(self.blobs)
            bounds = BatchBounds.of_results(max_results, slots, are_spread=not self.folds)
            self._planner.sizes = BatchSizes(bounds)
            self._planner.live.ahead.folder = None if self.spool is None else self.spool.ahead
        return self._planner

    @property
    def control(self) -> ControlDb:
        """The control log of this process."""
        if self._control is None:
            self._control = ControlDb(self._home)
        return self._control

    def stop(self) -> None:
        """Close the control logs of this process; Spark calls this when the query ends."""
        if self._control is not None:
            self._control.close()
        if self._planner is not None:
            self._planner.close()

    def initialOffset(self) -> OffsetJson:
        """Return the offset before the first batch."""
        return json.loads(self.initial) if self.initial else Offset().to_json()

    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:
        """Return the end of the next batch; `start` itself if there is no work for a while."""
        before, until = Offset.from_json(start), time.monotonic() + TUNING.idle_answer_s
        if before.boot != self._boot:
            threading.Thread(target=_import_routing, daemon=True).start()
            return replace(before, boot=self._boot).to_json()
        while not self._hold.exists():
            if self.stage():
                if time.monotonic() > until:
                    break
                time.sleep(TUNING.idle_look_s)
                continue
            seen = self.control.version()
            if before.dealers and not self.deals:  # the query is about to be restarted with dealers
                after = before
            else:
                after = self.planner.latest(before, time.time_ns() // 1000)
            if after is not before:
                return after.to_json()
            if not self._await(seen if before.is_idle else None, until):
                break
        return start

    def stage(self) -> bool:
        """Stage the savepoints that clients have requested, between two batches.

        On a cluster the engine's process does that. Return whether batches have to wait for it.
        """
        if not (self._home / SAVING).exists():
            return False
        if not self.folds:
            return hold_requested(SessionHome(self._home))
        from stqsh.engine.launch.audit import describe_staged

        stage_requested(SessionHome(self._home), self.control, partial(describe_staged, self.control))
        return False

    def _await(self, seen: int | None, until: float) -> bool:
        """Wait until another check is worthwhile; return False if there is no work for a while.

        `seen` is the log's version, if only a change of the log can create work.
        """
        while time.monotonic() < until and not self._hold.exists():
            time.sleep(TUNING.idle_look_s)
            self.stage()
            if seen is None or self.control.version() != seen:
                return True
        return False

    def partitions(self, start: OffsetJson, end: OffsetJson) -> Sequence[InputPartition]:
        """Return the tasks of the batch between two offsets."""
        tasks = self.planner.plan(Offset.from_json(start), Offset.from_json(end))
        return [TaskPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task in a worker, and fold the data if the task requires it."""
        from stqsh.engine.operators import local_operators, slot_task

        assert isinstance(partition, TaskPartition)
        slots, arena = self._numbers[0], SessionHome(self._home).arena.folders
        context = slot_task.OperatorContext(slots, arena, self._home, self.blobs, self.spool)
        return local_operators.read_task(partition.task, context)

    def commit(self, end: OffsetJson) -> None:
        """Release spools up to the committed batch; all else stays in the log and the replay stores."""
        self.planner.committed(Offset.from_json(end))
