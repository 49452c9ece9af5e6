"""Cast columns of files to the declared types, and mark bad values.

A column is cast as a whole. If that fails, the rows of each form are cast separately. If that also fails,
they are halved repeatedly until the bad values are isolated, so that a value is good or bad regardless of the
other values in its block. Arrow casts a column only if each of its values has the same form, so the forms in
which text writes values of a type are recognized for whole columns at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.arrays import Mask
from stqsh.sources.formats.pyarrow_typing import Array, nulls, pc
from stqsh.sources.formats.time_formats import UNITS, TimeFormat
from stqsh.spec.chunk import arrow_type

Caster = Callable[[Array], Array]

_MICROS = 1_000_000
#: The years 1 to 9999 of ISO 8601, in seconds.
_EARLIEST, _LATEST = -62_135_596_800, 253_402_300_799
_DAY = 86_400
_NAIVE = pa.timestamp("us")
_UTC = pa.timestamp("us", tz="UTC")


class CastColumn(NamedTuple):
    """A column in its declared type, (n,), null where `bad`; `bad` is bool (n,), or None if all are good."""

    values: Array
    bad: NDArray[np.bool_] | None


ISO = TimeFormat()
_NULL_WORDS = ("n/a", "na", "n.a.", "#n/a", "null", "none", "nil", "(null)", "<null>", "\\n", "-", "--", "?")
_LONGEST_WORD = 12


def cast_column(raw: Array, kind: str, times: TimeFormat = ISO) -> CastColumn:
    """Cast a column of a file to a declared type, "STRING", "BIGINT" …

    Binary and string arrays are text to be parsed: blanks around numbers and times are ignored; empty text
    and words such as n/a become null unless `kind` is STRING. Other arrays are the values of a typed file.
    `times` describes how times are written.
    """
    raw = _plain(raw)
    cast = _cast_whole(raw, kind, times)
    if (cast is None or cast.bad is not None) and _is_text(raw.type) and kind != "STRING":
        without = without_null_words(raw)
        cast = cast if without is raw else _cast_whole(without, kind, times)
        raw = without
    if cast is not None:
        return cast
    casters = _casters(raw.type, kind, times)
    if not _is_text(raw.type):
        if _first_that_casts(raw.slice(0, 0), casters) is None:
            return CastColumn(nulls(len(raw), arrow_type(kind)), np.ones(len(raw), np.bool_))
        return _marked(raw, _salvage(raw, casters, arrow_type(kind)))
    text = raw if kind == "STRING" else _trimmed(raw)
    return _marked(text, _salvage_by_form(text, casters, kind))


def _cast_whole(raw: Array, kind: str, times: TimeFormat) -> CastColumn | None:
    """Cast a column as a whole; None if its values cannot be cast together."""
    if kind == "TIMESTAMP" and times.pattern and (_is_text(raw.type) or _is_number(raw.type)):
        return _by_pattern(raw, times)
    whole = _first_that_casts(raw, _casters(raw.type, kind, times))
    return None if whole is None else _marked(raw, whole)


def cast_numbers(raw: Array, kind: str, times: TimeFormat = ISO) -> CastColumn:
    """Cast a column as `cast_column` does, with nulls for NaN and infinities in columns of whole numbers."""
    if kind not in ("BIGINT", "INT"):
        return cast_column(raw, kind, times)
    cast = cast_column(without_infinite(raw), kind, times)
    if cast.bad is not None and _is_text(raw.type):
        cast.bad[is_not_finite(raw)] = False
        return cast if cast.bad.any() else cast._replace(bad=None)
    return cast


def without_null_words(text: Array) -> Array:
    """Return text, binary or string, in which words for a missing value, such as n/a, are null."""
    shortest = pc.less_equal(pc.binary_length(text), _LONGEST_WORD)
    if not pc.any(shortest).as_py():
        return text
    short = pc.if_else(shortest, text.view(pa.binary()), b"")
    readable = pc.if_else(pc.match_substring_regex(short, r"^[ -~]*$"), short, b"").view(pa.string())
    are = pc.is_in(pc.ascii_lower(pc.ascii_trim_whitespace(readable)), value_set=pa.array(_NULL_WORDS))
    kept: Array = pc.if_else(are, None, text) if pc.any(are).as_py() else text
    return kept


def without_infinite(values: Array) -> Array:
    """Return a column with nulls for NaN and infinities."""
    if not pa.types.is_floating(values.type) or pc.all(pc.is_finite(values)).as_py() is not False:
        return values
    kept: Array = pc.if_else(pc.is_finite(values), values, None)
    return kept


def _by_pattern(raw: Array, times: TimeFormat) -> CastColumn:
    """Cast times by the source's pattern, and numbers by their digits; values that do not match are bad."""
    readable = cast_column(raw, "STRING")
    text = _trimmed(readable.values)
    values, bad = _marked(text, _in_range(times.parse(text)))
    if readable.bad is not None:
        bad = readable.bad if bad is None else bad | readable.bad
    return CastColumn(values, bad)


