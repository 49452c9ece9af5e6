"""Bind expressions that choose one of several values: CASE, functions such as COALESCE; and CAST."""

from __future__ import annotations

from collections.abc import Sequence

from stqsh.lang.ast.expressions import Case, Cast, Comparison, Expression, Literal
from stqsh.lang.binder.literals import timestamp_us
from stqsh.lang.binder.operators import described
from stqsh.lang.binder.scope import Bind, Scope, TypedExpression
from stqsh.lang.errors import BindError
from stqsh.lang.types import NUMBERS, WHOLE_NUMBERS, a_type, type_named
from stqsh.spec.expression import CaseExpr, CastExpr, Expr, LiteralExpr

_FROM_NUMBERS = frozenset({"STRING", "BIGINT", "INT", "DOUBLE", "FLOAT", "BOOLEAN"})
_CASTS: dict[str, frozenset[str]] = {
    "STRING": _FROM_NUMBERS | {"TIMESTAMP"},
    **dict.fromkeys(NUMBERS, _FROM_NUMBERS),
    "BOOLEAN": _FROM_NUMBERS,
    "TIMESTAMP": frozenset({"STRING", "TIMESTAMP"}),
}
"""The types to which values of each type can be cast."""


def number_type(kind: str) -> str:
    """Return the type of a computation on values of a type: BIGINT or DOUBLE for numbers."""
    if kind in WHOLE_NUMBERS:
        return "BIGINT"
    return "DOUBLE" if kind in NUMBERS else "STRING" if kind == "NULL" else kind


def alike(nodes: Sequence[Expression], scope: Scope, bind: Bind, what: str) -> list[TypedExpression]:
    """Bind the values among which an expression chooses; they have one type, or are all numbers.

    A NULL gets the type of the others, and a constant text among times becomes a time.

    Raises:
        BindError: the types differ.
    """
    typed = [bind(node, scope) for node in nodes]
    if any(one.type == "TIMESTAMP" for one in typed):
        typed = [_as_time(node, one) for node, one in zip(nodes, typed, strict=True)]
    first = next((number for number, one in enumerate(typed) if one.type != "NULL"), 0)
    for node, one in zip(nodes, typed, strict=True):
        if one.type in ("DURATION", "TOPK"):
            raise BindError(f"{what} takes values, but {described(node, one)}", node.span)
        if one.type != "NULL" and _family(one.type) != _family(typed[first].type):
            this, that = described(nodes[first], typed[first]), described(node, one)
            raise BindError(f"{what} takes values of one type, but {this}, and {that}", node.span)
    kind = number_type(typed[first].type)
    return [
        TypedExpression(LiteralExpr(None, kind), kind, one.span) if one.type == "NULL" else one
        for one in typed
    ]


def _as_time(node: Expression, typed: TypedExpression) -> TypedExpression:
    if not isinstance(node, Literal) or node.kind != "STRING":
        return typed
    us = timestamp_us(str(node.value), node.span)
    return TypedExpression(LiteralExpr(us, "TIMESTAMP"), "TIMESTAMP", node.span)


def _family(kind: str) -> str:
    return "number" if kind in NUMBERS else kind


def case(node: Case, scope: Scope, bind: Bind) -> TypedExpression:
    """Bind a CASE; with an operand, its conditions compare with the operand."""
    conditions: list[Expr] = []
    for part in node.conditions:
        asked = part if node.operand is None else Comparison("=", node.operand, part, span=part.span)
        typed = bind(asked, scope)
        if typed.type not in ("BOOLEAN", "NULL"):
            raise BindError(f"WHEN takes a condition, but {described(part, typed)}", part.span)
        conditions.append(LiteralExpr(None, "BOOLEAN") if typed.type == "NULL" else typed.expr)
    otherwise = node.otherwise or Literal(None, "NULL", span=node.span)
    results = alike((*node.results, otherwise), scope, bind, "CASE")
    kinds = {number_type(one.type) for one in results}
    kind = "DOUBLE" if "DOUBLE" in kinds else kinds.pop()
    expr = CaseExpr(tuple(conditions), tuple(one.expr for one in results), kind)
    return TypedExpression(expr, kind, node.span)


def cast(node: Cast, scope: Scope, bind: Bind) -> TypedExpression:
    """Bind a CAST; values that cannot be cast become NULL during evaluation."""
    wanted, operand = type_named(node.type), bind(node.operand, scope)
    kind = number_type(wanted)
    if operand.type == "NULL":
        return TypedExpression(LiteralExpr(None, kind), kind, node.span)
    if wanted not in _CASTS.get(operand.type, frozenset()):
        hint = "TO_TIMESTAMP takes seconds since 1970" if operand.type in NUMBERS else None
        hint = "EPOCH gives seconds since 1970" if operand.type == "TIMESTAMP" else hint
        raise BindError(
            f"{described(node.operand, operand)}, which cannot become {a_type(wanted)}", node.span, hint=hint
        )
    if wanted == "TIMESTAMP" and isinstance(node.operand, Literal):
        return _as_time(node.operand, operand)._replace(span=node.span)
    is_same = operand.type == wanted or (wanted, operand.type) in (("BIGINT", "INT"), ("DOUBLE", "FLOAT"))
    expr = operand.expr if is_same else CastExpr(operand.expr, operand.type, wanted)
    return TypedExpression(expr, kind, node.span)


def as_text(node: Expression, typed: TypedExpression, what: str) -> TypedExpression:
    """Convert any value to text. Raises `BindError` for a duration or a list of terms."""
    if typed.type == "NULL":
        return TypedExpression(LiteralExpr(None, "STRING"), "STRING", typed.span)
    if typed.type not in _CASTS:
        raise BindError(f"{what} takes values, but {described(node, typed)}", node.span)
    expr = typed.expr if typed.type == "STRING" else CastExpr(typed.expr, typed.type, "STRING")
    return TypedExpression(expr, "STRING", typed.span)
