"""Bind ALTER QUERY: rebind the query's SELECT with another region (SOLE section 5.3)."""

from __future__ import annotations

from dataclasses import replace as with_fields

from msgspec.structs import replace

from stqsh.lang.ast.expressions import And, Inside, Region
from stqsh.lang.ast.statements import AlterQuery, Select
from stqsh.lang.binder.names import query_named
from stqsh.lang.binder.queries import continuous
from stqsh.lang.binder.regions import moves
from stqsh.lang.binder.views import placed
from stqsh.lang.catalogue import CatalogueView
from stqsh.lang.errors import BindError, NotSupportedError
from stqsh.lang.syntax.parse import parse
from stqsh.spec.expression import DistanceExpr, has_node
from stqsh.spec.query import BUILT_IN, QuerySpec
from stqsh.spec.region import NearestSpec
from stqsh.spec.stream import StreamSpec


def alter_query(statement: AlterQuery, catalogue: CatalogueView) -> QuerySpec:
    """Return the spec of a query with its new region, under its id and name.

    Only the region may differ, because other parts of the query may depend on it, as DISTANCE does.

    Raises:
        BindError: there is no such query, or its region has another form.
        NotSupportedError: more than the region would change.
    """
    if statement.where is not None:
        raise NotSupportedError(
            "ALTER QUERY … WHERE; drop the query and register it again", statement.name.span
        )
    query = query_named(statement.name, catalogue)
    unsupported = _unsupported(query, catalogue.stream(query.stream))
    if unsupported is not None:
        raise NotSupportedError(unsupported, statement.name.span)
    [parsed] = parse(query.text)
    assert isinstance(parsed, Select), "a query's text is its SELECT"
    before: Select = placed(parsed, statement.name.span)
    was, now = continuous(before, catalogue), continuous(_altered(statement, before), catalogue)
    if replace(now, region=was.region, text=was.text, areas=was.areas) != was or _neighbours(
        now
    ) != _neighbours(was):
        raise NotSupportedError(
            "ALTER QUERY with a region by which the query means something else: another k, over the 180th"
            " meridian, or with DISTANCE from something else",
            statement.name.span,
        )
    return replace(query, region=now.region, text=now.text, areas=now.areas)


def _unsupported(query: QuerySpec, stream: StreamSpec | None) -> str | None:
    """Return which kind, stream or option of a query is incompatible with ALTER; None if none is."""
    if query.kind not in BUILT_IN:
        return f"ALTER QUERY of a query of the kind {query.kind}"
    if stream is not None and stream.is_significant:
        return "ALTER QUERY over a stream with RETAIN SIGNIFICANT"
    values = [one.value for one in query.select]
    values += [] if query.top_n is None else [one.value for one in query.top_n.order]
    if query.options.changes and any(has_node(value, DistanceExpr) for value in values):
        return "ALTER QUERY of a query with changes => true that selects DISTANCE"
    return None


def altered(query: QuerySpec, new: QuerySpec, stream: StreamSpec) -> QuerySpec | None:
    """Return a query with the region of another one, under its id; None if more than the region differs.

    Both have the same template, so that a region of the same form means the same for the rest.
    """
    changed = replace(query, region=new.region, text=new.text, areas=new.areas)
    same = replace(new, id=query.id, name=query.name) == changed and _neighbours(new) == _neighbours(query)
    return changed if same and _unsupported(query, stream) is None else None


def _neighbours(query: QuerySpec) -> int | None:
    return query.region.k if isinstance(query.region, NearestSpec) else None


def _altered(statement: AlterQuery, select: Select) -> Select:
    """Return a query's SELECT with its region replaced by the new one."""
    place = statement.name.span
    if statement.nearest is not None:
        if select.nearest is None:
            raise BindError(
                f"query {statement.name.text} has no NEAREST", place, hint="ALTER QUERY … INSIDE region"
            )
        return with_fields(select, nearest=statement.nearest)
    assert statement.region is not None, "the grammar has one of both"
    if select.nearest is not None:
        hint = "ALTER QUERY … NEAREST k TO place"
        raise BindError(
            f"query {statement.name.text} looks for the nearest, not inside a region", place, hint=hint
        )
    if select.region is not None:
        return with_fields(select, region=statement.region)
    if select.intersects is not None:
        return with_fields(select, intersects=statement.region)
    return with_fields(select, where=_replaced(statement, select, statement.region))


def _replaced(statement: AlterQuery, select: Select, region: Region) -> And | Inside:
    """Return a query's condition with the region of `loc INSIDE …` replaced."""
    parts = select.where.parts if isinstance(select.where, And) else (select.where,)
    insides = [part for part in parts if isinstance(part, Inside)]
    if not insides:
        raise BindError(
            f"query {statement.name.text} has no region",
            statement.name.span,
            hint="it sees all objects; drop it and register one with INSIDE",
        )
    chosen = next((part for part in insides if moves(part.region)), insides[0])
    inside = with_fields(chosen, region=region)
    if not isinstance(select.where, And):
        return inside
    return with_fields(
        select.where, parts=tuple(inside if part is chosen else part for part in select.where.parts)
    )
