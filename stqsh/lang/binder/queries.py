"""SELECT to a QuerySpec: snapshots, REGISTER QUERY, SUBSCRIBE and EXPLAIN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from stqsh.errors import NotSupportedError
from stqsh.lang.ast.expressions import Column, Expression, Inside, Region
from stqsh.lang.ast.statements import Explain, RegisterQueries, RegisterQuery, Select
from stqsh.lang.binder.conditions import all_of, check_location, condition
from stqsh.lang.binder.joins import FromClause, from_clause, has_row
from stqsh.lang.binder.literals import duration_us
from stqsh.lang.binder.names import check_free, query_named
from stqsh.lang.binder.options import query_options
from stqsh.lang.binder.parameters import typed
from stqsh.lang.binder.regions import EVERYWHERE, MEASURED, bound_nearest, bound_region, moves
from stqsh.lang.binder.scope import NO_CENTRE, NOT_IN_WHERE, Expr, Scope
from stqsh.lang.binder.selects import Outputs, ordering, select_list
from stqsh.lang.binder.unsupported import CONTINUOUS_RULES, QUERY_RULES, REGISTER_RULES, check, counts
from stqsh.lang.catalogue import CatalogueView, Spec
from stqsh.lang.errors import BindError
from stqsh.lang.printer.printer import to_sql

_LOCATION = Column("loc")


class _Query(NamedTuple):
    """What snapshots and continuous queries have in common: the spec, and the scope of its select list."""

    spec: Spec
    scope: Scope


def register(query: RegisterQuery, catalogue: CatalogueView) -> Spec:
    """The QuerySpec of a REGISTER QUERY, without its id. Raises `BindError` and `NotSupportedError`."""
    check(REGISTER_RULES, query)
    check_free(query.name, catalogue)
    return {**_registered(query, query.select, catalogue), "name": query.name.text}


def register_queries(queries: RegisterQueries, catalogue: CatalogueView, columns: Mapping[str, str]) -> Spec:
    """The QuerySpec that the queries of a REGISTER QUERIES share, with a `Hole` for each of its parameters.

    `columns` are the types of the rows' columns by name. Raises `BindError` and `NotSupportedError`.
    """
    check(REGISTER_RULES, queries)
    return _registered(queries, typed(queries.select, columns), catalogue)


def _registered(query: RegisterQuery | RegisterQueries, select: Select, catalogue: CatalogueView) -> Spec:
    spec = continuous(select, catalogue)
    for_us = None if query.duration is None else duration_us(query.duration, "FOR")
    kind, options = query_options(query, spec["kind"])
    return {**spec, "for_us": for_us, "kind": kind, "options": options}


def continuous(select: Select, catalogue: CatalogueView) -> Spec:
    """The QuerySpec of a continuous SELECT, without its id and with an empty name."""
    check(QUERY_RULES, select)
    check(CONTINUOUS_RULES, select)
    query = _query(select, catalogue)
    outputs = _outputs(select, query.scope)
    return {**query.spec, "select": _listed(outputs), "name": "", "for_us": None, "options": {}}


def snapshot(select: Select, catalogue: CatalogueView) -> Spec:
    """The spec of a SELECT that answers once."""
    check(QUERY_RULES, select)
    query = _query(select, catalogue)
    spec = {**query.spec, "lookup": _lookup(query.spec["condition"], query.scope.stream.key)}
    if counts(select):
        [item] = select.items
        if select.order_by:
            raise BindError("COUNT(*) gives one row, and takes no ORDER BY", select.order_by[0].span)
        return {**spec, "select": [], "aggregate": "count", "output": item.alias or "count",
                "order": [], "limit": select.limit}  # fmt: skip
    outputs = _outputs(select, query.scope)
    order = ordering(select.order_by, replace(query.scope, outputs=outputs))
    return {**spec, "select": _listed(outputs), "aggregate": None, "order": order, "limit": select.limit}


def explained(statement: Explain, catalogue: CatalogueView) -> Spec:
    """What an EXPLAIN is about.

    Of a SELECT: its spec as a snapshot, of which the spec of a continuous query is a part. Of a registered
    query: {"query": its QuerySpec, "analyze": whether what it has cost is to be shown}.
    """
    if statement.query is not None:
        return {"query": query_named(statement.query, catalogue), "analyze": statement.analyze}
    assert statement.select is not None
    return snapshot(statement.select, catalogue)


def _query(select: Select, catalogue: CatalogueView) -> _Query:
    source = from_clause(select, catalogue)
    rest, region = _placed(select, source)
    kind = "range" if select.nearest is None else "nearest"
    if select.nearest is not None:
        place = bound_nearest(select.nearest, source.stream)
    else:
        place = EVERYWHERE if region is None else bound_region(region, source.stream, catalogue)
    scope = Scope(source.stream, source.qualifiers, catalogue, source.joined, no_distance=NOT_IN_WHERE)
    conditions = [condition(part, scope) for part in rest]
    join: Spec | None = None
    if source.joined is not None:
        conditions.append(has_row(source.joined))
        table = source.joined.table
        join = {"table": table.name, "table_id": table.id, "key": table.key,
                "column": source.joined.column}  # fmt: skip
    bound = all_of(conditions)
    spec = {
        "stream": source.stream.name,
        "stream_id": source.stream.id,
        "text": to_sql(select),
        "kind": kind,
        "region": place,
        "condition": bound,
        "join": join,
        "areas": sorted(_areas([place, bound])),
    }
    centre = None if place["type"] in MEASURED else NO_CENTRE
    return _Query(spec, replace(scope, no_distance=centre))


def _placed(select: Select, source: FromClause) -> tuple[list[Expression], Region | None]:
    """The conditions that stay, and the query's region, taken out of them.

    The region is the one that moves, as only a query's region can; else that of the INSIDE clause, else
    the first `loc INSIDE …` that AND joins. Beside NEAREST all of them are conditions.
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
    if _occurs([typed.expr for typed in outputs.values()], "inside"):
        raise NotSupportedError("INSIDE in a select list")
    return outputs


def _listed(outputs: Outputs) -> list[list[Any]]:
    return [[name, typed.expr] for name, typed in outputs.items()]


def _lookup(bound: Expr | None, key: str) -> str | int | None:
    """The constant that the key equals, where a condition that AND joins says so."""
    for part in bound[1:] if bound is not None and bound[0] == "and" else [bound]:
        match part:
            case ["cmp", "=", ["col", column], ["lit", value, _]] if column == key and value is not None:
                return value  # type: ignore[no-any-return]
            case ["cmp", "=", ["lit", value, _], ["col", column]] if column == key and value is not None:
                return value  # type: ignore[no-any-return]
    return None


def _areas(bound: Any) -> set[int]:
    """The ids of the named regions in a region or an expression."""
    if isinstance(bound, dict):
        return {bound["area"]} if bound["type"] == "area" else set()
    return set().union(*map(_areas, bound)) if isinstance(bound, list) else set()


def _occurs(bound: Any, operation: str) -> bool:
    """Whether an operation occurs in expressions."""
    if not isinstance(bound, list):
        return False
    return bound[:1] == [operation] or any(_occurs(part, operation) for part in bound)
