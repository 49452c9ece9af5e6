"""Bind ALTER QUERY: bind the query's SELECT again with other clauses (SOLE section 5.3)."""

from __future__ import annotations

from dataclasses import replace as with_fields

from msgspec.structs import replace

from stqsh.lang.ast.expressions import And, Expression, Inside
from stqsh.lang.ast.source import Span
from stqsh.lang.ast.statements import AlterQuery, Select
from stqsh.lang.binder.names import query_named
from stqsh.lang.binder.queries import continuous
from stqsh.lang.binder.regions import moves
from stqsh.lang.binder.views import placed
from stqsh.lang.catalogue import CatalogueView
from stqsh.lang.errors import BindError, NotSupportedError
from stqsh.lang.syntax.parse import parse
from stqsh.spec.expression import DistanceExpr, changes_always, has_node
from stqsh.spec.query import BUILT_IN, QuerySpec, with_members
from stqsh.spec.stream import StreamSpec


def alter_query(statement: AlterQuery, catalogue: CatalogueView) -> QuerySpec:
    """Return the spec of a query with its new region, neighbours or condition, under its id and name.

    Nothing else may differ, because other parts of the query may depend on it, as DISTANCE does.

    Raises:
        BindError: there is no such query, or it has no NEAREST to change.
        NotSupportedError: more would change.
    """
    query = query_named(statement.name, catalogue)
    before = query_select(query, statement.name.span)
    was, now = continuous(before, catalogue), continuous(_altered(statement, before), catalogue)
    unsupported = _unsupported(query, now, catalogue.stream(query.stream))
    if unsupported is None and _in_form_of(now, was) != was:
        unsupported = "ALTER QUERY by which DISTANCE means something else, or the query as a whole does"
        if changes_always(was.condition) != changes_always(now.condition):
            unsupported = "ALTER QUERY by which NOW changes a condition in each step, or no longer does"
    if unsupported is not None:
        raise NotSupportedError(unsupported, _place(statement))
    return _in_form_of(query, now)


def altered(query: QuerySpec, new: QuerySpec, stream: StreamSpec) -> QuerySpec | None:
    """Return a query in the form of another one, under its id; None if ALTER cannot make it so.

    Both have the same template, so that regions, neighbours and conditions mean the same for the rest.
    """
    changed = _in_form_of(query, new)
    same = replace(new, id=query.id, name=query.name) == changed
    return changed if same and _unsupported(query, new, stream) is None else None


def query_select(query: QuerySpec, place: Span) -> Select:
    """Return the SELECT of a registered query, with all of its parts at a place in another statement."""
    [parsed] = parse(query.text)
    assert isinstance(parsed, Select), "a query's text is its SELECT"
    found: Select = placed(parsed, place)
    return found


def _in_form_of(query: QuerySpec, other: QuerySpec) -> QuerySpec:
    """Return a query with what ALTER changes as in another one."""
    changed = with_members(query, region=other.region, condition=other.condition)
    return replace(changed, text=other.text, areas=other.areas)


def _unsupported(query: QuerySpec, new: QuerySpec, stream: StreamSpec | None) -> str | None:
    """Return which kind, stream or option of a query is incompatible with ALTER; None if none is."""
    if query.kind not in BUILT_IN:
        return f"ALTER QUERY of a query of the kind {query.kind}"
    if stream is not None and stream.is_significant:
        return "ALTER QUERY over a stream with RETAIN SIGNIFICANT"
    reads_distance = any(has_node(value, DistanceExpr) for value in query.result.of_rows)
    if query.timing.changes and reads_distance and new.region != query.region:
        return "another region of a query with changes => true that selects DISTANCE"
    return None


def _place(statement: AlterQuery) -> Span:
    """Return where the statement says what changes."""
    clauses = (statement.region, statement.nearest, statement.where)
    return next(clause.span for clause in clauses if clause is not None)


def _altered(statement: AlterQuery, select: Select) -> Select:
    """Return a query's SELECT with the clauses of the statement in place of its own.

    The new WHERE replaces the whole WHERE; but the query's region, if it is written there, stays unless the
    statement has another one.
    """
    if statement.nearest is not None:
        if select.nearest is None:
            message = f"query {statement.name.text} has no NEAREST"
            raise BindError(message, statement.name.span, hint="ALTER QUERY … INSIDE region")
        select = with_fields(select, nearest=statement.nearest)
    region, where = statement.region, statement.where
    in_where = None if select.region is not None else _region_in(select.where)
    if where is not None:
        is_lost = region is None and select.nearest is None and _region_in(where) is None
        if is_lost and in_where is not None:
            parts = where.parts if isinstance(where, And) else (where,)
            where = And((in_where, *parts), span=where.span)
        return with_fields(select, where=where, region=region or select.region)
    if region is None:
        return select
    if in_where is None:
        return with_fields(select, region=region)
    return with_fields(select, where=_exchanged(select.where, in_where, with_fields(in_where, region=region)))


def _region_in(where: Expression | None) -> Inside | None:
    """Return the part `loc INSIDE …` of a condition that is its query's region; None if there is none."""
    parts = where.parts if isinstance(where, And) else (where,)
    insides = [part for part in parts if isinstance(part, Inside)]
    return next((part for part in insides if moves(part.region)), insides[0] if insides else None)


def _exchanged(where: Expression | None, old: Inside, new: Inside) -> Expression:
    """Return a condition with one of its parts replaced."""
    if not isinstance(where, And):
        return new
    return with_fields(where, parts=tuple(new if part is old else part for part in where.parts))
