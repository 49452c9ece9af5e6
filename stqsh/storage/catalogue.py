"""Read the current streams, tables, regions and queries, which are the fold of the control log."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from stqsh.spec.expression import FunctionSpec
from stqsh.spec.query import QuerySpec
from stqsh.spec.stream import AreaSpec, StreamSpec, TableSpec
from stqsh.spec.view import ViewSpec
from stqsh.storage.control_log import ControlDb, get_meta
from stqsh.storage.layouts import IS_ALERT, LIVE
from stqsh.storage.rows import AreaRow, QueryRow, StreamRow, TableRow
from stqsh.storage.update_log.files import LogCompactedError

if TYPE_CHECKING:
    from stqsh.routing.query_routing import MemberBoxes

FUNCTIONS = "functions"
"""The key in control.db of a session's functions."""

FUNCTION_CHANGES = "function_changes"
"""The key in control.db of the number of changes to a session's functions."""
ADDED_KINDS = "kinds"
"""The key in control.db of the query kinds added by packages that a session has used."""
VIEWS = "views"
"""The key in control.db of a session's views."""

_NAMES = 1_000
"""How many names of dropped queries a log reader keeps, in addition to a quarter of the other names."""
SIZES_A_BUCKET = 512
"""The number of query ids in a row of the table `sizes`, 4 bytes each (uint32, little-endian)."""
_SIZE = (
    "CASE WHEN state = 'ended' THEN 0 ELSE coalesce("
    f"(SELECT substr(content, id % {SIZES_A_BUCKET} * 4 + 1, 4) FROM sizes"
    f" WHERE bucket = id / {SIZES_A_BUCKET}), size) END"
)
_QUERY = f"SELECT id, name, stream_id, spec, state, seq, {_SIZE}, since_us, owner, pattern FROM queries"
_EXISTS = "dropped_seq IS NULL"
_NAMED = (
    ("'stream'", "streams", _EXISTS),
    ("'query'", "queries", LIVE),
    ("'table'", "tables", _EXISTS),
    ("'region'", "areas", _EXISTS),
    ("'query stream'", "query_streams", _EXISTS),
    (f"iif({IS_ALERT}, 'alert', 'sink')", "sinks", _EXISTS),
)
"""What objects with names are called, their tables, and the condition for those that exist, in SQL."""
_KINDS = (
    " UNION ALL ".join(
        f"SELECT {kind} FROM {table} WHERE name = ?1 AND {exists}" for kind, table, exists in _NAMED
    )
    + " LIMIT 1"
)
_OWN = "CASE WHEN spec <> '' THEN spec END"
"""The spec of a query that was registered individually or altered; for others the pattern has the content."""


Row = TypeVar("Row", StreamRow, TableRow, AreaRow)


@dataclass(frozen=True)
class _Definitions(Generic[Row]):
    """A table of control.db that holds definitions of one kind, with the types of its rows and specs."""

    table: str
    row: type[Row]
    spec: type[StreamSpec | TableSpec | AreaSpec]

    def rows(self, db: ControlDb, condition: str, *given: object) -> list[Row]:
        """Return the rows that satisfy an SQL condition with parameters."""
        sql = f"SELECT id, name, spec, dropped_seq FROM {self.table} {condition}"
        return [self._row(*found) for found in db.query(sql, *given)]

    def live(self, db: ControlDb) -> list[Row]:
        """Return the rows that are not dropped, in order of creation."""
        return self.rows(db, "WHERE dropped_seq IS NULL ORDER BY id")

    def dropped(self, db: ControlDb) -> list[Row]:
        """Return the dropped rows, in order of creation."""
        return self.rows(db, "WHERE dropped_seq IS NOT NULL ORDER BY id")

    def find(self, db: ControlDb, name: str) -> Row | None:
        """Return the live row of that name."""
        asked = "WHERE dropped_seq IS NULL AND name = ?"
        return db.remembered((self.table, name), lambda: next(iter(self.rows(db, asked, name)), None))

    def by_id(self, db: ControlDb, id_: int) -> Row:
        """Return the row with an id, dropped or not; raise `KeyError` for an unknown id."""
        found = db.remembered((self.table, id_), lambda: self.rows(db, "WHERE id = ?", id_))
        if not found:
            raise KeyError(id_)
        return found[0]

    def _row(self, id_: int, name: str, spec: str, dropped: int | None) -> Row:
        made: Any = self.row
        found: Row = made(id_, name, _decoded(spec, self.spec), dropped)
        return found


