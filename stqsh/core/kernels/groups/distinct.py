"""Distinct whole numbers in ascending order, found with a table of all possible numbers.

One pass marks the numbers that occur, and one pass over the table numbers them. So the cost is linear in the
numbers and in their range, without sorting or hashing; callers use it only for ranges that are not too wide.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.jit import Int, kernel


class PlaceTable(NamedTuple):
    """The places of the numbers from `low` on, int32; -1 for a number that does not occur."""

    low: int
    places: Array


@kernel
def number_distinct(numbers: Array, low: Int, size: int) -> tuple[Array, Array]:
    """Return the distinct numbers among numbers in low .. low + size, ascending, and the place of each.

    Args:
        numbers: int64 or int32 (n,).
        low: The least possible number.
        size: How many numbers are possible.

    Returns:
        The distinct numbers, int64; and the place of each possible number among them, int32 (size,), -1 if it
        does not occur.
    """
    places = np.full(size, -1, np.int32)
    for i in range(len(numbers)):
        places[numbers[i] - low] = 0
    count = 0
    for at in range(size):
        count += places[at] + 1
    distinct, used = np.empty(count, np.int64), 0
    for at in range(size):
        if places[at] == 0:
            places[at] = used
            distinct[used] = at + low
            used += 1
    return distinct, places


@kernel
def find_places(numbers: Array, low: Int, places: Array) -> Array:
    """Return the place of each number, int64 (n,), from `number_distinct`; -1 for numbers out of range."""
    out = np.empty(len(numbers), np.int64)
    for i in range(len(numbers)):
        at = numbers[i] - low
        out[i] = places[at] if 0 <= at < len(places) else -1
    return out


class NumberedPairs(NamedTuple):
    """Distinct pairs of numbers in order, (m,), and the tables that find them.

    Attributes:
        first, second: The places of the numbers of each pair, int64 and int32.
        places: The place of each possible pair, first * count + second, int32; -1 if it does not occur.
        given: The place of each given pair, int32 (n,).
    """

    first: Array
    second: Array
    places: Array
    given: Array


@kernel
def number_pairs(
    first: Array, second: Array, firsts: PlaceTable, seconds: PlaceTable, size: int, count: Int
) -> NumberedPairs:
    """Number the distinct pairs of numbers; all numbers are in the tables.

    Args:
        first, second: int64 and int32 (n,).
        firsts, seconds: The places of the numbers.
        size: How many pairs are possible.
        count: How many second numbers are possible.
    """
    low, places, low2, places2 = firsts.low, firsts.places, seconds.low, seconds.places
    pairs, given, found = np.full(size, -1, np.int32), np.empty(len(first), np.int32), np.int64(0)
    for i in range(len(first)):
        a, b = places[np.uint64(first[i] - low)], places2[np.uint64(second[i] - low2)]
        code = np.uint64(a) * np.uint64(count) + np.uint64(b)
        pairs[code], given[i] = 0, code
    for at in range(size):
        found += pairs[at] + 1
    one, other, used = np.empty(found, np.int64), np.empty(found, np.int32), np.int32(0)
    for a in range(size // max(count, 1)):
        for b in range(count):
            if pairs[a * count + b] == 0:
                pairs[a * count + b] = used
                one[used], other[used] = a, b
                used += np.int32(1)
    for i in range(len(given)):
        given[i] = pairs[np.uint64(given[i])]
    return NumberedPairs(one, other, pairs, given)


@kernel
def find_pairs(
    first: Array, second: Array, firsts: PlaceTable, seconds: PlaceTable, count: Int, pairs: Array
) -> Array:
    """Return the place of each pair, int64 (n,), from `number_pairs`; -1 for unknown pairs."""
    out = np.empty(len(first), np.int64)
    low, places, low2, places2 = firsts.low, firsts.places, seconds.low, seconds.places
    for i in range(len(first)):
        a, b, place = first[i] - low, second[i] - low2, np.int64(-1)
        if 0 <= a < len(places) and 0 <= b < len(places2) and places[a] >= 0 and places2[b] >= 0:
            place = np.int64(pairs[np.int64(places[a]) * count + places2[b]])
        out[i] = place
    return out


@kernel
def first_alike(hashes: Array) -> Array:
    """Return the first position at which each hash, uint64 (n,), occurs, int64 (n,)."""
    size = 1
    while size < 2 * len(hashes):
        size *= 2
    table, out, mask = np.full(size, -1, np.int32), np.empty(len(hashes), np.int64), np.uint64(size - 1)
    for i in range(len(hashes)):
        at = (hashes[i] >> np.uint64(32)) & mask
        while table[at] >= 0 and hashes[table[at]] != hashes[i]:
            at = (at + np.uint64(1)) & mask
        if table[at] < 0:
            table[at] = i
        out[i] = table[at]
    return out
