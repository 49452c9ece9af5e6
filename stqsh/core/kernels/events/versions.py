"""Values of versions (objects as stored, or rows of the batch), and whether queries ask for them.

Each kernel makes a constant number of passes over its input. `number` and `number_wholes` use tables of all
possible numbers instead of sorting or hashing.
"""

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
def read(values: Array, valid: Array, positions: Array) -> tuple[Array, Array, Int]:
    """Return the values at positions, whether each is null, bool (n,), and the number of nulls."""
    out, is_null, nulls = np.empty(len(positions), values.dtype), np.empty(len(positions), np.bool_), 0
    for i in range(len(positions)):
        at = np.uint64(positions[i])
        out[i], is_null[i] = values[at], not valid[at]
        nulls += is_null[i]
    return out, is_null, nulls


@kernel
def are_consecutive(numbers: Array) -> bool:
    """Return whether each number is the one before it plus 1."""
    gaps = 0
    for i in range(1, len(numbers)):
        gaps += numbers[i] != numbers[i - 1] + 1
    return gaps == 0


@kernel
def number(codes: Array, numbers: Array) -> tuple[Array, Array]:
    """Number distinct codes 0 .. len(numbers) - 1 in order of first occurrence.

    Args:
        codes: integer (n,).
        numbers: int32, all -1 before and after the call, because filling it would cost more than a few
            updates.

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
def number_wholes(values: Array, most: int) -> tuple[Array, Array]:
    """Number distinct whole numbers in ascending order, if their range is not too wide.

    Args:
        values: int64 (n,), at least one.
        most: The most numbers that the range may span.

    Returns:
        The number of each value, int32 (n,), and the distinct values, int64 (m,), ascending; both are empty
        if the range is wider.
    """
    low = high = values[0]
    for i in range(len(values)):
        low, high = min(low, values[i]), max(high, values[i])
    if np.uint64(high) - np.uint64(low) >= np.uint64(most):
        return np.empty(0, np.int32), np.empty(0, np.int64)
    numbers = np.zeros(high - low + 1, np.int32)
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


@kernel
def count_each(positions: Array, size: int) -> Array:
    """Return how often each position 0 .. size - 1 occurs; int64 (size,).

    The loop counts four neighbours separately, because equal neighbours would wait for each other.
    """
    out = np.zeros((4, size), np.int64)
    for i in range(len(positions)):
        out[np.uint64(i & 3), np.uint64(positions[i])] += 1
    counts: Array = out[0] + out[1] + out[2] + out[3]
    return counts


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
    """Clear WAS and IS of pairs where the object did not, or does not, have the value asked for."""
    event, query, flags = pairs
    old, had, new, has = values
    asks, value = asked
    for i in range(len(flags)):
        e, q = event[i], query[i]
        if asks[q]:
            was = had[e] & (old[e] == value[q])
            now = has[e] & (new[e] == value[q])
            flags[i] &= WAS * was + IS * now
