"""Bind arithmetic and text operators."""

from __future__ import annotations

from stqsh.lang.ast.expressions import Arithmetic, Concatenation, Expression, Negative
from stqsh.lang.binder.scope import Bind, Scope, TypedExpression
from stqsh.lang.binder.time_comparisons import is_difference, is_moment, time_value
from stqsh.lang.errors import BindError
from stqsh.lang.printer.expressions import expression as printed
from stqsh.lang.types import NUMBERS, WHOLE_NUMBERS, a_type
from stqsh.spec.expression import ArithmeticExpr, ConcatExpr, DurationExpr, LiteralExpr, NegativeExpr
from stqsh.units import SECOND_US

_TEXTUAL = WHOLE_NUMBERS | {"STRING", "BOOLEAN", "NULL"}
"""The types that || accepts; DOUBLE is excluded because its text differs between systems."""


def negative(node: Negative, scope: Scope, bind: Bind) -> TypedExpression:
    """Bind `-x`."""
    operand = _operand(node.operand, bind(node.operand, scope), "arithmetic takes numbers")
    return TypedExpression(NegativeExpr(operand.expr), operand.type, node.span)


def arithmetic(node: Arithmetic, scope: Scope, bind: Bind) -> TypedExpression:
    """Bind `x + y` and similar: integers give an integer, except with `/`; durations are numbers of seconds.

    `DIV` is the quotient of integers, truncated.
    """
    if is_moment(node, scope) or is_difference(node, scope):
        return time_value(node, scope, bind)
    wanted, of = "arithmetic takes numbers", NUMBERS
    if node.operator in ("%", "DIV"):
        wanted, of = f"{node.operator} takes whole numbers", WHOLE_NUMBERS
    left, right = (_operand(part, bind(part, scope), wanted, of) for part in (node.left, node.right))
    whole = node.operator != "/" and {left.type, right.type} <= WHOLE_NUMBERS
    expr = ArithmeticExpr(node.operator, left.expr, right.expr)
    return TypedExpression(expr, "BIGINT" if whole else "DOUBLE", node.span)


def _operand(
    node: Expression, typed: TypedExpression, wanted: str, of: frozenset[str] = NUMBERS
) -> TypedExpression:
    """Bind an operand of one of the types `of`; NULL gets a suitable type."""
    if isinstance(typed.expr, DurationExpr):
        typed = TypedExpression(LiteralExpr(typed.expr.us / SECOND_US, "DOUBLE"), "DOUBLE", typed.span)
    if typed.type in of:
        return typed
    if typed.type != "NULL":
        raise BindError(f"{wanted}, but {described(node, typed)}", node.span)
    kind = "BIGINT" if of == WHOLE_NUMBERS else "DOUBLE"
    return TypedExpression(LiteralExpr(None, kind), kind, typed.span)


def concatenation(node: Concatenation, scope: Scope, bind: Bind) -> TypedExpression:
    """Bind `a || b`, where at least one operand is a STRING, as in PostgreSQL."""
    sides = [(part, bind(part, scope)) for part in (node.left, node.right)]
    for part, typed in sides:
        if typed.type not in _TEXTUAL:
            raise BindError(
                f"|| takes strings, whole numbers and BOOLEANs, but {described(part, typed)}",
                part.span,
                hint=None if typed.type == "DURATION" else f"CAST({printed(part)} AS STRING) makes it one",
            )
    if not any(typed.type in ("STRING", "NULL") for _, typed in sides):
        part, typed = sides[0]
        raise BindError(f"one side of || is a STRING, but {described(part, typed)}", part.span)
    left, right = (typed.expr for _, typed in sides)
    return TypedExpression(ConcatExpr(left, right), "STRING", node.span)


def described(node: Expression, typed: TypedExpression) -> str:
    """Describe an expression and its type, for an error."""
    kinds = {"DURATION": "is a duration", "NULL": "is NULL"}
    return f"{printed(node)} {kinds.get(typed.type, f'is {a_type(typed.type)}')}"
