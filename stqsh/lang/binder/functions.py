"""Bind functions: check their arguments, and determine their type."""

from __future__ import annotations

from collections.abc import Callable

from stqsh.lang.ast.expressions import Call, Column, Expression, Name
from stqsh.lang.binder.names import area_named
from stqsh.lang.binder.scope import Scope, TypedExpression
from stqsh.lang.errors import BindError, near
from stqsh.lang.printer.expressions import expression as printed
from stqsh.lang.types import a_type
from stqsh.spec.expression import CallExpr, FunctionExpr, FunctionSpec, RegionOfExpr

RESULTS = {"DATE": "STRING", "HOUR": "BIGINT", "MINUTE": "BIGINT", "LENGTH": "BIGINT"}
"""The types of functions: '2008-02-02', 0 to 23, 0 to 59, in UTC; the number of a text's characters."""
AGGREGATES = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX", "TOPK"})
_OPERANDS = {"DATE": "TIMESTAMP", "HOUR": "TIMESTAMP", "MINUTE": "TIMESTAMP", "LENGTH": "STRING"}
_EXAMPLES = {"TIMESTAMP": "ts", "STRING": "text"}

Bind = Callable[[Expression, Scope], TypedExpression]


def call(node: Call, scope: Scope, bind: Bind) -> TypedExpression:
    """Return a bound call; `bind` binds its argument.

    Raises:
        BindError: the call or its argument does not fit.
    """
    if node.name in AGGREGATES:
        return scope.aggregate(node)
    registered = scope.catalogue.function(node.name)
    if registered is not None and not node.distinct:
        return _registered(node, registered, scope, bind)
    if node.name != "REGION" and node.name not in RESULTS:
        known = (*RESULTS, "REGION", *AGGREGATES)
        close = near(node.name, known)
        there = ", ".join(sorted(known))
        hint = None if close else f"functions: {there}; session.register_function adds one in Python"
        raise BindError(f"there is no function {node.name}", node.span, near=close, hint=hint)
    if node.distinct:
        raise BindError(
            f"DISTINCT is for COUNT, not for {node.name}", node.span, expected=("COUNT(DISTINCT x)",)
        )
    return _region(node, scope) if node.name == "REGION" else _function(node, scope, bind)


def _registered(node: Call, function: FunctionSpec, scope: Scope, bind: Bind) -> TypedExpression:
    """Return a call of a function that a user has registered."""
    typed = [bind(argument, scope) for argument in node.arguments]
    for argument, one in zip(node.arguments, typed, strict=True):
        if one.type in ("DURATION", "NULL", "TOPK"):
            raise BindError(f"{node.name} takes columns of values, but not {printed(argument)}", one.span)
    kinds = tuple(one.type for one in typed)
    expr = CallExpr(function.name, function.code, tuple(one.expr for one in typed), kinds, function.returns)
    return TypedExpression(expr, function.returns, node.span)


def _function(node: Call, scope: Scope, bind: Bind) -> TypedExpression:
    wanted = _OPERANDS[node.name]
    if len(node.arguments) != 1:
        example = f"{node.name}({_EXAMPLES[wanted]})"
        raise BindError(f"{node.name} takes one {wanted}", node.span, expected=(example,))
    argument = bind(node.arguments[0], scope)
    if argument.type != wanted:
        text = printed(node.arguments[0])
        raise BindError(f"{node.name} takes a {wanted}, but {text} is {a_type(argument.type)}", argument.span)
    return TypedExpression(FunctionExpr(node.name, argument.expr), RESULTS[node.name], node.span)


def _region(node: Call, scope: Scope) -> TypedExpression:
    name = node.arguments[0] if len(node.arguments) == 1 else None
    if not isinstance(name, Column) or name.qualifier is not None:
        raise BindError("REGION takes the name of a set of regions", node.span, expected=("REGION(zones)",))
    area = area_named(Name(name.name, span=name.span), scope.catalogue)
    if not area.set:
        raise BindError(
            f"{area.name} is a single region",
            name.span,
            hint=f"REGION takes a set of regions; loc INSIDE {area.name} tests a single one",
        )
    return TypedExpression(RegionOfExpr(area.id), "STRING", node.span)
