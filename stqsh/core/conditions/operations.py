"""The evaluation of each type of expression node, as a function of context and node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET

from stqsh.core.conditions import casts, column_functions, functions
from stqsh.core.conditions.column_functions import Value
from stqsh.core.conditions.containment import inside, inside_each
from stqsh.core.conditions.resolver import Resolver
from stqsh.core.conditions.user_functions import call_function
from stqsh.core.kernels.geometry.distance import distances_between
from stqsh.core.kernels.jit import frozen
from stqsh.core.texts.tokenizer import contains
from stqsh.spec.expression import (
    AmongExpr,
    AndExpr,
    ArithmeticExpr,
    BetweenExpr,
    CallExpr,
    CaseExpr,
    CastExpr,
    ColumnExpr,
    CompareExpr,
    ConcatExpr,
    ContainsExpr,
    DistanceExpr,
    DistanceToExpr,
    DurationExpr,
    Expr,
    ExprBase,
    ExtentDistanceExpr,
    ExtentTestExpr,
    FunctionExpr,
    InExpr,
    InsideEachExpr,
    InsideExpr,
    IsNullExpr,
    JoinExpr,
    LikeExpr,
    LiteralExpr,
    NegativeExpr,
    NotExpr,
    NowExpr,
    OrExpr,
    RegionOfExpr,
)
from stqsh.spec.region import MovingCircleSpec, MovingSpec

Columns: TypeAlias = Mapping[str, "pa.Array[Any]"]

DISTANCE = "distance"
"""The column for DISTANCE that callers provide: float64, metres or units, null for none."""

_LITERALS: dict[str, pa.DataType] = {
    "STRING": pa.string(),
    "BIGINT": pa.int64(),
    "INT": pa.int64(),
    "TIMESTAMP": pa.int64(),
    "DOUBLE": pa.float64(),
    "FLOAT": pa.float64(),
    "BOOLEAN": pa.bool_(),
}

_COMPARISONS = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}

_ARITHMETIC = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}


@dataclass(frozen=True, slots=True)
class EvaluationContext:
    """The columns, the instant, and the tables and areas for evaluating an expression."""

    columns: Columns
    now: Value
    known: Resolver | None

    @property
    def resolver(self) -> Resolver:
        """The tables and areas; raises `ValueError` if there are none."""
        if self.known is None:
            raise ValueError("tables and regions need a resolver")
        return self.known

    def column(self, name: str) -> Value:
        """Return a column in the type that expressions compute with."""
        return _plain(self.columns[name])

    def value(self, expr: Expr) -> Value:
        """Evaluate an expression to an array, or to a scalar if it is the same for all rows."""
        return _RULES[type(expr)](self, expr)


def _arithmetic(context: EvaluationContext, expr: ArithmeticExpr) -> Value:
    op = expr.operator
    a, b = _alike(context.value(expr.left), context.value(expr.right), as_double=op == "/")
    if op in ("%", "DIV"):
        return column_functions.remainder(a, b) if op == "%" else column_functions.quotient(a, b)
    if op == "/":
        b = pc.if_else(_call("equal", b, pa.scalar(0.0)), pa.scalar(None, pa.float64()), b)
    return column_functions.arithmetic(_ARITHMETIC[op], a, b)


def _concatenation(context: EvaluationContext, expr: ConcatExpr) -> Value:
    left, right = (context.value(part).cast(pa.string()) for part in (expr.left, expr.right))
    return pc.binary_join_element_wise(left, right, "")


def _negation(context: EvaluationContext, expr: NegativeExpr) -> Value:
    value = context.value(expr.operand)
    if pa.types.is_integer(value.type):
        return column_functions.arithmetic("subtract", pa.scalar(0), value)
    return pc.negate(value)


def _compare(context: EvaluationContext, operator: str, left: Expr, right: Expr) -> Value:
    return _call(_COMPARISONS[operator], *_alike(context.value(left), context.value(right)))


def _between(context: EvaluationContext, expr: BetweenExpr) -> Value:
    low = _compare(context, ">=", expr.operand, expr.low)
    return pc.and_kleene(low, _compare(context, "<=", expr.operand, expr.high))


def _membership(context: EvaluationContext, expr: InExpr) -> Value:
    if not expr.items:
        return pa.scalar(False)
    value = context.value(expr.operand)
    constants = [item.value for item in expr.items if isinstance(item, LiteralExpr)]
    if len(constants) == len(expr.items) and not isinstance(value, pa.Scalar):
        return column_functions.is_one_of(value, constants)
    first, *others = (_compare(context, "=", expr.operand, item) for item in expr.items)
    for other in others:
        first = pc.or_kleene(first, other)
    return first


def _among(context: EvaluationContext, expr: AmongExpr) -> Value:
    """Return IN with a separate JSON list of constants for each row; only templates use it."""
    lists = context.value(expr.constants)
    value, repeat = context.value(expr.operand), pa.repeat
    if isinstance(value, pa.Scalar):
        value = repeat(value, len(lists))  # type: ignore[call-overload]  # the stubs lack it
    return column_functions.is_one_of_own(value, lists)


def _contains(context: EvaluationContext, expr: ContainsExpr) -> Value:
    text, phrase = context.value(expr.operand), expr.phrase
    asked = pa.scalar(phrase) if isinstance(phrase, str) else context.value(phrase)
    found = contains(text, asked, expr.match)
    return found[0] if isinstance(text, pa.Scalar) and isinstance(asked, pa.Scalar) else found


def _join(context: EvaluationContext, expr: JoinExpr) -> Value:
    by = expr.column
    keys = context.columns[by] if isinstance(by, str) else context.value(by)
    return _plain(context.resolver.tables.values(expr.table, keys, expr.wanted))


def _inside_each(context: EvaluationContext, expr: InsideEachExpr) -> Value:
    operands = [context.value(operand) for operand in expr.operands]
    return pa.array(inside_each(expr, operands, _places(context), context.resolver))


def _places(context: EvaluationContext) -> tuple[Any, Any]:
    """Return the location of each row: x and y, float64 (n,) each, NaN for NULL."""
    x, y = (_numbers(context.column(name)) for name in context.resolver.location)
    return x, y


def _function(context: EvaluationContext, expr: FunctionExpr) -> Value:
    return functions.call_function(expr.name, [context.value(one) for one in (expr.operand, *expr.others)])


def _case(context: EvaluationContext, expr: CaseExpr) -> Value:
    conditions, results = ([context.value(one) for one in part] for part in (expr.conditions, expr.results))
    return functions.choose(conditions, results)


def _user_function(context: EvaluationContext, expr: CallExpr) -> Value:
    rows, repeat = len(next(iter(context.columns.values()))), pa.repeat
    values = [context.value(argument) for argument in expr.arguments]
    columns = [repeat(one, rows) if isinstance(one, pa.Scalar) else one for one in values]  # type: ignore[call-overload]
    return call_function(expr, columns, rows)


def _region_of(context: EvaluationContext, expr: RegionOfExpr) -> Value:
    if expr.of_extent is not None:
        return context.value(expr.of_extent)
    known = context.resolver
    return known.areas.first_members(expr.area, *_places(context), planar=known.planar)


def _distance_to(context: EvaluationContext, expr: DistanceToExpr) -> Value:
    x, y = (np.asarray(one, np.float64) for one in _places(context))
    from_x, from_y = (np.full(len(x), place) for place in (expr.x, expr.y))
    far = distances_between(from_x, from_y, frozen(x), frozen(y), context.resolver.planar)
    return pa.array(far, mask=np.isnan(far))


def _extent_test(context: EvaluationContext, expr: ExtentTestExpr) -> Value:
    from stqsh.core.conditions import extents  # shapely: only when needed

    found = extents.extents_of(context.columns[expr.extent.name])
    count = len(found.of_row)
    operands = [_constants(context, one, count) for one in expr.operands]
    if expr.around is not None:
        operands = [np.full(count, number) for number in _around(expr.around)]
    match f"moving_{expr.type}" if expr.around is not None else expr.type:
        case "rect":
            x1, y1, x2, y2 = operands
            held = extents.in_rectangles(found, (x1, y1, x2, y2), expr.relation)
        case "circle" | "moving_circle":
            x, y, radius = operands
            held = extents.in_circles(found, (x, y, radius), expr.relation, expr.planar)
        case "moving_rect":
            x, y, wide, high = operands
            held = extents.in_rectangles_around(found, (x, y), (wide, high), expr.relation, expr.planar)
        case "polygon":
            held = extents.in_polygon(found, expr.polygon, expr.relation)
    return pa.array(held, mask=~found.known)


def _around(region: MovingSpec) -> tuple[float, ...]:
    """Return the place of a region's focal object, NaN while it is absent, and its sizes."""
    if region.at is UNSET:
        raise ValueError(f"it is not known where {region.focal!r} is")
    place = (np.nan, np.nan) if region.at is None else region.at
    sizes = (region.radius,) if isinstance(region, MovingCircleSpec) else (region.xdist, region.ydist)
    return (*place, *sizes)