@lru_cache(64)
def _decoded(spec: str, kind: type[StreamSpec | TableSpec | AreaSpec]) -> StreamSpec | TableSpec | AreaSpec:
    """Decode a spec from its text; recent results are cached, because statements repeat the same names."""
    return msgspec.json.decode(spec, type=kind)


_streams = _Definitions("streams", StreamRow, StreamSpec)
_tables = _Definitions("tables", TableRow, TableSpec)
_areas = _Definitions("areas", AreaRow, AreaSpec)
live_streams, dropped_streams = _streams.live, _streams.dropped
find_stream, stream_by_id = _streams.find, _streams.by_id
live_tables, dropped_tables = _tables.live, _tables.dropped
find_table, table_by_id = _tables.find, _tables.by_id
live_areas, find_area = _areas.live, _areas.find


def kind_named(db: ControlDb, name: str) -> str | None:
    """Return the kind of object that a name refers to.

    It is "stream", "query", "query stream", "table", "region" (also a set), "sink", "alert" or "view"; None
    if the name is free.
    """

    def read() -> str | None:
        return next((kind for (kind,) in db.query(_KINDS, name)), None)

    found = db.just_read((_KINDS, name), read)  # REGISTER looks it up to bind, and again to write
    return "view" if found is None and name in known_views(db) else found


def names_in_use(db: ControlDb, names: Sequence[str]) -> set[str]:
    """Return those names for which `kind_named` finds an object; `names` are at most some hundreds."""
    marks = ", ".join(f"?{number + 1}" for number in range(len(names)))
    sql = " UNION ALL ".join(
        f"SELECT name FROM {table} WHERE name IN ({marks}) AND {exists}" for _, table, exists in _NAMED
    )
    return {name for (name,) in db.query(sql, *names)} | (known_views(db).keys() & set(names))


def known_functions(db: ControlDb) -> dict[str, FunctionSpec]:
    """Return a session's functions by name in upper case; queries include the code of those they call."""

    def read() -> dict[str, FunctionSpec]:
        return msgspec.json.decode(get_meta(db, FUNCTIONS) or "{}", type=dict[str, FunctionSpec])

    return db.remembered(FUNCTIONS, read)


def find_function(db: ControlDb, name: str) -> FunctionSpec | None:
    """Return the function of that name, ignoring case."""
    return known_functions(db).get(name.upper())


def definitions_version(db: ControlDb) -> tuple[int, str | None, str | None]:
    """Return a value that changes with every definition: the last log row, the views, function changes."""
    values = ", ".join(f"(SELECT value FROM meta WHERE key = '{key}')" for key in (VIEWS, FUNCTION_CHANGES))
    [(seq, views, changes)] = db.query(f"SELECT (SELECT coalesce(max(seq), 0) FROM log), {values}")
    return seq, views, changes


def added_kinds(db: ControlDb) -> list[str]:
    """Return the query kinds added by packages that queries of the session have used."""
    return msgspec.json.decode(get_meta(db, ADDED_KINDS) or "[]", type=list[str])


def known_views(db: ControlDb) -> dict[str, ViewSpec]:
    """Return the views of a session by name, in order of creation."""

    def read() -> dict[str, ViewSpec]:
        return msgspec.json.decode(get_meta(db, VIEWS) or "{}", type=dict[str, ViewSpec])

    return db.remembered(VIEWS, read)


def find_view(db: ControlDb, name: str) -> ViewSpec | None:
    """Return the view of that name."""
    return known_views(db).get(name)


def first_stream(db: ControlDb) -> StreamRow | None:
    """Return the stream that sets the session's clock: the first one, even if dropped once the clock runs."""
    started = db.query("SELECT 1 FROM progress WHERE tick_us IS NOT NULL")
    rows = _streams.rows(db, f"{'' if started else 'WHERE dropped_seq IS NULL'} ORDER BY id LIMIT 1")
    return rows[0] if rows else None


