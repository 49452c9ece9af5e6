"""Bind INSERT INTO: the values of each record, in the types of their columns."""

from __future__ import annotations

from typing import NamedTuple

from stqsh.lang.ast.expressions import Arithmetic, Column, Expression, Literal, Node, Now
from stqsh.lang.ast.statements import Insert, ValueRow
from stqsh.lang.binder.conditions import bind
from stqsh.lang.binder.names import stream_named
from stqsh.lang.binder.operators import described
from stqsh.lang.binder.scope import Scope, TypedExpression
from stqsh.lang.binder.time_comparisons import moment
from stqsh.lang.catalogue import CatalogueView
from stqsh.lang.errors import BindError, near
from stqsh.lang.types import FITTING, WHOLE_RANGES, a_type
from stqsh.spec.expression import Expr, LiteralExpr, reads_location
from stqsh.spec.query_stream import QueryStreamSpec
from stqsh.spec.stream import InsertsSourceSpec, StreamSpec


class BoundInsert(NamedTuple):
    """The records of INSERT INTO: for each, a value for each of the stream's `given` columns, in order.

    `queries` is the query stream whose rows they are; None for the records of a stream.
    """

    stream: StreamSpec
    rows: tuple[tuple[Expr, ...], ...]
    queries: QueryStreamSpec | None = None


class _ConstantScope(Scope):
    """A scope without names, because values have no row."""

    def column(self, node: Column) -> TypedExpression:
        raise BindError(
            f"{node.name} is not a constant, and INSERT INTO takes only constants",
            node.span,
            hint=f"strings take single quotes: '{node.name}'",
        )

    def _found(self, node: Column) -> TypedExpression | None:
        del node
        return None


def insert(statement: Insert, catalogue: CatalogueView) -> BoundInsert:
    """Return the bound records.

    Raises:
        BindError: the stream does not accept records, or a value does not fit its column.
    """
    queries = catalogue.query_stream(statement.stream.text)
    stream = stream_named(statement.stream, catalogue) if queries is None else queries.rows
    takes = isinstance(stream.source, InsertsSourceSpec) if queries is None else queries.takes_inserts
    if not takes:
        makes = "CREATE MOVING STREAM …" if queries is None else f"REGISTER QUERIES {stream.name}"
        raise BindError(
            f"{'stream' if queries is None else 'query stream'} {stream.name} does not take INSERT INTO",
            statement.stream.span,
            hint=f"{makes} FROM INSERTS makes one that does",
        )
    places = _places(statement, stream)
    scope = _ConstantScope(stream, frozenset({stream.name}), catalogue)
    records = tuple(_record(row, places, stream, scope) for row in statement.rows)
    return BoundInsert(stream, records, queries)


def _places(statement: Insert, stream: StreamSpec) -> list[int]:
    """Return the index of each listed column among the stream's; all indices if none are listed."""
    names = [name for name, _ in stream.given]
    if not statement.columns:
        return list(range(len(names)))
    places: list[int] = []
    for column in statement.columns:
        if column.text in stream.types and column.text not in names:
            raise BindError(
                f"{column.text} is computed from other columns, and cannot be inserted", column.span
            )
        if column.text not in names:
            raise BindError(
                f"stream {stream.name} has no column {column.text!r}",
                column.span,
                near=near(column.text, names),
                hint=f"its columns are {', '.join(names)}",
            )
        if names.index(column.text) in places:
            raise BindError(f"{column.text} is listed twice", column.span)
        places.append(names.index(column.text))
    for role, name in (("KEY", stream.key), ("TIME", stream.time)):
        if name in names and names.index(name) not in places:
            raise BindError(
                f"a record needs {name}, the {role} of {stream.name}",
                statement.columns[0].span,
                hint="columns that are not listed are NULL",
            )
    return places


def _record(row: ValueRow, places: list[int], stream: StreamSpec, scope: Scope) -> tuple[Expr, ...]:
    if len(row.values) != len(places):
        given = "1 value" if len(row.values) == 1 else f"{len(row.values)} values"
        wanted = "1 column" if len(places) == 1 else f"{len(places)} columns"
        names = ", ".join(stream.given[place].name for place in places)
        raise BindError(f"{given} for {wanted}", row.span, hint=f"the columns are {names}")
    columns = stream.given
    record: list[Expr] = [LiteralExpr(None, kind) for _, kind in columns]
    for node, place in zip(row.values, places, strict=True):
        name, kind = columns[place]
        record[place] = _value(node, name, kind, scope)
    return tuple(record)


def _value(node: Expression, name: str, kind: str, scope: Scope) -> Expr:
    """Return a value converted to the type of its column."""
    if isinstance(node, Literal) and node.kind == "NULL":
        return LiteralExpr(None, kind)
    if kind == "TIMESTAMP" and _is_moment(node):
        return moment(node, scope)
    if isinstance(node, Now):
        raise BindError(f"{name} is {a_type(kind)}, but NOW is a time", node.span)
    typed = bind(node, scope)
    if typed.type == "NULL":
        return LiteralExpr(None, kind)
    if kind == "TIMESTAMP":
        raise BindError(
            f"{name} is a TIMESTAMP, but {described(node, typed)}",
            node.span,
            expected=("a time such as '2008-02-02T15:00:00', NOW or NOW - 5 s",),
        )
    if typed.type not in FITTING[kind]:
        raise BindError(f"{name} is {a_type(kind)}, but {described(node, typed)}", node.span)
    if reads_location(typed.expr):
        raise BindError("INSERT INTO takes constants, which have no location to test", node.span)
    if isinstance(typed.expr, LiteralExpr):
        check_range(typed.expr.value, name, kind, node)
    return typed.expr


def check_range(value: object, name: str, kind: str, node: Node) -> None:
    """Raise `BindError` for an integer that exceeds the range of its column."""
    low, high = WHOLE_RANGES.get(kind, (0, 0))
    if kind in WHOLE_RANGES and isinstance(value, int) and not low <= value <= high:
        raise BindError(f"{name} is {a_type(kind)}, and {value} does not fit", node.span)


def _is_moment(node: Expression) -> bool:
    """Return whether an expression is a time: a constant or NOW, with or without a duration."""
    if isinstance(node, Arithmetic):
        return _is_moment(node.left) or _is_moment(node.right)
    return isinstance(node, Now) or (isinstance(node, Literal) and node.kind == "STRING")
