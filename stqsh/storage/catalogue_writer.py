"""Statements that change a session: each adds a log row and updates the catalogue in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import msgspec
from msgspec.structs import replace

from stqsh.errors import StqshError
from stqsh.spec.expression import FunctionSpec
from stqsh.spec.log import (
    AreaDropped,
    QueryAltered,
    QueryChanged,
    QueryDropped,
    QueryPaused,
    QueryResumed,
    SettingChanged,
    StreamDropped,
    TableDropped,
)
from stqsh.spec.query import QuerySpec, slot_query
from stqsh.spec.stream import AreaSpec, StreamSpec, TableSpec
from stqsh.spec.view import ViewSpec
from stqsh.storage.catalogue import (
    ADDED_KINDS,
    FUNCTION_CHANGES,
    FUNCTIONS,
    VIEWS,
    added_kinds,
    areas_made_from,
    find_area,
    kind_named,
    known_functions,
    known_views,
    queries_over_area,
    queries_over_table,
    query_by_id,
)
from stqsh.storage.control_log import ControlDb, append, append_all, get_meta, set_meta, to_text
from stqsh.storage.layouts import LIVE
from stqsh.storage.rows import AreaRow, LogRow, QueryRow, QueryState, StreamRow, TableRow

QueryChange = Literal["drop", "pause_query", "resume_query"]
_STATE_AFTER: dict[QueryChange, QueryState] = {
    "drop": "dropped",
    "pause_query": "paused",
    "resume_query": "active",
}
_CHANGES: dict[QueryChange, type[QueryDropped | QueryPaused | QueryResumed]] = {
    "drop": QueryDropped,
    "pause_query": QueryPaused,
    "resume_query": QueryResumed,
}


class InUseError(StqshError):
    """An object cannot be dropped because something else needs it."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A query to register: its statement, its bound spec, and the process of a SUBSCRIBE."""

    text: str
    spec: QuerySpec
    owner: str | None = None


def add_function(db: ControlDb, spec: FunctionSpec) -> None:
    """Add a function, or replace the function of that name."""
    with db.transaction():
        _write_functions(db, known_functions(db) | {spec.name: spec})


def drop_function(db: ControlDb, text: str, spec: FunctionSpec) -> None:
    """Remove a function; queries and streams that were created with it keep their copy."""
    del text
    with db.transaction():
        others = {name: one for name, one in known_functions(db).items() if name != spec.name}
        _write_functions(db, others)


def _write_functions(db: ControlDb, functions: dict[str, FunctionSpec]) -> None:
    set_meta(db, FUNCTIONS, msgspec.json.encode(functions).decode())
    set_meta(db, FUNCTION_CHANGES, str(int(get_meta(db, FUNCTION_CHANGES) or "0") + 1))


def note_added_kind(db: ControlDb, kind: str) -> None:
    """Record that queries use a kind added by a package, which the engine needs from now on."""
    with db.transaction():
        known = added_kinds(db)
        if kind not in known:
            set_meta(db, ADDED_KINDS, msgspec.json.encode([*known, kind]).decode())


def create_view(db: ControlDb, spec: ViewSpec) -> None:
    """Add a view; raise `StqshError` if its name is in use. Running queries do not depend on views."""
    with db.transaction():
        check_free(db, spec.name)
        set_meta(db, VIEWS, msgspec.json.encode(known_views(db) | {spec.name: spec}).decode())


def drop_view(db: ControlDb, text: str, view: ViewSpec) -> None:
    """Remove a view; queries that were created with it do not change."""
    del text
    with db.transaction():
        others = {name: one for name, one in known_views(db).items() if name != view.name}
        set_meta(db, VIEWS, msgspec.json.encode(others).decode())


Spec = TypeVar("Spec", StreamSpec, TableSpec, AreaSpec)


def _entered(db: ControlDb, table: str, spec: Spec, text: str, payload: bytes | None = None) -> Spec:
    """Log a creation, add the object to its table of control.db, and return its spec with its id."""
    with db.transaction() as connection:
        check_free(db, spec.name)
        row = append(db, spec, text, payload)
        spec = replace(spec, id=row.seq)
        connection.execute(f"INSERT INTO {table} VALUES (?, ?, ?, NULL)", (row.seq, spec.name, to_text(spec)))
    return spec


def create_stream(db: ControlDb, text: str, spec: StreamSpec) -> StreamRow:
    """Log a CREATE STREAM and add the stream; raise `StqshError` if the name is in use."""
    spec = _entered(db, "streams", spec, text)
    return StreamRow(spec.id, spec.name, spec)