def area_geometry(db: ControlDb, area_id: int) -> bytes:
    """Return the packed geometry [member, wkb] of an area, dropped or not; raise `KeyError` if unknown."""
    rows = db.query("SELECT payload FROM log WHERE seq = ? AND kind = 'create_area'", area_id)
    if not rows:
        raise KeyError(area_id)
    return bytes(rows[0][0])


def area_boxes(db: ControlDb, area_id: int) -> MemberBoxes:
    """Return the boxes of an area's members; raise `KeyError` if it is unknown."""
    from stqsh.routing.query_routing import member_boxes  # shapely and pyarrow: only when needed
    from stqsh.spec.chunk import unpack

    return member_boxes(unpack(area_geometry(db, area_id)))


def queries_over_table(db: ControlDb, table_id: int) -> list[str]:
    """Return the names of the live queries that join a table."""
    first = "json_extract({0}, '$.join.table_id') = ?1"
    further = "SELECT 1 FROM json_each({0}, '$.join.further') AS later WHERE later.value ->> 'table_id' = ?1"
    joined = f"({first} OR EXISTS ({further}))"
    return _names_asking(db, joined, table_id)


def queries_over_area(db: ControlDb, area_id: int) -> list[str]:
    """Return the names of the live queries that use a region or a member of a set of regions."""
    asks = "EXISTS (SELECT 1 FROM json_each({}, '$.areas') AS used WHERE used.value = ?1)"
    return _names_asking(db, asks, area_id)


def approximate_topk(db: ControlDb) -> list[str]:
    """Return the names of the live queries with approximate TOPK."""
    return _names_asking(db, "coalesce(json_extract({}, '$.result.aggregates.error'), 0) > ?1", 0)


def _names_asking(db: ControlDb, asks: str, id_: int) -> list[str]:
    """Return the names of the live queries whose spec, or whose pattern's, satisfies an SQL condition."""
    alike = f"spec = '' AND pattern IN (SELECT id FROM patterns WHERE {asks.format('patterns.spec')})"
    sql = f"SELECT name FROM queries WHERE {LIVE} AND ({asks.format(_OWN)} OR {alike}) ORDER BY id"
    return [name for (name,) in db.query(sql, id_)]


def areas_made_from(db: ControlDb, area_id: int) -> list[str]:
    """Return the names of the live regions that were derived from another one."""
    sql = "SELECT name FROM areas WHERE dropped_seq IS NULL AND json_extract(spec, '$.area') = ? ORDER BY id"
    return [name for (name,) in db.query(sql, area_id)]


def live_queries(db: ControlDb, most: int = -1, names: str = "*") -> list[QueryRow]:
    """Return the last `most` live queries whose names match the glob `names`, in order of registration."""
    rows = db.query(f"{_QUERY} WHERE {LIVE} AND name GLOB ? ORDER BY id DESC LIMIT ?", names, most)
    return [_query(db, row) for row in reversed(rows)]


def large_queries(db: ControlDb, above: int) -> list[QueryRow]:
    """Return the live queries whose answers have more than `above` rows, the largest first."""
    found = []
    for bucket, content in db.query("SELECT bucket, content FROM sizes"):
        sizes = struct.unpack(f"<{len(content) // 4}I", content)
        for place, size in enumerate(sizes):
            if size > above:
                found += db.query(f"{_QUERY} WHERE {LIVE} AND id = ?", bucket * SIZES_A_BUCKET + place)
    return sorted((_query(db, row) for row in found), key=lambda query: (-query.size, query.id))


def count_queries(db: ControlDb, stream_id: int | None = None) -> int:
    """Count the live queries of one stream, or of all streams."""
    sql = f"SELECT count(*) FROM queries WHERE {LIVE} AND (?1 IS NULL OR stream_id = ?1)"
    return int(db.query(sql, stream_id)[0][0])


def owned_queries(db: ControlDb) -> list[QueryRow]:
    """Return the live queries that belong to a client (SUBSCRIBE) and are dropped when it leaves."""
    return [_query(db, row) for row in db.query(f"{_QUERY} WHERE {LIVE} AND owner IS NOT NULL ORDER BY id")]


