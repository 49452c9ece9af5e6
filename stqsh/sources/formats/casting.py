"""From what a file holds to the declared types: whole columns at once, bad values set aside.

A column is cast as a whole. Where that fails it is halved, again and again, until the bad values stand alone;
so a value is good or bad by itself, whatever stands beside it in its block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.sources.formats.pyarrow_typing import Array, nulls, pc
from stqsh.sources.formats.time_formats import TimeFormat
from stqsh.spec.chunk import arrow_type

Caster = Callable[[Array], Array]

_MICROS = 1_000_000
#: Years 1 to 9999: what ISO 8601 can write. In seconds.
_EARLIEST, _LATEST = -62_135_596_800, 253_402_300_799
_NAIVE = pa.timestamp("us")
_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
#: What a value must look like, as bytes, to be worth a try; whether it is good, its caster says.
_PLAUSIBLE = {
    "STRING": (
        r"^([\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3})*$"
    ),
    "BIGINT": r"^([+-]?[0-9]+|-?0[xX][0-9a-fA-F]+)$",
    "INT": r"^([+-]?[0-9]+|-?0[xX][0-9a-fA-F]+)$",
    "DOUBLE": rf"^({_NUMBER}|(?i:[+-]?(nan|inf|infinity)).*)$",
    "FLOAT": rf"^({_NUMBER}|(?i:[+-]?(nan|inf|infinity)).*)$",
    "BOOLEAN": r"^(?i:true|false|0|1)$",
    "TIMESTAMP": rf"^({_NUMBER}|-?0[xX][0-9a-fA-F]+|[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}([T ].*)?)$",
}
_UTC = pa.timestamp("us", tz="UTC")


class CastColumn(NamedTuple):
    """A column in its declared type, (n,), null where `bad`; `bad` is bool (n,) or None when all are good."""

    values: Array
    bad: NDArray[np.bool_] | None


ISO = TimeFormat()


def cast_column(raw: Array, kind: str, times: TimeFormat = ISO) -> CastColumn:
    """Cast a column of a file to a declared type, "STRING", "BIGINT" …

    Binary and string arrays are text to be parsed (blanks around numbers and times do not count, empty text
    is null unless `kind` is STRING); others are the values of a typed file. `times`: how times are written.
    """
    raw = _plain(raw)
    if kind == "TIMESTAMP" and times.pattern and _is_text(raw.type):
        return _by_pattern(raw, times)
    casters = _casters(raw.type, kind, times)
    whole = _first_that_casts(raw, casters)
    if whole is not None:
        return CastColumn(whole, None)
    if not _is_text(raw.type):
        return _salvage(raw, casters, arrow_type(kind))
    text = raw if kind == "STRING" else _trimmed(raw)
    return _salvage_plausible(text, casters, kind)


def _by_pattern(raw: Array, times: TimeFormat) -> CastColumn:
    """Cast times that a pattern describes; what does not fit it, or is no text at all, is bad."""
    readable = cast_column(raw, "STRING")
    text = _trimmed(readable.values)
    values = times.parse(text)
    bad = np.asarray(pc.and_(values.is_null(), text.is_valid()).to_numpy(zero_copy_only=False), np.bool_)
    bad = bad if readable.bad is None else bad | readable.bad
    return CastColumn(values, bad if bad.any() else None)


def _plain(raw: Array) -> Array:
    """Return a column without Arrow's other ways to store the same values."""
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
    """Return text without blanks around it, null where nothing is left."""
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


def _salvage_plausible(text: Array, casters: Sequence[Caster], kind: str) -> CastColumn:
    """Cast what can be cast of a column of text; what does not look like its kind is not even tried."""
    looks = pc.match_substring_regex(text.view(pa.binary()), _PLAUSIBLE[kind])
    plausible = np.asarray(pc.fill_null(looks, True).to_numpy(zero_copy_only=False), dtype=np.bool_)
    if plausible.all():
        return _salvage(text, casters, arrow_type(kind))
    rows = np.flatnonzero(plausible)
    cast = _salvage(text.take(rows), casters, arrow_type(kind))
    bad = ~plausible
    if cast.bad is not None:
        bad[rows] = cast.bad
    places = pa.array(np.cumsum(plausible) - 1, mask=~plausible)
    return CastColumn(pc.take(cast.values, places), bad)


