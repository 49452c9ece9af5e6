"""Bind times: columns, constants and NOW, durations added to them, their comparisons and differences.

In comparisons durations are always moved to the right: `ts + 1 min > NOW` is bound as `ts > NOW - 1 min`, and
so is `NOW - ts < 1 min`. The instants at which time changes the result of such a comparison are known.
"""

from __future__ import annotations

from dataclasses import replace as with_fields
from typing import Any, NamedTuple, TypeGuard

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
from stqsh.lang.binder.scope import Bind, Scope, TypedExpression
from stqsh.lang.errors import BindError
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
from stqsh.units import SECOND_US, UNITS, microseconds, parse_ago

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


def is_moment(node: Expression, scope: Scope) -> bool:
    """Return whether an expression is a time: NOW, a TIMESTAMP column or function, perhaps with a duration.

    The expression is not bound for this test, because that would be slow for deeply nested expressions.
    """
    if isinstance(node, Arithmetic):
        return node.operator in ("+", "-") and _times_in(node, scope) == 1
    return isinstance(node, Now) or scope.is_time(node) or _computes_time(node, scope)


def is_difference(node: Expression, scope: Scope) -> TypeGuard[Arithmetic]:
    """Return whether an expression is a time minus a time, of which one may be written as a text."""
    return isinstance(node, Arithmetic) and node.operator == "-" and _times_in(node, scope) > 1


def _times_in(node: Arithmetic, scope: Scope) -> int:
    """Return how many sides are times; a text is one if the other side is a time."""
    sides = node.left, node.right
    times = sum(is_moment(side, scope) for side in sides)
    return times and times + sum(isinstance(side, Literal) and side.kind == "STRING" for side in sides)


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
    if not a.is_of_row and isinstance(b.base, NowExpr):
        a, b, operator = b, a, FLIPPED[operator]
    return CompareExpr(operator, a.base, _shifted(b, b.offset_us - a.offset_us))


def compare_difference(
    operator: str, left: Expression, right: Expression, scope: Scope, bind: Bind
) -> Expr | None:
    """Bind a comparison of the difference of two times with a constant; None if it is not one.

    The constant is a duration or a number of seconds.
    """
    if is_difference(right, scope):
        left, right, operator = right, left, FLIPPED[operator]
    span = _constant_duration(right) if is_difference(left, scope) else None
    if span is None or not isinstance(left, Arithmetic):
        return None
    later = Arithmetic("+", left.right, span, span=right.span)
    return compare_moments(operator, left.left, later, scope, bind)


def _constant_duration(node: Expression) -> Quantity | None:
    """Return a constant as a duration; None if it is not one of whole microseconds."""
    if isinstance(node, Negative):
        positive = _constant_duration(node.operand)
        return None if positive is None else with_fields(positive, number=-positive.number)
    if isinstance(node, Quantity):
        return _checked(node)
    if not isinstance(node, Literal) or node.kind not in ("INTEGER", "DECIMAL"):
        return None
    seconds = float(str(node.value))
    is_whole = abs(seconds) < LONGEST_US / 1e6 and (seconds * 1e6).is_integer()
    return Quantity(seconds, "s", span=node.span) if is_whole else None


def time_value(node: Arithmetic, scope: Scope, bind: Bind) -> TypedExpression:
    """Bind a time plus or minus a duration as a TIMESTAMP, and a difference of times as a number of seconds.

    Raises:
        BindError: something else is added to a time.
    """
    if is_difference(node, scope):
        left, right = (_moment(side, scope, bind) for side in (node.left, node.right))
        apart = ArithmeticExpr("-", _shifted(left, left.offset_us), _shifted(right, right.offset_us))
        return TypedExpression(ArithmeticExpr("/", apart, DurationExpr(SECOND_US)), "DOUBLE", node.span)
    found = _sum(node, scope, bind)
    return TypedExpression(_shifted(found, found.offset_us), "TIMESTAMP", node.span)


def moment(node: Expression, scope: Scope) -> Expr:
    """Bind a time without a column: a constant or NOW, plus or minus a duration.

    Raises:
        BindError: the expression is something else.
    """
    found = _moment(node, scope, None)
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
    return ArithmeticExpr("+" if offset_us > 0 else "-", moment.base, DurationExpr(abs(offset_us)))


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
    raise BindError(f"cannot compare a time with {printed(node)}", node.span)


def _sum(node: Arithmetic, scope: Scope, bind: Bind | None) -> Moment:
    """Return a time plus or minus a duration."""
    left, right = node.left, node.right
    if node.operator == "+" and _is_duration(left):
        left, right = right, left
    if node.operator not in "+-" or not isinstance(right, Quantity):
        raise BindError(f"{printed(node)} is not a time", node.span, expected=("a time + or - a duration",))
    base, duration = _moment(left, scope, bind), _checked(right)
    sign = 1 if node.operator == "+" else -1
    return base._replace(
        offset_us=base.offset_us + sign * microseconds(duration.number, duration.unit), span=node.span
    )


def _checked(quantity: Quantity) -> Quantity:
    """Return a duration; raise `BindError` if it is none."""
    if not _is_duration(quantity):
        expected = ("a duration such as 10 min",)
        raise BindError(f"{printed(quantity)} is no duration", quantity.span, expected=expected)
    return quantity


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
