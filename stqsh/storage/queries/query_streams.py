"""Query streams: their definitions, the source position that their queries stand for, and their counts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import orjson
from msgspec.structs import replace

from stqsh.errors import StqshError
from stqsh.lang.printer.values import identifier, query_stream_name
from stqsh.spec.log import QueryStreamDropped
from stqsh.spec.query_stream import QueryStreamSpec
from stqsh.storage.catalogue import query_by_id
from stqsh.storage.catalogue_writer import change_query, check_free
from stqsh.storage.control_log import ControlDb, append, to_text
from stqsh.storage.layouts import LIVE
from stqsh.storage.rows import LogRow

_ROW = "SELECT id, name, spec, position, parts, rows, dead FROM query_streams WHERE dropped_seq IS NULL"
_OWN = (
    "SELECT q.id, q.name, s.content FROM streamed s JOIN queries q ON q.id = s.query"
    f" WHERE s.stream = ? AND {LIVE}"
)
_KNOWN = (
    "SELECT q.name, q.id, s.stream, s.content FROM json_each(?) AS asked"
    f" JOIN queries q ON q.name = asked.value AND {LIVE} LEFT JOIN streamed s ON s.query = q.id"
)


@dataclass(frozen=True, slots=True)
class QueryStreamRow:
    """A query stream of the catalogue.

    Attributes:
        position: the next place to read in each part of its source; empty for sources that wait for the
            registration of each row.
        parts: how many parts of the source were applied.
        rows: how many rows were read, including dead ones.
        dead: how many of them are dead letters.
    """

    id: int
    name: str
    spec: QueryStreamSpec
    position: dict[str, int]
    parts: int = 0
    rows: int = 0
    dead: int = 0


class StreamedQuery(NamedTuple):
    """A live query: its id, the query stream that registered it, if any, and its row as literals."""

    id: int
    stream: int | None
    content: str | None


def live_query_streams(db: ControlDb) -> list[QueryStreamRow]:
    """Return the query streams that are not dropped, in order of creation."""
    return [_row(row) for row in db.query(f"{_ROW} ORDER BY id")]


def find_query_stream(db: ControlDb, name: str) -> QueryStreamRow | None:
    """Return the live query stream of that name."""
    rows = db.query(f"{_ROW} AND name = ?", name)
    return _row(rows[0]) if rows else None


def query_stream_by_id(db: ControlDb, id_: int) -> QueryStreamRow:
    """Return a live query stream; raise `StqshError` if it has been dropped."""
    rows = db.query(f"{_ROW} AND id = ?", id_)
    if not rows:
        raise StqshError(
            "the query stream has been dropped", hint="SHOW QUERY STREAMS lists those that exist"
        )
    return _row(rows[0])


def create_query_stream(db: ControlDb, text: str, spec: QueryStreamSpec) -> QueryStreamRow:
    """Log a REGISTER QUERIES and add the query stream; raise `StqshError` if the name is in use."""
    with db.transaction() as connection:
        check_free(db, spec.name)
        row = append(db, spec, text)
        spec = replace(spec, id=row.seq)
        connection.execute(
            "INSERT INTO query_streams (id, name, spec) VALUES (?, ?, ?)", (row.seq, spec.name, to_text(spec))
        )
    return QueryStreamRow(row.seq, spec.name, spec, {})


def drop_query_stream(db: ControlDb, text: str, stream: QueryStreamRow) -> LogRow:
    """Drop a query stream's queries, then the query stream."""
    with db.transaction() as connection:
        for id_, name, _ in streamed_queries(db, stream.id):
            change_query(db, "drop", f"DROP QUERY {identifier(name)};", query_by_id(db, id_))
        row = append(db, QueryStreamDropped(stream.id, stream.name), text)
        connection.execute("UPDATE query_streams SET dropped_seq = ? WHERE id = ?", (row.seq, stream.id))
        connection.execute("DELETE FROM streamed WHERE stream = ?", (stream.id,))
    return row


def streamed_queries(db: ControlDb, stream_id: int) -> list[tuple[int, str, str]]:
    """Return the id, the name and the row of each live query of a query stream, in order of registration."""
    return db.query(f"{_OWN} ORDER BY q.id", stream_id)


def count_streamed(db: ControlDb, stream_id: int) -> int:
    """Count the live queries of a query stream."""
    return int(db.query(f"SELECT count(*) FROM ({_OWN})", stream_id)[0][0])


def known_queries(db: ControlDb, names: list[str]) -> dict[str, StreamedQuery]:
    """Return the live queries among some names."""
    rows = db.query(_KNOWN, orjson.dumps(names).decode())
    return {name: StreamedQuery(id_, stream, content) for name, id_, stream, content in rows}


def note_streamed(db: ControlDb, stream_id: int, ids: Iterable[int], contents: Iterable[str]) -> None:
    """Record the rows that registered, or changed, some queries of a query stream."""
    rows = [(id_, stream_id, content) for id_, content in zip(ids, contents, strict=True)]
    db.connection().executemany("INSERT OR REPLACE INTO streamed VALUES (?, ?, ?)", rows)


def note_applied(
    db: ControlDb, stream: QueryStreamRow, position: dict[str, int], *, rows: int, dead: int
) -> None:
    """Record that a part of the source was applied; joins the transaction with its registrations."""
    db.connection().execute(
        "UPDATE query_streams SET position = ?, parts = parts + 1, rows = rows + ?, dead = dead + ?"
        " WHERE id = ?",
        (json.dumps(position), rows, dead, stream.id),
    )


def check_streams_unused(db: ControlDb, what: str, name: str, id_: int) -> None:
    """Raise `StqshError` if a query stream registers queries over a "stream", "table" or "region"."""
    for stream in live_query_streams(db):
        spec = stream.spec
        used = {"stream": (spec.stream_id,), "table": spec.tables, "region": spec.areas}[what]
        if id_ in used:
            raise StqshError(
                f"the query stream {stream.name} registers queries over {what} {name}",
                hint=f"first DROP QUERIES {query_stream_name(stream.name)};",
            )


def _row(row: tuple[Any, ...]) -> QueryStreamRow:
    id_, name, spec, position, *counts = row
    return QueryStreamRow(id_, name, _decoded(spec), json.loads(position), *counts)


@lru_cache(64)
def _decoded(spec: str) -> QueryStreamSpec:
    """Decode a spec; recent results are cached, because each part of a source is read under its spec."""
    return msgspec.json.decode(spec, type=QueryStreamSpec)
