"""Conditions over columns with SQL's three-valued logic, evaluated column-wise by pyarrow.

Expressions are the nested lists that the binder makes, such as `["cmp", ">", ["col", "speed"], ["lit", 3.5,
"DOUBLE"]]`. Within, whole numbers are int64, others float64, and instants and durations int64 µs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from stqsh.core.conditions import functions
from stqsh.core.conditions.inside import inside
from stqsh.core.conditions.reference import Resolver
from stqsh.core.texts.text import contains

Expr: TypeAlias = list[Any]
Value: TypeAlias = Any
"""An Arrow array, or a scalar that stands for a column of equal values."""

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


DISTANCE = "distance"
"""The column that callers give where an expression has DISTANCE: float64, metres or units, null for none."""

Columns: TypeAlias = Mapping[str, "pa.Array[Any]"]


def evaluate(
    expr: Expr, columns: Columns, now_us: pa.Array[Any] | int, resolver: Resolver | None = None
) -> Any:
    """The truth of a condition for each row: true, false, or null where SQL says UNKNOWN.

    Args:
        expr: a bound condition.
        columns: those that it reads, see `columns_read`, and at least one; of equal length.
        now_us: what NOW means, µs since the epoch: one instant, or one for each row.
        resolver: where tables and areas are found; needed for joins and regions.

    Returns:
        A `pa.BooleanArray`.

    Raises:
        ValueError: an operation that there is not.
        KeyError: a column, table or area is missing.
    """
    return compute(expr, columns, now_us, resolver)


def compute(
    expr: Expr, columns: Columns, now_us: pa.Array[Any] | int, resolver: Resolver | None = None
) -> Any:
    """The value of any expression for each row, an Arrow array; arguments as for `evaluate`.

    A whole number that does not fit in 64 bits is NULL, as is a quotient by 0.
    """
    rows = len(next(iter(columns.values())))
    now: Any = pa.scalar(now_us, pa.int64()) if isinstance(now_us, int) else now_us
    value = _Context(columns, now, resolver).value(expr)
    repeat: Any = pa.repeat
    return repeat(value, rows) if isinstance(value, pa.Scalar) else value


class _Context:
    """Columns, the instant and the tables and areas against which an expression is evaluated."""

    def __init__(self, columns: Columns, now: Value, resolver: Resolver | None) -> None:
        self._columns, self._now, self._resolver = columns, now, resolver

    def value(self, expr: Expr) -> Value:
        """The value of an expression: an array or a scalar."""
        try:
            rule = _RULES[expr[0]]
        except KeyError:
            raise ValueError(f"no operation {expr[0]!r} in a condition") from None
        return rule(self, *expr[1:])

    def column(self, name: str) -> Value:
        return _plain(self._columns[name])

    def now(self) -> Value:
        return self._now

    def literal(self, value: Any, kind: str) -> Value:
        return pa.scalar(value, _LITERALS[kind])

    def duration(self, us: int) -> Value:
        return pa.scalar(us, pa.int64())

    def arithmetic(self, op: str, left: Expr, right: Expr) -> Value:
        a, b = _alike(self.value(left), self.value(right), as_double=op == "/")
        if op == "/":
            b = pc.if_else(_call("equal", b, pa.scalar(0.0)), pa.scalar(None, pa.float64()), b)
        return functions.arithmetic(_ARITHMETIC[op], a, b)

    def negation(self, inner: Expr) -> Value:
        value = self.value(inner)
        if pa.types.is_integer(value.type):
            return functions.arithmetic("subtract", pa.scalar(0), value)
        return pc.negate(value)

    def comparison(self, op: str, left: Expr, right: Expr) -> Value:
        return _call(_COMPARISONS[op], *_alike(self.value(left), self.value(right)))

    def between(self, inner: Expr, low: Expr, high: Expr) -> Value:
        return self.conjunction(["cmp", ">=", inner, low], ["cmp", "<=", inner, high])

    def membership(self, inner: Expr, items: list[Expr]) -> Value:
        if not items:
            return pa.scalar(False)
        value = self.value(inner)
        if all(item[0] == "lit" for item in items) and not isinstance(value, pa.Scalar):
            return functions.is_one_of(value, [item[1] for item in items])
        return self.disjunction(*(["cmp", "=", inner, item] for item in items))

    def among(self, inner: Expr, constants: Expr) -> Value:
        """IN with a list of constants of its own for each row, as JSON; only templates have it."""
        lists = self.value(constants)
        value, repeat = self.value(inner), pa.repeat
        if isinstance(value, pa.Scalar):
            value = repeat(value, len(lists))  # type: ignore[call-overload]  # the stubs lack it
        return functions.is_one_of_own(value, lists)

    def contains(self, inner: Expr, phrase: Any, how: str) -> Value:
        text = self.value(inner)
        asked = pa.scalar(phrase) if isinstance(phrase, str) else self.value(phrase)
        found = contains(text, asked, how)
        return found[0] if isinstance(text, pa.Scalar) and isinstance(asked, pa.Scalar) else found

    def join(self, table: int, column: str, wanted: str) -> Value:
        return _plain(self.resolver.tables.values(table, self._columns[column], wanted))

    def inside(self, region: dict[str, Any]) -> Value:
        x, y = (_numbers(self.column(name)) for name in self.resolver.location)
        operands = {
            name: self.value(operand) if isinstance(operand, list) and name != "rings" else operand
            for name, operand in region.items()
        }
        return pa.array(inside(operands, x, y, self.resolver))

    def function(self, name: str, inner: Expr) -> Value:
        return functions.moment_part(name, self.value(inner))

    def distance(self) -> Value:
        return self.column(DISTANCE)

    @property
    def resolver(self) -> Resolver:
        if self._resolver is None:
            raise ValueError("tables and regions need a resolver")
        return self._resolver

    def like(self, inner: Expr, pattern: str) -> Value:
        return pc.match_substring_regex(self.value(inner), like_regex(pattern))

    def is_null(self, inner: Expr) -> Value:
        return pc.is_null(self.value(inner))

    def conjunction(self, *parts: Expr) -> Value:
        return self._fold(pc.and_kleene, parts)

    def disjunction(self, *parts: Expr) -> Value:
        return self._fold(pc.or_kleene, parts)

    def _fold(self, function: Callable[[Value, Value], Value], parts: tuple[Expr, ...]) -> Value:
        truth = self.value(parts[0])
        for part in parts[1:]:
            truth = function(truth, self.value(part))
        return truth

    def inversion(self, inner: Expr) -> Value:
        return pc.invert(self.value(inner))


_RULES: dict[str, Callable[..., Value]] = {
    "col": _Context.column,
    "now": _Context.now,
    "lit": _Context.literal,
    "dur": _Context.duration,
    "arith": _Context.arithmetic,
    "neg": _Context.negation,
    "cmp": _Context.comparison,
    "between": _Context.between,
    "in": _Context.membership,
    "among": _Context.among,
    "like": _Context.like,
    "contains": _Context.contains,
    "join": _Context.join,
    "inside": _Context.inside,
    "fn": _Context.function,
    "distance": _Context.distance,
    "isnull": _Context.is_null,
    "and": _Context.conjunction,
    "or": _Context.disjunction,
    "not": _Context.inversion,
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


def like_regex(pattern: str) -> str:
    """The regular expression of a LIKE pattern: % any text, _ one character, \\ takes the next as it is."""
    out, escaped = [], False
    for character in pattern:
        if not escaped and character == "\\":
            escaped = True
            continue
        wild = {"%": ".*", "_": "."}.get(character) if not escaped else None
        out.append(wild or _quoted(character))
        escaped = False
    if escaped:
        out.append(_quoted("\\"))
    return rf"(?s)\A(?:{''.join(out)})\z"


def _quoted(character: str) -> str:
    """A character that stands for itself in RE2."""
    return re.escape(character) if character.isascii() else character


def parts(expr: Any, op: str) -> list[Expr]:
    """All sub-expressions of an operation, outermost first."""
    if not isinstance(expr, list):
        return []
    own = [expr] if expr[:1] == [op] else []
    return own + [found for part in expr for found in parts(part, op)]


def columns_read(expr: Any, location: tuple[str, str]) -> set[str]:
    """The names of the columns that `evaluate` asks for; location: those of x and y. DISTANCE is not told."""
    names = {name for _, name in parts(expr, "col")} | {column for _, _, column, _ in parts(expr, "join")}
    return names | set(location) if parts(expr, "inside") else names
