"""Bind comparisons of times: columns, constants and NOW, with durations added or subtracted.

Durations are always moved to the right: `ts + 1 min > NOW` is bound as `ts > NOW - 1 min`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec.structs import replace

from stqsh.lang.ast.expressions import (
    After,
    Arithmetic,
    Call,
    Case,
    Cast,
    Column,
    Expression,
    Literal,
    Negative,
    Now,
    Parameter,
    Quantity,
)
from stqsh.lang.ast.source import Span
from stqsh.lang.binder.literals import LONGEST_US, timestamp_us
from stqsh.lang.binder.parameters import Hole, hole
from stqsh.lang.binder.scope import Bind, Scope
from stqsh.lang.errors import BindError, NotSupportedError
from stqsh.lang.printer.expressions import expression as printed
from stqsh.lang.types import ALIASES, a_type
from stqsh.spec.expression import (
    NOW,
    ArithmeticExpr,
    CompareExpr,
    DurationExpr,
    Expr,
    LiteralExpr,
    NowExpr,
)
from stqsh.spec.functions import named
from stqsh.units import UNITS, microseconds, parse_ago

FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Moment(NamedTuple):
    """A base (a column, `now`, a constant or NULL) and a duration to add to it."""

    base: Expr
    offset_us: int
    span: Span

    @property
    def is_of_row(self) -> bool:
        """Whether the base is a column or computed from columns, not a constant or NOW."""
        return not isinstance(self.base, LiteralExpr | NowExpr)


def mentions_now(node: Expression) -> bool:
    """Return whether an expression is NOW, or NOW plus or minus something."""
    if isinstance(node, Arithmetic):
        return mentions_now(node.left) or mentions_now(node.right)
    return isinstance(node, Now) or (isinstance(node, Negative) and mentions_now(node.operand))


def is_moment(node: Expression, scope: Scope) -> bool:
    """Return whether an expression is a time: NOW, a TIMESTAMP column or function, perhaps with a duration.

    The expression is not bound for this test, because that would be slow for deeply nested expressions.
    """
    if isinstance(node, Arithmetic):
        return is_moment(node.left, scope) or is_moment(node.right, scope)
    return mentions_now(node) or scope.is_time(node) or _computes_time(node, scope)


def _computes_time(node: Expression, scope: Scope) -> bool:
    """Return whether an expression is a function, a CAST or a CASE whose result is a time."""
    match node:
        case Cast(_, kind):
            return ALIASES.get(kind.text.upper(), kind.text.upper()) == "TIMESTAMP"
        case Case(results=results, otherwise=otherwise):
            return any(
                is_moment(one, scope) for one in (*results, *(() if otherwise is None else (otherwise,)))
            )
        case Call(name, arguments) if scope.catalogue.function(name) is None:
            function = named(name)
            if function is None or function.arguments[0] != "alike":
                return function is not None and function.returns == "TIMESTAMP"
            return any(is_moment(one, scope) for one in arguments)
    return False


def compare_moments(operator: str, left: Expression, right: Expression, scope: Scope, bind: Bind) -> Expr:
    """Bind a comparison in which at least one side is a time; `bind` binds functions."""
    a, b = _moment(left, scope, bind), _moment(right, scope, bind)
    if not a.is_of_row and b.is_of_row:
        a, b, operator = b, a, FLIPPED[operator]
    if not a.is_of_row:
        raise NotSupportedError(
            f"a comparison of times without a column: {printed(left)} {operator} {printed(right)}", a.span
        )
    return CompareExpr(operator, a.base, _shifted(b, b.offset_us - a.offset_us))


def moment(node: Expression, scope: Scope) -> Expr:
    """Bind a time without a column: a constant or NOW, plus or minus a duration.

    Raises:
        BindError: the expression is something else.
    """
    try:
        found = _moment(node, scope, None)
    except NotSupportedError:
        raise BindError(
            f"{printed(node)} is not a time", node.span, expected=("a time + or - a duration",)
        ) from None
    return _shifted(found, found.offset_us)


def after(node: After, scope: Scope, bind: Bind) -> Expr:
    """Bind `time AFTER '10 mins ago'`, or AFTER a timestamp."""
    column, moment, span = node.operand, node.moment, node.span
    if not is_moment(column, scope):
        raise BindError(
            f"{printed(column)} is not a TIMESTAMP",
            column.span,
            expected=("a TIMESTAMP column before AFTER",),
        )
    ago_us = parse_ago(moment)
    if ago_us is None and moment.strip().lower().endswith("ago"):
        raise BindError(f"{moment!r} is not a time span", span, expected=("something like '10 mins ago'",))
    end: Expression = Literal(moment, "STRING", span=span)
    if ago_us is not None:
        end = Arithmetic("-", Now(span=span), Quantity(ago_us / 1000, "ms", span=span), span=span)
    try:
        return compare_moments(">", column, end, scope, bind)
    except BindError as error:
        if ago_us is not None:
            raise
        expected = "something like '10 mins ago'", *error.expected
        raise BindError(error.message, span, expected=expected) from None


def _shifted(moment: Moment, offset_us: int) -> Expr:
    if abs(offset_us) >= LONGEST_US:  # each duration fits 64 bits, but their sum may not
        raise BindError("the durations are too long together", moment.span)
    if isinstance(moment.base, LiteralExpr):
        us: Any = moment.base.value
        if isinstance(us, Hole):
            return LiteralExpr(replace(us, offset_us=offset_us), "TIMESTAMP")  # type: ignore[arg-type]
        return LiteralExpr(None if us is None else us + offset_us, "TIMESTAMP")
    if offset_us == 0:
        return moment.base
    if moment.base != NOW:
        raise NotSupportedError("a duration between two columns", moment.span)
    return ArithmeticExpr("+" if offset_us > 0 else "-", NOW, DurationExpr(abs(offset_us)))


def _moment(node: Expression, scope: Scope, bind: Bind | None) -> Moment:
    if isinstance(node, Now):
        return Moment(NOW, 0, node.span)
    if isinstance(node, Literal):
        return Moment(LiteralExpr(_constant_us(node), "TIMESTAMP"), 0, node.span)
    if isinstance(node, Parameter):
        return Moment(LiteralExpr(hole(node, "TIMESTAMP"), "TIMESTAMP"), 0, node.span)
    if isinstance(node, Arithmetic):
        return _sum(node, scope, bind)
    bound = scope.column(node) if isinstance(node, Column) else scope.replaced(node)
    if bound is None and bind is not None and _computes_time(node, scope):
        bound = bind(node, scope)
    if bound is not None and bound.type == "TIMESTAMP":
        return Moment(bound.expr, 0, node.span)
    if bound is not None:
        raise BindError(f"cannot compare a time with {printed(node)}, {a_type(bound.type)}", node.span)
    if mentions_now(node):
        raise NotSupportedError(f"NOW in {printed(node)}", node.span)
    raise BindError(f"cannot compare a time with {printed(node)}", node.span)


def _sum(node: Arithmetic, scope: Scope, bind: Bind | None) -> Moment:
    """Return a time plus or minus a duration."""
    left, right = node.left, node.right
    if node.operator == "+" and _is_duration(left):
        left, right = right, left
    if node.operator in "+-" and isinstance(right, Quantity) and not _is_duration(right):
        raise BindError(
            f"{printed(right)} is no duration", right.span, expected=("a duration such as 10 min",)
        )
    if node.operator not in "+-" or not isinstance(right, Quantity):
        if mentions_now(node) and not (node.operator in "+-" and isinstance(right, Literal)):
            raise NotSupportedError(f"NOW in {printed(node)}", node.span)
        raise BindError(f"{printed(node)} is not a time", node.span, expected=("a time + or - a duration",))
    base = _moment(left, scope, bind)
    sign = 1 if node.operator == "+" else -1
    return base._replace(
        offset_us=base.offset_us + sign * microseconds(right.number, right.unit), span=node.span
    )


def _is_duration(node: Expression) -> bool:
    return isinstance(node, Quantity) and UNITS[node.unit].dimension == "duration"


def _constant_us(node: Literal) -> int | None:
    if node.kind == "NULL":
        return None
    if node.kind == "STRING":
        return timestamp_us(str(node.value), node.span)
    raise BindError(
        f"cannot compare a time with {printed(node)}",
        node.span,
        expected=("a timestamp such as '2008-02-02T15:00:00'",),
    )
