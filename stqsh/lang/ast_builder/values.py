"""Builders of names, constants and quantities."""

from __future__ import annotations

import math
import re

from lark import Token

from stqsh.lang.ast.expressions import Literal, Name, Parameter, Quantity
from stqsh.lang.ast.source import Span, cover
from stqsh.lang.ast_builder.rules import Parts, capitals, rule, span_of
from stqsh.lang.errors import StatementSyntaxError
from stqsh.units import CANONICAL, is_representable

_QUANTITY = re.compile(r"((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(.+)", re.DOTALL)
_MOST_DIGITS = 19
_INT64_MAX = 2**63 - 1

rule("stream_kind", "geometry", "stream_order", "none", "shown")(capitals)
rule("direction", "nulls", "from_start", "sink_mode", "alert_edge")(capitals)
rule("retention")(lambda parts: Name(parts[0].upper(), span=span_of(parts[0])))
rule("true")(lambda parts: Literal(True, "BOOLEAN", span=span_of(parts[0])))
rule("false")(lambda parts: Literal(False, "BOOLEAN", span=span_of(parts[0])))
rule("null")(lambda parts: Literal(None, "NULL", span=span_of(parts[0])))
rule("analyze", "distinct", "not", "any", "if_exists", "if_not_exists")(lambda parts: True)


@rule(
    "new_name", "stream_name", "query_name", "table_name", "region_name", "sink_name",
    "alert_name", "query_stream_name", "filled_name", "relation_name", "view_name",
    "object_name", "column_name", "function_name", "strategy_name", "option_name", "type", "format", "topic",
    "alias", "word",
)  # fmt: skip
def name(parts: Parts) -> Name:
    """Return an identifier without its double quotes."""
    token: Token = parts[0]
    is_quoted = token.value[0] == '"'
    return Name(_unquoted(token.value) if is_quoted else token.value, is_quoted, span=span_of(token))


@rule("setting")
def setting(parts: Parts) -> Name:
    """Return the dotted key of a setting."""
    return Name(
        ".".join(name([part]).text for part in parts), span=cover(span_of(parts[0]), span_of(parts[-1]))
    )


@rule("string")
def string(parts: Parts) -> Literal:
    """Return a string without its quotes, single or double."""
    return Literal(_unquoted(parts[0]), "STRING", span=span_of(parts[0]))


@rule("parameter")
def parameter(parts: Parts) -> Parameter:
    """Build `:name`, or `:"name"` without its quotes."""
    text = parts[0][1:]
    name = _unquoted(text) if text[0] == '"' else text
    return Parameter(name, span=span_of(parts[0]))


def _unquoted(text: str) -> str:
    """Return the text between a pair of quotes; a doubled quote within it stands for one."""
    quote = text[0]
    return text[1:-1].replace(quote * 2, quote)


@rule("number", "plain_number")
def number(parts: Parts) -> Literal:
    """Return a number, which may have a sign."""
    span = span_of(parts[0]) if len(parts) == 1 else cover(span_of(parts[0]), span_of(parts[1]))
    value = _number(parts[-1], span)
    return Literal(
        -value if parts[0] == "-" else value, "INTEGER" if isinstance(value, int) else "DECIMAL", span=span
    )


@rule("whole")
def whole(parts: Parts) -> int:
    """Return a whole number, 0 or more."""
    value = _number(parts[0], span_of(parts[0]))
    if not isinstance(value, int):
        raise StatementSyntaxError(f"{parts[0]} is not a whole number", span_of(parts[0]))
    return value


@rule("duration", "length", "any_speed", "size")
def quantity(parts: Parts) -> Quantity:
    """Return a number with a unit."""
    match = _QUANTITY.fullmatch(parts[0])
    assert match is not None
    span = span_of(parts[0])
    value, unit = _number(match[1], span), CANONICAL[match[2].lower()]
    if not is_representable(value, unit):
        raise StatementSyntaxError(f"{parts[0][:30]} is too much", span)
    return Quantity(value, unit, span=span)


@rule("pace")
def pace(parts: Parts) -> float | str:
    """Return the number of `10x`, or MAX."""
    text = parts[0].upper()
    if text == "MAX":
        return "MAX"
    value = float(_number(text.rstrip("X").rstrip(), span_of(parts[0])))
    if value <= 0:
        raise StatementSyntaxError("a pace must be more than 0x", span_of(parts[0]))
    return value


def _number(text: str, span: Span) -> int | float:
    if text.isdigit():
        if len(text) > _MOST_DIGITS or int(text) > _INT64_MAX:
            raise StatementSyntaxError(f"{text[:30]} does not fit 64 bits", span)
        return int(text)
    value = float(text)
    if math.isinf(value):
        raise StatementSyntaxError(f"{text[:30]} is too large a number", span)
    return value
