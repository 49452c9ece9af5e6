"""Expressions of bound queries in words, for people."""

from __future__ import annotations

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
    FunctionExpr,
    InExpr,
    IsNullExpr,
    LikeExpr,
    LiteralExpr,
    NegativeExpr,
    NotExpr,
    NowExpr,
    OrExpr,
    RegionOfExpr,
)
from stqsh.units import format_duration, format_instant


def expression_text(expr: Expr) -> str:  # noqa: PLR0911, PLR0912  # one for each node
    """Return an expression in a readable form close to STQL; operands that are not names in brackets."""
    match expr:
        case ColumnExpr(name):
            return name
        case LiteralExpr(value, kind):
            if kind == "TIMESTAMP" and isinstance(value, int):
                return f"'{format_instant(value)}'"
            return "NULL" if value is None else repr(value)
        case DurationExpr(us):
            return str(format_duration(us))
        case NowExpr():
            return "NOW"
        case NegativeExpr(operand):
            return f"-{_inner(operand)}"
        case ArithmeticExpr(operator, left, right) | CompareExpr(operator, left, right):
            return f"{_inner(left)} {operator} {_inner(right)}"
        case ConcatExpr(left, right):
            return f"{_inner(left)} || {_inner(right)}"
        case BetweenExpr(operand, low, high):
            return f"{_inner(operand)} BETWEEN {_inner(low)} AND {_inner(high)}"
        case InExpr(operand, items):
            return f"{_inner(operand)} IN ({', '.join(map(expression_text, items))})"
        case LikeExpr(operand, pattern):
            return f"{_inner(operand)} LIKE {pattern!r}"
        case ContainsExpr(operand, phrase, match):
            return f"{_inner(operand)} CONTAINS {'ANY ' if match == 'any' else ''}{phrase!r}"
        case IsNullExpr(operand):
            return f"{_inner(operand)} IS NULL"
        case FunctionExpr(name, operand, others):
            return f"{name}({', '.join(map(expression_text, (operand, *others)))})"
        case CastExpr(operand, _, kind):
            return f"CAST({expression_text(operand)} AS {kind})"
        case CaseExpr(conditions, (*results, otherwise)):
            pairs = zip(conditions, results, strict=True)
            branches = " ".join(f"WHEN {expression_text(a)} THEN {expression_text(b)}" for a, b in pairs)
            return f"CASE {branches} ELSE {expression_text(otherwise)} END"
        case AndExpr(parts):
            return " AND ".join(map(_inner, parts))
        case OrExpr(parts):
            return " OR ".join(map(_inner, parts))
        case NotExpr(operand):
            return f"NOT {_inner(operand)}"
        case RegionOfExpr():
            return "REGION(…)"
    return "…"


def _inner(expr: Expr) -> str:
    text = expression_text(expr)
    is_plain = isinstance(
        expr,
        ColumnExpr | LiteralExpr | DurationExpr | NowExpr | FunctionExpr | CastExpr | CaseExpr | RegionOfExpr,
    )
    return text if is_plain else f"({text})"
