"""Functions of whole columns that expressions need and pyarrow lacks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.arrays import Array

Value: TypeAlias = Any
"""An Arrow array, or a scalar for a column of equal values."""

DAY_US, HOUR_US, MINUTE_US = 86_400_000_000, 3_600_000_000, 60_000_000


def arithmetic(function: str, left: Value, right: Value) -> Value:
    """Add, subtract, multiply or divide two values of one type, int64 or float64.

    A whole number that does not fit in 64 bits is NULL, as is a quotient by 0. An error would stop the stream
    because of one record, and a number that wraps around would be a wrong answer.

    Args:
        function: "add", "subtract", "multiply" or "divide".
        left: The first value.
        right: The second value.
    """
    if not pa.types.is_integer(left.type):
        return pc.call_function(function, [left, right])
    try:
        return pc.call_function(f"{function}_checked", [left, right])
    except pa.ArrowInvalid:  # some number does not fit; find out which
        return _where_it_fits(function, left, right)


def remainder(left: Value, right: Value) -> Value:
    """Return the remainder of int64 values, with the dividend's sign; NULL if the divisor is 0."""
    null, one = pa.scalar(None, pa.int64()), pa.scalar(1)
    divisor = pc.if_else(pc.equal(right, pa.scalar(0)), null, right)
    # Dividing by -1 has no remainder either, and the quotient of the least number by -1 does not fit.
    divisor = pc.if_else(pc.equal(divisor, pa.scalar(-1)), one, divisor)
    return pc.subtract(left, pc.multiply(pc.divide(left, divisor), divisor))


def quotient(left: Value, right: Value) -> Value:
    """Return the quotient of int64 values, rounded towards 0; NULL if the divisor is 0 or it does not fit."""
    null, minus_one = pa.scalar(None, pa.int64()), pa.scalar(-1)
    is_minus_one = pc.equal(right, minus_one)
    divisor = pc.if_else(pc.or_(pc.equal(right, pa.scalar(0)), is_minus_one), pa.scalar(1), right)
    known = pc.if_else(pc.equal(right, pa.scalar(0)), null, pc.divide(left, divisor))
    return pc.if_else(is_minus_one, arithmetic("subtract", pa.scalar(0), left), known)


