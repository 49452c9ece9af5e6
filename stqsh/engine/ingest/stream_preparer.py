"""Preparation of replay stores and tables by a thread of the engine, which also extends endless streams.

Small sources are prepared in the thread itself, large ones in processes of their own. The thread also removes
the files of dropped streams and tables.

An endless stream is generated ahead of the clock, by several times the steps of the last batch. So a stream
that plays at full speed soon fills its batches, and a slow one costs little. Rows that nothing can read again
are deleted: rows before the last two batches to which no slot's log refers.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from stqsh.checksums import DamagedFileError
from stqsh.engine.config import TUNING, EngineTuning
from stqsh.engine.ingest.intakes import Intakes
from stqsh.engine.ingest.preparation import PreparationProcesses, PreparedRow, is_large, prepare_row
from stqsh.engine.state.file_store import first_logged_rows, merge_least
from stqsh.sources.replay_store.manifest import Manifest
from stqsh.sources.replay_store.preparation import extend
from stqsh.sources.table_files import CONTENT
from stqsh.spec.stats import TaskTiming
from stqsh.storage.blobs import Blobs, home_blobs
from stqsh.storage.catalogue import dropped_streams, dropped_tables, live_streams, live_tables
from stqsh.storage.control_log import ControlDb, get_meta, last_seq, set_meta
from stqsh.storage.disk_space import is_full
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import (
    read_progress,
    set_stream_status,
    step_after_dealt,
    step_taken,
    stream_statuses,
)
from stqsh.storage.rows import Progress, StreamRow, StreamStatus, TableRow
from stqsh.storage.slot_files import dealer_name
from stqsh.storage.stream_routes import INITIAL, all_routes, forget_routes, routes_kept
from stqsh.units import counted

_DEALERS = "dealers"
"""The name of `stqsh.engine.ingest.dealer.Dealers`, whose module imports numba."""


class _RepeatedProgress:
    """The session's progress before the last batch that may be repeated."""

    def __init__(self, control: ControlDb) -> None:
        self._control = control
        self.before, self._last = Progress(), Progress()

    def look(self) -> Progress:
        """Return the current progress; if it has a new batch, store the previous progress as `before`."""
        progress = read_progress(self._control)
        if progress.batch != self._last.batch:
            self.before, self._last = self._last, progress
        return progress


class ReportedRows:
    """The rows of replay stores, and routings, to which the slots' logs refer, as the slots report them.

    On a cluster, slots have their heads in Spark's state, which only their tasks can read. A report covers
    the state before its batch as well, because the batch may be repeated. Until all slots have reported to
    this engine, nothing is known.

    Args:
        slots: the number of slots.
        deals: returns whether dealers have slots as well.
    """

    def __init__(self, slots: int, deals: Callable[[], bool] = lambda: False) -> None:
        self._slots, self._deals = slots, deals
        self._rows: dict[tuple[str, int], dict[int, int]] = {}

    def delivered(self, timings: Iterable[TaskTiming]) -> None:
        """Take the reports of a delivered batch."""
        reported = {(one.at, one.slot): one.rows for one in timings if one.executor}
        self._rows = self._rows | reported

    def first(self) -> dict[int, int] | None:
        """Return what any log refers to, see `first_rows`; None if it is not known."""
        deals = self._deals()
        # Dealers write a snapshot when their last stream is dropped, and take part in no later batch.
        rows = {key: found for key, found in self._rows.items() if deals or key[0] != _DEALERS}
        operators = ("evaluate", _DEALERS) if deals else ("evaluate",)
        if any(sum(at == operator for at, _ in rows) < self._slots for operator in operators):
            return None
        return merge_least(*rows.values())


def has_dealers(control: ControlDb) -> bool:
    """Return whether a dealer deals the records of some stream."""
    routes = all_routes(control)
    return any(
        step_taken(control, routes[stream.id][0]) is not None
        for stream in (live_streams(control) if routes else ())
        if stream.id in routes and stream.spec.needs_dealer
    )


#: Returns what slots' logs refer to, as `first_rows` does; None if that is not known.
FirstRows = Callable[[], dict[int, int] | None]