def _marked(raw: Array, values: Array) -> CastColumn:
    """Mark as bad the values that their cast turned into null."""
    if values.null_count == raw.null_count:
        return CastColumn(values, None)
    bad = pc.and_(values.is_null(), raw.is_valid())
    return CastColumn(values, np.array(bad.to_numpy(zero_copy_only=False), np.bool_))


def _plain(raw: Array) -> Array:
    """Return a column in Arrow's plain form, without dictionaries and similar encodings."""
    if isinstance(raw.type, pa.DictionaryType):
        raw = raw.cast(raw.type.value_type)
    if pa.types.is_large_string(raw.type) or pa.types.is_string_view(raw.type):
        return raw.cast(pa.string())
    if pa.types.is_large_binary(raw.type) or pa.types.is_binary_view(raw.type):
        return raw.cast(pa.binary())
    return raw


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_string(kind)


def _trimmed(text: Array) -> Array:
    """Return text without surrounding blanks, null where it is empty."""
    trimmed = pc.ascii_trim_whitespace(text.view(pa.string()))
    kept: Array = pc.if_else(pc.equal(pc.binary_length(trimmed), 0), None, trimmed)
    return kept


def _first_that_casts(raw: Array, casters: Sequence[Caster]) -> Array | None:
    for caster in casters:
        try:
            return caster(raw)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
    return None


def _salvage_by_form(text: Array, casters: Sequence[Caster], kind: str) -> Array:
    """Cast text form by form; values of no form become null."""
    target = arrow_type(kind)
    forms = rows_by_form(text, kind)
    cast = [_salvage(text.take(rows), casters, target) for rows in forms]
    places = np.full(len(text), -1, np.int64)
    if forms:
        rows = np.concatenate(forms)
        places[rows] = np.arange(len(rows))
    found: Array = pa.concat_arrays(cast) if cast else nulls(0, target)
    whole: Array = pc.take(found, pa.array(places, mask=places < 0))
    return whole


def _salvage(raw: Array, casters: Sequence[Caster], target: pa.DataType) -> Array:
    """Cast a column piece by piece; values that no caster accepts become null."""
    values: list[Array] = []
    waiting = [(0, len(raw))]
    while waiting:
        start, stop = waiting.pop()
        cast = _first_that_casts(raw.slice(start, stop - start), casters)
        if cast is not None:
            values.append(cast)
        elif stop - start == 1:
            values.append(nulls(1, target))
        else:
            middle = (start + stop) // 2
            waiting += [(middle, stop), (start, middle)]
    return pa.concat_arrays(values) if values else nulls(0, target)


# -- one caster for each way that a value may be written -----------------------------------------------------