def _extent_distance(context: EvaluationContext, expr: ExtentDistanceExpr) -> Value:
    from stqsh.core.conditions import extents  # shapely: only when needed

    found = extents.extents_of(context.columns[expr.extent.name])
    x, y = (_constants(context, one, len(found.of_row)) for one in (expr.x, expr.y))
    far = extents.distances(found, x, y, expr.planar)
    return pa.array(far, mask=np.isnan(far))


def _constants(context: EvaluationContext, expr: Expr, rows: int) -> Any:
    """Return a number for each row, float64 (n,), NaN for NULL."""
    value = context.value(expr)
    if isinstance(value, pa.Scalar):
        return np.full(rows, np.nan if value.as_py() is None else value.as_py(), np.float64)
    return np.array(_numbers(value), np.float64)  # a copy: kernels are compiled for writable arrays


def _fold(
    context: EvaluationContext, function: Callable[[Value, Value], Value], parts: tuple[Expr, ...]
) -> Value:
    truth = context.value(parts[0])
    for part in parts[1:]:
        truth = function(truth, context.value(part))
    return truth


_RULES: dict[type[ExprBase], Callable[[EvaluationContext, Any], Value]] = {
    ColumnExpr: lambda context, expr: context.column(expr.name),
    NowExpr: lambda context, expr: context.now,
    LiteralExpr: lambda context, expr: pa.scalar(expr.value, _LITERALS[expr.type]),
    DurationExpr: lambda context, expr: pa.scalar(expr.us, pa.int64()),
    ArithmeticExpr: _arithmetic,
    ConcatExpr: _concatenation,
    NegativeExpr: _negation,
    CompareExpr: lambda context, expr: _compare(context, expr.operator, expr.left, expr.right),
    BetweenExpr: _between,
    InExpr: _membership,
    AmongExpr: _among,
    LikeExpr: lambda context, expr: column_functions.like(context.value(expr.operand), expr.pattern),
    ContainsExpr: _contains,
    JoinExpr: _join,
    InsideExpr: lambda context, expr: pa.array(inside(expr.region, _places(context), context.resolver)),
    InsideEachExpr: _inside_each,
    FunctionExpr: _function,
    CastExpr: lambda context, expr: casts.cast(context.value(expr.operand), expr.source, expr.type),
    CaseExpr: _case,
    CallExpr: _user_function,
    RegionOfExpr: _region_of,
    DistanceExpr: lambda context, expr: context.column(DISTANCE),
    DistanceToExpr: _distance_to,
    ExtentTestExpr: _extent_test,
    ExtentDistanceExpr: _extent_distance,
    IsNullExpr: lambda context, expr: pc.is_null(context.value(expr.operand)),
    AndExpr: lambda context, expr: _fold(context, pc.and_kleene, expr.parts),
    OrExpr: lambda context, expr: _fold(context, pc.or_kleene, expr.parts),
    NotExpr: lambda context, expr: pc.invert(context.value(expr.operand)),
}


def _call(function: str, left: Value, right: Value) -> Value:
    return pc.call_function(function, [left, right])


def _plain(column: pa.Array[Any]) -> Value:
    """Return a column in the type that expressions compute with."""
    kind = column.type
    if pa.types.is_dictionary(kind):  # extents, which are long
        return column.dictionary_decode()  # type: ignore[attr-defined]
    if pa.types.is_timestamp(kind):
        return column.view(pa.int64())
    if pa.types.is_int32(kind):
        return column.cast(pa.int64())
    if pa.types.is_float32(kind):
        return column.cast(pa.float64())
    return column


def _numbers(column: Value) -> Any:
    """Return values as float64, NaN for null."""
    return column.to_numpy(zero_copy_only=False)


def _alike(left: Value, right: Value, as_double: bool = False) -> tuple[Value, Value]:
    """Return both values as float64 if either is float64 or `as_double` is set."""
    types = left.type, right.type
    if as_double or (pa.float64() in types and types[0] != types[1]):
        return left.cast(pa.float64(), safe=False), right.cast(pa.float64(), safe=False)
    return left, right
