"""DROP of any named object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from shutil import rmtree
from typing import Any

from stqsh.client.results import Message, Outcome
from stqsh.client.statements.context import StatementContext
from stqsh.errors import StqshError
from stqsh.lang.ast import statements
from stqsh.lang.ast.expressions import Name
from stqsh.lang.binder.bind import bind
from stqsh.lang.errors import BindError
from stqsh.lang.printer.printer import to_sql
from stqsh.lang.printer.values import identifier
from stqsh.name_patterns import glob_of
from stqsh.spec.log import QueryDropped
from stqsh.storage import catalogue_writer
from stqsh.storage.catalogue import (
    find_area,
    find_function,
    find_query,
    find_stream,
    find_table,
    find_view,
    known_functions,
    known_views,
    live_areas,
    live_queries,
    live_queries_named,
    live_streams,
    live_tables,
)
from stqsh.storage.control_log import ControlDb
from stqsh.storage.queries.query_streams import (
    QueryStreamRow,
    check_streams_unused,
    count_streamed,
    drop_query_stream,
    find_query_stream,
)
from stqsh.storage.rows import AreaRow, LogRow, QueryRow, SinkRow
from stqsh.storage.sinks.sink_catalogue import (
    drop_sink,
    find_alert,
    find_sink,
    live_alerts,
    live_sinks,
    written_sinks,
)
from stqsh.storage.update_log.leases import release_sink

_NAMED = 12
"""The maximum number of names that a message lists."""
_LIVE: dict[str, Callable[[ControlDb], Iterable[str]]] = {
    "STREAM": lambda db: [one.name for one in live_streams(db)],
    "TABLE": lambda db: [one.name for one in live_tables(db)],
    "REGION": lambda db: [one.name for one in live_areas(db)],
    "VIEW": known_views,
    "FUNCTION": known_functions,
    "QUERY": lambda db: [one.name for one in live_queries(db)],
    "SINK": lambda db: [one.name for one in written_sinks(db)],
    "ALERT": lambda db: [one.name for one in live_alerts(db)],
}
"""Returns all names of a kind."""
_USED_AS = {"STREAM": "stream", "TABLE": "table", "REGION": "region", "REGIONS": "region"}
"""What query streams may use, by the word of its DROP."""


def drop(context: StatementContext, statement: statements.Drop) -> Iterator[Outcome]:
    """Execute DROP of named objects: drop all of the names, or none.

    Raises:
        StqshError: live queries need one of them.
    """
    bind(statement, context.view)
    db, word = context.connection.db, statement.kind.lower()
    dropped: list[object] = []
    remarks: list[str] = []
    folders: list[Path] = []
    names: list[str] = []
    missing: list[str] = []
    find, change = _DROPS[statement.kind]
    with db.transaction(queries_only=True):  # what else it changes, transactions within it do
        for name in _fitting(context, statement):
            found = find(db, name.text)
            if found is None and not statement.if_exists:
                raise StqshError(f"there is no {word} {name.text}", hint="another shell has just dropped it")
            if found is None:
                missing.append(name.text)
                continue
            if statement.kind in _USED_AS:
                check_streams_unused(db, _USED_AS[statement.kind], name.text, found.id)
            if isinstance(found, QueryStreamRow):
                remarks.append(_streamed_remark(count_streamed(db, found.id)))
                folders.append(context.connection.home.stream(found.id))
            one = statements.Drop(_kind_of(found, statement.kind), (name,), statement.if_exists)
            try:
                change(db, f"{to_sql(one)};", found)
            except catalogue_writer.InUseError as error:
                span, piece = name.span, statement.piece
                raise BindError(error.message, span, hint=error.hint, piece=piece) from error
            dropped.append(found)
            names.append(name.text)
    for folder in folders:
        rmtree(folder, ignore_errors=True)
    context.connection.wake()
    for absent in missing:
        yield Message(f"there is no {word} {absent}")
    if names:
        remarks += [_remark(context, found) for found in dropped]
        is_as_typed = len(names) == 1 or word in ("regions", "queries")
        plural = word if is_as_typed else statements.PLURALS[statement.kind].lower()
        yield Message(f"{plural} {_listed(names)} dropped{''.join(dict.fromkeys(remarks))}")
    elif statement.like is not None:
        plural = statements.PLURALS[statement.kind].lower()
        yield Message(f"no {plural} are like {to_sql(statement).rpartition(' LIKE ')[2]}")


def drops_one_query(statement: statements.Statement) -> bool:
    """Return whether a statement drops the query of one name, which has to be there."""
    return (
        isinstance(statement, statements.Drop)
        and (statement.kind, len(statement.names)) == ("QUERY", 1)
        and not (statement.if_exists or statement.like)
    )


def drop_alike(context: StatementContext, group: Sequence[statements.Statement]) -> list[Outcome]:
    """Drop the queries of the first of some statements with a few calls of SQLite for all.

    Args:
        context: the client.
        group: statements that `drops_one_query` accepts.

    Returns:
        One message for each statement executed; empty if the first fails or may have a remark, so that it has
        to be executed by itself.
    """
    db = context.connection.db
    if live_sinks(db):
        return []
    names = [statement.names[0].text for statement in group if isinstance(statement, statements.Drop)]
    found = live_queries_named(db, names)
    entries: list[QueryDropped] = []
    for name in names:
        known = found.pop(name, None)  # a name that comes twice is not there the second time
        if known is None:
            break
        entries.append(QueryDropped(known[0], name, known[1]))
    catalogue_writer.drop_queries(db, [(f"DROP QUERY {identifier(entry.name)};", entry) for entry in entries])
    context.connection.wake()
    return [Message(f"query {entry.name} dropped") for entry in entries]


def _fitting(context: StatementContext, statement: statements.Drop) -> Iterable[Name]:
    """Return the names to drop, each once."""
    if statement.like is None:
        return {name.text: name for name in statement.names}.values()
    glob, span = glob_of(str(statement.like.value)), statement.like.span
    return [
        Name(name, span=span)
        for name in _LIVE[statement.kind](context.connection.db)
        if fnmatchcase(name, glob)
    ]


def _kind_of(found: object, kind: statements.ObjectKind) -> statements.ObjectKind:
    """Return the word for the dropped object: a pattern matches both single regions and sets of regions."""
    return "REGIONS" if isinstance(found, AreaRow) and found.spec.set else kind


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _remark(context: StatementContext, found: object) -> str:
    """Release the log kept for a dropped sink; return a remark on what the DROP leaves behind."""
    if isinstance(found, SinkRow):
        release_sink(context.connection.home, found.id)
        return "" if found.spec.is_alert else "; what it has not written yet is not written"
    if not isinstance(found, QueryRow):
        return ""
    reading = [sink for sink in live_sinks(context.connection.db) if found.name in sink.spec.queries]
    names = [f"{'alert' if sink.spec.is_alert else 'sink'} {sink.name}" for sink in reading]

    on = "goes on" if len(names) == 1 else "go on"
    return f"; {', '.join(names)} {on} with the next query of this name" if names else ""


def _streamed_remark(count: int) -> str:
    """Return a remark on the queries that a query stream takes with it."""
    if not count:
        return ""
    return "; its query is dropped with it" if count == 1 else f"; its {count:,} queries are dropped with it"


def _find_live_query(db: ControlDb, name: str) -> QueryRow | None:
    query = find_query(db, name)
    return query if query is not None and query.live else None


def _drop_query(db: ControlDb, text: str, query: QueryRow) -> LogRow:
    return catalogue_writer.change_query(db, "drop", text, query)


_DROPS: dict[str, tuple[Callable[[ControlDb, str], Any], Callable[[ControlDb, str, Any], LogRow | None]]] = {
    "STREAM": (find_stream, catalogue_writer.drop_stream),
    "TABLE": (find_table, catalogue_writer.drop_table),
    "REGION": (find_area, catalogue_writer.drop_area),
    "REGIONS": (find_area, catalogue_writer.drop_area),
    "QUERY": (_find_live_query, _drop_query),
    "QUERIES": (find_query_stream, drop_query_stream),
    "SINK": (find_sink, drop_sink),
    "ALERT": (find_alert, drop_sink),
    "VIEW": (find_view, catalogue_writer.drop_view),
    "FUNCTION": (find_function, catalogue_writer.drop_function),
}