def _casters(raw: pa.DataType, kind: str, times: TimeFormat) -> tuple[Caster, ...]:
    """List the casters of a column; no value has two different results.

    A caster raises an error if a value cannot be read, or returns null if it exceeds the range of its type.
    """
    target = arrow_type(kind)
    if kind == "TIMESTAMP":
        return _time_casters(raw, times)
    if _is_text(raw) and kind == "FLOAT":  # rounded twice, like the numbers of JSON and Parquet
        return (lambda text: _as_text(text, kind).cast(pa.float64()).cast(target),)
    if _is_text(raw):
        return (lambda text: _as_text(text, kind).cast(target),)
    if pa.types.is_integer(raw) and kind in ("DOUBLE", "FLOAT"):
        return (lambda values: values.cast(target, safe=False),)
    return (lambda values: _whole_in_range(values, target).cast(target),)


def _whole_in_range(values: Array, target: pa.DataType) -> Array:
    """Return numbers unchanged, but null where an integer type is wanted and the number does not fit."""
    if not (pa.types.is_integer(target) and _is_number(values.type)):
        return values
    largest = 2 ** (target.bit_width - 1) - 1
    if pa.types.is_floating(values.type):
        good = pc.and_(pc.equal(pc.trunc(values), values), pc.less(pc.abs(values), float(largest + 1)))
    elif pa.types.is_unsigned_integer(values.type):
        if values.type.bit_width < target.bit_width:
            return values
        good = pc.less_equal(values, pa.scalar(largest, values.type))
    elif values.type.bit_width > target.bit_width:
        good = pc.and_(pc.less_equal(values, largest), pc.greater_equal(values, -largest - 1))
    else:
        return values
    kept: Array = pc.if_else(good, values, None)
    return kept


def _as_text(text: Array, kind: str) -> Array:
    """Return bytes as text; only STRING columns must be valid UTF-8: other parsers reject bad text."""
    if pa.types.is_string(text.type):
        text.validate(full=kind == "STRING")
        return text
    return text.cast(pa.string()) if kind == "STRING" else text.view(pa.string())


def _time_casters(raw: pa.DataType, times: TimeFormat) -> tuple[Caster, ...]:
    if _is_text(raw):
        return tuple(partial(caster, times=times) for caster in _TIME_TEXTS)
    return (partial(_numbers if _is_number(raw) else _instants, times=times),)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _whole_numbers(text: Array, times: TimeFormat) -> Array:
    return _numbers(text.view(pa.string()).cast(pa.int64()), times)


def _fractional_numbers(text: Array, times: TimeFormat) -> Array:
    """Read a column with some fractional numbers; whole numbers keep all digits, as in an integer column."""
    text = text.view(pa.string())
    found = _numbers(text.cast(pa.float64()), times)
    if times.per_second < _MICROS:
        return found
    is_whole = _are_whole(text)
    whole = _numbers(pc.if_else(is_whole, text, None).cast(pa.int64()), times)
    kept: Array = pc.if_else(is_whole, whole, found)
    return kept


def _are_whole(text: Array) -> Array:
    """Return which texts are 64-bit integers."""
    is_shorter = pc.match_substring_regex(text, "^-?[0-9]{1,18}$")
    is_long = pc.match_substring_regex(text, "^-?[0-9]{19}$")
    fits = pc.less_equal(pc.utf8_ltrim(text, characters="-"), str(2**63 - 1))
    are: Array = pc.or_(is_shorter, pc.and_(is_long, fits))
    return are


