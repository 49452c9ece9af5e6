"""Evaluate conditions over columns with SQL's three-valued logic, column by column with pyarrow.

During evaluation whole numbers are int64, other numbers are float64, and instants and durations are int64 µs.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from stqsh.core.conditions.operations import Columns, EvaluationContext
from stqsh.core.conditions.resolver import Resolver
from stqsh.spec.expression import ColumnExpr, Expr, JoinExpr, find_nodes, gives_instants, reads_location


def evaluate(
    expr: Expr, columns: Columns, now_us: pa.Array[Any] | int, resolver: Resolver | None = None
) -> Any:
    """Return the truth of a condition for each row: true, false, or null for SQL's UNKNOWN.

    Args:
        expr: A bound condition.
        columns: The columns that the condition reads (see `columns_read`), at least one, of equal length.
        now_us: The value of NOW, µs since the epoch: one instant, or one for each row.
        resolver: The tables and areas; required for joins and regions.

    Returns:
        A `pa.BooleanArray`.

    Raises:
        KeyError: a column, table or area is missing.
    """
    return compute(expr, columns, now_us, resolver)


def compute(
    expr: Expr, columns: Columns, now_us: pa.Array[Any] | int, resolver: Resolver | None = None
) -> Any:
    """Return the value of any expression for each row, as an Arrow array.

    The arguments are those of `evaluate`. A whole number that does not fit in 64 bits is NULL, as is a
    quotient by 0.
    """
    rows = len(next(iter(columns.values())))
    now: Any = pa.scalar(now_us, pa.int64()) if isinstance(now_us, int) else now_us
    value = EvaluationContext(columns, now, resolver).value(expr)
    repeat: Any = pa.repeat
    return repeat(value, rows) if isinstance(value, pa.Scalar) else value


def compute_shown(
    expr: Expr, columns: Columns, now_us: pa.Array[Any] | int, resolver: Resolver | None = None
) -> Any:
    """Return the result of `compute` with instants as timestamps, as answers show them."""
    value = compute(expr, columns, now_us, resolver)
    return value.view(pa.timestamp("us", "UTC")) if gives_instants(expr) else value


def columns_read(expr: Expr, location: tuple[str, str]) -> set[str]:
    """Return the columns that `evaluate` reads, without DISTANCE; `location` names x and y."""
    names = {node.name for node in find_nodes(expr, ColumnExpr)}
    names |= {node.column for node in find_nodes(expr, JoinExpr) if isinstance(node.column, str)}
    return names | set(location) if reads_location(expr) else names
