"""Bind the derived columns of CREATE STREAM and CREATE TABLE: `hour BIGINT AS HOUR(ts)`."""

from __future__ import annotations

from msgspec.structs import replace

from stqsh.lang.ast.expressions import Expression
from stqsh.lang.ast.source import Span
from stqsh.lang.ast.statements import ColumnDefinition, CreateStream, CreateTable
from stqsh.lang.binder.conditions import bind
from stqsh.lang.binder.operators import described
from stqsh.lang.binder.scope import Scope
from stqsh.lang.catalogue import CatalogueView
from stqsh.lang.errors import BindError
from stqsh.lang.printer.expressions import expression as printed
from stqsh.lang.types import FITTING, a_type
from stqsh.spec.expression import (
    ColumnExpr,
    Expr,
    FunctionExpr,
    NowExpr,
    areas_of,
    find_nodes,
    has_node,
    reads_location,
)
from stqsh.spec.stream import DerivedColumn, StreamSpec


def derived_columns(
    statement: CreateStream | CreateTable, spec: StreamSpec, catalogue: CatalogueView
) -> tuple[DerivedColumn, ...]:
    """Return the bound derived columns of a stream or table, each after the derived columns that it reads.

    Args:
        statement: The statement.
        spec: What it defines, without the derived columns; for a table, its rows as events without a place.
        catalogue: The catalogue, for functions.

    Raises:
        BindError: an expression is invalid, or does not fit its column, or depends on its own column.
    """
    # The number of a row is known only after its file has been read.
    readable = tuple(column for column in spec.columns if not spec.numbers_rows or column.name != spec.key)
    scope = Scope(
        replace(spec, columns=readable),
        frozenset({spec.name}),
        catalogue,
        no_moving_region="a moving region in a derived column",
    )
    bound = {column.name: _bound(column, _value(column), scope) for column in statement.derived}
    spans = {column.name: _value(column).span for column in statement.derived}
    extent = statement.extent if isinstance(statement, CreateStream) else None
    if extent is not None:
        corner = _corner(spec.x, spec.y, extent.text)
        bound = {column.name: column for column in corner} | bound
        spans |= dict.fromkeys((spec.x, spec.y), extent.span)
    reads = {name: _reads(column.value, spec) & bound.keys() for name, column in bound.items()}
    order: list[str] = []
    for name in bound:
        _visit(spans[name], name, reads, (), order)
    return tuple(bound[name] for name in order)


def _corner(x: str, y: str, extent: str) -> tuple[DerivedColumn, DerivedColumn]:
    """Return the columns of the first corner of extents."""
    column = ColumnExpr(extent)
    return (
        DerivedColumn(x, FunctionExpr("EXTENT_X", column), "ST_X(loc)"),
        DerivedColumn(y, FunctionExpr("EXTENT_Y", column), "ST_Y(loc)"),
    )


def _value(column: ColumnDefinition) -> Expression:
    assert column.value is not None, "the column is derived"
    return column.value


def _bound(column: ColumnDefinition, node: Expression, scope: Scope) -> DerivedColumn:
    typed = bind(node, scope)
    if typed.type not in FITTING[column.type]:
        raise BindError(
            f"{column.name} is {a_type(column.type)}, but {described(node, typed)}",
            node.span,
            expected=tuple(sorted(FITTING[column.type])),
        )
    if has_node(typed.expr, NowExpr):
        raise BindError(
            f"{column.name} is computed once, when a record is read, but NOW passes",
            node.span,
            hint="compare with NOW in the WHERE of a query",
        )
    if reads_location(typed.expr) and not scope.stream.x:
        raise BindError(f"the rows of {scope.stream.name} have no location", node.span)
    if areas_of(typed.expr):
        raise BindError(
            f"{column.name} is computed when a record is read, where named regions are not known",
            node.span,
            hint="ask for the region in a query, or write its shape: CIRCLE(10.03, 50.015, 800)",
        )
    return DerivedColumn(column.name, typed.expr, printed(node))


def _reads(expr: Expr, spec: StreamSpec) -> set[str]:
    names = {node.name for node in find_nodes(expr, ColumnExpr)}
    return names | {spec.x, spec.y} if reads_location(expr) else names


def _visit(
    asked: Span, name: str, reads: dict[str, set[str]], path: tuple[str, ...], order: list[str]
) -> None:
    """Append a column to `order` after those that it reads; `path` leads to it from the column at `asked`."""
    if name in path:
        circle = " -> ".join((*path[path.index(name) :], name))
        raise BindError(f"{name} is computed from itself: {circle}", asked)
    if name in order:
        return
    for other in sorted(reads[name]):
        _visit(asked, other, reads, (*path, name), order)
    order.append(name)
