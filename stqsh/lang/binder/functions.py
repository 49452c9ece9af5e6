"""Bind functions: check their arguments, and determine their type."""

from __future__ import annotations

from collections.abc import Callable

from stqsh.errors import NotSupportedError
from stqsh.lang.ast.expressions import Call, Expression
from stqsh.lang.binder.scope import Scope, TypedExpression
from stqsh.lang.errors import BindError, near
from stqsh.lang.printer.expressions import expression as printed
from stqsh.lang.types import a_type
from stqsh.spec.expression import FunctionExpr

OF_TIMES = {"DATE": "STRING", "HOUR": "BIGINT", "MINUTE": "BIGINT"}
"""Functions of a TIMESTAMP, in UTC, and the types of their results: '2008-02-02', 0 to 23, 0 to 59."""
AGGREGATES = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX", "TOPK"})
_TO_COME = AGGREGATES | {"REGION"}

Bind = Callable[[Expression, Scope], TypedExpression]


def call(node: Call, scope: Scope, bind: Bind) -> TypedExpression:
    """Return a bound call; `bind` binds its argument.

    Raises:
        BindError: the call or its argument does not fit.
        NotSupportedError: the function is not built yet.
    """
    if node.name in _TO_COME:
        raise NotSupportedError(f"{node.name}(…)")
    if node.name not in OF_TIMES:
        raise BindError(
            f"there is no function {node.name}", node.span, near=near(node.name, (*OF_TIMES, *_TO_COME))
        )
    if len(node.arguments) != 1:
        raise BindError(f"{node.name} takes one TIMESTAMP", node.span, expected=(f"{node.name}(ts)",))
    argument = bind(node.arguments[0], scope)
    if argument.type != "TIMESTAMP":
        text = printed(node.arguments[0])
        raise BindError(
            f"{node.name} takes a TIMESTAMP, but {text} is {a_type(argument.type)}", argument.span
        )
    return TypedExpression(FunctionExpr(node.name, argument.expr), OF_TIMES[node.name], node.span)