@dataclass(frozen=True, slots=True)
class SessionFiles:
    """The files of a session, and what still refers to them.

    Attributes:
        home: the session's home.
        control: its control log.
        tuning: the tunables of the engine.
        blobs: where workers find the session's files.
        logged: returns what the slots' logs refer to.
    """

    home: SessionHome
    control: ControlDb
    tuning: EngineTuning
    blobs: Blobs
    logged: FirstRows

    @staticmethod
    def of(
        home: SessionHome,
        control: ControlDb,
        tuning: EngineTuning = TUNING,
        blobs: Blobs | None = None,
        logged: FirstRows | None = None,
    ) -> SessionFiles:
        """Return the files of a session, by default of one whose files and slots' heads are in its home."""
        in_heads = partial(_rows_in_heads, home.state)
        return SessionFiles(home, control, tuning, blobs or home_blobs(home.path), logged or in_heads)


def _rows_in_heads(state: Path) -> dict[int, int] | None:
    """Return the rows that the heads of the slots in a folder list; None if a head is damaged."""
    try:
        return first_logged_rows(state)
    except DamagedFileError:
        return None  # the slot itself will complain


class DroppedStores:
    """The files of dropped streams and tables that have not been removed yet.

    A repeated batch reads the stores of its streams, and so does a slot that is rebuilt from its log, because
    logs refer to records of stores instead of copying them. So a store stays until two batches have started
    after the drop was applied, and no slot's log refers to it: slots write a snapshot in the batch that
    applies the drop. A live stream has its spool instead. If a stream has a dealer, the dealer's slots have
    files of their own. Slots hold the rows of a table in full.
    """

    def __init__(self, files: SessionFiles) -> None:
        self._home, self._files = files.home, files
        self._left: list[StreamRow | TableRow] = []
        self._progress = _RepeatedProgress(files.control)
        self._looked = 0.0

    def find(self) -> None:
        """Find the files of dropped streams and tables."""
        dropped: list[StreamRow | TableRow] = [*dropped_streams(self._files.control)]
        dropped += dropped_tables(self._files.control)
        self._left = [one for one in dropped if any(self._paths(one))]

    def _paths(self, dropped: StreamRow | TableRow) -> Iterator[Path]:
        """Yield the files and folders of a stream or table."""
        is_table = isinstance(dropped, TableRow)
        folder = self._home.table(dropped.id) if is_table else self._home.stream(dropped.id)
        if folder.exists():
            yield folder
        if isinstance(dropped, StreamRow) and dropped.spec.needs_dealer:
            for folder in (self._home.state, *self._home.arena.folders):
                yield from folder.glob(f"{dealer_name(dropped.id)}[-.]*")

    def remove(self) -> None:
        """Periodically remove the files that nothing reads any more."""
        if not self._left or time.monotonic() - self._looked < self._files.tuning.dropped_look_s:
            return
        self._looked = time.monotonic()
        self._progress.look()
        named, blobs = self._files.logged(), self._files.blobs
        if named is None:
            return
        for dropped in [one for one in self._left if self._is_over(one) and one.id not in named]:
            if not blobs.at_home:
                kind = "tables" if isinstance(dropped, TableRow) else "streams"
                blobs.delete(blobs.names(f"{kind}/{dropped.id}/"))
            for path in [*self._paths(dropped)]:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
            if any(self._paths(dropped)):  # its thread has just written another file
                continue
            self._left.remove(dropped)
            log.info("the records of %s, which was dropped, are removed", dropped.name)

    def _is_over(self, dropped: StreamRow | TableRow) -> bool:
        """Return whether no batch that may be repeated reads records of a stream or table."""
        return dropped.dropped_seq is not None and self._progress.before.seq >= dropped.dropped_seq


