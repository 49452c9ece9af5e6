"""Wait for records that are on their way: a stream's first, inserted ones, and rows of query streams."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from pathlib import Path

from stqsh.client.connection import Connection
from stqsh.client.stdin_pump import pumped_folder
from stqsh.spec.stream import DirectorySourceSpec, StreamSpec
from stqsh.storage.control_log import ControlDb
from stqsh.storage.layouts import PLAYING
from stqsh.storage.queries.query_streams import QueryStreamRow, live_query_streams
from stqsh.storage.rows import Progress

Tell = Callable[[Progress], None]
"""Called with the progress at each poll."""


def is_about_to_play(connection: Connection, stream: StreamSpec) -> bool:
    """Return whether a stream plays but no step has included it yet, so that it would wrongly look empty."""
    return connection.progress().seq < stream.id and _plays(connection.db, stream.id)


def wait_for_first(connection: Connection, stream: StreamSpec, tell: Tell | None = None) -> None:
    """Wait until a playing stream has begun, or has been paused or dropped.

    Raises:
        EngineDeadError: the engine dies.
        SourceError: a stream cannot be read.
    """
    for progress in connection.watch():
        if progress.seq >= stream.id or not _plays(connection.db, stream.id):
            return
        if tell is not None:
            tell(progress)


def wait_for_inserted(
    connection: Connection, stream: StreamSpec, seconds: float = inf, tell: Tell | None = None
) -> bool:
    """Wait until a playing stream has consumed this client's inserts; return whether it has.

    Wait for at most `seconds`.

    Raises:
        EngineDeadError: the engine dies.
        SourceError: a stream cannot be read.
    """
    inserted, deadline = connection.inserted, time.monotonic() + seconds
    if stream.id not in inserted or not _plays(connection.db, stream.id):
        return True
    for progress in connection.watch():
        live = progress.stats.live.get(stream.id)
        if live is not None and live.taken >= inserted[stream.id]:
            del inserted[stream.id]
            return True
        if time.monotonic() >= deadline or not _plays(connection.db, stream.id):
            return False
        if tell is not None:
            tell(progress)
    return False


class AwaitedRows:
    """The rows of query streams that a RUN waits for, because they are there before it begins.

    These are all rows of this client's standard input, and those of the files that directories have when this
    is made. A file that grows afterwards is not waited for.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._files: dict[int, dict[str, int]] = {}
        self._ends: dict[int, int] = {}
        self.stream()

    def stream(self) -> QueryStreamRow | None:
        """Return a query stream that has not applied all of its rows yet; None if there is none."""
        awaited = [each for each in live_query_streams(self._connection.db) if self._awaits(each)]
        return awaited[0] if awaited else None

    def _awaits(self, stream: QueryStreamRow) -> bool:
        folder = self._connection.home.stream(stream.id)
        if isinstance(stream.spec.rows.source, DirectorySourceSpec):
            return self._awaits_files(stream, folder, Path(stream.spec.rows.source.path))
        spool = pumped_folder()
        if spool is None or folder != spool.parent:
            return False
        from stqsh.sources.live.line_spool import has_passed_end  # pyarrow: only when needed

        return not has_passed_end(spool, stream.position)

    def _awaits_files(self, stream: QueryStreamRow, folder: Path, directory: Path) -> bool:
        from stqsh.sources.live.directory_spool import taken_records, untaken_files  # pyarrow: as above
        from stqsh.sources.live.line_spool import SPOOL
        from stqsh.sources.live.record_spool import PART

        if stream.id not in self._ends:
            now = untaken_files(directory, folder / SPOOL)
            before = self._files.get(stream.id, now)
            self._files[stream.id] = {name: size for name, size in before.items() if now.get(name) == size}
            if self._files[stream.id]:
                return True
            self._ends[stream.id] = taken_records(folder / SPOOL)
        return stream.position.get(PART, 0) < self._ends[stream.id]


def wait_for_rows(connection: Connection, rows: AwaitedRows, tell: Tell | None = None) -> None:
    """Wait until query streams have applied all awaited rows.

    Raises:
        EngineDeadError: the engine dies.
        SourceError: a stream cannot be read.
    """
    connection.wake()
    for progress in connection.watch():
        if rows.stream() is None:
            return
        if tell is not None:
            tell(progress)


def _plays(db: ControlDb, stream: int) -> bool:
    """Return whether the last PLAY or PAUSE of a stream was PLAY."""
    rows = db.query(
        f"SELECT kind FROM log WHERE {PLAYING} AND kind <> 'run'"
        " AND json_extract(spec, '$.id') = ? ORDER BY seq DESC LIMIT 1",
        stream,
    )
    return bool(rows) and rows[0][0] == "play"
