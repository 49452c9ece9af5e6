"""CAST over whole columns, from each type to each other type; NULL where a value has no counterpart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from stqsh.arrays import Array
from stqsh.core.conditions.column_functions import DAY_US, HOUR_US, MINUTE_US, Value
from stqsh.core.conditions.functions import whole_columns

pc: Any = pyarrow.compute  # its stubs do not accept Python values

_WHOLE = r"^[+-]?\d+$"
_NUMBER = r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$"
_MOMENT = (
    r"^(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"(?:[T ](?P<hour>\d\d)(?::(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d+))?)?)?"
    r"(?P<zone>[zZ]|[+-]\d\d(?::?\d\d)?)?)?$"
)
_TRUE, _FALSE = ("true", "t", "yes", "y", "on", "1"), ("false", "f", "no", "n", "off", "0")
_DIGITS = 19
"""The most digits of a 64-bit number."""
_RANGES = {"INT": 2**31, "BIGINT": 2**63}
_MICROSECOND_DIGITS = 6
_SECOND_US = 1_000_000


def cast(value: Value, source: str, wanted: str) -> Value:
    """Return values in another type; FLOATs are doubles with FLOAT precision.

    Args:
        value: The values, in the type that expressions compute with.
        source: Their column type.
        wanted: The column type asked for.
    """
    family = "BIGINT" if source == "INT" else "DOUBLE" if source == "FLOAT" else source
    return whole_columns(lambda column: _CASTS[family](column, wanted))(value)


def _from_text(texts: Any, wanted: str) -> Any:
    texts = pc.utf8_trim_whitespace(texts)
    if wanted == "TIMESTAMP":
        return _instants(texts)
    if wanted == "BOOLEAN":
        lower = pc.utf8_lower(texts)
        is_true, is_false = (pc.is_in(lower, value_set=pa.array(words)) for words in (_TRUE, _FALSE))
        return pc.if_else(pc.or_(is_true, is_false), is_true, pa.scalar(None, pa.bool_()))
    if wanted in _RANGES:
        return _fitting(_whole_numbers(texts), wanted)
    numbers = _where(pc.match_substring_regex(texts, _NUMBER), texts)
    return _finite(pc.replace_substring_regex(numbers, r"^\+", "").cast(pa.float64()), wanted)


def _whole_numbers(texts: Any) -> Any:
    """Return texts of digits as int64; NULL for other texts, and for numbers that do not fit."""
    digits = pc.replace_substring_regex(texts, r"^[+-]?0*(\d)", r"\1")
    is_negative = pc.starts_with(texts, "-")
    most = pc.if_else(is_negative, pa.scalar(str(2**63)), pa.scalar(str(2**63 - 1)))
    length = pc.utf8_length(digits)
    fits = pc.or_(pc.less(length, _DIGITS), pc.and_(pc.equal(length, _DIGITS), pc.less_equal(digits, most)))
    known = pc.and_(pc.match_substring_regex(texts, _WHOLE), fits)
    signed = pc.binary_join_element_wise(pc.if_else(is_negative, pa.scalar("-"), pa.scalar("")), digits, "")
    return _where(known, signed).cast(pa.int64())


def _from_whole(numbers: Any, wanted: str) -> Any:
    match wanted:
        case "STRING":
            return numbers.cast(pa.string())
        case "BOOLEAN":
            return pc.not_equal(numbers, 0)
        case "DOUBLE" | "FLOAT":
            return _finite(numbers.cast(pa.float64(), safe=False), wanted)
    return _fitting(numbers, wanted)


def _from_double(numbers: Any, wanted: str) -> Any:
    match wanted:
        case "STRING":
            return _where(pc.is_finite(numbers), pc.add(numbers, 0.0)).cast(pa.string())
        case "BOOLEAN":
            return pc.not_equal(numbers, 0.0)
        case "DOUBLE" | "FLOAT":
            return _finite(numbers, wanted)
    rounded = pc.round(numbers, round_mode="half_to_even")
    limit = float(_RANGES[wanted])
    fits = pc.and_(pc.greater_equal(rounded, -limit), pc.less(rounded, limit))
    return _where(fits, rounded).cast(pa.int64())


def _from_truth(truth: Any, wanted: str) -> Any:
    if wanted == "STRING":
        return truth.cast(pa.string())
    return truth.cast(pa.int64() if wanted in _RANGES else pa.float64())


def _from_instants(us: Any, wanted: str) -> Any:
    """Return instants as text in ISO 8601, with a fraction of a second only if there is one."""
    del wanted
    null = us.is_null().to_numpy(zero_copy_only=False)
    moments = us.fill_null(0).to_numpy(zero_copy_only=False).astype("datetime64[us]")
    texts: Any = pa.array(np.datetime_as_string(moments), pa.string(), mask=null)
    return pc.binary_join_element_wise(pc.replace_substring_regex(texts, r"\.?0{1,6}$", ""), "Z", "")


_CASTS: dict[str, Callable[[Any, str], Any]] = {
    "STRING": _from_text,
    "BIGINT": _from_whole,
    "DOUBLE": _from_double,
    "BOOLEAN": _from_truth,
    "TIMESTAMP": _from_instants,
}


def _where(known: Any, values: Any) -> Any:
    """Return values, with NULL where `known` is not true."""
    return pc.if_else(known, values, pa.scalar(None, values.type))


def _fitting(numbers: Any, wanted: str) -> Any:
    if wanted == "BIGINT":
        return numbers
    limit = _RANGES[wanted]
    fits = pc.and_(pc.greater_equal(numbers, -limit), pc.less(numbers, limit))
    return _where(fits, numbers)


def _finite(numbers: Any, wanted: str) -> Any:
    if wanted == "FLOAT":
        numbers = numbers.cast(pa.float32(), safe=False).cast(pa.float64())
    return _where(pc.is_finite(numbers), numbers)


def _instants(texts: Any) -> Any:
    """Return ISO 8601 texts as µs since the epoch, in UTC unless they have an offset."""
    parts = pc.extract_regex(texts, _MOMENT)

    def number(name: str, otherwise: int) -> Array:
        text = pc.struct_field(parts, name)
        is_given = pc.coalesce(pc.greater(pc.utf8_length(text), 0), pa.scalar(False))
        given: Array = _where(is_given, text).cast(pa.int64()).fill_null(otherwise).to_numpy()
        return given

    year, month, day = (number(name, 1) for name in ("year", "month", "day"))
    hour, minute, second = (number(name, 0) for name in ("hour", "minute", "second"))
    first = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    days = (first + 1).astype("datetime64[D]").astype(np.int64) - first.astype("datetime64[D]").astype(
        np.int64
    )
    exists = (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= days)
    exists &= (hour <= 23) & (minute <= 59) & (second <= 59)
    zone, zone_exists = _offsets_us(pc.struct_field(parts, "zone"))
    us = (first.astype("datetime64[D]").astype(np.int64) + day - 1) * DAY_US
    us += hour * HOUR_US + minute * MINUTE_US + second * _SECOND_US + _fractions_us(parts) - zone
    known = parts.is_valid().to_numpy(zero_copy_only=False) & exists & zone_exists
    return pa.array(us, mask=~known)


def _fractions_us(parts: Any) -> Array:
    """Return the fractions of seconds in µs; excess digits are cut off."""
    digits = pc.utf8_slice_codeunits(pc.struct_field(parts, "fraction"), 0, _MICROSECOND_DIGITS)
    padded = pc.utf8_rpad(digits.fill_null(""), _MICROSECOND_DIGITS, "0")
    us: Array = padded.cast(pa.int64()).to_numpy()
    return us


def _offsets_us(zones: Any) -> tuple[Array, Array]:
    """Return the offsets of zones from UTC, µs, and whether they are valid."""
    digits = pc.utf8_rpad(pc.replace_substring_regex(zones.fill_null(""), r"[^\d]", ""), 4, "0")
    hours = pc.utf8_slice_codeunits(digits, 0, 2).cast(pa.int64()).to_numpy()
    minutes = pc.utf8_slice_codeunits(digits, 2, 4).cast(pa.int64()).to_numpy()
    sign = np.where(pc.starts_with(zones, "-").fill_null(False).to_numpy(zero_copy_only=False), -1, 1)
    return sign * (hours * HOUR_US + minutes * MINUTE_US), (hours <= 23) & (minutes <= 59)
