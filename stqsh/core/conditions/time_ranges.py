"""The times that a condition allows: an exact range for one comparison, and bounds for any condition."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import reduce
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from stqsh.core.conditions.evaluation import compute
from stqsh.spec.expression import (
    AndExpr,
    ArithmeticExpr,
    BetweenExpr,
    CaseExpr,
    CastExpr,
    ColumnExpr,
    CompareExpr,
    ConcatExpr,
    ContainsExpr,
    DurationExpr,
    Expr,
    ExprBase,
    FunctionExpr,
    InExpr,
    InsideExpr,
    IsNullExpr,
    LikeExpr,
    LiteralExpr,
    NegativeExpr,
    NotExpr,
    NowExpr,
    OrExpr,
    RegionOfExpr,
    find_nodes,
    reads_location,
)

LASTING = (
    AndExpr, ArithmeticExpr, BetweenExpr, CaseExpr, CastExpr, ColumnExpr, CompareExpr, ConcatExpr,
    ContainsExpr, DurationExpr,
    FunctionExpr, InExpr, InsideExpr, IsNullExpr, LikeExpr, LiteralExpr, NegativeExpr, NotExpr, OrExpr,
    RegionOfExpr,
)  # fmt: skip
"""Nodes whose value for an event never changes: neither NOW, nor a table, nor a distance from a centre."""

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_DAY_US = 86_400_000_000
_YEARS = range(1, 9999)
"""The years whose beginning and end can be computed here."""


class TimeRange(NamedTuple):
    """Times from `since` to before `until`, µs."""

    since: int
    until: int

    def within(self, other: TimeRange) -> TimeRange:
        """Return the intersection of both ranges."""
        return TimeRange(max(self.since, other.since), min(self.until, other.until))

    def around(self, other: TimeRange) -> TimeRange:
        """Return the smallest range that contains both."""
        return TimeRange(min(self.since, other.since), max(self.until, other.until))


EVER = TimeRange(np.iinfo(np.int64).min, np.iinfo(np.int64).max)


def exact_range(expr: Expr, time: str, now: int) -> TimeRange | None:
    """Return the times that a condition allows; None for a condition that is not a range of times.

    Args:
        expr: the condition.
        time: the column of the time.
        now: the value of NOW, µs.
    """
    match expr:
        case CompareExpr(operator, ColumnExpr(name), other) if name == time and operator in _FLIPPED:
            at = _instant(other, now)
        case CompareExpr(operator, other, ColumnExpr(name)) if name == time and operator in _FLIPPED:
            operator, at = _FLIPPED[operator], _instant(other, now)
        case BetweenExpr(ColumnExpr(name), low, high) if name == time:
            least, most = _instant(low, now), _instant(high, now)
            return None if least is None or most is None else TimeRange(least, most + 1)
        case _:
            return None
    return None if at is None else _compared(operator, TimeRange(at, at + 1))


def time_bounds(expr: Expr | None, time: str, now: int) -> TimeRange | None:
    """Return a range that contains all times that a condition allows; None if it does not bound the time.

    The condition may bound the time in a part of an AND, or in each part of an OR. The arguments are those of
    `exact_range`.
    """
    match expr:
        case AndExpr(parts):
            found = [one for one in (time_bounds(part, time, now) for part in parts) if one is not None]
            return reduce(TimeRange.within, found) if found else None
        case OrExpr(parts):
            every = [time_bounds(part, time, now) for part in parts]
            bounded = [one for one in every if one is not None]
            return reduce(TimeRange.around, bounded) if bounded and len(bounded) == len(every) else None
        case InExpr(operand, items):
            return time_bounds(OrExpr(tuple(CompareExpr("=", operand, item) for item in items)), time, now)
        case None:
            return None
    return exact_range(expr, time, now) or _calendar_range(expr, time)


def _calendar_range(expr: Expr, time: str) -> TimeRange | None:
    """Return the times that a condition on the time's date or year allows; None for another condition."""
    match expr:
        case CompareExpr(operator, FunctionExpr("DATE" | "YEAR", ColumnExpr(name)), LiteralExpr(value)):
            period = _period(value)
        case CompareExpr(operator, LiteralExpr(value), FunctionExpr("DATE" | "YEAR", ColumnExpr(name))):
            operator, period = _FLIPPED.get(operator, ""), _period(value)
        case BetweenExpr(
            FunctionExpr("DATE" | "YEAR", ColumnExpr(name)), LiteralExpr(low), LiteralExpr(high)
        ):
            first, last = _period(low), _period(high)
            if name != time or first is None or last is None:
                return None
            return TimeRange(first.since, last.until)
        case _:
            return None
    return _compared(operator, period) if name == time and period is not None else None


def _period(value: object) -> TimeRange | None:
    """Return the day of a text such as '2025-06-14', or the year of a number."""
    if isinstance(value, int) and not isinstance(value, bool) and value in _YEARS:
        begin, end = (datetime(year, 1, 1, tzinfo=UTC) for year in (value, value + 1))
        return TimeRange(_us(begin), _us(end))
    if not isinstance(value, str):
        return None
    try:
        day = datetime.strptime(value, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return None
    # DATE results have ten characters and are compared as text.
    return TimeRange(_us(day), _us(day) + _DAY_US) if f"{day:%Y-%m-%d}" == value else None


def _us(instant: datetime) -> int:
    return int(instant.timestamp()) * 1_000_000


def _compared(operator: str, period: TimeRange) -> TimeRange | None:
    """Return the times for which a comparison with a period holds; None for an operator without a range."""
    if operator not in _FLIPPED:
        return None
    since = {"=": period.since, ">": period.until, ">=": period.since}.get(operator, EVER.since)
    until = {"=": period.until, "<": period.since, "<=": period.until}.get(operator, EVER.until)
    return TimeRange(since, until)


def _instant(expr: Expr, now: int) -> int | None:
    """Return an instant that is the same for all events, µs; None for any other expression."""
    if not all(isinstance(node, (*LASTING, NowExpr)) for node in find_nodes(expr, ExprBase)):
        return None
    if any(find_nodes(expr, ColumnExpr)) or reads_location(expr):
        return None
    found = compute(expr, {"": pa.nulls(1)}, now)
    return found[0].as_py() if pa.types.is_integer(found.type) else None
