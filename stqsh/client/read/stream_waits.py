"""Wait for a stream's records: for its first, and for those that the same client has inserted or pipes in."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf

from stqsh.client.connection import Connection
from stqsh.client.stdin_pump import pumped_folder
from stqsh.spec.stream import StreamSpec
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


def awaited_rows(connection: Connection) -> QueryStreamRow | None:
    """Return the query stream whose rows come from this client's standard input and are not all applied."""
    spool = pumped_folder()
    if spool is None:
        return None
    from stqsh.sources.live.line_spool import has_passed_end  # pyarrow: only when needed

    for stream in live_query_streams(connection.db):
        if connection.home.stream(stream.id) == spool.parent and not has_passed_end(spool, stream.position):
            return stream
    return None


def wait_for_rows(connection: Connection, tell: Tell | None = None) -> None:
    """Wait until standard input has ended, and the query stream that reads it has applied its rows.

    Raises:
        EngineDeadError: the engine dies.
        SourceError: a stream cannot be read.
    """
    connection.wake()
    for progress in connection.watch():
        if awaited_rows(connection) is None:
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
