"""DROP of anything that has a name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from stqsh.client.results import Message, Outcome
from stqsh.client.statements.context import StatementContext
from stqsh.errors import StqshError
from stqsh.lang.ast import statements
from stqsh.lang.binder.bind import bind
from stqsh.lang.errors import BindError
from stqsh.lang.printer.printer import to_sql
from stqsh.storage import catalogue_writer
from stqsh.storage.catalogue import find_area, find_query, find_stream, find_table
from stqsh.storage.control_log import ControlDb
from stqsh.storage.rows import LogRow, QueryRow, SinkRow
from stqsh.storage.sinks.sink_catalogue import drop_sink, find_alert, find_sink, live_sinks
from stqsh.storage.update_log.leases import release_sink


def drop(desk: StatementContext, statement: statements.Drop) -> Iterator[Outcome]:
    """Execute DROP STREAM | TABLE | REGION | REGIONS | QUERY | SINK | ALERT.

    Raises:
        StqshError: live queries need it.
    """
    bound = bind(statement, desk.view)
    word, name, db = statement.kind.lower(), statement.name.text, desk.link.db
    if bound.spec is None:
        yield Message(f"there is no {word} {name}")
        return
    find, change = _DROPS[statement.kind]
    with db.transaction():
        found = find(db, name)
        if found is None:
            raise StqshError(f"there is no {word} {name}", hint="another shell has just dropped it")
        try:
            change(db, f"{to_sql(statement)};", found)
        except catalogue_writer.InUseError as error:
            span, piece = statement.name.span, statement.piece
            raise BindError(error.message, span, hint=error.hint, piece=piece) from error
    desk.link.wake()
    yield Message(f"{word} {name} dropped{_remark(desk, found)}")


def _remark(desk: StatementContext, found: object) -> str:
    """Release what was kept for a sink; say which sinks and alerts go on with a query's name."""
    if isinstance(found, SinkRow):
        release_sink(desk.link.home, found.id)
        return "" if found.spec.is_alert else "; what it has not written yet is not written"
    if not isinstance(found, QueryRow):
        return ""
    reading = [sink for sink in live_sinks(desk.link.db) if found.name in sink.spec.queries]
    names = [f"{'alert' if sink.spec.is_alert else 'sink'} {sink.name}" for sink in reading]

    on = "goes on" if len(names) == 1 else "go on"
    return f"; {', '.join(names)} {on} with the next query of this name" if names else ""


def _find_live_query(db: ControlDb, name: str) -> QueryRow | None:
    query = find_query(db, name)
    return query if query is not None and query.live else None


def _drop_query(db: ControlDb, text: str, query: QueryRow) -> LogRow:
    return catalogue_writer.change_query(db, "drop", text, query)


_DROPS: dict[str, tuple[Callable[[ControlDb, str], Any], Callable[[ControlDb, str, Any], LogRow]]] = {
    "STREAM": (find_stream, catalogue_writer.drop_stream),
    "TABLE": (find_table, catalogue_writer.drop_table),
    "REGION": (find_area, catalogue_writer.drop_area),
    "REGIONS": (find_area, catalogue_writer.drop_area),
    "QUERY": (_find_live_query, _drop_query),
    "SINK": (find_sink, drop_sink),
    "ALERT": (find_alert, drop_sink),
}
