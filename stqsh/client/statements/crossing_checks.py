"""What is not supported on moving streams whose objects cross from one slot to another."""

from __future__ import annotations

from stqsh.client.statements.context import StatementContext
from stqsh.errors import NotSupportedError
from stqsh.spec.query import QuerySpec, find_kind
from stqsh.storage.catalogue import is_repartitioned, live_queries, stream_by_id
from stqsh.storage.rows import QueryRow, StreamRow

_CROSSING = "a moving stream that has been repartitioned, whose objects cross from slot to slot"


def check_register(desk: StatementContext, spec: QuerySpec) -> None:
    """Raise `NotSupportedError` for a new query that waits for objects where they may cross."""
    if spec.options.dwell_us and _has_crossing(desk, spec.stream_id):
        raise NotSupportedError(f"dwell on {_CROSSING}")


def check_pause(desk: StatementContext, query: QueryRow) -> None:
    """Raise `NotSupportedError` for a query of which slots remember what they sent, if objects may cross.

    Slots remember objects and not their rows, so a query with `changes` could not tell which have changed.
    """
    if query.spec.options.changes and not find_kind(query.spec.kind).is_resent:
        raise NotSupportedError("PAUSE QUERY of a query with changes")
    if not find_kind(query.spec.kind).is_resent and _has_crossing(desk, query.stream_id):
        raise NotSupportedError(f"PAUSE QUERY of objects on {_CROSSING}")


def check_queries(desk: StatementContext, stream: StreamRow, change: str) -> None:
    """Raise `NotSupportedError` for a change of the routing of a moving stream with such a query."""
    for query in live_queries(desk.link.db):
        if query.stream_id != stream.id:
            continue
        if query.spec.options.dwell_us:
            raise NotSupportedError(f"{change} on a moving stream with a query that has dwell: {query.name}")
        if query.state == "paused" and not find_kind(query.spec.kind).is_resent:
            raise NotSupportedError(f"{change} on a moving stream while a query is paused: {query.name}")


def _has_crossing(desk: StatementContext, stream_id: int) -> bool:
    """Return whether objects of a stream may cross: it is a moving one that has been repartitioned."""
    is_moving = not stream_by_id(desk.link.db, stream_id).spec.is_event
    return is_moving and is_repartitioned(desk.link.db, stream_id)