def _where_it_fits(function: str, left: Value, right: Value) -> Value:
    known = pc.call_function(function, [left, right])  # it wraps around, but has the right shape and nulls
    a, b, result = (_numbers(value) for value in (left, right, known))
    with np.errstate(all="ignore"):
        if function == "add":
            fits = (a ^ result) & (b ^ result) >= 0
        elif function == "subtract":
            fits = (a ^ b) & (a ^ result) >= 0
        else:
            least = np.iinfo(np.int64).min
            fits = (a == 0) | ((result // np.where(a == 0, 1, a) == b) & ~((a == -1) & (b == least)))
    if isinstance(known, pa.Scalar):
        return known if bool(np.all(fits)) else pa.scalar(None, pa.int64())
    return pc.if_else(pa.array(np.broadcast_to(fits, len(known))), known, pa.scalar(None, pa.int64()))


def _numbers(value: Value) -> Array:
    """Return values as int64, 0 for null; of shape () for a scalar."""
    if isinstance(value, pa.Scalar):
        return np.array(value.as_py() or 0, np.int64)
    numbers: Array = value.fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def moment_part(part: str, us: Value) -> Value:
    """Return DATE (a string 'yyyy-mm-dd'), HOUR or MINUTE (int64) of instants, int64 µs, in UTC.

    Raises:
        ValueError: there is no such part.
    """
    if isinstance(us, pa.Scalar):
        return moment_part(part, pa.array([us.as_py()], pa.int64()))[0]
    numbers, null = _numbers(us), us.is_null().to_numpy(zero_copy_only=False)
    if part == "HOUR":
        return pa.array(numbers // HOUR_US % 24, mask=null)
    if part == "MINUTE":
        return pa.array(numbers // MINUTE_US % 60, mask=null)
    if part != "DATE":
        raise ValueError(f"no function {part!r} of a moment")
    days, position = np.unique(numbers // DAY_US, return_inverse=True)
    names = pc.strftime(pa.array(days.astype("datetime64[D]")), format="%Y-%m-%d")
    positions: Any = pa.array(position, mask=null)
    return names.take(positions)


def is_one_of(values: pa.Array[Any], constants: Sequence[Any]) -> Value:
    """Return SQL's IN for at least one constant.

    The result is NULL for a NULL value, and also if nothing matches and NULL is among the constants. Whole
    numbers and fractions are compared as fractions, as by `=`.
    """
    truth: Value = pa.scalar(False)
    for python, group in _by_type(constants).items():
        mine = _comparable(values, python)
        truth = pc.or_(truth, pc.is_in(mine, value_set=_asked(group, mine.type)))
    otherwise = pa.scalar(None if None in constants else False, pa.bool_())
    found = pc.if_else(truth, pa.scalar(True), otherwise)
    return pc.if_else(pc.is_null(values), pa.scalar(None, pa.bool_()), found)


def is_one_of_own(values: pa.Array[Any], lists: pa.Array[Any]) -> Value:
    """Apply `is_one_of` with a separate list of constants for each row.

    Each distinct list is parsed once, and all rows are compared together.

    Args:
        values: The values, (n,).
        lists: JSON lists in a string array, not null, (n,).
    """
    coded = lists.dictionary_encode()
    which = coded.indices.to_numpy().astype(np.int64)
    constants = [orjson.loads(str(text)) for text in coded.dictionary.to_pylist()]
    truth = np.zeros(len(values), np.bool_)
    for python in sorted({type(c) for some in constants for c in some} - {type(None)}, key=str):
        owned = [(i, c) for i, some in enumerate(constants) for c in _by_type(some).get(python, ())]
        mine = _comparable(values, python)
        asked = _asked([c for _, c in owned], mine.type)
        both: Any = pa.concat_arrays([mine, asked]).dictionary_encode()
        codes = both.indices.fill_null(-1).to_numpy().astype(np.int64)
        own, theirs = codes[: len(values)], codes[len(values) :]
        pairs = np.array([i for i, _ in owned]) * len(both.dictionary) + theirs
        truth |= (own >= 0) & np.isin(which * len(both.dictionary) + own, pairs)
    with_null = np.array([None in some for some in constants], np.bool_)[which]
    missing = values.is_null().to_numpy(zero_copy_only=False)
    return pa.array(truth, mask=missing | (with_null & ~truth))


def _by_type(constants: Sequence[Any]) -> dict[type, list[Any]]:
    """Group constants by their Python type, without nulls."""
    groups: dict[type, list[Any]] = {}
    for constant in constants:
        if constant is not None:
            groups.setdefault(type(constant), []).append(constant)
    return groups


def _comparable(values: pa.Array[Any], python: type) -> pa.Array[Any]:
    """Return values in the type in which they are compared with constants of a type.

    That is float64 if either is a fraction; 0.0 and -0.0 are then equal.
    """
    if python is float or pa.types.is_floating(values.type):
        return pc.add(values.cast(pa.float64(), safe=False), 0.0)
    return values


def _asked(constants: Sequence[Any], kind: pa.DataType) -> pa.Array[Any]:
    """Return constants in the type in which they are compared.

    Arrow does not convert a whole number that no float64 equals; `=` uses the nearest float64, so this does,
    too.
    """
    if not pa.types.is_floating(kind):
        return pa.array(constants, kind)
    return pa.array([float(constant) + 0.0 for constant in constants], kind)


def like(values: Value, pattern: str) -> Value:
    """Return whether strings match a LIKE pattern."""
    return pc.match_substring_regex(values, like_regex(pattern))


def like_regex(pattern: str) -> str:
    """Return a LIKE pattern as a regular expression: % is any text, _ one character, \\ escapes the next."""
    out, escaped = [], False
    for character in pattern:
        if not escaped and character == "\\":
            escaped = True
            continue
        wild = {"%": ".*", "_": "."}.get(character) if not escaped else None
        out.append(wild or _quoted(character))
        escaped = False
    if escaped:
        out.append(_quoted("\\"))
    return rf"(?s)\A(?:{''.join(out)})\z"


def _quoted(character: str) -> str:
    """Return a character escaped for RE2, so that it matches itself."""
    return re.escape(character) if character.isascii() else character