def _salvage(raw: Array, casters: Sequence[Caster], target: pa.DataType) -> CastColumn:
    """Cast what can be cast, piece by piece; a value that no caster takes becomes null and bad."""
    values: list[Array] = []
    bad = np.zeros(len(raw), dtype=np.bool_)
    waiting = [(0, len(raw))]
    while waiting:
        start, stop = waiting.pop()
        cast = _first_that_casts(raw.slice(start, stop - start), casters)
        if cast is not None:
            values.append(cast)
        elif stop - start == 1:
            values.append(nulls(1, target))
            bad[start] = True
        else:
            middle = (start + stop) // 2
            waiting += [(middle, stop), (start, middle)]
    return CastColumn(pa.concat_arrays(values) if values else nulls(0, target), bad if bad.any() else None)


# -- one caster for each way that a value may be written -----------------------------------------------------


def _casters(raw: pa.DataType, kind: str, times: TimeFormat) -> tuple[Caster, ...]:
    """List the ways to read a column; no value can be read in two ways that differ."""
    target = arrow_type(kind)
    if kind == "TIMESTAMP":
        return _time_casters(raw, times)
    if _is_text(raw):
        return (lambda text: _as_text(text, kind).cast(target),)
    exact = not (pa.types.is_integer(raw) and kind in ("DOUBLE", "FLOAT"))
    return (lambda values: values.cast(target, safe=exact),)


def _as_text(text: Array, kind: str) -> Array:
    """Take bytes for text; only a STRING column must be valid UTF-8, the others' parsers refuse it."""
    if pa.types.is_string(text.type):
        text.validate(full=kind == "STRING")
        return text
    return text.cast(pa.string()) if kind == "STRING" else text.view(pa.string())


def _time_casters(raw: pa.DataType, times: TimeFormat) -> tuple[Caster, ...]:
    if _is_text(raw):
        return tuple(partial(caster, times=times) for caster in _TIME_TEXTS)
    numbers = pa.types.is_integer(raw) or pa.types.is_floating(raw)
    return (partial(_numbers if numbers else _instants, times=times),)


def _whole_numbers(text: Array, times: TimeFormat) -> Array:
    return _numbers(text.view(pa.string()).cast(pa.int64()), times)


def _fractional_numbers(text: Array, times: TimeFormat) -> Array:
    return _numbers(text.view(pa.string()).cast(pa.float64()), times)


def _numbers(values: Array, times: TimeFormat) -> Array:
    """Take numbers for time since the epoch; exact to the microsecond for this and the next century."""
    per_second = times.per_second
    inside = pc.and_(
        pc.greater_equal(values, _EARLIEST * per_second), pc.less(values, (_LATEST + 1) * per_second)
    )
    if pc.all(inside).as_py() is False:
        raise pa.ArrowInvalid("no time between the years 1 and 9999")
    factor = _MICROS // per_second
    if pa.types.is_integer(values.type):
        micros: Array = pc.multiply(values.cast(pa.int64()), factor)
    else:
        micros = pc.round(pc.multiply(values.cast(pa.float64()), float(factor))).cast(pa.int64())
    return micros.cast(_UTC)


def _instants(values: Array, times: TimeFormat) -> Array:
    """Take Arrow's own dates and times; those that name no zone are in the source's, UTC unless said."""
    if pa.types.is_timestamp(values.type) and values.type.tz is not None:
        return _in_range(values.cast(_UTC, safe=False))
    return _in_range(times.in_utc(values.cast(_NAIVE, safe=False)))


def _iso(text: Array, times: TimeFormat) -> Array:
    return _in_range(times.in_utc(text.view(pa.string()).cast(_NAIVE)))


def _iso_with_offset(text: Array, times: TimeFormat) -> Array:
    return _in_range(text.view(pa.string()).cast(_UTC))


def _iso_beyond_micros(text: Array, times: TimeFormat) -> Array:
    """Read times with more than six decimals, the rest cut off."""
    short = pc.replace_substring_regex(text.view(pa.string()), r"([.]\d{6})\d+", r"\1")
    try:
        return _iso(short, times)
    except pa.ArrowInvalid:
        return _iso_with_offset(short, times)


def _in_range(times: Array) -> Array:
    micros = times.cast(pa.int64())
    lowest, highest = pc.min_max(micros).values()
    if (
        lowest.is_valid
        and not _EARLIEST * _MICROS <= lowest.as_py() <= highest.as_py() < (_LATEST + 1) * _MICROS
    ):
        raise pa.ArrowInvalid("no time between the years 1 and 9999")
    return times


_TIME_TEXTS: tuple[Callable[..., Array], ...] = (
    _iso,
    _iso_with_offset,
    _whole_numbers,
    _fractional_numbers,
    _iso_beyond_micros,
)
