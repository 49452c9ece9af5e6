"""Implement `Session.stream_from`: streams of files, of tables in memory, and of iterators."""

from __future__ import annotations

import os
import queue
import re
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import orjson
import pyarrow as pa
from pyarrow import parquet

from stqsh.client.feed import FeedCount, feed
from stqsh.client.results import Message
from stqsh.client.statements.create import planned_stream
from stqsh.errors import HomeError, SourceError, StqshError
from stqsh.fs import replacing
from stqsh.lang.ast.statements import CreateStream
from stqsh.lang.printer.values import column_name, identifier, quoted
from stqsh.lang.syntax.parse import parse
from stqsh.sources.fed_records import as_table
from stqsh.sources.formats.casting import cast_column
from stqsh.sources.formats.file_formats import kind_of_text
from stqsh.spec.stream import StreamSpec

if TYPE_CHECKING:
    from stqsh.client.api import Session
    from stqsh.client.statements.context import StatementContext

_FOLDER = "given"
"""The folder in a session's home for the tables that programs passed as streams."""
_WAITING = 100_000
"""The maximum number of queued records of an iterator; it is not read further meanwhile."""
_TOGETHER, _TOGETHER_S = 5_000, 0.1
"""The maximum number of records fed at once, and how long the first of them waits for others."""
_SEEN, _SEEN_S = 1_000, 1.0
"""How many records, and how many seconds of them, are used to infer the columns of an iterator."""


class Roles(TypedDict, total=False):
    """The columns for roles that cannot be inferred from their names; `location` names x and y."""

    key: str
    location: tuple[str, str]
    time: str
    text: str


@dataclass(frozen=True, slots=True)
class StreamWish:
    """The requested name and definition of a stream, see `Session.stream_from`."""

    name: str | None
    kind: Literal["moving", "event"]
    options: str
    roles: Roles

    def statement(self, name: str, source: str, columns: str = "") -> str:
        """Return the CREATE STREAM of a source."""
        roles = self.roles
        x_y = ", ".join(map(column_name, roles.get("location", ())))
        parts = (
            f"CREATE {self.kind.upper()} STREAM {identifier(name)}{columns}",
            f"KEY {column_name(roles['key'])}" if "key" in roles else "",
            f"LOCATION ({x_y})" if x_y else "",
            f"TIME {column_name(roles['time'])}" if "time" in roles else "",
            f"TEXT {column_name(roles['text'])}" if "text" in roles else "",
            f"FROM {source}",
            self.options,
        )
        return f"{' '.join(filter(None, parts))};"


@dataclass
class NewStream:
    """A stream that `Session.stream_from` created.

    Attributes:
        name: its name.
        text: the messages of CREATE STREAM: what it found, guessed and set aside.
    """

    name: str
    text: str
    _feeder: _Feeder | None = field(default=None, repr=False)

    def wait(self, timeout: float | None = None) -> FeedCount | None:
        """Wait until all records of the iterator are in the stream; return their number.

        Returns:
            None for a stream of a file or a table, and if `timeout`, in seconds, expires first.

        Raises:
            Exception: the exception that the iterator raised.
            StqshError: a record could not be fed.
        """
        return None if self._feeder is None else self._feeder.wait(timeout)


def stream_from(session: Session, context: StatementContext, data: Any, wish: StreamWish) -> NewStream:
    """Create a stream from data, see `Session.stream_from`."""
    if isinstance(data, str | os.PathLike):
        path = os.fspath(data)
        name = wish.name or _free_name(session, re.sub(r"\W+", "_", Path(path).stem).strip("_"))
        return NewStream(name, _created(session, wish.statement(name, f"FILE {quoted(path)}")))
    name = wish.name or _free_name(session, "stream")
    if isinstance(data, Iterator):
        return _fed(session, context, name, wish, data)
    path = session.home.path / _FOLDER / f"{name}-{time.time_ns()}.parquet"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with replacing(path, private=True) as target:
        table = _with_times(_points_as_columns(data))
        parquet.write_table(table, target, coerce_timestamps="us", allow_truncated_timestamps=True)
    return NewStream(name, _created(session, wish.statement(name, f"FILE {quoted(str(path))}")))


def _created(session: Session, text: str) -> str:
    return "\n".join(one.text for one in session.execute(text) if isinstance(one, Message))


def _free_name(session: Session, word: str) -> str:
    """Return a free name for a stream: the word, with a number if it is in use."""
    word = word if word[:1].isalpha() else f"stream_{word}".rstrip("_")
    taken = {stream.name for stream in session.streams()} | {query.name for query in session.queries()}
    number, name = 1, word
    while name in taken:
        number += 1
        name = f"{word}_{number}"
    return name


def _points_as_columns(data: Any) -> pa.Table:
    """Return a table; the points of a GeoDataFrame become columns `lon` and `lat`, or `x` and `y`."""
    if not hasattr(data, "geometry") or not hasattr(data, "crs"):
        return as_table(_with_index(data))
    is_planar = data.crs is None
    placed = data if is_planar else data.to_crs(4326)
    frame = placed.drop(columns=placed.geometry.name)
    if not (placed.geometry.isna() | (placed.geometry.geom_type == "Point")).all():
        raise SourceError("the frame has other shapes than points", hint="give frame.centroid as geometry")
    x, y = ("x", "y") if is_planar else ("lon", "lat")
    return as_table(_with_index(frame.assign(**{x: placed.geometry.x, y: placed.geometry.y})))


