"""Builders of expressions and conditions."""

from __future__ import annotations

from stqsh.lang.ast.expressions import (
    After,
    And,
    Arithmetic,
    Between,
    Call,
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
    Name,
    Negative,
    Not,
    Now,
    Or,
    Parameter,
    Star,
)
from stqsh.lang.ast.source import cover
from stqsh.lang.ast_builder.rules import Parts, only_part, rule, rules, span_of


@rule("column")
def column(parts: Parts) -> Column:
    """Build `name` or `alias.name`."""
    first, second = parts
    if second is None:
        return Column(first.text, span=first.span)
    return Column(second.text, first.text, span=cover(first.span, second.span))


rules(
    {
        "star": lambda parts: Star(span=span_of(parts[0])),
        "qualified_star": lambda parts: Star(parts[0].text, span=parts[0].span),
        "now": lambda parts: Now(span=span_of(parts[0])),
        "positive": only_part,
        "inside": lambda parts: Inside(*parts, span=parts[0].span),
        "not_": lambda parts: Not(parts[0], span=parts[0].span),
        "all_of": lambda parts: And(tuple(parts), span=cover(parts[0].span, parts[-1].span)),
        "any_of": lambda parts: Or(tuple(parts), span=cover(parts[0].span, parts[-1].span)),
    }
)


@rule("call")
def call(parts: Parts) -> Call:
    """Build `NAME(a, b)` or `COUNT(DISTINCT a)`."""
    function: Name = parts[0]
    arguments = tuple(part for part in parts[2:] if part is not None)
    return Call(function.text.upper(), arguments, bool(parts[1]), span=function.span)


@rule("negative")
def negative(parts: Parts) -> Expression:
    """Build `-x`; the minus before a number becomes part of the number."""
    operand = parts[0]
    if isinstance(operand, Literal) and isinstance(operand.value, int | float) and operand.kind != "BOOLEAN":
        return Literal(-operand.value, operand.kind, span=operand.span)
    return Negative(operand, span=operand.span)


@rule("comparator", "add_operator", "multiply_operator", "sign")
def operator(parts: Parts) -> str:
    """Return the operator's text; `!=` becomes `<>`."""
    return "<>" if parts[0] == "!=" else str(parts[0])


@rule("arithmetic")
def arithmetic(parts: Parts) -> Arithmetic:
    """Build `a + b` and similar."""
    left, sign, right = parts
    return Arithmetic(sign, left, right, span=cover(left.span, right.span))


@rule("concatenation")
def concatenation(parts: Parts) -> Concatenation:
    """Build `a || b`."""
    left, right = parts
    return Concatenation(left, right, span=cover(left.span, right.span))


@rule("comparison")
def comparison(parts: Parts) -> Comparison:
    """Build `a = b` and similar."""
    left, sign, right = parts
    return Comparison(sign, left, right, span=cover(left.span, right.span))


@rule("between")
def between(parts: Parts) -> Between:
    """Build `x [NOT] BETWEEN a AND b`."""
    operand, negated, low, high = parts
    return Between(operand, low, high, bool(negated), span=cover(operand.span, high.span))


@rule("in_")
def in_(parts: Parts) -> In:
    """Build `x [NOT] IN (a, b)`."""
    operand, negated, *items = parts
    return In(operand, tuple(items), bool(negated), span=cover(operand.span, items[-1].span))


@rule("like")
def like(parts: Parts) -> Like:
    """Build `x [NOT] LIKE 'p'`."""
    operand, negated, pattern = parts
    return Like(operand, _text(pattern), bool(negated), span=cover(operand.span, pattern.span))


def _text(value: Literal | Parameter) -> str | Parameter:
    return value if isinstance(value, Parameter) else str(value.value)


@rule("is_null")
def is_null(parts: Parts) -> IsNull:
    """Build `x IS [NOT] NULL`."""
    operand, negated = parts
    return IsNull(operand, bool(negated), span=operand.span)


@rule("contains")
def contains(parts: Parts) -> Contains:
    """Build `x CONTAINS [ANY] 'a b'`."""
    operand, any_of, terms = parts
    return Contains(operand, _text(terms), bool(any_of), span=cover(operand.span, terms.span))


@rule("after")
def after(parts: Parts) -> After:
    """Build `x AFTER 'moment'`."""
    operand, moment = parts
    return After(operand, moment.value, span=cover(operand.span, moment.span))
