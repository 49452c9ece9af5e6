"""Bind SELECT to a QuerySpec, for snapshots, REGISTER QUERY, SUBSCRIBE and EXPLAIN."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from stqsh.errors import NotSupportedError
from stqsh.lang.ast.expressions import Column, Expression, Inside, Region
from stqsh.lang.ast.statements import Explain, RegisterQueries, RegisterQuery, Select
from stqsh.lang.binder.conditions import check_location, condition
from stqsh.lang.binder.joins import FromClause, from_clause, has_row
from stqsh.lang.binder.literals import duration_us
from stqsh.lang.binder.names import check_free, query_named
from stqsh.lang.binder.parameters import typed
from stqsh.lang.binder.query_options import query_options
from stqsh.lang.binder.regions import bound_nearest, bound_region, moves
from stqsh.lang.binder.scope import NO_CENTRE, NOT_IN_WHERE, Scope
from stqsh.lang.binder.selects import Outputs, ordering, select_list
from stqsh.lang.binder.unsupported import CONTINUOUS_RULES, QUERY_RULES, REGISTER_RULES, check, counts
from stqsh.lang.catalogue import CatalogueView
from stqsh.lang.errors import BindError
from stqsh.lang.printer.printer import to_sql
from stqsh.spec.expression import (
    ColumnExpr,
    CompareExpr,
    Expr,
    InsideExpr,
    LiteralExpr,
    conjunction,
    conjuncts,
    find_nodes,
    has_node,
)
from stqsh.spec.query import JoinSpec, QuerySpec, SelectColumn, SnapshotSpec, kind_of_region
from stqsh.spec.region import EVERYWHERE, Key, NamedRegionSpec
from stqsh.spec.region import Region as BoundRegion

_LOCATION = Column("loc")


class Explained(msgspec.Struct, frozen=True):
    """A registered query to explain, and whether its measured cost is wanted too."""

    query: QuerySpec
    analyze: bool


class _Query(NamedTuple):
    """The spec of a snapshot or continuous query, and the scope of its select list."""

    spec: QuerySpec
    scope: Scope


def register(query: RegisterQuery, catalogue: CatalogueView) -> QuerySpec:
    """Return the spec of a REGISTER QUERY, without its id. Raises `BindError` and `NotSupportedError`."""
    check(REGISTER_RULES, query)
    check_free(query.name, catalogue)
    return replace(_registered(query, query.select, catalogue), name=query.name.text)


def register_queries(
    queries: RegisterQueries, catalogue: CatalogueView, columns: Mapping[str, str]
) -> QuerySpec:
    """Return the spec that all queries of a REGISTER QUERIES share, with a `Hole` for each parameter.

    `columns` are the types of the rows' columns by name. Raises `BindError` and `NotSupportedError`.
    """
    check(REGISTER_RULES, queries)
    return _registered(queries, typed(queries.select, columns), catalogue)


def _registered(
    query: RegisterQuery | RegisterQueries, select: Select, catalogue: CatalogueView
) -> QuerySpec:
    spec = continuous(select, catalogue)
    for_us = None if query.duration is None else duration_us(query.duration, "FOR")
    kind, options = query_options(query, spec.kind)
    return replace(spec, for_us=for_us, kind=kind, options=options)


def continuous(select: Select, catalogue: CatalogueView) -> QuerySpec:
    """Return the spec of a continuous SELECT, without its id and with an empty name."""
    check(QUERY_RULES, select)
    check(CONTINUOUS_RULES, select)
    query = _query(select, catalogue)
    outputs = _outputs(select, query.scope)
    return replace(query.spec, select=_listed(outputs))


def snapshot(select: Select, catalogue: CatalogueView) -> SnapshotSpec:
    """Return the spec of a SELECT that answers once."""
    check(QUERY_RULES, select)
    query = _query(select, catalogue)
    bound = query.spec
    spec = SnapshotSpec(
        stream=bound.stream,
        stream_id=bound.stream_id,
        text=bound.text,
        kind=bound.kind,
        region=bound.region,
        condition=bound.condition,
        join=bound.join,
        areas=bound.areas,
        lookup=_lookup(bound.condition, query.scope.stream.key),
        limit=select.limit,
    )
    if counts(select):
        [item] = select.items
        if select.order_by:
            raise BindError("COUNT(*) gives one row, and takes no ORDER BY", select.order_by[0].span)
        return replace(spec, aggregate="count", output=item.alias or "count")
    outputs = _outputs(select, query.scope)
    order = ordering(select.order_by, dataclasses.replace(query.scope, outputs=outputs))
    return replace(spec, select=_listed(outputs), order=order)


def explained(statement: Explain, catalogue: CatalogueView) -> Explained | SnapshotSpec:
    """Return what an EXPLAIN explains; for a SELECT, its spec as a snapshot."""
    if statement.query is not None:
        return Explained(query_named(statement.query, catalogue), statement.analyze)
    assert statement.select is not None
    return snapshot(statement.select, catalogue)


def _query(select: Select, catalogue: CatalogueView) -> _Query:
    source = from_clause(select, catalogue)
    rest, region = _placed(select, source)
    place: BoundRegion = EVERYWHERE
    if select.nearest is not None:
        place = bound_nearest(select.nearest, source.stream)
    elif region is not None:
        place = bound_region(region, source.stream, catalogue)
    scope = Scope(source.stream, source.qualifiers, catalogue, source.joined, no_distance=NOT_IN_WHERE)
    conditions = [condition(part, scope) for part in rest]
    join: JoinSpec | None = None
    if source.joined is not None:
        conditions.append(has_row(source.joined))
        table = source.joined.table
        join = JoinSpec(table.name, table.id, table.key, source.joined.column)
    bound = conjunction(conditions)
    spec = QuerySpec(
        stream=source.stream.name,
        stream_id=source.stream.id,
        text=to_sql(select),
        kind=kind_of_region(place).name,
        region=place,
        condition=bound,
        join=join,
        areas=_areas(place, bound),
    )
    centre = None if place.has_centre else NO_CENTRE
    return _Query(spec, dataclasses.replace(scope, no_distance=centre))


def _placed(select: Select, source: FromClause) -> tuple[list[Expression], Region | None]:
    """Return the remaining conditions, and the query's region, taken out of them.

    A moving region comes first, since only a query's region can move; then that of the INSIDE clause; then
    the first `loc INSIDE …` that AND joins. Beside NEAREST, all of them are conditions.
    """
    conditions = list(source.conditions)
    if select.region is not None:
        conditions.insert(0, Inside(_LOCATION, select.region, span=select.region.span))
    insides = [part for part in conditions if isinstance(part, Inside)]
    for part in insides:
        check_location(part)
    if not insides or select.nearest is not None:
        return conditions, None
    chosen = next((part for part in insides if moves(part.region)), insides[0])
    return [part for part in conditions if part is not chosen], chosen.region


def _outputs(select: Select, scope: Scope) -> Outputs:
    outputs = select_list(select.items, scope)
    if any(has_node(typed.expr, InsideExpr) for typed in outputs.values()):
        raise NotSupportedError("INSIDE in a select list")
    return outputs


def _listed(outputs: Outputs) -> tuple[SelectColumn, ...]:
    return tuple(SelectColumn(name, typed.expr) for name, typed in outputs.items())


def _lookup(bound: Expr | None, key: str) -> Key | None:
    """Return the constant that the key must equal, if a condition joined by AND says so."""
    for part in conjuncts(bound):
        match part:
            case CompareExpr("=", ColumnExpr(column), LiteralExpr(str() | int() as value)) | CompareExpr(
                "=", LiteralExpr(str() | int() as value), ColumnExpr(column)
            ) if column == key:
                return value
    return None


def _areas(place: BoundRegion, condition: Expr | None) -> tuple[int, ...]:
    """Return the ids of the named regions in a query's region and condition, ascending."""
    regions = [place, *(node.region for node in find_nodes(condition, InsideExpr))]
    return tuple(sorted({region.area for region in regions if isinstance(region, NamedRegionSpec)}))