class RetiredRoutes:
    """The routings of streams that are no longer in use and have not been forgotten yet.

    A routing is retired once no kept record was dealt by it, or its stream is dropped. It is forgotten when,
    in addition, no batch that needs it may be repeated, and no slot's log names it. The records of a moving
    stream with a complete store refer to all its routings, so these stay as long as the stream.
    """

    def __init__(self, files: SessionFiles) -> None:
        self._files, self._control = files, (control := files.control)
        self._progress = _RepeatedProgress(control)
        self._looked = 0.0
        if get_meta(control, _LISTED) is None:  # logs of an older version do not list their routings
            newest = max((routes[-1] for routes in all_routes(control).values()), default=INITIAL)
            set_meta(control, _LISTED, str(newest))
        self._listed = int(get_meta(control, _LISTED) or INITIAL)

    def forget(self) -> None:
        """Periodically forget the routings that nothing needs any more."""
        if time.monotonic() - self._looked < self._files.tuning.dropped_look_s:
            return
        self._looked = time.monotonic()
        self._progress.look()
        if not (retired := self._retired()):
            return
        named = self._files.logged()
        if named is not None and (gone := [route for route in retired if route not in named]):
            forget_routes(self._control, self._files.blobs, gone, self._progress.before.seq)
            log.info("%s forgotten", counted(len(gone), "retired routing"))

    def _retired(self) -> list[int]:
        """Return the routings that neither kept records nor repeated batches need."""
        before, found = self._progress.before, list[int]()
        known = all_routes(self._control)
        if not known:
            return found
        for stream in live_streams(self._control):
            routes = known.pop(stream.id, [])
            if len(routes) > 1 and (stream.spec.is_event or stream.spec.needs_dealer):
                taken = partial(step_after_dealt, self._control, stream.id)
                kept = routes_kept(stream.spec, (INITIAL, *routes), taken, before.step, before.tick_us)
                found += [route for route in routes if route < kept[0]]
        for stream in dropped_streams(self._control):
            if stream.dropped_seq is not None and before.seq >= stream.dropped_seq:
                found += known.get(stream.id, [])
        return [route for route in found if route > self._listed]


log = logging.getLogger("stqsh.engine")

_LISTED = "routings_before_logs_list_them"
"""The metadata key of the last routing that logs may name without listing it."""
_DONE = ("ready", "endless", "failed", "live", "stalled")


class EndlessStreams:
    """The endless streams, and how far each has been generated."""

    def __init__(self, files: SessionFiles) -> None:
        self._home, self._files = files.home, files
        self._streams: dict[int, tuple[StreamRow, Manifest]] = {}
        self._progress = _RepeatedProgress(files.control)

    def __contains__(self, stream_id: int) -> bool:
        """Return whether a stream is endless."""
        return stream_id in self._streams

    def add(self, stream: StreamRow, manifest: Manifest) -> None:
        """Add a stream whose first part has been generated."""
        self._streams[stream.id] = stream, manifest

    def keep(self, stream_ids: set[int]) -> None:
        """Forget all streams except these."""
        self._streams = {id_: known for id_, known in self._streams.items() if id_ in stream_ids}

    def extend(self, stream: StreamRow, until_tick: int) -> None:
        """Generate a stream up to a tick. A failure is recorded in its status and stalls only this stream."""
        try:
            needed = self._needed_row(stream.id)
            manifest = extend(stream.spec, self._home.stream(stream.id), until_tick, needed)
        except Exception as error:
            log.exception("stream %s cannot be extended", stream.name)
            self._streams.pop(stream.id, None)
            reason = f"{error}" or type(error).__name__
            set_stream_status(self._files.control, StreamStatus(stream.id, "stalled", message=reason))
        else:
            self.add(stream, manifest)

    def extend_all(self) -> bool:
        """Generate the streams as far ahead of the clock as the last batch requires.

        Returns:
            Whether all are complete: the disk may be full, or only a part may be generated so far.
        """
        if not self._streams:
            return True
        if is_full(self._home.path):
            return False
        progress = self._progress.look()
        wanted = [
            (stream, until)
            for stream, manifest in self._streams.values()
            if (until := wanted_tick(progress, stream.id, manifest, self._files.tuning)) is not None
        ]
        for stream, until in wanted:
            self.extend(stream, until)
        return not wanted

    def _needed_row(self, stream_id: int) -> int:
        """Return the first row that a repeated batch or a slot's log may still read.

        Keep all rows while it is not known which rows the slots' logs need.
        """
        taken, logged = taken_rows(self._progress.before, stream_id), self._files.logged()
        return 0 if logged is None else min(taken, logged.get(stream_id, taken))


