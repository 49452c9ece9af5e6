"""Values of literals: times and durations in microseconds, and keys in the type of their column."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from stqsh.lang.ast.expressions import Literal, Quantity
from stqsh.lang.ast.source import Span
from stqsh.lang.errors import BindError
from stqsh.lang.printer.expressions import expression as printed
from stqsh.lang.types import WHOLE_RANGES, a_type
from stqsh.units import EXAMPLES, UNITS, microseconds

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
LONGEST_US = 2**62
"""The limit of durations, in µs: added to any time of the calendar, a shorter one fits 64 bits."""


def timestamp_us(text: str, span: Span) -> int:
    """Parse an ISO 8601 timestamp into µs since the epoch; it is UTC unless it has an offset.

    Raises:
        BindError: the text is not a timestamp.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BindError(
            f"{text!r} is not a timestamp", span, expected=("a timestamp such as '2008-02-02T15:00:00'",)
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MICROSECOND


def duration_us(value: Quantity, what: str) -> int:
    """Return a duration in microseconds, greater than 0; errors mention the clause `what`."""
    unit = UNITS[value.unit]
    if unit.dimension != "duration":
        raise BindError(f"{what} must be a duration such as {EXAMPLES['duration']}", value.span)
    span_us = microseconds(value.number, value.unit)
    if not 0 < span_us < LONGEST_US:
        limit = "too long" if span_us > 0 else "at least a microsecond"
        raise BindError(f"{what} is {limit}" if span_us > 0 else f"{what} must be {limit}", value.span)
    return span_us


def key_value(literal: Literal, key_type: str) -> str | int:
    """Return a key in the type of its column: 368 becomes '368' for strings, '368' becomes 368 for numbers.

    Raises:
        BindError: the column cannot contain it.
    """
    if key_type == "STRING":
        return str(literal.value)
    try:
        value = int(literal.value) if literal.value is not None else None
    except ValueError:
        value = None
    low, high = WHOLE_RANGES[key_type]
    if value is None or not low <= value <= high:
        raise BindError(f"the key is {a_type(key_type)}, but {printed(literal)} is not one", literal.span)
    return value
