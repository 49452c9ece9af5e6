"""Values of versions, objects as stored or rows of the batch, and whether queries ask for them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.index.static_rects import IS, WAS, CandidatePairs
from stqsh.core.kernels.jit import Int, kernel


@kernel
def gather(stored: Array, rows: Array, versions: Array) -> Array:
    """Return the values of versions v: stored[v] if v < len(stored), else rows[v - len(stored)]; 0 for v < 0.

    `stored` (n,) and `rows` (m,) have one dtype, which is that of the result (k,); `versions` are integers
    (k,).
    """
    known = len(stored)
    out = np.zeros(len(versions), stored.dtype)
    for i in range(len(versions)):
        v = versions[i]
        if v >= known:
            out[i] = rows[v - known]
        elif v >= 0:
            out[i] = stored[v]
    return out


@kernel
def number(codes: Array, numbers: Array) -> tuple[Array, Array]:
    """Number distinct codes 0 .. len(numbers) - 1 in order of first occurrence.

    Args:
        codes: integer (n,).
        numbers: int32, all -1 before and after the call, as filling it would cost more than a few updates.

    Returns:
        The number of each code, int32 (n,), and the distinct codes in that order.
    """
    out = np.empty(len(codes), np.int32)
    distinct = np.empty(len(codes), codes.dtype)
    count = 0
    for i in range(len(codes)):
        code = codes[i]
        known = numbers[code]
        if known < 0:
            known = np.int32(count)
            numbers[code], distinct[count] = known, code
            count += 1
        out[i] = known
    for i in range(count):
        numbers[distinct[i]] = -1
    return out, distinct[:count].copy()


@kernel
def number_wholes(values: Array, low: Int, size: int) -> tuple[Array, Array]:
    """Number distinct whole numbers low .. low + size - 1 in their order.

    Args:
        values: integer (n,).
        low: the smallest value that may occur.
        size: how many values may occur.

    Returns:
        The number of each value, int32 (n,), and the distinct values, int64 (m,), ascending.
    """
    numbers = np.zeros(size, np.int32)
    for i in range(len(values)):
        numbers[values[i] - low] = 1
    distinct = np.flatnonzero(numbers).astype(np.int64)
    for i in range(len(distinct)):
        numbers[distinct[i]] = np.int32(i)
    out = np.empty(len(values), np.int32)
    for i in range(len(values)):
        out[i] = numbers[values[i] - low]
    return out, distinct + low


@kernel
def tally(positions: Array, amounts: Array, size: int) -> Array:
    """Return the sum of the amounts at each position 0 .. size - 1; int64 (size,)."""
    out = np.zeros(size, np.int64)
    for i in range(len(positions)):
        out[positions[i]] += amounts[i]
    return out


class EventValues(NamedTuple):
    """A column before and after events, int64 (n,) each, and whether it is not null, bool (n,)."""

    old: Array
    had: Array
    new: Array
    has: Array


class AskedValues(NamedTuple):
    """Which queries ask for a value of a column, bool (queries,), and for which, int64 (queries,)."""

    asks: Array
    value: Array


@kernel
def clear_unequal(pairs: CandidatePairs, values: EventValues, asked: AskedValues) -> None:
    """Clear WAS and IS of pairs where the object did not, or does not, have the value that is asked for."""
    event, query, flags = pairs
    old, had, new, has = values
    asks, value = asked
    for i in range(len(flags)):
        e, q = event[i], query[i]
        if asks[q]:
            was = had[e] & (old[e] == value[q])
            now = has[e] & (new[e] == value[q])
            flags[i] &= WAS * was + IS * now