class StreamPreparer:
    """Prepares the tables and streams of a session, in a thread."""

    def __init__(self, files: SessionFiles) -> None:
        home, control = files.home, files.control
        self._home, self._control, self._tuning = home, control, files.tuning
        self._endless = EndlessStreams(files)
        self._live = Intakes(home)
        self._dropped, self._routes = DroppedStores(files), RetiredRoutes(files)
        self._processes = PreparationProcesses(home, control)
        self._stopped = threading.Event()
        self._seen = -1

    def start(self) -> None:
        """Start the thread that checks for new streams and tables."""
        threading.Thread(target=self._run, name="preparer", daemon=True).start()

    def stop(self) -> None:
        """Stop the thread; the next engine restarts unfinished preparations."""
        self._stopped.set()

    def prepare_new(self) -> None:
        """Prepare new tables, then new streams, in the order of their creation."""
        statuses = stream_statuses(self._control)
        for table in live_tables(self._control):
            known = statuses.get(table.id)
            if known is None or known.state not in _DONE or self._is_missed(known):
                self._prepare(table)
        for stream in live_streams(self._control):
            known = statuses.get(stream.id)
            if stream.spec.is_live:
                self._live.begin(stream)
                if known is None:
                    set_stream_status(self._control, StreamStatus(stream.id, "live"))
            elif known is None or known.state not in _DONE:
                self._prepare(stream)
            elif known.state == "endless" and stream.id not in self._endless:
                self._endless.extend(stream, 0)

    def _prepare(self, row: PreparedRow) -> None:
        """Prepare a stream or table in this thread if it is small, else in a process if none is running."""
        if row.id in self._processes:
            return
        if is_large(row, self._tuning):
            self._processes.add(row)
            return
        status = prepare_row(self._home, self._control, row, self._tuning)
        if isinstance(row, StreamRow) and status.state == "endless":
            self._endless.extend(row, 0)

    def _is_missed(self, table: StreamStatus) -> bool:
        """Return whether the rows of a ready table are missing before the slots received them."""
        is_there = (self._home.table(table.id) / CONTENT).exists()
        return table.state == "ready" and not is_there and table.id > read_progress(self._control).seq

    def _run(self) -> None:
        seen, is_complete = -1, False
        while not self._stopped.is_set():
            try:
                # All work arrives through control.db, whose version is cheaper to read than its content.
                version = self._control.version()
                if version != seen or not is_complete:
                    seen, is_complete = version, self._check()
                self._processes.look()
            except Exception:  # a full disk, a busy database: everything is checked again
                log.exception("streams and tables cannot be prepared")
                seen = self._seen = -1
                self._stopped.wait(self._tuning.prepare_retry_s)
            self._stopped.wait(self._tuning.prepare_look_s)
        self._processes.stop()

    def _check(self) -> bool:
        seq = last_seq(self._control)
        if seq != self._seen:
            self._seen = seq
            self.prepare_new()
            streams = {stream.id for stream in live_streams(self._control)}
            self._endless.keep(streams)
            self._live.keep(streams)
            self._processes.keep(streams | {table.id for table in live_tables(self._control)})
            self._dropped.find()
        self._dropped.remove()
        self._routes.forget()
        return self._endless.extend_all()


def wanted_tick(
    progress: Progress, stream_id: int, manifest: Manifest, tuning: EngineTuning = TUNING
) -> int | None:
    """Return the tick up to which to generate an endless stream now; None if it has enough records."""
    if manifest.rows - taken_rows(progress, stream_id) > tuning.ahead_records:
        return None
    clock = progress.base_tick + progress.step if progress.base_tick is not None else manifest.first_tick
    steps = progress.stats.steps
    until = (clock or 0) + max(tuning.ahead_steps, tuning.ahead_batches * steps)
    return until if manifest.last_tick is None or until > manifest.last_tick else None


def taken_rows(progress: Progress, stream_id: int) -> int:
    """Return the number of rows of a stream that batches have taken."""
    return progress.stats.rows.get(stream_id, 0)
