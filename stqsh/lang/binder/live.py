"""Bind the statements that follow a stream of changes: TAIL a query, FOLLOW an object."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from stqsh.lang.ast.expressions import Column, Comparison, Literal, Name, Parameter, Quantity
from stqsh.lang.ast.source import Span
from stqsh.lang.ast.statements import Follow, Relation, Select, SelectItem, Tail
from stqsh.lang.binder.choices import number_type
from stqsh.lang.binder.conditions import condition
from stqsh.lang.binder.literals import duration_us, key_value, timestamp_us
from stqsh.lang.binder.names import query_named, stream_named, table_named
from stqsh.lang.binder.scope import JoinedTable, Scope, TypedExpression, names_of
from stqsh.lang.catalogue import CatalogueView
from stqsh.lang.errors import BindError
from stqsh.lang.types import WHOLE_NUMBERS
from stqsh.spec.aggregate import AggregateSpec, shown_column
from stqsh.spec.expression import (
    ArithmeticExpr,
    CallExpr,
    CaseExpr,
    CastExpr,
    ColumnExpr,
    ConcatExpr,
    DistanceExpr,
    DistanceToExpr,
    Expr,
    ExtentDistanceExpr,
    FunctionExpr,
    JoinExpr,
    LiteralExpr,
    NegativeExpr,
    RegionOfExpr,
    find_nodes,
    reads_location,
)
from stqsh.spec.functions import FUNCTIONS
from stqsh.spec.query import QuerySpec, SelectColumn
from stqsh.spec.stream import StreamSpec

_NOT_SELECTED = "the query does not select DISTANCE"

_SHOWN = 5
"""The most streams listed in a hint."""


class TailSpec(Struct, frozen=True):
    """The arguments of TAIL: a query, where to begin, and which updates to show.

    Attributes:
        from_step: The first step.
        from_us: The earliest time of updates, µs.
        since_us: How far back to begin, µs. Without any of the three, TAIL shows the current answer and later
            updates.
        only: "+", "-", or None for both.
        where: A condition on the updates.
        limit: The maximum number of updates.
    """

    query: str
    query_id: int
    from_step: int | None
    from_us: int | None
    since_us: int | None
    only: str | None
    where: Expr | None
    limit: int | None


def tail(statement: Tail, catalogue: CatalogueView) -> TailSpec:
    """Bind TAIL. Raises `BindFault`.

    The condition may use the names of the select list, the columns of the stream and of joined tables, and
    DISTANCE if the query selects it.
    """
    query = query_named(statement.name, catalogue)
    where: Expr | None = None
    if statement.where is not None:
        where = condition(statement.where, _scope(query, statement.name, catalogue))
        if query.aggregates is not None and reads_location(where):
            raise BindError("the rows of an aggregate have no location", statement.where.span)
    begin = statement.begin
    return TailSpec(
        query.name,
        query.id,
        begin if isinstance(begin, int) else None,
        timestamp_us(str(begin.value), begin.span) if isinstance(begin, Literal) else None,
        duration_us(begin, "SINCE") if isinstance(begin, Quantity) else None,
        statement.only,
        where,
        statement.limit,
    )


def types_selected(query: QuerySpec, span: Span, catalogue: CatalogueView) -> dict[str, str]:
    """Return the types of the columns that a query selects, by name; `span` is where the query is named."""
    if query.aggregates is not None:
        return {output.name: output.type for output in query.aggregates.select}
    outputs = _scope(query, Name(query.name, span=span), catalogue).outputs
    return {name: typed.type for name, typed in outputs.items()}


def _scope(query: QuerySpec, name: Name, catalogue: CatalogueView) -> Scope:
    stream = stream_named(Name(query.stream, span=name.span), catalogue)
    if query.aggregates is not None:
        return _scope_of_groups(query.aggregates, stream, name, catalogue)
    tables = [(join.column, table_named(Name(join.table, span=name.span), catalogue)) for join in query.joins]
    joined = tuple(
        JoinedTable(table, ColumnExpr(by) if isinstance(by, str) else by, names_of(table, None))
        for by, table in tables
    )
    plain = Scope(stream, names_of(stream, None), catalogue, joined)
    outputs = {
        column.name: TypedExpression(column.value, type_of(column.value, plain), name.span)
        for column in query.result.select
    }
    distance = next(chain.from_iterable(map(_distances, query.result.select)), None)
    names = stream, plain.qualifiers, catalogue, joined, outputs
    return Scope(*names, _NOT_SELECTED) if distance is None else Scope(*names, None, distance)


def _distances(column: SelectColumn) -> Iterator[Expr]:
    """Yield the nodes in a column for which DISTANCE stands."""
    yield from find_nodes(column.value, DistanceExpr)
    yield from find_nodes(column.value, ExtentDistanceExpr)


def _scope_of_groups(
    aggregates: AggregateSpec, stream: StreamSpec, name: Name, catalogue: CatalogueView
) -> Scope:
    """Return the scope for the rows of an aggregate query, which have only the select list."""
    outputs = {
        output.name: TypedExpression(ColumnExpr(shown_column(i, output)), output.type, name.span)
        for i, output in enumerate(aggregates.select)
    }
    return Scope(replace(stream, columns=()), frozenset(), catalogue, (), outputs, _NOT_SELECTED)


def type_of(expr: Expr, scope: Scope) -> str:  # noqa: PLR0911  # one for each node
    """Return the type of a bound expression of a select list; conditions are BOOLEAN."""
    match expr:
        case ColumnExpr(name):
            return scope.columns[name]
        case JoinExpr(table=number, wanted=name):
            return next(joined.columns[name] for joined in scope.joined if joined.table.id == number)
        case LiteralExpr(type=kind):
            return kind
        case FunctionExpr(name, _, _, kind):
            return kind or FUNCTIONS[name].returns
        case CastExpr(type=kind) | CaseExpr(type=kind) | CallExpr(type=kind):
            return number_type(kind)
        case ConcatExpr() | RegionOfExpr():
            return "STRING"
        case DistanceExpr() | DistanceToExpr() | ExtentDistanceExpr():
            return "DOUBLE"
        case NegativeExpr(operand):
            return type_of(operand, scope)
        case ArithmeticExpr(operator, left, right):
            whole = operator != "/" and {type_of(left, scope), type_of(right, scope)} <= WHOLE_NUMBERS
            return "BIGINT" if whole else "DOUBLE"
    return "BOOLEAN"


class BoundFollow(NamedTuple):
    """An object to follow: its stream, and the SELECT of its last record."""

    stream: StreamSpec
    select: Select


def follow(statement: Follow, catalogue: CatalogueView) -> BoundFollow:
    """Bind FOLLOW to an object.

    Raises:
        BindError: the stream is unknown or ambiguous, or its keys have another type.
    """
    stream = _stream_followed(statement, catalogue)
    if stream.is_event:
        raise BindError(
            f"{stream.name} is an EVENT stream, but FOLLOW is for objects that move", statement.key.span
        )
    if isinstance(statement.key, Parameter):
        raise BindError(f":{statement.key.name} has no value here", statement.key.span)
    value, kind = key_value(statement.key, stream.types[stream.key]), stream.types[stream.key]
    key = Literal(value, "STRING" if kind == "STRING" else "INTEGER", span=statement.key.span)
    select = Select(
        tuple(SelectItem(Column(name)) for name, _ in stream.columns),
        (Relation(stream.name),),
        where=Comparison("=", Column(stream.key), key),
        piece=statement.piece,
    )
    return BoundFollow(stream, select)


def _stream_followed(statement: Follow, catalogue: CatalogueView) -> StreamSpec:
    """Return the named stream, or else the only stream of moving objects."""
    if statement.stream is not None:
        return stream_named(statement.stream, catalogue)
    found = [catalogue.stream(name) for name in catalogue.names("stream")]
    moving = [stream for stream in found if stream is not None and not stream.is_event]
    if len(moving) == 1:
        return moving[0]
    if not moving:
        raise BindError(
            "there is no stream of moving objects",
            statement.key.span,
            hint="make one with CREATE MOVING STREAM",
        )
    key = statement.key.value if isinstance(statement.key, Literal) else ""
    ways = "; ".join(f"FOLLOW '{key}' IN {stream.name}" for stream in moving[:_SHOWN])
    raise BindError(
        "there are several streams of moving objects", statement.key.span, hint=f"say which: {ways}"
    )
