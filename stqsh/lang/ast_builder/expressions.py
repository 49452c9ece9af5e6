"""Builders of expressions and conditions."""

from __future__ import annotations

from stqsh.lang.ast.expressions import (
    After,
    And,
    Arithmetic,
    Between,
    Call,
    Case,
    Cast,
    Circle,
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
    NamedRegion,
    Negative,
    Not,
    Now,
    Or,
    Parameter,
    Quantity,
    Star,
)
from stqsh.lang.ast.source import cover
from stqsh.lang.ast_builder.rules import Parts, only_part, rule, rules, span_of
from stqsh.lang.errors import StatementSyntaxError, near
from stqsh.spec.functions import ALIASES, PARTS

_WITH_FROM = ("EXTRACT(part FROM time)", "SUBSTRING(text FROM a FOR n)", "TRIM(characters FROM text)")


@rule("column")
def column(parts: Parts) -> Column:
    """Build `name` or `alias.name`."""
    first, second = parts
    if second is None:
        return Column(first.text, quoted=first.quoted, span=first.span)
    return Column(second.text, first.text, span=cover(first.span, second.span))


rules(
    {
        "star": lambda parts: Star(span=span_of(parts[0])),
        "qualified_star": lambda parts: Star(parts[0].text, span=parts[0].span),
        "now": lambda parts: Now(span=span_of(parts[0])),
        "positive": only_part,
        "inside": lambda parts: Inside(*parts, span=parts[0].span),
        "intersects": lambda parts: Inside(parts[0], parts[1], "INTERSECTS", span=parts[0].span),
        "not_": lambda parts: Not(parts[0], span=parts[0].span),
        "all_of": lambda parts: And(tuple(parts), span=cover(parts[0].span, parts[-1].span)),
        "any_of": lambda parts: Or(tuple(parts), span=cover(parts[0].span, parts[-1].span)),
    }
)


@rule("call")
def call(parts: Parts) -> Expression:
    """Build `NAME(a, b)` or `COUNT(DISTINCT a)`.

    A test whether the location is in a fixed region becomes an INSIDE, which can use an index.
    """
    function: Name = parts[0]
    arguments = tuple(part for part in parts[2:] if part is not None)
    match function.text.upper(), arguments:
        case "ST_WITHIN", (Column() as location, Column(name, None) as area):
            return Inside(location, NamedRegion(name, span=area.span), span=function.span)
        case "ST_INTERSECTS", (Column() as location, Column(name, None) as area):
            return Inside(location, NamedRegion(name, span=area.span), "INTERSECTS", span=function.span)
        case (
            "ST_DWITHIN",
            (
                Column() as location,
                Call("ST_POINT", (Literal(int() | float() as x, _), Literal(int() | float() as y, _))),
                (Literal(int() | float(), _) | Quantity()) as radius,
            ),
        ):
            circle = Circle(float(x), float(y), radius, span=radius.span)
            return Inside(location, circle, "INTERSECTS", span=function.span)
        case "DATE_PART", (Literal(str(), _) as part, time):
            return Call(_part(part), (time,), span=function.span)
    return Call(function.text.upper(), arguments, bool(parts[1]), span=function.span)


@rule("call_from")
def call_from(parts: Parts) -> Call:
    """Build `EXTRACT(YEAR FROM ts)` as YEAR(ts), SUBSTRING(text FROM a FOR n), TRIM(characters FROM text)."""
    function, first, second, third = parts
    name = function.text.upper()
    if third is None and name == "EXTRACT":
        return Call(_part(first), (second,), span=function.span)
    if third is None and name in ("TRIM", "LTRIM", "RTRIM"):
        return Call(name, (second, first), span=function.span)
    if name not in ("SUBSTRING", "SUBSTR"):
        raise StatementSyntaxError(
            f"{function.text} takes no FROM in its parentheses", function.span, expected=_WITH_FROM
        )
    arguments = (first, second) if third is None else (first, second, third)
    return Call(name, arguments, span=function.span)


def _part(node: Expression) -> str:
    """Return the function that computes the part of a time that EXTRACT names."""
    text = ""
    if isinstance(node, Column) and node.qualifier is None:
        text = node.name
    elif isinstance(node, Literal) and node.kind == "STRING":
        text = str(node.value)
    part = ALIASES.get(text.upper(), text.upper())
    if part not in PARTS:
        known = tuple(sorted(PARTS))
        raise StatementSyntaxError(
            f"EXTRACT knows no part {text!r}" if text else "EXTRACT takes the name of a part",
            node.span,
            expected=known,
            near=near(part, known),
        )
    return part


@rule("cast")
def cast(parts: Parts) -> Cast:
    """Build `x::type`."""
    operand, kind = parts
    return Cast(operand, kind, span=cover(operand.span, kind.span))


@rule("cast_call")
def cast_call(parts: Parts) -> Cast:
    """Build `CAST(x AS type)`; TRY_CAST means the same."""
    function, operand, kind = parts
    if function.text.upper() not in ("CAST", "TRY_CAST"):
        raise StatementSyntaxError(
            f"{function.text} takes no AS in its parentheses", function.span, expected=("CAST(x AS type)",)
        )
    return Cast(operand, kind, span=cover(function.span, kind.span))


@rule("case_when")
def case_when(parts: Parts) -> tuple[Expression, Expression]:
    """Build `WHEN a THEN b`."""
    condition, result = parts
    return condition, result


@rule("case")
def case(parts: Parts) -> Case:
    """Build `CASE [x] WHEN a THEN b … [ELSE c] END`."""
    operand, *branches, otherwise = parts
    conditions, results = zip(*branches, strict=True)
    first, last = operand or conditions[0], otherwise or results[-1]
    return Case(operand, conditions, results, otherwise, span=cover(first.span, last.span))


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
    return "<>" if parts[0] == "!=" else str(parts[0]).upper()


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
