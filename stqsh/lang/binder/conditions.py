"""Bind expressions and conditions: resolve columns, check types, convert constants."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any

from stqsh.lang.ast.expressions import (
    After,
    And,
    Arithmetic,
    Between,
    Call,
    Case,
    Cast,
    Column,
    Comparison,
    Concatenation,
    Contains,
    Expression,
    In,
    Inside,
    IsNull,
    Like,
    Literal,
    Negative,
    Not,
    Now,
    Or,
    Parameter,
    Quantity,
    Star,
)
from stqsh.lang.binder.choices import case, cast
from stqsh.lang.binder.extents import extent_test
from stqsh.lang.binder.functions import call
from stqsh.lang.binder.literals import key_value
from stqsh.lang.binder.operators import arithmetic, concatenation, described, negative
from stqsh.lang.binder.parameters import MOST_IN_PATTERN, Content, hole
from stqsh.lang.binder.places import LOCATIONS
from stqsh.lang.binder.regions import bound_region, is_inside, moves, over_meridian
from stqsh.lang.binder.scope import Scope, TypedExpression
from stqsh.lang.binder.time_comparisons import (
    after,
    compare_difference,
    compare_moments,
    is_difference,
    is_moment,
)
from stqsh.lang.errors import BindError, NotSupportedError
from stqsh.lang.printer.expressions import expression as printed
from stqsh.lang.types import NUMBERS, WHOLE_NUMBERS
from stqsh.spec.expression import (
    NOW,
    AndExpr,
    BetweenExpr,
    CompareExpr,
    ContainsExpr,
    DurationExpr,
    Expr,
    InExpr,
    IsNullExpr,
    LikeExpr,
    LiteralExpr,
    Match,
    NotExpr,
    OrExpr,
)
from stqsh.units import SECOND_US, UNITS, metres, metres_per_second, microseconds


def condition(node: Expression, scope: Scope) -> Expr:
    """Return a bound condition.

    Raises:
        BindError: it is not a condition, or its columns or types are invalid.
    """
    typed = bind(node, scope)
    if typed.type == "NULL":
        return LiteralExpr(None, "BOOLEAN")
    if typed.type != "BOOLEAN":
        raise BindError(f"a condition is TRUE or FALSE, but {described(node, typed)}", node.span)
    return typed.expr


def conjuncts(node: Expression | None) -> tuple[Expression, ...]:
    """Return the top-level operands of AND in a condition; none of them is an And."""
    if node is None:
        return ()
    return (
        tuple(part for piece in node.parts for part in conjuncts(piece)) if isinstance(node, And) else (node,)
    )


def bind(node: Expression, scope: Scope) -> TypedExpression:
    """Return a bound expression with its type."""
    return scope.replaced(node) or _BINDERS[type(node)](node, scope)


def _literal(node: Literal, scope: Scope) -> TypedExpression:
    del scope
    if node.kind == "NULL":
        return TypedExpression(LiteralExpr(None, "STRING"), "NULL", node.span)
    kind = {"INTEGER": "BIGINT", "DECIMAL": "DOUBLE"}.get(node.kind, node.kind)
    return TypedExpression(LiteralExpr(node.value, kind), kind, node.span)


def _parameter(node: Parameter, scope: Scope) -> TypedExpression:
    del scope
    kinds: dict[str | None, Content] = {"INT": "BIGINT", "FLOAT": "DOUBLE"}
    return _placed(node, kinds.get(node.type, node.type or "STRING"))  # type: ignore[arg-type]


def _placed(node: Parameter, kind: Content) -> TypedExpression:
    """Return a parameter as a constant of the given type."""
    return TypedExpression(LiteralExpr(hole(node, kind), kind), kind, node.span)


def _quantity(node: Quantity, scope: Scope) -> TypedExpression:
    """Bind a quantity; lengths are converted to metres, speeds to metres per second."""
    del scope
    dimension = UNITS[node.unit].dimension
    if dimension == "duration":
        return TypedExpression(DurationExpr(microseconds(node.number, node.unit)), "DURATION", node.span)
    convert = metres if dimension == "length" else metres_per_second
    return TypedExpression(LiteralExpr(convert(node.number, node.unit), "DOUBLE"), "DOUBLE", node.span)


def _comparison(node: Comparison, scope: Scope) -> TypedExpression:
    return _true_or_false(_compared(node.operator, node.left, node.right, scope), node)


def _compared(operator: str, left: Expression, right: Expression, scope: Scope) -> Expr:
    if is_moment(left, scope) or is_moment(right, scope):
        return compare_moments(operator, left, right, scope, bind)
    found = compare_difference(operator, left, right, scope, bind)
    return CompareExpr(operator, *_fitting([left, right], scope)) if found is None else found


def _between(node: Between, scope: Scope) -> TypedExpression:
    parts = [node.operand, node.low, node.high]
    if any(is_moment(part, scope) or is_difference(part, scope) for part in parts):
        ends = (">=", node.low), ("<=", node.high)
        return _negated(AndExpr(tuple(_compared(op, node.operand, end, scope) for op, end in ends)), node)
    return _negated(BetweenExpr(*_fitting(parts, scope)), node)


def _in(node: In, scope: Scope) -> TypedExpression:
    if is_moment(node.operand, scope):
        equal = [compare_moments("=", node.operand, item, scope, bind) for item in node.items]
        return _negated(OrExpr(tuple(equal)) if len(equal) > 1 else equal[0], node)
    operand, *items = _fitting([node.operand, *node.items], scope)
    return _negated(InExpr(operand, tuple(items)), node)


def _like(node: Like, scope: Scope) -> TypedExpression:
    operand = bind(node.operand, scope)
    if operand.type != "STRING":
        raise BindError(f"LIKE takes a STRING, but {described(node.operand, operand)}", node.operand.span)
    if isinstance(node.pattern, Parameter):
        return _negated(LikeExpr(operand.expr, hole(node.pattern, "pattern")), node)
    if len(node.pattern) > MOST_IN_PATTERN:
        raise BindError(
            f"a pattern has at most {MOST_IN_PATTERN:,} characters, and this one {len(node.pattern):,}",
            node.span,
        )
    return _negated(LikeExpr(operand.expr, node.pattern), node)


def _inside(node: Inside, scope: Scope) -> TypedExpression:
    """Bind `loc INSIDE r` in a query that already has a region, or under OR and NOT."""
    check_location(node)
    if moves(node.region) and scope.no_moving_region:
        raise NotSupportedError(scope.no_moving_region, node.span)
    region = bound_region(node.region, scope.stream, scope.catalogue)
    if scope.stream.extent is not None:
        return _true_or_false(extent_test(node, region, scope.stream, scope.catalogue), node)
    parts = over_meridian(region, scope.stream, scope.catalogue)
    return _true_or_false(is_inside((region,) if parts is None else parts.regions), node)


def check_location(node: Inside) -> None:
    """Raise `BindError` if a column other than the location stands before INSIDE or INTERSECTS."""
    if node.column.name.lower() not in LOCATIONS:
        relation = node.relation
        raise BindError(
            f"{relation} takes the location, not {node.column.name!r}",
            node.span,
            expected=(f"loc {relation} …",),
        )


def _contains(node: Contains, scope: Scope) -> TypedExpression:
    operand = bind(node.operand, scope)
    if operand.type != "STRING":
        raise BindError(f"CONTAINS takes a STRING, but {described(node.operand, operand)}", node.operand.span)
    how: Match = "any" if node.any_of else "all"
    if isinstance(node.terms, Parameter):
        return _true_or_false(ContainsExpr(operand.expr, hole(node.terms, "terms"), how), node)
    if not has_terms(node.terms):
        raise BindError(
            f"there is no word to look for in '{node.terms}'", node.span, expected=("letters or digits",)
        )
    return _true_or_false(ContainsExpr(operand.expr, node.terms, how), node)


def has_terms(text: str) -> bool:
    """Return whether a text has a letter or a digit, and so contains a term to search for."""
    return any(unicodedata.category(character)[0] in "LN" for character in text)


def _star(node: Star, scope: Scope) -> TypedExpression:
    raise BindError("* has no value", node.span)


def _fitting(nodes: list[Expression], scope: Scope) -> list[Expr]:
    """Bind expressions that are compared with each other; constants compared with the key get its type."""
    key_type = next((kind for node in nodes if (kind := scope.key_type(node))), None)
    typed = [bind(node, scope) if key_type is None else _beside_key(node, key_type, scope) for node in nodes]
    if key_type is None:
        typed = _with_suited_parameters(nodes, typed)
    first = next((part for part in typed if part.type != "NULL"), typed[0])
    listed = next((node for node, part in zip(nodes, typed, strict=True) if part.type == "TOPK"), None)
    if listed is not None:
        raise BindError(f"{printed(listed)} is a list of terms, and cannot be compared", listed.span)
    for node, part in zip(nodes, typed, strict=True):
        if part.type != "NULL" and _family(part.type) != _family(first.type):
            this, that = described(nodes[typed.index(first)], first), described(node, part)
            raise BindError(f"cannot compare: {this}, {that}", part.span, hint=_remedy(first, part))
    kind = "STRING" if first.type == "NULL" else first.type
    return [LiteralExpr(None, kind) if part.type == "NULL" else part.expr for part in typed]


def _with_suited_parameters(nodes: list[Expression], typed: list[TypedExpression]) -> list[TypedExpression]:
    """Give parameters the type they are compared with; their column's type may be inferred from few rows."""
    others = {part.type for node, part in zip(nodes, typed, strict=True) if not isinstance(node, Parameter)}
    wanted: dict[str, Content] = {
        "FLOAT": "DOUBLE",
        "DOUBLE": "DOUBLE",
        "STRING": "STRING",
        "BOOLEAN": "BOOLEAN",
    }
    kinds = {wanted[other] for other in others if other in wanted}
    if not kinds and others & WHOLE_NUMBERS:
        kinds = {"BIGINT"}
    if len(kinds) != 1:
        return typed
    [kind] = kinds
    return [
        _placed(node, kind)
        if isinstance(node, Parameter) and not (kind == "BIGINT" and part.type == "DOUBLE")
        else part
        for node, part in zip(nodes, typed, strict=True)
    ]


