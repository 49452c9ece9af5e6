"""Preparation of replay stores and tables in a thread of the engine, which also extends endless streams.

An endless stream is generated a little ahead of the clock, by several times the steps of the last batch. So a
stream that plays at full speed soon fills its batches, and a slow one costs little. Rows that will not be
read again are deleted: those before the last two batches to which no slot's log refers.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from stqsh.checksums import DamagedFileError
from stqsh.engine.config import TUNING, EngineTuning
from stqsh.engine.state.file_store import first_logged_rows
from stqsh.errors import StqshError
from stqsh.sources.replay_store.manifest import MANIFEST, Manifest, manifest_seal
from stqsh.sources.replay_store.preparation import extend, prepare
from stqsh.sources.table_files import CONTENT, prepare_table
from stqsh.storage.catalogue import live_streams, live_tables
from stqsh.storage.control_log import ControlDb, last_seq
from stqsh.storage.disk_space import is_full
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import read_progress, set_stream_status, stream_statuses
from stqsh.storage.rows import Progress, StreamRow, StreamStatus, TableRow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("stqsh.engine")

Report = Callable[[float | None, str], None]

_DONE = ("ready", "endless", "failed")


class EndlessStreams:
    """The streams without an end, and how far each of them is made."""

    def __init__(self, home: SessionHome, control: ControlDb, tuning: EngineTuning = TUNING) -> None:
        self._home, self._control, self._tuning = home, control, tuning
        self._streams: dict[int, tuple[StreamRow, Manifest]] = {}
        self._before, self._last = Progress(), Progress()

    def __contains__(self, stream_id: int) -> bool:
        """Return whether a stream is one of them."""
        return stream_id in self._streams

    def add(self, stream: StreamRow, manifest: Manifest) -> None:
        """Add a stream whose first part is made."""
        self._streams[stream.id] = stream, manifest

    def keep(self, stream_ids: set[int]) -> None:
        """Forget all streams except these."""
        self._streams = {id_: known for id_, known in self._streams.items() if id_ in stream_ids}

    def extend(self, stream: StreamRow, until_tick: int) -> None:
        """Make a stream up to a tick; a failure is recorded in its status and ends only this stream."""
        try:
            needed = self._needed_row(stream.id)
            manifest = extend(stream.spec, self._home.stream(stream.id), until_tick, needed)
        except Exception as error:
            log.exception("stream %s cannot be extended", stream.name)
            self._streams.pop(stream.id, None)
            set_stream_status(self._control, StreamStatus(stream.id, "failed", message=f"{error}"))
        else:
            self.add(stream, manifest)

    def extend_all(self) -> bool:
        """Make the streams as far ahead of the clock as the last batch requires.

        Returns:
            Whether all of them are: the disk may be full, or only a part may be made so far.
        """
        if not self._streams:
            return True
        if is_full(self._home.path):
            return False
        progress = read_progress(self._control)
        if progress.batch != self._last.batch:
            self._before, self._last = self._last, progress
        wanted = [
            (stream, until)
            for stream, manifest in self._streams.values()
            if (until := wanted_tick(progress, stream.id, manifest, self._tuning)) is not None
        ]
        for stream, until in wanted:
            self.extend(stream, until)
        return not wanted

    def _needed_row(self, stream_id: int) -> int:
        """Return the first row that may be read again, by a repeated batch or for a slot's log.

        All rows are kept while a slot's files do not say which ones they name: the slot itself will complain.
        """
        taken = taken_rows(self._before, stream_id)
        try:
            return min(taken, first_logged_rows(self._home.state).get(stream_id, taken))
        except DamagedFileError:
            return 0


class StreamPreparer:
    """Prepares the tables and streams of a session, in a thread; `prepare` makes one stream's store."""

    def __init__(
        self,
        home: SessionHome,
        control: ControlDb,
        spark: SparkSession | None = None,
        prepare: Callable[..., Manifest] = prepare,
        tuning: EngineTuning = TUNING,
    ) -> None:
        self._home, self._control, self._spark, self._prepare = home, control, spark, prepare
        self._tuning = tuning
        self._endless = EndlessStreams(home, control, tuning)
        self._stopped = threading.Event()
        self._seen = -1

    def start(self) -> None:
        """Start the thread that looks for new streams and tables."""
        threading.Thread(target=self._run, name="preparer", daemon=True).start()

    def stop(self) -> None:
        """Stop looking; the next engine starts an unfinished preparation from its beginning."""
        self._stopped.set()

    def prepare_new(self) -> None:
        """Prepare the tables, then the streams, that are not prepared yet, in the order of their creation."""
        statuses = stream_statuses(self._control)
        for table in live_tables(self._control):
            known = statuses.get(table.id)
            if known is None or known.state not in _DONE or self._is_missed(known):
                self._prepare_one(table, partial(self._prepare_table, table))
        for stream in live_streams(self._control):
            known = statuses.get(stream.id)
            if known is None or known.state not in _DONE:
                self._prepare_one(stream, partial(self._prepare_stream, stream))
            elif known.state == "endless" and stream.id not in self._endless:
                self._endless.extend(stream, 0)

    def _is_missed(self, table: StreamStatus) -> bool:
        """Return whether the rows of a table that was ready are gone before the slots have got them."""
        is_there = (self._home.table(table.id) / CONTENT).exists()
        return table.state == "ready" and not is_there and table.id > read_progress(self._control).seq

    def _run(self) -> None:
        seen, is_complete = -1, False
        while not self._stopped.is_set():
            # All work arrives through control.db, whose version is cheaper to read than its content.
            version = self._control.version()
            if version != seen or not is_complete:
                seen, is_complete = version, self._check()
            self._stopped.wait(self._tuning.prepare_look_s)

    def _check(self) -> bool:
        seq = last_seq(self._control)
        if seq != self._seen:
            self._seen = seq
            self.prepare_new()
            self._endless.keep({stream.id for stream in live_streams(self._control)})
        return self._endless.extend_all()

    def _prepare_one(self, row: StreamRow | TableRow, make: Callable[[Report], StreamStatus]) -> None:
        """Prepare one stream or table and write its status; a failure does not end the engine."""
        word = "table" if isinstance(row, TableRow) else "stream"
        try:
            report = self._reporter(row.id)
            report(None, "reading")
            status = make(report)
        except StqshError as error:
            status = StreamStatus(row.id, "failed", message=error.message)
        except Exception as error:  # a failure of one must not end the others
            log.exception("%s %s cannot be prepared", word, row.name)
            status = StreamStatus(row.id, "failed", message=f"{type(error).__name__}: {error}")
        set_stream_status(self._control, status)

    def _prepare_stream(self, stream: StreamRow, report: Report) -> StreamStatus:
        directory = self._home.stream(stream.id)
        manifest = self._prepare(stream.spec, directory, report=report, spark=self._spark)
        status = _status_of(stream.id, manifest)
        if manifest.complete and (directory / MANIFEST).exists():
            status = replace(status, seal=manifest_seal(directory))
        if status.state == "endless":
            self._endless.add(stream, manifest)
        return status

    def _prepare_table(self, table: TableRow, report: Report) -> StreamStatus:
        found = prepare_table(table.spec, self._home.table(table.id), report=report)
        return StreamStatus(table.id, "ready", rows=found.rows, dead=found.dead, progress=1.0)

    def _reporter(self, stream_id: int) -> Report:
        """Return a function that writes a preparation's progress, a few times per second at most."""
        reported = 0.0

        def report(progress: float | None, message: str) -> None:
            nonlocal reported
            now = time.monotonic()
            if now - reported >= self._tuning.prepare_report_s:
                reported = now
                status = StreamStatus(stream_id, "reading", message=message, progress=progress or 0.0)
                set_stream_status(self._control, status)

        return report


def wanted_tick(
    progress: Progress, stream_id: int, manifest: Manifest, tuning: EngineTuning = TUNING
) -> int | None:
    """Return the tick up to which an endless stream should be made now; None if it has enough records."""
    if manifest.rows - taken_rows(progress, stream_id) > tuning.ahead_records:
        return None
    clock = progress.base_tick + progress.step if progress.base_tick is not None else manifest.first_tick
    steps = progress.stats.steps
    until = (clock or 0) + max(tuning.ahead_steps, tuning.ahead_batches * steps)
    return until if manifest.last_tick is None or until > manifest.last_tick else None


def taken_rows(progress: Progress, stream_id: int) -> int:
    """Return how many rows of a stream had been taken."""
    return progress.stats.rows.get(stream_id, 0)


def _status_of(stream_id: int, manifest: Manifest) -> StreamStatus:
    complete = manifest.complete
    return StreamStatus(
        stream_id,
        "ready" if complete else "endless",
        rows=manifest.rows,
        dead=manifest.dead,
        progress=1.0,
        duplicates=manifest.duplicates,
    )