def _numbers(values: Array, times: TimeFormat) -> Array:
    """Read numbers as time since the epoch; exact to the microsecond for this and the next century."""
    per_second = times.per_second
    is_fractional = pa.types.is_floating(values.type)
    if is_fractional or per_second <= _MICROS:  # 64-bit nanoseconds only cover the years 1677 to 2262
        number = float if is_fractional else int
        earliest, latest = number(_EARLIEST * per_second), number((_LATEST + 1) * per_second)
        inside = pc.and_(pc.greater_equal(values, earliest), pc.less(values, latest))
        values = pc.if_else(inside, values, None)
    if is_fractional and per_second <= _MICROS:
        micros: Array = pc.round(pc.multiply(values.cast(pa.float64()), _MICROS / per_second))
    elif is_fractional:  # truncate the smaller units, as for whole numbers
        micros = pc.floor(pc.divide(values.cast(pa.float64()), per_second / _MICROS))
    elif per_second <= _MICROS:
        micros = pc.multiply(values.cast(pa.int64()), _MICROS // per_second)
    else:
        micros = _floor_micros(values.cast(pa.int64()))
    return micros.cast(pa.int64()).cast(_UTC)


def _floor_micros(nanos: Array) -> Array:
    """Round times in ns, which are negative before 1970, down to whole microseconds; int64 (n,)."""
    towards_zero = pc.divide(nanos, 1_000)
    is_later = pc.greater(pc.multiply(towards_zero, 1_000), nanos)
    before: Array = pc.subtract(towards_zero, is_later.cast(pa.int64()))
    return before


def _instants(values: Array, times: TimeFormat) -> Array:
    """Read Arrow dates and times; those without a zone are in the source's zone."""
    values = _without_overflow(values)
    if pa.types.is_timestamp(values.type) and values.type.unit == "ns":
        values = _floor_micros(values.cast(pa.int64())).cast(pa.timestamp("us", values.type.tz))
    if pa.types.is_timestamp(values.type) and values.type.tz is not None:
        return _in_range(values.cast(_UTC, safe=False))
    return _in_range(times.in_utc(values.cast(_NAIVE, safe=False)))


def _without_overflow(values: Array) -> Array:
    """Return dates and times of a coarse unit, with null where they do not fit into µs.

    A day just outside the years 1 to 9999 is kept, because the zone may shift it back into range.
    """
    if pa.types.is_date(values.type):
        per_day = 1 if pa.types.is_date32(values.type) else _DAY * 1_000  # other types count milliseconds
    elif pa.types.is_timestamp(values.type) and values.type.unit in ("s", "ms"):
        per_day = _DAY * UNITS[values.type.unit]
    else:
        return values
    counts = values.cast(pa.int32() if per_day == 1 else pa.int64())
    earliest, latest = (_EARLIEST // _DAY - 1) * per_day, (_LATEST // _DAY + 2) * per_day
    near = pc.and_(pc.greater_equal(counts, earliest), pc.less(counts, latest))
    kept: Array = values if pc.all(near).as_py() is not False else pc.if_else(near, values, None)
    return kept


def _iso(text: Array, times: TimeFormat) -> Array:
    return _in_range(times.in_utc(text.view(pa.string()).cast(_NAIVE)))


def _iso_with_offset(text: Array, times: TimeFormat) -> Array:
    return _in_range(text.view(pa.string()).cast(_UTC))


def _iso_beyond_micros(text: Array, times: TimeFormat) -> Array:
    """Read times with more than six decimals, and truncate the rest."""
    short = pc.replace_substring_regex(text.view(pa.string()), r"([.]\d{6})\d+", r"\1")
    try:
        return _iso(short, times)
    except pa.ArrowInvalid:
        return _iso_with_offset(short, times)


def _in_range(times: Array) -> Array:
    micros = times.cast(pa.int64())
    inside = pc.and_(pc.greater_equal(micros, _EARLIEST * _MICROS), pc.less(micros, (_LATEST + 1) * _MICROS))
    return times if pc.all(inside).as_py() is not False else pc.if_else(inside, times, None)


_TIME_TEXTS: tuple[Callable[..., Array], ...] = (
    _iso,
    _iso_with_offset,
    _whole_numbers,
    _fractional_numbers,
    _iso_beyond_micros,
)


_WHOLE = r"[+-]?[0-9]+"
_HEX, _SHORT_HEX = r"-?0[xX][0-9a-fA-F]{1,16}", r"-?0[xX][0-9a-fA-F]{1,8}"
_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_NOT_FINITE = r"(?i:[+-]?(nan(\(.*\))?|inf|infinity))"
_DATE = (
    r"[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    r"|02-(0[1-9]|[12][0-9]))"
)
_HOUR, _MINUTE = "([01][0-9]|2[0-3])", "[0-5][0-9]"
_CLOCK = rf"[T ]{_HOUR}(:{_MINUTE}(:{_MINUTE}(\.[0-9]+)?)?)?"
_OFFSET = rf"(Z|[+-]{_HOUR}(:?{_MINUTE})?)"
_LEAP_DAY = r"^[0-9]{4}-02-29"
_UTF8 = r"([\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3})*"
_FORMS = {
    "STRING": (_UTF8,),
    "BIGINT": (_WHOLE, _HEX),
    "INT": (_WHOLE, _SHORT_HEX),
    "DOUBLE": (rf"{_NUMBER}|{_NOT_FINITE}",),
    "FLOAT": (rf"{_NUMBER}|{_NOT_FINITE}",),
    "BOOLEAN": (r"(?i:true|false|0|1)",),
    "TIMESTAMP": (_WHOLE, _HEX, _NUMBER, rf"{_DATE}({_CLOCK})?", rf"{_DATE}{_CLOCK}{_OFFSET}"),
}
"""The forms of each type, as regular expressions over bytes."""
_LARGEST = {"BIGINT": 2**63 - 1, "INT": 2**31 - 1, "TIMESTAMP": 2**63 - 1}


def rows_by_form(text: Array, kind: str) -> list[NDArray[np.int64]]:
    """Return the rows written in each form of a type.

    Args:
        text: binary or string, (n,), trimmed unless `kind` is STRING.
        kind: the type, such as "TIMESTAMP".

    Returns:
        Ascending rows for each form that occurs. A row in no form is bad; a row in some form may still be
        bad, such as a hexadecimal number too large for its type. Nulls are rows of the first form.
    """
    data = text.view(pa.binary())
    left = np.ones(len(text), np.bool_)
    found = []
    for number, form in enumerate(_FORMS[kind]):
        # Alternatives need a group of their own; otherwise the anchors would bind to the outer ones.
        looks = pc.match_substring_regex(data, f"^({form})$")
        rows = left & _filled(looks, number == 0)
        left &= ~rows
        if form == _WHOLE:
            rows &= _fits(text.view(pa.string()), _LARGEST[kind])
        if _DATE in form:
            rows &= ~_is_false_leap_day(text.view(pa.string()))
        if rows.any():
            found.append(np.flatnonzero(rows))
    return found


def is_not_finite(text: Array) -> Mask:
    """Return which values, (n,), binary or string, are NaN or an infinity."""
    return _filled(pc.match_substring_regex(text.view(pa.binary()), rf"^\s*({_NOT_FINITE})\s*$"), False)


def _fits(text: Array, largest: int) -> Mask:
    """Return which whole numbers are between `-largest - 1` and `largest`, compared by their digits."""
    digits = pc.replace_substring_regex(text, r"^[+-]?0*", "")
    length, most = pc.binary_length(digits), str(largest)
    limit = pc.if_else(pc.starts_with(text, "-"), str(largest + 1), most)
    return _filled(
        pc.or_(
            pc.less(length, len(most)), pc.and_(pc.equal(length, len(most)), pc.less_equal(digits, limit))
        ),
        True,
    )


def _is_false_leap_day(text: Array) -> Mask:
    """Return which times have a 29th of February in a year without one."""
    out = _filled(pc.match_substring_regex(text, _LEAP_DAY), False)
    rows = np.flatnonzero(out)
    if len(rows):
        years = pc.utf8_slice_codeunits(text.take(rows), 0, 4).cast(pa.int64()).to_numpy()
        out[rows] = (years % 4 != 0) | ((years % 100 == 0) & (years % 400 != 0))
    return out


def _filled(found: Array, missing: bool) -> Mask:
    return np.array(pc.fill_null(found, missing).to_numpy(zero_copy_only=False), np.bool_)