def _beside_key(node: Expression, key_type: str, scope: Scope) -> TypedExpression:
    if isinstance(node, Parameter):
        return _placed(node, key_type)  # type: ignore[arg-type]
    if not isinstance(node, Literal) or node.kind not in ("STRING", "INTEGER"):
        return bind(node, scope)
    return TypedExpression(LiteralExpr(key_value(node, key_type), key_type), key_type, node.span)


def _family(kind: str) -> str:
    return "number" if kind in NUMBERS else kind


def _remedy(first: TypedExpression, other: TypedExpression) -> str | None:
    types = {first.type, other.type}
    span = next((part.expr for part in (other, first) if isinstance(part.expr, DurationExpr)), None)
    if span is not None and types & NUMBERS:
        return f"as a number it is its seconds: {span.us / SECOND_US:g}"
    literal = next((part.expr for part in (other, first) if isinstance(part.expr, LiteralExpr)), None)
    if "STRING" in types and types & NUMBERS and literal is not None and literal.type != "STRING":
        return f"a string takes quotes: '{literal.value}'"
    text = str(literal.value) if literal is not None and literal.type == "STRING" else ""
    if types & NUMBERS and re.fullmatch(r"[\d.]+ *[a-z/]*", text):
        return f"a number takes no quotes, also with a unit: {text}"
    return None