def drop_stream(db: ControlDb, text: str, stream: StreamRow) -> LogRow:
    """Log a DROP STREAM and remove the stream; raise `StqshError` while queries are bound to it."""
    with db.transaction() as connection:
        bound = db.query(f"SELECT name FROM queries WHERE stream_id = ? AND {LIVE} ORDER BY id", stream.id)
        _check_unused(f"stream {stream.name}", [name for (name,) in bound])
        row = append(db, StreamDropped(stream.id, stream.name), text)
        connection.execute("UPDATE streams SET dropped_seq = ? WHERE id = ?", (row.seq, stream.id))
    return row


def create_table(db: ControlDb, text: str, spec: TableSpec) -> TableRow:
    """Log a CREATE TABLE and add the table; raise `StqshError` if the name is in use."""
    spec = _entered(db, "tables", spec, text)
    return TableRow(spec.id, spec.name, spec)


def drop_table(db: ControlDb, text: str, table: TableRow) -> LogRow:
    """Log a DROP TABLE and remove the table; raise `StqshError` while queries join it."""
    with db.transaction() as connection:
        _check_unused(f"table {table.name}", queries_over_table(db, table.id))
        row = append(db, TableDropped(table.id, table.name), text)
        connection.execute("UPDATE tables SET dropped_seq = ? WHERE id = ?", (row.seq, table.id))
    return row


def create_area(db: ControlDb, text: str, spec: AreaSpec, geometry: bytes) -> AreaRow:
    """Log a CREATE REGION or REGIONS and add the region or set.

    `geometry` is a packed record batch [member, wkb].

    Raises:
        StqshError: the name is in use.
    """
    spec = _entered(db, "areas", spec, text, geometry)
    return AreaRow(spec.id, spec.name, spec)


def drop_area(db: ControlDb, text: str, area: AreaRow) -> LogRow:
    """Log a DROP REGION or REGIONS and remove it; raise `StqshError` while queries use it."""
    with db.transaction() as connection:
        _check_unused(f"{area.word} {area.name}", queries_over_area(db, area.id))
        made = areas_made_from(db, area.id)
        if made:  # a script that creates them again would not find this region
            raise InUseError(f"region {made[0]} is made from {area.name}", hint="drop it first")
        row = append(db, AreaDropped(area.id, area.name), text)
        connection.execute("UPDATE areas SET dropped_seq = ? WHERE id = ?", (row.seq, area.id))
    return row


def register(db: ControlDb, query: Registered) -> QueryRow:
    """Log a REGISTER QUERY and add the query.

    Raises:
        StqshError: the name is in use, or another client has since dropped what the query uses.
    """
    spec = query.spec
    with db.transaction(queries_only=True) as connection:
        check_free(db, spec.name)
        check_used(db, spec)
        row = append(db, spec, query.text)
        spec = replace(spec, id=row.seq)
        connection.execute(
            "INSERT INTO queries VALUES (?, ?, ?, ?, 'active', ?, 0, ?, ?, NULL)",
            (row.seq, spec.name, spec.stream_id, to_text(spec), row.seq, row.at_us, query.owner),
        )
    return QueryRow(row.seq, spec.name, spec.stream_id, spec, "active", row.seq, 0, row.at_us, query.owner)


def register_all(db: ControlDb, queries: Sequence[Registered]) -> None:
    """Log the REGISTER QUERY of several queries, whose names are free and differ, and add them.

    Raises:
        StqshError: another client has since dropped what a query uses.
    """
    with db.transaction(queries_only=True) as connection:
        for query in queries:
            check_used(db, query.spec)
        logged = append_all(db, [(query.text, query.spec) for query in queries])
        connection.executemany(
            "INSERT INTO queries VALUES (?, ?, ?, ?, 'active', ?, 0, ?, ?, NULL)",
            [
                (row.seq, query.spec.name, query.spec.stream_id, row.spec, row.seq, row.at_us, query.owner)
                for row, query in zip(logged, queries, strict=True)
            ],
        )


def change_query(db: ControlDb, kind: QueryChange, text: str, query: QueryRow) -> LogRow:
    """Log a DROP, PAUSE or RESUME of a query and record its new state.

    Raises:
        StqshError: another client has since dropped it, or it has ended.
    """
    with db.transaction(queries_only=True):
        return log_change(db, kind, text, QueryChanged(query.id, query.name, query.stream_id))


