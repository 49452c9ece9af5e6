"""Bind aggregate functions: COUNT, SUM, AVG, MIN, MAX and TOPK."""

from __future__ import annotations

from dataclasses import replace

from stqsh.lang.ast.expressions import Call, Literal, Star
from stqsh.lang.binder.conditions import bind
from stqsh.lang.binder.operators import described
from stqsh.lang.binder.scope import Scope, TypedExpression
from stqsh.lang.errors import BindError
from stqsh.lang.printer.expressions import expression as printed
from stqsh.lang.types import NUMBERS
from stqsh.spec.aggregate import Measure, MeasureFunction

_NESTED = "an aggregate cannot stand within another"
_SIGNATURES = {"COUNT": "COUNT(*), COUNT(x) or COUNT(DISTINCT x)", "TOPK": "TOPK(text [, 10])"}
_FUNCTIONS: dict[str, MeasureFunction] = {"SUM": "sum", "AVG": "avg", "MIN": "min", "MAX": "max"}
_MOST_TERMS = 10_000
_TERMS = Literal(10, "INTEGER")
"""The number of terms in a TOPK without a number, as in STAR's experiments (section 6.1)."""


def bound_measure(node: Call, records: Scope) -> Measure:
    """Bind an aggregate over records.

    Raises:
        BindError: its arguments are invalid.
    """
    if node.distinct and node.name != "COUNT":
        raise BindError(
            f"DISTINCT is for COUNT, not for {node.name}", node.span, expected=("COUNT(DISTINCT x)",)
        )
    if node.name == "COUNT" and _is_star(node):
        return Measure("count")
    _check_arguments(node)
    argument = bind(node.arguments[0], replace(records, no_aggregate=_NESTED))
    if node.name == "COUNT":
        return _count(node, argument)
    if node.name == "TOPK":
        return _topk(node, argument)
    _check_type(node, argument)
    return Measure(_FUNCTIONS[node.name], argument.expr, argument.type)


def _is_star(node: Call) -> bool:
    only = node.arguments[0] if len(node.arguments) == 1 and not node.distinct else None
    return isinstance(only, Star) and only.qualifier is None


def _check_arguments(node: Call) -> None:
    is_topk, given = node.name == "TOPK", len(node.arguments)
    if not 1 <= given <= 1 + is_topk or any(isinstance(each, Star) for each in node.arguments):
        takes = "a text and a number of terms" if is_topk else "one argument"
        example = _SIGNATURES.get(node.name, f"{node.name}(x)")
        raise BindError(f"{node.name} takes {takes}", node.span, expected=(example,))


def _count(node: Call, argument: TypedExpression) -> Measure:
    if argument.type == "DURATION":
        raise BindError(
            f"{printed(node.arguments[0])} is a duration, which cannot be aggregated", argument.span
        )
    kind = "STRING" if argument.type == "NULL" else argument.type
    return Measure("distinct" if node.distinct else "count", argument.expr, kind)


def _topk(node: Call, argument: TypedExpression) -> Measure:
    text, number = node.arguments if len(node.arguments) > 1 else (*node.arguments, _TERMS)
    if argument.type != "STRING":
        raise BindError(f"TOPK takes a text, but {described(text, argument)}", argument.span)
    k = number.value if isinstance(number, Literal) and number.kind == "INTEGER" else None
    if not isinstance(k, int) or not 1 <= k <= _MOST_TERMS:
        raise BindError(
            f"the number of terms must be a whole number from 1 to {_MOST_TERMS}",
            number.span,
            expected=("TOPK(text, 10)",),
        )
    return Measure("topk", argument.expr, "STRING", k)


def _check_type(node: Call, argument: TypedExpression) -> None:
    is_number = argument.type in NUMBERS
    others = "COUNT(x) takes" if argument.type == "BOOLEAN" else "COUNT(x), MIN and MAX take"
    if node.name in ("SUM", "AVG") and not is_number:
        raise BindError(
            f"{node.name} takes numbers, but {described(node.arguments[0], argument)}",
            argument.span,
            hint=f"{others} other values" if argument.type != "DURATION" else None,
        )
    if not is_number and argument.type not in ("STRING", "TIMESTAMP"):
        raise BindError(
            f"{node.name} takes numbers, timestamps and strings, "
            f"but {described(node.arguments[0], argument)}",
            argument.span,
        )