def find_query(db: ControlDb, name: str) -> QueryRow | None:
    """Return the live query of that name, or else the last query that had the name."""

    def read() -> QueryRow | None:
        rows = db.query(f"{_QUERY} WHERE name = ? AND {LIVE}", name)
        rows = rows or db.query(f"{_QUERY} WHERE name = ? ORDER BY id DESC LIMIT 1", name)
        return _query(db, rows[0]) if rows else None

    return db.just_read(name, read)  # a statement looks up its name more than once


def live_queries_named(db: ControlDb, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return the id and the stream's id of the live queries among some hundred names, without their specs."""
    marks = ", ".join("?" * len(names))
    rows = db.query(f"SELECT name, id, stream_id FROM queries WHERE name IN ({marks}) AND {LIVE}", *names)
    return {name: (query_id, stream_id) for name, query_id, stream_id in rows}


def query_by_id(db: ControlDb, query_id: int) -> QueryRow:
    """Return a query in any state; raise `KeyError` for an unknown id."""
    rows = db.query(f"{_QUERY} WHERE id = ?", query_id)
    if not rows:
        raise KeyError(query_id)
    return _query(db, rows[0])


def query_now(db: ControlDb, query: QueryRow) -> QueryRow:
    """Return the current row of a query; a query that has been forgotten counts as dropped."""
    try:
        return query_by_id(db, query.id)
    except KeyError:
        return replace(query, state="dropped", size=0)


class _Read(dict[int, QueryRow]):
    """The rows of queries read so far, by id."""

    def __init__(self, db: ControlDb) -> None:
        self._db = db

    def __missing__(self, query_id: int) -> QueryRow:
        try:
            self[query_id] = found = query_by_id(self._db, query_id)
        except KeyError:
            raise LogCompactedError from None
        return found


class _Names(dict[int, str]):
    """The names of queries, by id."""

    def __missing__(self, query_id: int) -> str:
        raise LogCompactedError


class NameBook:
    """Queries and streams by id, for readers of the update log; reads each row once, on demand.

    It keeps the parts of a row that never change: name, stream and spec. `names` maps the ids of all queries
    to their names. A query stays known for as long as the log has updates of it; for one that has been
    forgotten since, both mappings raise `LogCompactedError`.
    """

    def __init__(self, db: ControlDb) -> None:
        self._db = db
        self.queries: dict[int, QueryRow] = _Read(db)
        self.names: dict[int, str] = _Names()
        self._most = _NAMES
        self._streams: dict[int, StreamRow] = {}

    def refresh(self) -> None:
        """Read the names of the queries that were registered since the last call."""
        newest = next(reversed(self.names), 0)
        self.names.update(self._db.query("SELECT id, name FROM queries WHERE id > ? ORDER BY id", newest))
        if len(self.names) > self._most:
            self.names.clear()
            self.names.update(self._db.query("SELECT id, name FROM queries ORDER BY id"))
            self.queries.clear()
            self._most = len(self.names) * 5 // 4 + _NAMES

    def stream(self, stream_id: int) -> StreamRow:
        """Return a stream by its id, dropped or not."""
        if stream_id not in self._streams:
            self._streams[stream_id] = stream_by_id(self._db, stream_id)
        return self._streams[stream_id]

    def key_of(self, stream_id: int) -> str:
        """Return the name of a stream's key column."""
        return self.stream(stream_id).spec.key

    def keeps_none(self, stream_id: int) -> bool:
        """Return whether a stream forgets its events at once, so that its queries have no answers."""
        return self.stream(stream_id).spec.keeps_none


def _query(db: ControlDb, row: tuple[Any, ...]) -> QueryRow:
    query_id, name, stream_id, spec, state, seq, size, *rest, pattern_id = row
    if isinstance(size, bytes):
        size = int.from_bytes(size, "little")
    content = (
        msgspec.json.decode(spec, type=QuerySpec) if spec else db.template_rows(pattern_id).spec(query_id)
    )
    return QueryRow(query_id, name, stream_id, content, state, seq, size, *rest)
