"""Evaluators of the functions in `spec/functions.py`, over whole columns.

Values have the types that expressions compute with: int64 for whole numbers and instants (µs), float64 for
other numbers, texts, and truth values. A function of NULL is NULL unless the table specifies otherwise. A
result that does not exist is NULL, too: functions never raise, because one record must not stop a stream.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute

from stqsh.arrays import Array
from stqsh.core.conditions import text_functions
from stqsh.core.conditions.column_functions import DAY_US, Value, arithmetic, moment_part, remainder
from stqsh.core.kernels.geometry.distance import distances_between
from stqsh.core.kernels.jit import frozen

pc: Any = pyarrow.compute  # its stubs do not accept Python values

Evaluator: TypeAlias = Callable[..., Value]

_LEAST = np.iinfo(np.int64).min
_SECOND_US = 1_000_000
_EXACT = 2.0**52
"""Doubles from here on have no fractional part."""
_MOST_DIGITS = 18
"""Powers of ten up to this exponent fit in 64 bits."""
_UNITS_US = {"second": _SECOND_US, "minute": 60 * _SECOND_US, "hour": 3600 * _SECOND_US, "day": DAY_US}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_THURSDAY = 3
"""The number of days from the Monday of its week to 1 January 1970."""


def call_function(name: str, values: list[Value]) -> Value:
    """Return the values of a function; a scalar if all arguments are scalars.

    Raises:
        KeyError: the function does not exist.
    """
    return _EVALUATORS[name](*values)


def columns_of(values: list[Value]) -> tuple[list[pa.Array[Any]], bool]:
    """Return values as columns of equal length, and whether all are scalars; scalars become one row."""
    lengths = {len(one) for one in values if not isinstance(one, pa.Scalar)}
    rows, repeat = lengths.pop() if lengths else 1, pa.repeat
    columns = [repeat(one, rows) if isinstance(one, pa.Scalar) else one for one in values]  # type: ignore[call-overload]
    return columns, not lengths and all(isinstance(one, pa.Scalar) for one in values)


def whole_columns(function: Callable[..., pa.Array[Any]]) -> Evaluator:
    """Return the evaluator of a function that accepts and returns columns."""

    def evaluated(*values: Value) -> Value:
        columns, is_constant = columns_of(list(values))
        found = function(*columns)
        return found[0] if is_constant else found

    return evaluated


def alike(*values: Value) -> list[Value]:
    """Return values as float64 if one of them is a double, else as they are."""
    if all(pa.types.is_floating(one.type) for one in values) or not any(
        pa.types.is_floating(one.type) for one in values
    ):
        return list(values)
    return [one.cast(pa.float64(), safe=False) for one in values]


def _of_numbers(function: Callable[..., tuple[Array, Array | None]]) -> Evaluator:
    """Return the evaluator of a function of numpy arrays that returns values and where they are NULL.

    Where an argument is NULL, the function receives 0, and the result is NULL.
    """

    def evaluated(*columns: pa.Array[Any]) -> pa.Array[Any]:
        null = np.zeros(len(columns[0]), np.bool_)
        numbers = []
        for column in columns:
            null |= column.is_null().to_numpy(zero_copy_only=False)
            numbers.append(column.fill_null(0).to_numpy(zero_copy_only=False))
        with np.errstate(all="ignore"):
            found, none = function(*numbers)
        return pa.array(found, mask=null if none is None else null | none)

    return whole_columns(evaluated)


# ---------------------------------------------------------------------------------------------- numbers
def _abs(value: Value) -> Value:
    if pa.types.is_integer(value.type):
        zero = pa.scalar(0)
        return pc.if_else(pc.less(value, zero), arithmetic("subtract", zero, value), value)
    return pc.abs(value)


def _rounding(function: Callable[[Array], Array]) -> Evaluator:
    """Return the evaluator of a function that rounds doubles; whole numbers are returned unchanged."""
    of_doubles = _of_numbers(lambda values: (function(values) + 0.0, None))
    return lambda value: value if pa.types.is_integer(value.type) else of_doubles(value)


def _round(value: Value, digits: Value | None = None) -> Value:
    places = pa.scalar(0) if digits is None else digits
    if not pa.types.is_integer(value.type):
        return _of_numbers(_rounded)(value, places)
    if isinstance(places, pa.Scalar) and (places.as_py() or 0) >= 0 and places.is_valid:
        return value
    return _of_numbers(_whole_rounded)(value, places)


def _rounded(values: Array, digits: Array) -> tuple[Array, None]:
    """Round doubles, halves away from 0; values without such digits, or with too many, are unchanged."""
    power = 10.0 ** np.abs(digits)
    scaled = np.abs(np.where(digits < 0, values / power, values * power))
    below = np.floor(scaled)
    nearest = below + (scaled - below >= 0.5)  # a half
    found = np.copysign(np.where(digits < 0, nearest * power, nearest / power), values)
    found = np.where(np.isinf(power) & (digits < 0), 0.0, found)
    same = (scaled >= _EXACT) | ~np.isfinite(values)
    return np.where(same & ~(np.isinf(power) & (digits < 0)), values, found) + 0.0, None


def _whole_rounded(values: Array, digits: Array) -> tuple[Array, Array]:
    """Round whole numbers to tens, hundreds and so on; NULL if the result does not fit."""
    places = np.clip(-digits, 0, _MOST_DIGITS)
    power = np.array(10, np.int64) ** places
    left = values % power
    rest = np.where((values < 0) & (left != 0), left - power, left)  # with the sign of the value
    found = values - rest
    goes_on = 2 * np.abs(rest) >= power
    further = np.where(goes_on & (power > 1), np.sign(values) * power, 0)
    total = found + further
    overflows = (further != 0) & ((total < 0) != (values < 0))
    beyond = -digits > _MOST_DIGITS
    # 10 ** 19 does not fit; from its half on, which does, values would round to it.
    overflows &= ~beyond
    overflows |= (-digits == _MOST_DIGITS + 1) & ((values >= _HALF_OF_BEYOND) | (values <= -_HALF_OF_BEYOND))
    return np.where(beyond, 0, total), overflows


_HALF_OF_BEYOND = 5 * 10**_MOST_DIGITS


def _square_root(values: Array) -> tuple[Array, Array]:
    return np.sqrt(np.maximum(values, 0)) + 0.0, values < 0


def _sign(values: Array) -> tuple[Array, None]:
    return np.sign(values) + values.dtype.type(0), None


# ---------------------------------------------------------------------------------------------- choices
def _coalesce(*values: Value) -> Value:
    return pc.coalesce(*alike(*values))


def _extreme(comparison: str) -> Evaluator:
    """Return the evaluator of LEAST or GREATEST; it ignores NULLs and prefers the first of equals."""

    def better(one: Value, other: Value) -> Value:
        takes_other = pc.call_function(comparison, [other, one])
        return pc.coalesce(pc.if_else(takes_other, other, one), one, other)

    return lambda *values: reduce(better, alike(*values))


def _null_if(value: Value, other: Value) -> Value:
    is_same = pc.coalesce(pc.equal(*alike(value, other)), pa.scalar(False))
    return pc.if_else(is_same, pa.scalar(None, value.type), value)


def choose(conditions: list[Value], results: list[Value]) -> Value:
    """Return the result of the first true condition, else the last result (CASE).

    Args:
        conditions: The conditions; NULL is not true.
        results: One result for each condition, and one more, all of one type or all numbers.
    """
    *results, chosen = alike(*results)
    for condition, result in zip(reversed(conditions), reversed(results), strict=True):
        chosen = pc.if_else(pc.coalesce(condition, pa.scalar(False)), result, chosen)
    return chosen


# ------------------------------------------------------------------------------------------------ times
def _part(part: str) -> Evaluator:
    def of_instants(us: Array) -> tuple[Array, None]:
        days = us // DAY_US
        months = days.astype("datetime64[D]").astype("datetime64[M]")
        return _part_of(part, us, days, months), None

    return _of_numbers(of_instants)


def _part_of(part: str, us: Array, days: Array, months: Array) -> Array:  # noqa: PLR0911  # one for each
    month = months.astype(np.int64)
    match part:
        case "YEAR":
            return month // 12 + 1970
        case "QUARTER":
            return month % 12 // 3 + 1
        case "MONTH":
            return month % 12 + 1
        case "DAY":
            return days - months.astype("datetime64[D]").astype(np.int64) + 1
        case "DOY":
            return days - _first_days(month // 12) + 1
        case "DOW":
            return (days + 4) % 7
        case "ISODOW":
            return (days + _THURSDAY) % 7 + 1
        case "WEEK":
            thursday = days - (days + _THURSDAY) % 7 + 3
            year = thursday.astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64)
            week: Array = (thursday - _first_days(year)) // 7 + 1
            return week
        case "SECOND":
            return us // _SECOND_US % 60
    raise KeyError(part)


def _first_days(years: Array) -> Array:
    """Return the first days of years, counted from 1970 both; int64."""
    days: Array = years.astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64)
    return days


def _truncated(unit: Value, instants: Value) -> Value:
    kind = pa.int64()
    return text_functions.by_setting(instants, [unit], kind, lambda values, one: _truncate_to(one)(values))


def _truncate_to(unit: str) -> Evaluator:
    def truncate(us: Array) -> tuple[Array, Array | None]:
        if unit in _UNITS_US:
            return us - us % _UNITS_US[unit], us < _LEAST + DAY_US
        days = us // DAY_US
        if unit == "week":
            return (days - (days + _THURSDAY) % 7) * DAY_US, None
        month = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
        first = (month - month % _MONTHS[unit]).astype("datetime64[M]")
        return first.astype("datetime64[D]").astype(np.int64) * DAY_US, None

    return _of_numbers(truncate)


def _bucket(us: Array, instants: Array) -> tuple[Array, Array]:
    width = np.maximum(us, 1)
    return instants - instants % width, instants < _LEAST + width


def _from_epoch(values: Array) -> tuple[Array, Array]:
    if values.dtype.kind == "i":
        most = np.iinfo(np.int64).max // _SECOND_US
        fits = (-most <= values) & (values <= most)
        return np.where(fits, values, 0) * _SECOND_US, ~fits
    us = np.rint(values * _SECOND_US)
    fits = np.abs(us) < 2.0**63
    return np.where(fits, us, 0).astype(np.int64), ~fits


def _distance(planar: bool) -> Evaluator:
    def between(*columns: pa.Array[Any]) -> pa.Array[Any]:
        numbers = [column.cast(pa.float64(), safe=False) for column in columns]
        x1, y1, x2, y2 = (frozen(one.to_numpy(zero_copy_only=False).copy()) for one in numbers)
        far = distances_between(x1, y1, x2, y2, planar)
        found: pa.Array[Any] = pa.array(far, mask=np.isnan(far))
        return found

    return whole_columns(between)


def _corner(axis: int) -> Evaluator:
    def of_extents(column: pa.Array[Any]) -> pa.Array[Any]:
        from stqsh.core.conditions.extents import first_corners  # shapely: only when needed

        values = first_corners(column)[axis]
        found: pa.Array[Any] = pa.array(values, mask=np.isnan(values))
        return found

    return whole_columns(of_extents)


_EVALUATORS: dict[str, Evaluator] = {
    "ABS": _abs,
    "CEIL": _rounding(np.ceil),
    "FLOOR": _rounding(np.floor),
    "TRUNC": _rounding(np.trunc),
    "MOD": remainder,
    "ROUND": _round,
    "SIGN": _of_numbers(_sign),
    "SQRT": _of_numbers(_square_root),
    "COALESCE": _coalesce,
    "GREATEST": _extreme("greater"),
    "LEAST": _extreme("less"),
    "NULLIF": _null_if,
    "DATE_TRUNC": _truncated,
    "EPOCH": _of_numbers(lambda us: (us / _SECOND_US, None)),
    "TIME_BUCKET": _of_numbers(_bucket),
    "TO_TIMESTAMP": _of_numbers(_from_epoch),
    **{name: (lambda us, name=name: moment_part(name, us)) for name in ("DATE", "HOUR", "MINUTE")},
    **{
        name: _part(name)
        for name in ("DAY", "DOW", "DOY", "ISODOW", "MONTH", "QUARTER", "SECOND", "WEEK", "YEAR")
    },
    "ST_DISTANCE": _distance(planar=False),
    "ST_DISTANCE_PLANAR": _distance(planar=True),
    "EXTENT_X": _corner(0),
    "EXTENT_Y": _corner(1),
    **text_functions.EVALUATORS,
}
