"""Feed a stream FROM INSERTS with the records of a file, of standard input, or of a table in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stqsh.client.statements.insert import put
from stqsh.lang.errors import BindError, near
from stqsh.sources.fed_records import ArrivingBytes, read_fed, read_table
from stqsh.spec.stream import InsertsSourceSpec, StreamSpec

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

    Args:
        session: the session.
        stream: the name of a stream FROM INSERTS.
        data: the path of a file, or a pyarrow Table, a pandas DataFrame, a dict of columns, or a list of
            dicts.
        on_fed: called with the count so far.

    Raises:
        StqshError: the stream is not FROM INSERTS, or the data cannot be read.

    >>> import stqsh
    >>> reports = {"oid": ["t1", "t2"], "lon": [10.03, 10.02], "lat": [50.01, 95.0], "ts": [1749924000] * 2}
    >>> stqsh.feed(session, "buses", reports)
    FeedCount(records=1, dead=1)
    """
    spec = fed_stream(session, stream)
    is_path = isinstance(data, str | Path)
    parts = read_fed(spec, Path(data), None) if is_path else read_table(spec, data)
    return append_all(session, spec, parts, on_fed)


def feed_arriving(
    session: Session, stream: str, origin: Path | ArrivingBytes, form: str | None, on_fed: OnFed
) -> FeedCount:
    """Feed a stream from a file or standard input in the given format; otherwise like `feed`."""
    spec = fed_stream(session, stream)
    return append_all(session, spec, read_fed(spec, origin, form), on_fed)


def fed_stream(session: Session, name: str) -> StreamSpec:
    """Return the stream FROM INSERTS with a name.

    Raises:
        BindError: there is none, or it is not FROM INSERTS.
    """
    streams = {stream.name: stream.spec for stream in session.streams()}
    ready = [known for known, spec in streams.items() if isinstance(spec.source, InsertsSourceSpec)]
    if name not in streams:
        close = near(name, streams)
        listed = ", ".join(ready) or "none; CREATE MOVING STREAM … FROM INSERTS makes one"
        raise BindError(f"there is no stream {name}", near=close, hint=f"streams that can be fed: {listed}")
    if name not in ready:
        hint = "CREATE MOVING STREAM … FROM INSERTS makes one that can"
        raise BindError(f"stream {name} cannot be fed", hint=hint)
    return streams[name]


def append_all(
    session: Session, spec: StreamSpec, parts: Iterator[SpoolSegment], on_fed: OnFed | None
) -> FeedCount:
    """Append parts to a stream's spool as they arrive; return the number of records appended."""
    count = FeedCount()
    for part in parts:
        put(session.connection, spec.name, part, session.settings())
        count = FeedCount(count.records + part.records.num_rows, count.dead + len(part.dead))
        if on_fed is not None:
            on_fed(count)
    return count
