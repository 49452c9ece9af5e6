"""The distinct ones of whole numbers in their order, by a table of all numbers that there may be."""

from __future__ import annotations

import numpy as np

from stqsh.core.kernels.jit import Array, Int, kernel


@kernel
def number_distinct(numbers: Array, low: Int, size: int) -> tuple[Array, Array]:
    """Return the distinct ones of numbers in low .. low + size, ascending, and the place of each.

    Args:
        numbers: int64 or int32 (n,).
        low: The least number.
        size: How many different numbers there may be.

    Returns:
        The distinct numbers, int64, and for each number that there may be its place among them, int32
        (size,); -1 where it does not occur.
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
    """Return the place of each number as `number_distinct` has it, int64 (n,); -1 for those out of range."""
    out = np.empty(len(numbers), np.int64)
    for i in range(len(numbers)):
        at = numbers[i] - low
        out[i] = places[at] if 0 <= at < len(places) else -1
    return out


@kernel
def pair_codes(first: Array, second: Array, count: Int) -> Array:
    """Return pairs of numbers as one number each, first * count + second, in place of the first ones.

    Those that lack a number, which is negative then, become -1.
    """
    for i in range(len(first)):
        first[i] = first[i] * count + second[i] if first[i] >= 0 and second[i] >= 0 else -1
    return first