def log_change(db: ControlDb, kind: QueryChange, text: str, query: QueryChanged) -> LogRow:
    """Log a DROP, PAUSE or RESUME of a query in the open transaction, and record its state.

    Raises:
        StqshError: another client has since dropped it, or it has ended.
    """
    row = append(db, _CHANGES[kind](query.id, query.name, query.stream_id), text)
    changed = db.connection().execute(
        f"UPDATE queries SET state = ?, seq = ? WHERE id = ? AND {LIVE}",
        (_STATE_AFTER[kind], row.seq, query.id),
    )
    if not changed.rowcount:
        raise _not_registered(query.name)
    return row


def drop_queries(db: ControlDb, dropped: Sequence[tuple[str, QueryDropped]]) -> None:
    """Log the DROP of live queries, each with its text, and record their states."""
    with db.transaction(queries_only=True) as connection:
        logged = append_all(db, dropped)
        rows = [(row.seq, entry.id) for row, (_, entry) in zip(logged, dropped, strict=True)]
        connection.executemany("UPDATE queries SET state = 'dropped', seq = ? WHERE id = ?", rows)


def alter_query(db: ControlDb, text: str, query: QueryRow, spec: QuerySpec) -> LogRow:
    """Log an ALTER of a query and replace its spec.

    Raises:
        StqshError: another client has since dropped the query or what its region refers to, or it has ended.
    """
    with db.transaction(queries_only=True):
        _check_live(db, query)
        check_used(db, spec)
        return log_alteration(db, text, query_by_id(db, query.id), spec)


def log_alteration(db: ControlDb, text: str, query: QueryRow, spec: QuerySpec) -> LogRow:
    """Log an ALTER of a query that is live in the open transaction, as `query` says, and replace its spec."""
    before, paused = slot_query(query.spec), query.state == "paused"
    entry = QueryAltered(query.id, query.name, query.stream_id, query=spec, before=before, paused=paused)
    row = append(db, entry, text)
    db.connection().execute(
        "UPDATE queries SET spec = ?, seq = ? WHERE id = ?", (to_text(spec), row.seq, query.id)
    )
    return row


def drop_if_live(db: ControlDb, query: QueryRow) -> None:
    """Log a DROP of a query; do nothing if another client has since dropped it, or it has ended."""
    with db.transaction(queries_only=True):
        if _is_live(db, query):
            change_query(db, "drop", f"DROP QUERY {query.name};", query)


def _check_live(db: ControlDb, query: QueryRow) -> None:
    """Raise `StqshError` if a query has ended, or another client has dropped it."""
    if not _is_live(db, query):
        raise _not_registered(query.name)


def _not_registered(name: str) -> StqshError:
    return StqshError(
        f"query {name} is no longer registered",
        hint="it has ended, or another shell has dropped it; SHOW QUERIES lists all queries",
    )


def _is_live(db: ControlDb, query: QueryRow) -> bool:
    return bool(db.query(f"SELECT 1 FROM queries WHERE id = ? AND {LIVE}", query.id))


def set_value(db: ControlDb, text: str, key: str, value: object) -> LogRow:
    """Log a SET and record the value."""
    with db.transaction() as connection:
        row = append(db, SettingChanged(key, value), text)
        connection.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (key, to_text(value)))
    return row


def check_free(db: ControlDb, name: str) -> None:
    """Raise `StqshError` if a live stream, table, region or query has the name."""
    kind = kind_named(db, name)
    if kind is None:
        return
    area = find_area(db, name)
    if area is not None and area.spec.set:
        user = "a set of regions"
    else:
        user = "a sink or an alert" if kind in ("sink", "alert") else f"a {kind}"
    raise StqshError(f"the name {name} is in use by {user}", hint="choose another")


def _check_unused(what: str, queries: list[str]) -> None:
    if queries:
        names = ", ".join(queries[:5]) + (", …" if len(queries) > 5 else "")
        many = "1 query" if len(queries) == 1 else f"{len(queries)} queries"
        raise InUseError(f"{what} has {many}: {names}", hint=f"first DROP QUERY {queries[0]};")


def check_used(db: ControlDb, query: QuerySpec) -> None:
    """Raise `StqshError` if the stream, table or region of a bound query no longer exists."""
    wanted = [("streams", query.stream_id, "stream"), *(("areas", id_, "region") for id_ in query.areas)]
    wanted += [("tables", join.table_id, "table") for join in query.joins]
    for table, id_, word in wanted:
        if not _is_there(db, table, id_):
            raise StqshError(
                f"a {word} that query {query.name} asks about no longer exists",
                hint=f"another shell has dropped it; SHOW {word.upper()}S lists those that exist",
            )


def _is_there(db: ControlDb, table: str, id_: int) -> bool:
    sql = f"SELECT 1 FROM {table} WHERE id = ? AND dropped_seq IS NULL"
    return db.remembered((sql, id_), lambda: bool(db.query(sql, id_)))
