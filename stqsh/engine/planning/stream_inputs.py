"""The planner's inputs: a session's log, its streams and its tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from stqsh.checksums import DamagedFileError
from stqsh.engine.planning.batch_size import BatchLimit
from stqsh.engine.planning.pending_log import PendingLog
from stqsh.sources.replay_store.manifest import MANIFEST, stored_name
from stqsh.sources.replay_store.store import ReplayStore, open_store
from stqsh.sources.table_files import CONTENT
from stqsh.spec.log import TableDropped
from stqsh.spec.offset import Offset
from stqsh.spec.stream import StreamSpec, TableSpec
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import stream_statuses


@dataclass(frozen=True)
class StreamInput:
    """A stream that can be read: its replay store and the next row to take."""

    stream_id: int
    store: ReplayStore
    row: int

    @property
    def left(self) -> int:
        """Count the rows of the store that are not taken yet."""
        return self.store.rows - self.row


class StreamInputs:
    """The replay stores of a session home, opened as they become ready."""

    def __init__(self, home: Path, control: ControlDb) -> None:
        self._home, self._control = home, control
        self._stores: dict[int, ReplayStore] = {}

    def waiting(self, streams: Iterable[int], failed: Collection[int]) -> bool:
        """Return whether a stream that has not failed is still being prepared."""
        return any(stream not in failed and self._store(stream) is None for stream in streams)

    def of(self, streams: Mapping[int, StreamSpec], offset: Offset) -> list[StreamInput]:
        """Return the inputs of all streams that are ready, in order of their ids."""
        stores = ((stream, self._store(stream)) for stream in sorted(streams))
        return [
            StreamInput(stream, store, offset.rows.get(stream, 0))
            for stream, store in stores
            if store is not None
        ]

    def _store(self, stream: int) -> ReplayStore | None:
        if stream not in self._stores:
            directory = SessionHome(self._home).stream(stream)
            if not (directory / MANIFEST).exists():
                self._check_missing(stream, directory)
                return None
            self._stores[stream] = open_store(directory)
        store = self._stores[stream]
        store.refresh()
        return store

    def _check_missing(self, stream: int, directory: Path) -> None:
        """Raise `DamagedFileError` if a missing store existed before."""
        status = stream_statuses(self._control).get(stream)
        if status is not None and status.state in ("ready", "endless"):
            raise DamagedFileError(stored_name(directory, MANIFEST), "is gone")


class TableInputs:
    """The tables of a session home, found as they become ready."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._ready: set[int] = set()

    def ready(self, table: int) -> bool:
        """Return whether a table can be read."""
        if table not in self._ready and not (SessionHome(self._home).table(table) / CONTENT).exists():
            return False
        self._ready.add(table)
        return True


def first_tick(inputs: Iterable[StreamInput]) -> int | None:
    """Return the earliest tick that holds a record, None if there is none."""
    return min((each.store.first_tick for each in inputs if each.store.rows), default=None)


def last_tick(inputs: Iterable[StreamInput]) -> int | None:
    """Return the tick at which finite streams end; None if none has a record."""
    return max((each.store.last_tick for each in inputs if each.store.rows), default=None)


def last_tick_that_fits(
    inputs: Iterable[StreamInput], start_tick: int, limit_tick: int, room: BatchLimit
) -> int:
    """Return the last tick of a batch that begins with `start_tick` and ends at `limit_tick` at the latest.

    A tick is never cut: a batch takes the ticks that fit into its room, and more only if its first tick with
    records has more. A result below `start_tick` means that an endless stream has not reached it yet.
    """
    inputs = list(inputs)
    for each in inputs:
        if not each.store.complete:
            limit_tick = min(limit_tick, each.store.last_tick if each.store.rows else start_tick - 1)
    if limit_tick <= start_tick or _fits(inputs, limit_tick, room):
        return limit_tick
    first = min(each.store.tick_of_row(each.row) for each in inputs if each.left)
    low, high = max(start_tick, first), limit_tick
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(inputs, middle, room) else (low, middle)
    return min(low, limit_tick)


def records_until(inputs: Iterable[StreamInput], tick: int) -> int:
    """Count the untaken records up to and including a tick."""
    return sum(max(0, each.store.rows_until(tick) - each.row) for each in inputs)


def _fits(inputs: list[StreamInput], tick: int, room: BatchLimit) -> bool:
    """Return whether all untaken records up to and including a tick fit into a batch."""
    rows = [max(0, each.store.rows_until(tick) - each.row) for each in inputs]
    size = sum(count * each.store.row_bytes for count, each in zip(rows, inputs, strict=True))
    return sum(rows) <= room.records and size <= room.bytes


@dataclass(frozen=True)
class SessionView:
    """A session home around one offset; `read` moves to another offset."""

    home: Path
    control: ControlDb
    log: PendingLog
    _feeds: StreamInputs
    _tables: TableInputs

    @staticmethod
    def of(home: Path) -> SessionView:
        """Open a session home."""
        control = ControlDb(home)
        return SessionView(home, control, PendingLog(control), StreamInputs(home, control), TableInputs(home))

    def read(self, offset: Offset) -> None:
        """Read the log around an offset, as far as it can be applied now."""
        self.log.read(offset)
        self.log.hold(self._is_settled)

    def streams(self) -> dict[int, StreamSpec]:
        """Return the streams that exist once all waiting rows are applied, by id."""
        return self.log.streams()

    def is_live(self) -> bool:
        """Return whether the session's streams are live, so that it runs by the wall clock."""
        return any(spec.is_live for spec in self.streams().values())

    def _replayed(self) -> dict[int, StreamSpec]:
        return {stream: spec for stream, spec in self.streams().items() if not spec.is_live}

    def inputs(self, offset: Offset) -> list[StreamInput]:
        """Return the inputs of all replayed streams that are ready, in order of their ids."""
        return self._feeds.of(self._replayed(), offset)

    def is_waiting(self) -> bool:
        """Return whether a stream or table that has not failed is still being prepared."""
        return bool(self.log.held) or self._feeds.waiting(self._replayed(), self._failed())

    def owes_a_step(self, inputs: list[StreamInput]) -> bool:
        """Return whether commands or early records wait for a step at the end of the data."""
        return self.log.has_commands(that_change_answers=True) or any(each.left for each in inputs)

    def is_steady(self) -> bool:
        """Return whether results depend on where batches are cut."""
        return any(spec.is_significant for spec in self.streams().values())

    def _is_settled(self, table: int) -> bool:
        """Return whether a table is ready or cannot be read, so that nothing waits for it."""
        return self._tables.ready(table) or table in self._failed()

    def tables(self, defined: tuple[int, int]) -> list[int]:
        """Return the tables of rows `first < seq <= last` of the log."""
        first, last = defined
        rows = [*self.log.pending, *self.log.held] if first < last else []
        return [row.seq for row in rows if isinstance(row.entry, TableSpec) and first < row.seq <= last]

    def unread(self, defined: tuple[int, int]) -> tuple[int, ...]:
        """Return the tables of rows `first < seq <= last` that could not be read, or were dropped before."""
        tables = self.tables(defined)
        if not tables:
            return ()
        rows = [*self.log.pending, *self.log.held]
        given_up = self._failed() | {row.entry.id for row in rows if isinstance(row.entry, TableDropped)}
        return tuple(table for table in tables if table in given_up and not self._tables.ready(table))

    def _failed(self) -> set[int]:
        """Return the ids of the streams and tables that cannot be read."""
        known = stream_statuses(self.control).items()
        return {id_ for id_, status in known if status.state in ("failed", "stalled")}