def _with_times(table: pa.Table) -> pa.Table:
    """Return the table with text columns that hold only times as timestamps, like columns of text files."""
    for place, column in enumerate(table.schema):
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            texts: Any = table.column(place).combine_chunks().cast(pa.string())
            if kind_of_text(texts) == "TIMESTAMP":
                table = table.set_column(place, column.name, cast_column(texts, "TIMESTAMP").values)
    return table


def _with_index(data: Any) -> Any:
    """Return a DataFrame with its named index as columns, which may hold the times; other data unchanged."""
    names = getattr(getattr(data, "index", None), "names", None)
    return data.reset_index() if names is not None and any(name is not None for name in names) else data


# -- iterators -----------------------------------------------------------------------------------------------


def _fed(
    session: Session, context: StatementContext, name: str, wish: StreamWish, items: Iterator[Any]
) -> NewStream:
    """Create a live stream, and feed it from an iterator, in separate threads."""
    arriving = _Arriving(items)
    first = arriving.take(_SEEN, _SEEN_S)
    if not first:
        arriving.check()
        raise SourceError("the iterator yields nothing", hint="it yields dicts, DataFrames or Arrow tables")
    spec = _inferred(context, name, first, wish)
    # The first records may have whole degrees by chance, so locations are always DOUBLE.
    types = {column.name: column.type for column in spec.columns} | dict.fromkeys((spec.x, spec.y), "DOUBLE")
    columns = ", ".join(f"{column_name(name)} {kind}" for name, kind in types.items())
    roles = Roles(key=spec.key, location=(spec.x, spec.y), time=spec.time)
    if spec.text is not None:
        roles["text"] = spec.text
    full = StreamWish(name, wish.kind, wish.options, roles)
    text = _created(session, full.statement(name, "INSERTS", f" ({columns})"))
    return NewStream(name, text, _Feeder(session, name, first, arriving))


def _inferred(context: StatementContext, name: str, first: list[pa.Table], wish: StreamWish) -> StreamSpec:
    """Return the definition that a stream of a file with the first records would have."""
    folder = context.connection.home.path / _FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    sample = folder / f"{name}-{time.time_ns()}.jsonl"
    rows = [row for table in first for row in table.slice(0, _SEEN).to_pylist()]
    sample.write_bytes(b"".join(orjson.dumps(row, default=str) + b"\n" for row in rows))
    try:
        [statement] = parse(wish.statement(name, f"FILE {quoted(str(sample))}"))
        assert isinstance(statement, CreateStream)
        return planned_stream(context, statement)
    finally:
        sample.unlink()


class _Arriving:
    """Reads an iterator in a thread, so that records that have arrived do not wait for later ones."""

    def __init__(self, items: Iterator[Any]) -> None:
        self._items = items
        self._waiting: queue.Queue[Any] = queue.Queue(_WAITING)
        self._ended = False
        self.error: Exception | None = None
        threading.Thread(target=self._read, name="stqsh-iterator", daemon=True).start()

    def _read(self) -> None:
        try:
            for item in self._items:
                self._waiting.put(item)
        except Exception as error:  # whatever a user's iterator raises: `wait` raises it again
            self.error = error
        self._waiting.put(_END)

    def take(self, most: int, seconds: float) -> list[pa.Table]:
        """Wait for an item; return it and those that arrive within some seconds, as tables; [] at the end."""
        found: list[Any] = []
        until = None
        while not self._ended and len(found) < most:
            try:
                item = self._waiting.get(
                    timeout=None if until is None else max(0.0, until - time.monotonic())
                )
            except queue.Empty:
                break
            self._ended = item is _END
            if not self._ended:
                found.append(item)
            until = until or time.monotonic() + seconds
        return _tables(found)

    def check(self) -> None:
        """Raise the exception that the iterator raised, if any."""
        if self.error is not None:
            raise self.error


_END = object()


def _tables(items: list[Any]) -> list[pa.Table]:
    """Return items as tables; consecutive records become one table."""
    tables: list[pa.Table] = []
    records: list[Mapping[str, Any]] = []
    for item in items:
        if isinstance(item, Mapping):
            records.append(item)
            continue
        if records:
            tables.append(as_table(records))
            records = []
        tables.append(_points_as_columns(item))
    return [*tables, as_table(records)] if records else tables


class _Feeder:
    """Feeds arriving records to a stream until the iterator ends."""

    def __init__(self, session: Session, name: str, first: list[pa.Table], arriving: _Arriving) -> None:
        self._session, self._name, self._arriving = session, name, arriving
        self._count = FeedCount()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(first,), name="stqsh-feeder", daemon=True)
        self._thread.start()

    def wait(self, timeout: float | None) -> FeedCount | None:
        """See `NewStream.wait`."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            return None
        if self._error is not None:
            raise self._error
        self._arriving.check()
        return self._count

    def _run(self, tables: list[pa.Table]) -> None:
        try:
            while tables:
                for table in tables:
                    fed = feed(self._session, self._name, table)
                    self._count = FeedCount(self._count.records + fed.records, self._count.dead + fed.dead)
                tables = self._arriving.take(_TOGETHER, _TOGETHER_S)
        except HomeError as error:  # the session is closed here
            self._error = error
        except StqshError as error:
            self._error = error
            warnings.warn(f"stream {self._name} is not fed any more: {error}", stacklevel=1)
