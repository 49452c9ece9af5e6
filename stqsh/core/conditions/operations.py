"""What each operation of an expression means: a function of its context, and of what follows its word."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from stqsh.core.conditions import column_functions
from stqsh.core.conditions.column_functions import Value
from stqsh.core.conditions.containment import inside
from stqsh.core.conditions.resolver import Resolver
from stqsh.core.texts.tokenizer import contains

Expr: TypeAlias = list[Any]
"""An operation's word, and what it is about."""
Columns: TypeAlias = Mapping[str, "pa.Array[Any]"]

DISTANCE = "distance"
"""The column that callers give where an expression has DISTANCE: float64, metres or units, null for none."""

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
    """Columns, the instant and the tables and areas against which an expression is evaluated."""

    columns: Columns
    now: Value
    known: Resolver | None

    @property
    def resolver(self) -> Resolver:
        """The tables and areas; raises `ValueError` where there are none."""
        if self.known is None:
            raise ValueError("tables and regions need a resolver")
        return self.known

    def column(self, name: str) -> Value:
        """A column in the type in which expressions work."""
        return _plain(self.columns[name])

    def value(self, expr: Expr) -> Value:
        """The value of an expression: an array or a scalar; raises `ValueError` for an unknown operation."""
        try:
            rule = _RULES[expr[0]]
        except KeyError:
            raise ValueError(f"no operation {expr[0]!r} in a condition") from None
        return rule(self, *expr[1:])


def _now(context: EvaluationContext) -> Value:
    return context.now


def _literal(context: EvaluationContext, value: Any, kind: str) -> Value:
    return pa.scalar(value, _LITERALS[kind])


def _duration(context: EvaluationContext, us: int) -> Value:
    return pa.scalar(us, pa.int64())


def _arithmetic(context: EvaluationContext, op: str, left: Expr, right: Expr) -> Value:
    a, b = _alike(context.value(left), context.value(right), as_double=op == "/")
    if op == "/":
        b = pc.if_else(_call("equal", b, pa.scalar(0.0)), pa.scalar(None, pa.float64()), b)
    return column_functions.arithmetic(_ARITHMETIC[op], a, b)


def _negation(context: EvaluationContext, inner: Expr) -> Value:
    value = context.value(inner)
    if pa.types.is_integer(value.type):
        return column_functions.arithmetic("subtract", pa.scalar(0), value)
    return pc.negate(value)


def _comparison(context: EvaluationContext, op: str, left: Expr, right: Expr) -> Value:
    return _call(_COMPARISONS[op], *_alike(context.value(left), context.value(right)))


def _between(context: EvaluationContext, inner: Expr, low: Expr, high: Expr) -> Value:
    return _conjunction(context, ["cmp", ">=", inner, low], ["cmp", "<=", inner, high])


def _membership(context: EvaluationContext, inner: Expr, items: list[Expr]) -> Value:
    if not items:
        return pa.scalar(False)
    value = context.value(inner)
    if all(item[0] == "lit" for item in items) and not isinstance(value, pa.Scalar):
        return column_functions.is_one_of(value, [item[1] for item in items])
    return _disjunction(context, *(["cmp", "=", inner, item] for item in items))


def _among(context: EvaluationContext, inner: Expr, constants: Expr) -> Value:
    """IN with a list of constants of its own for each row, as JSON; only templates have it."""
    lists = context.value(constants)
    value, repeat = context.value(inner), pa.repeat
    if isinstance(value, pa.Scalar):
        value = repeat(value, len(lists))  # type: ignore[call-overload]  # the stubs lack it
    return column_functions.is_one_of_own(value, lists)


def _contains(context: EvaluationContext, inner: Expr, phrase: Any, how: str) -> Value:
    text = context.value(inner)
    asked = pa.scalar(phrase) if isinstance(phrase, str) else context.value(phrase)
    found = contains(text, asked, how)
    return found[0] if isinstance(text, pa.Scalar) and isinstance(asked, pa.Scalar) else found


def _join(context: EvaluationContext, table: int, column: str, wanted: str) -> Value:
    return _plain(context.resolver.tables.values(table, context.columns[column], wanted))


def _inside(context: EvaluationContext, region: dict[str, Any]) -> Value:
    x, y = (_numbers(context.column(name)) for name in context.resolver.location)
    operands = {
        name: context.value(operand) if isinstance(operand, list) and name != "rings" else operand
        for name, operand in region.items()
    }
    return pa.array(inside(operands, x, y, context.resolver))


def _function(context: EvaluationContext, name: str, inner: Expr) -> Value:
    return column_functions.moment_part(name, context.value(inner))


def _distance(context: EvaluationContext) -> Value:
    return context.column(DISTANCE)


def _like(context: EvaluationContext, inner: Expr, pattern: str) -> Value:
    return column_functions.like(context.value(inner), pattern)


def _is_null(context: EvaluationContext, inner: Expr) -> Value:
    return pc.is_null(context.value(inner))


def _conjunction(context: EvaluationContext, *parts: Expr) -> Value:
    return _fold(context, pc.and_kleene, parts)


def _disjunction(context: EvaluationContext, *parts: Expr) -> Value:
    return _fold(context, pc.or_kleene, parts)


def _fold(
    context: EvaluationContext, function: Callable[[Value, Value], Value], parts: tuple[Expr, ...]
) -> Value:
    truth = context.value(parts[0])
    for part in parts[1:]:
        truth = function(truth, context.value(part))
    return truth


def _inversion(context: EvaluationContext, inner: Expr) -> Value:
    return pc.invert(context.value(inner))


_RULES: dict[str, Callable[..., Value]] = {
    "col": EvaluationContext.column,
    "now": _now,
    "lit": _literal,
    "dur": _duration,
    "arith": _arithmetic,
    "neg": _negation,
    "cmp": _comparison,
    "between": _between,
    "in": _membership,
    "among": _among,
    "like": _like,
    "contains": _contains,
    "join": _join,
    "inside": _inside,
    "fn": _function,
    "distance": _distance,
    "isnull": _is_null,
    "and": _conjunction,
    "or": _disjunction,
    "not": _inversion,
}


def _call(function: str, left: Value, right: Value) -> Value:
    return pc.call_function(function, [left, right])


def _plain(column: pa.Array[Any]) -> Value:
    """A column in the type in which expressions work."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.view(pa.int64())
    if pa.types.is_int32(kind):
        return column.cast(pa.int64())
    if pa.types.is_float32(kind):
        return column.cast(pa.float64())
    return column


def _numbers(column: Value) -> Any:
    """float64 values, NaN for null."""
    return column.to_numpy(zero_copy_only=False)


def _alike(left: Value, right: Value, as_double: bool = False) -> tuple[Value, Value]:
    """Both as float64 where one of them is, or where a quotient asks for it."""
    types = left.type, right.type
    if as_double or (pa.float64() in types and types[0] != types[1]):
        return left.cast(pa.float64(), safe=False), right.cast(pa.float64(), safe=False)
    return left, right
