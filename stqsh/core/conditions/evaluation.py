"""Conditions over columns with SQL's three-valued logic, evaluated column-wise by pyarrow.

Expressions are the nested lists that the binder makes, such as `["cmp", ">", ["col", "speed"], ["lit", 3.5,
"DOUBLE"]]`. Within, whole numbers are int64, others float64, and instants and durations int64 µs.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from stqsh.core.conditions.operations import Columns, EvaluationContext, Expr
from stqsh.core.conditions.resolver import Resolver


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
    value = EvaluationContext(columns, now, resolver).value(expr)
    repeat: Any = pa.repeat
    return repeat(value, rows) if isinstance(value, pa.Scalar) else value


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
