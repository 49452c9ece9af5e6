"""Comparisons of times: columns, constants and NOW, each perhaps with a duration added or taken off.

Whatever the user writes, durations end up on the right: `ts + 1 min > NOW` binds as `ts > NOW - 1 min`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from stqsh.errors import NotSupportedError
from stqsh.lang.ast.expressions import (
    Arithmetic,
    Column,
    Expression,
    Literal,
    Negative,
    Now,
    Parameter,
    Quantity,
)
from stqsh.lang.ast.source import Span
from stqsh.lang.binder.literals import timestamp_us
from stqsh.lang.binder.parameters import Hole, hole
from stqsh.lang.binder.scope import Expr, Scope
from stqsh.lang.errors import BindError
from stqsh.lang.printer.expressions import expression as printed
from stqsh.lang.types import a_type
from stqsh.units import UNITS, microseconds, parse_ago

_NOW: Expr = ["now"]
FLIPPED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Moment(NamedTuple):
    """A base (a column, `now`, a constant or NULL) and a duration that is added to it."""

    base: Expr
    offset_us: int
    span: Span

    @property
    def is_column(self) -> bool:
        """Whether it is a column of the stream, or of a table joined with it."""
        return self.base[0] in ("col", "join")

    @property
    def is_constant(self) -> bool:
        """Whether it is the same for all rows and steps."""
        return bool(self.base[0] == "lit")


def mentions_now(node: Expression) -> bool:
    """Whether NOW stands in an expression, as itself or plus or minus something."""
    if isinstance(node, Arithmetic):
        return mentions_now(node.left) or mentions_now(node.right)
    return isinstance(node, Now) or (isinstance(node, Negative) and mentions_now(node.operand))


def is_moment(node: Expression, scope: Scope) -> bool:
    """Whether an expression is a time: NOW, a TIMESTAMP column, or one of these and a duration."""
    if isinstance(node, Arithmetic):
        return is_moment(node.left, scope) or is_moment(node.right, scope)
    return mentions_now(node) or scope.is_time(node)


def compare_moments(operator: str, left: Expression, right: Expression, scope: Scope) -> Expr:
    """A comparison of which at least one side is a time."""
    a, b = _moment(left, scope), _moment(right, scope)
    if not a.is_column and b.is_column:
        a, b, operator = b, a, FLIPPED[operator]
    if not a.is_column:
        raise NotSupportedError(
            f"a comparison of times without a column: {printed(left)} {operator} {printed(right)}"
        )
    return ["cmp", operator, a.base, _shifted(b, b.offset_us - a.offset_us)]


def after(column: Expression, moment: str, span: Span, scope: Scope) -> Expr:
    """`time AFTER '10 mins ago'`, or AFTER a timestamp."""
    if not is_moment(column, scope):
        raise BindError(
            f"{printed(column)} is no TIMESTAMP", column.span, expected=("a TIMESTAMP column before AFTER",)
        )
    ago_us = parse_ago(moment)
    if ago_us is None and moment.strip().lower().endswith("ago"):
        raise BindError(f"{moment!r} is no time span", span, expected=("something like '10 mins ago'",))
    end: Expression = Literal(moment, "STRING", span=span)
    if ago_us is not None:
        end = Arithmetic("-", Now(span=span), Quantity(ago_us / 1000, "ms", span=span), span=span)
    return compare_moments(">", column, end, scope)


def _shifted(moment: Moment, offset_us: int) -> Expr:
    if moment.is_constant:
        value = moment.base[1]
        if isinstance(value, Hole):
            return ["lit", replace(value, offset_us=offset_us), "TIMESTAMP"]
        return ["lit", None if value is None else value + offset_us, "TIMESTAMP"]
    if offset_us == 0:
        return moment.base
    if moment.base != _NOW:
        raise NotSupportedError("a duration between two columns")
    return ["arith", "+" if offset_us > 0 else "-", _NOW, ["dur", abs(offset_us)]]


def _moment(node: Expression, scope: Scope) -> Moment:
    if isinstance(node, Now):
        return Moment(_NOW, 0, node.span)
    if isinstance(node, Literal):
        return Moment(["lit", _constant_us(node), "TIMESTAMP"], 0, node.span)
    if isinstance(node, Parameter):
        return Moment(["lit", hole(node, "TIMESTAMP"), "TIMESTAMP"], 0, node.span)
    if isinstance(node, Arithmetic):
        return _sum(node, scope)
    if isinstance(node, Column):
        bound = scope.column(node)
        if bound.type == "TIMESTAMP":
            return Moment(bound.expr, 0, node.span)
        raise BindError(f"cannot compare a time with {node.name}, {a_type(bound.type)}", node.span)
    if mentions_now(node):
        raise NotSupportedError(f"NOW in {printed(node)}")
    raise BindError(f"cannot compare a time with {printed(node)}", node.span)


def _sum(node: Arithmetic, scope: Scope) -> Moment:
    """A time plus or minus a duration."""
    left, right = node.left, node.right
    if node.operator == "+" and _is_duration(left):
        left, right = right, left
    if node.operator not in "+-" or not isinstance(right, Quantity) or not _is_duration(right):
        if mentions_now(node):
            raise NotSupportedError(f"NOW in {printed(node)}")
        raise BindError(f"{printed(node)} is no time", node.span, expected=("a time + or - a duration",))
    base = _moment(left, scope)
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
