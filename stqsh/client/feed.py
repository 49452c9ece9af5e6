"""Feed a stream FROM INSERTS, or a query stream, from a file, standard input, or a table in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stqsh.client.statements.insert import apply_segment, put
from stqsh.lang.errors import BindError, near
from stqsh.sources.fed_records import ArrivingBytes, read_fed, read_table
from stqsh.spec.stream import InsertsSourceSpec, StreamSpec
from stqsh.storage.queries.query_streams import QueryStreamRow, live_query_streams

if TYPE_CHECKING:
    from stqsh.client.api import Session
    from stqsh.sources.live.record_spool import SpoolSegment


class FeedCount(NamedTuple):
    """The number of records fed to a stream, and the number set aside as dead letters."""

    records: int = 0
    dead: int = 0


OnFed = Callable[[FeedCount], None]


def feed(session: Session, stream: str, data: Any, *, on_fed: OnFed | None = None) -> FeedCount:
    """Feed records to a stream, and return their number; all counted records are stored.

    Rows of a query stream are applied, some of them at a time.

    Args:
        session: the session.
        stream: the name of a stream FROM INSERTS, or of a query stream.
        data: the path of a file, or a pyarrow Table, a pandas DataFrame, a dict of columns, or a list of
            dicts.
        on_fed: called with the count so far.

    Raises:
        StqshError: the stream takes no records by hand, or the data cannot be read.

    >>> import stqsh
    >>> reports = {"oid": ["t1", "t2"], "lon": [10.03, 10.02], "lat": [50.01, 95.0], "ts": [1749924000] * 2}
    >>> stqsh.feed(session, "buses", reports)
    FeedCount(records=1, dead=1)
    """
    target = _target(session, stream)
    if isinstance(data, str | Path):
        parts = read_fed(target.spec, Path(data), None, with_lines=target.is_of_queries)
    else:
        parts = read_table(target.spec, data, with_lines=target.is_of_queries)
    return _feed_all(session, target, parts, on_fed)


def feed_arriving(
    session: Session, stream: str, origin: Path | ArrivingBytes, form: str | None, on_fed: OnFed
) -> FeedCount:
    """Feed a stream from a file or standard input in the given format; otherwise like `feed`."""
    target = _target(session, stream)
    parts = read_fed(target.spec, origin, form, with_lines=target.is_of_queries)
    return _feed_all(session, target, parts, on_fed)


class _Target(NamedTuple):
    """What is fed: a stream, or the rows of a query stream."""

    spec: StreamSpec
    queries: QueryStreamRow | None = None

    @property
    def is_of_queries(self) -> bool:
        """Whether it is a query stream."""
        return self.queries is not None


def _target(session: Session, name: str) -> _Target:
    """Return the stream FROM INSERTS, or the query stream, with a name.

    Raises:
        BindError: there is none, or it takes no records by hand.
    """
    found = {stream.name: _Target(stream.spec) for stream in session.streams()}
    rows = live_query_streams(session.connection.db)
    found |= {queries.name: _Target(queries.spec.rows, queries) for queries in rows}
    ready = [known for known, target in found.items() if _takes_records(target)]
    if name not in found:
        close = near(name, found)
        listed = ", ".join(ready) or "none; CREATE MOVING STREAM … FROM INSERTS makes one"
        raise BindError(f"there is no stream {name}", near=close, hint=f"streams that can be fed: {listed}")
    if name not in ready:
        hint = "CREATE MOVING STREAM … FROM INSERTS makes one that can"
        raise BindError(f"stream {name} cannot be fed", hint=hint)
    return found[name]


def _takes_records(target: _Target) -> bool:
    """Return whether INSERT INTO, and therefore feeding, adds to a stream."""
    if target.queries is not None:
        return target.queries.spec.takes_inserts
    return isinstance(target.spec.source, InsertsSourceSpec)


def _feed_all(
    session: Session, target: _Target, parts: Iterator[SpoolSegment], on_fed: OnFed | None
) -> FeedCount:
    """Store parts as they arrive; return the number of records stored, or of rows applied."""
    count = FeedCount()
    for part in parts:
        dead = len(part.dead)
        if target.queries is None:
            put(session.connection, target.spec.name, part, session.settings())
        else:
            dead += len(apply_segment(session.connection, target.queries, part).dead)
        done = part.records.num_rows + len(part.dead) - dead
        count = FeedCount(count.records + done, count.dead + dead)
        if on_fed is not None:
            on_fed(count)
    return count
