"""Replay stores and tables: a thread of the engine makes new ones, and extends streams that have no end.

A generated stream without an end is made a little ahead of the clock: as far as the last batch went, several
times over. So one that plays as fast as may be soon finds full batches, and a slow one costs little. What
nobody will read again goes: rows that the last two batches did not take and that no slot's log names.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from stqsh.engine.state.file_store import rows_named
from stqsh.errors import StqshError
from stqsh.sources.replay_store.preparation import extend, prepare
from stqsh.sources.table_files import prepare_table
from stqsh.storage.catalogue import live_streams, live_tables
from stqsh.storage.control_log import ControlDb, last_seq
from stqsh.storage.disk_space import is_full
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import read_progress, set_stream_status, stream_statuses
from stqsh.storage.rows import Progress, StreamRow, StreamStatus, TableRow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("stqsh.engine")

Manifest = dict[str, Any]
Report = Callable[[float | None, str], None]

_POLL_S = 0.05
_REPORT_EVERY_S = 0.2
_DONE = ("ready", "endless", "failed")
#: An endless stream is made ahead by so many steps at the least, and by so many times the last batch's ...
_AHEAD_STEPS, _AHEAD_BATCHES = 120, 4
#: ... but not while so many records wait to be taken.
_ENOUGH_RECORDS = 1_000_000


class StreamPreparer:
    """Prepares the tables and streams of a session; `prepare` is that of `stqsh.sources`, or a test's own."""

    def __init__(
        self,
        home: SessionHome,
        control: ControlDb,
        spark: SparkSession | None = None,
        prepare: Callable[..., Manifest] = prepare,
    ) -> None:
        self._home, self._control, self._spark, self._prepare = home, control, spark, prepare
        self._stopped = threading.Event()
        self._seen = -1
        self._endless: dict[int, tuple[StreamRow, Manifest]] = {}
        self._before, self._last = Progress(), Progress()

    def start(self) -> None:
        """Begin to look for new streams and tables."""
        threading.Thread(target=self._run, name="preparer", daemon=True).start()

    def stop(self) -> None:
        """Look no further; a preparation under way begins anew with the next engine."""
        self._stopped.set()

    def prepare_new(self) -> None:
        """Prepare what is not prepared yet: tables, then streams, in the order of their making."""
        statuses = stream_statuses(self._control)
        for table in live_tables(self._control):
            known = statuses.get(table.id)
            if known is None or known.state not in _DONE:
                self._note(table, partial(self._made_table, table))
        for stream in live_streams(self._control):
            known = statuses.get(stream.id)
            if known is None or known.state not in _DONE:
                self._note(stream, partial(self._made_stream, stream))
            elif known.state == "endless" and stream.id not in self._endless:
                self._extend(stream, 0)

    def extend_endless(self) -> bool:
        """Make the streams that have no end as far ahead of the clock as the last batch asks for.

        Gives whether they are: there may be no room on the disk, or only a part be made so far.
        """
        if not self._endless:
            return True
        if is_full(self._home.path):
            return False
        progress = read_progress(self._control)
        if progress.batch != self._last.batch:
            self._before, self._last = self._last, progress
        wanted = [
            (stream, until)
            for stream, manifest in self._endless.values()
            if (until := wanted_tick(progress, stream.id, manifest)) is not None
        ]
        for stream, until in wanted:
            self._extend(stream, until)
        return not wanted

    def _run(self) -> None:
        seen, is_settled = -1, False
        while not self._stopped.is_set():
            # What there is to do comes by control.db, and its version is quicker to ask than what is in it.
            version = self._control.version()
            if version != seen or not is_settled:
                seen, is_settled = version, self._look()
            self._stopped.wait(_POLL_S)

    def _look(self) -> bool:
        seq = last_seq(self._control)
        if seq != self._seen:
            self._seen = seq
            self.prepare_new()
            self._forget_dropped()
        return self.extend_endless()

    def _note(self, made: StreamRow | TableRow, make: Callable[[Report], StreamStatus]) -> None:
        """Prepare one stream or table and note its status; a failure is noted, and never the engine's."""
        word = "table" if isinstance(made, TableRow) else "stream"
        try:
            report = self._reporter(made.id)
            report(None, "reading")
            status = make(report)
        except StqshError as error:
            status = StreamStatus(made.id, "failed", message=error.message)
        except Exception as error:  # whatever goes wrong with one must not end the others
            log.exception("%s %s cannot be prepared", word, made.name)
            status = StreamStatus(made.id, "failed", message=f"{type(error).__name__}: {error}")
        set_stream_status(self._control, status)

    def _made_stream(self, stream: StreamRow, report: Report) -> StreamStatus:
        directory = self._home.stream(stream.id)
        manifest = self._prepare(stream.spec, directory, report=report, spark=self._spark)
        status = _finished(stream.id, manifest)
        if status.state == "endless":
            self._endless[stream.id] = stream, manifest
        return status

    def _made_table(self, table: TableRow, report: Report) -> StreamStatus:
        found = prepare_table(table.spec, self._home.table(table.id), report=report)
        return StreamStatus(table.id, "ready", rows=found["rows"], dead=found["dead"], progress=1.0)

    def _extend(self, stream: StreamRow, until_tick: int) -> None:
        """Make an endless stream up to a tick and know its manifest; a failure ends the stream alone."""
        try:
            needed = self._needed_row(stream.id)
            manifest = extend(stream.spec, self._home.stream(stream.id), until_tick, needed)
        except Exception as error:
            log.exception("stream %s cannot be extended", stream.name)
            self._endless.pop(stream.id, None)
            set_stream_status(self._control, StreamStatus(stream.id, "failed", message=f"{error}"))
        else:
            self._endless[stream.id] = stream, manifest

    def _needed_row(self, stream_id: int) -> int:
        """Give the first row that may be read again, by a repeated batch or for a slot's log."""
        taken = taken_rows(self._before, stream_id)
        return min(taken, rows_named(self._home.state).get(stream_id, taken))

    def _forget_dropped(self) -> None:
        live = {stream.id for stream in live_streams(self._control)}
        self._endless = {id_: known for id_, known in self._endless.items() if id_ in live}

    def _reporter(self, stream_id: int) -> Report:
        """Give a function that notes how far a preparation is, a few times a second at most."""
        told = 0.0

        def report(progress: float | None, message: str) -> None:
            nonlocal told
            now = time.monotonic()
            if now - told >= _REPORT_EVERY_S:
                told = now
                status = StreamStatus(stream_id, "reading", message=message, progress=progress or 0.0)
                set_stream_status(self._control, status)

        return report


def wanted_tick(progress: Progress, stream_id: int, manifest: Manifest) -> int | None:
    """Give the tick up to which an endless stream should be made now, None where enough is there."""
    if int(manifest["rows"]) - taken_rows(progress, stream_id) > _ENOUGH_RECORDS:
        return None
    clock = progress.base_tick + progress.step if progress.base_tick is not None else manifest["first_tick"]
    steps = int(progress.stats.get("steps", 0))
    until = int(clock or 0) + max(_AHEAD_STEPS, _AHEAD_BATCHES * steps)
    return until if manifest["last_tick"] is None or until > int(manifest["last_tick"]) else None


def taken_rows(progress: Progress, stream_id: int) -> int:
    """Give how many rows of a stream had been taken."""
    return int(progress.stats.get("rows", {}).get(str(stream_id), 0))


def _finished(stream_id: int, manifest: Manifest) -> StreamStatus:
    complete = bool(manifest["complete"])
    return StreamStatus(
        stream_id,
        "ready" if complete else "endless",
        rows=int(manifest["rows"]),
        dead=int(manifest["dead"]),
        progress=1.0,
        duplicates=int(manifest.get("duplicates", 0)),
    )