def _conditions(parts: Iterable[Expression], scope: Scope) -> tuple[Expr, ...]:
    return tuple(condition(part, scope) for part in parts)


def _true_or_false(expr: Expr, node: Expression) -> TypedExpression:
    return TypedExpression(expr, "BOOLEAN", node.span)


def _negated(expr: Expr, node: Between | In | Like | IsNull) -> TypedExpression:
    return _true_or_false(NotExpr(expr) if node.negated else expr, node)


_BINDERS: dict[type[Expression], Callable[[Any, Scope], TypedExpression]] = {
    Literal: _literal,
    Quantity: _quantity,
    Parameter: _parameter,
    Column: lambda node, scope: scope.column(node),
    Now: lambda node, scope: TypedExpression(NOW, "TIMESTAMP", node.span),
    Negative: lambda node, scope: negative(node, scope, bind),
    Arithmetic: lambda node, scope: arithmetic(node, scope, bind),
    Concatenation: lambda node, scope: concatenation(node, scope, bind),
    Comparison: _comparison,
    Between: _between,
    In: _in,
    Like: _like,
    IsNull: lambda node, scope: _negated(IsNullExpr(bind(node.operand, scope).expr), node),
    After: lambda node, scope: _true_or_false(after(node, scope, bind), node),
    And: lambda node, scope: _true_or_false(AndExpr(_conditions(conjuncts(node), scope)), node),
    Or: lambda node, scope: _true_or_false(OrExpr(_conditions(node.parts, scope)), node),
    Not: lambda node, scope: _true_or_false(NotExpr(condition(node.operand, scope)), node),
    Inside: _inside,
    Contains: _contains,
    Call: lambda node, scope: call(node, scope, bind),
    Case: lambda node, scope: case(node, scope, bind),
    Cast: lambda node, scope: cast(node, scope, bind),
    Star: _star,
}
