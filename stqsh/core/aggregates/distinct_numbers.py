"""Find numbers among distinct numbers: with a table if the numbers are close together, else by sorting."""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.groups.distinct import PlaceTable, find_places, number_distinct
from stqsh.core.kernels.jit import frozen

_SPARE = 1 << 16
"""A table of at most this size is made even if few of its numbers occur."""

_EACH = 8
"""A larger table has at most this many entries per given number."""


class DistinctNumbers:
    """The distinct numbers among some numbers, ascending.

    A table takes one pass over the numbers where sorting takes twenty. Numbers that are far apart are sorted.
    """

    def __init__(self, numbers: Array) -> None:
        wide = _wide(numbers)
        self._low = int(wide.min()) if len(wide) else 0
        size = int(wide.max()) - self._low + 1 if len(wide) else 0
        self._places: Array | None = None
        if size <= _SPARE + _EACH * len(wide):
            self.values, self._places = number_distinct(wide, self._low, size)
        else:
            self.values = sorted_distinct(wide).astype(np.int64)

    def __len__(self) -> int:
        return len(self.values)

    def find(self, numbers: Array) -> Array:
        """Return the place of each number among the distinct ones, int64 (n,); -1 for unknown numbers."""
        if self._places is not None:
            return find_places(_wide(numbers), self._low, self._places)
        at = np.minimum(np.searchsorted(self.values, numbers), len(self.values) - 1)
        return np.where(self.values[at] == numbers, at, -1)

    @property
    def table(self) -> PlaceTable | None:
        """The table of places; None if there is none."""
        return None if self._places is None else PlaceTable(self._low, frozen(self._places))


def sorted_distinct(numbers: Array) -> Array:
    """Return the distinct numbers in order; `np.unique` hashes, which is ten times slower for millions."""
    ordered = np.sort(numbers)
    is_new = np.ones(len(ordered), np.bool_)
    is_new[1:] = ordered[1:] != ordered[:-1]
    distinct: Array = ordered[is_new]
    return distinct


def _wide(numbers: Array) -> Array:
    """Return numbers in a dtype that kernels accept: int64, or int32 without a copy."""
    return frozen(np.ascontiguousarray(numbers, np.int32 if numbers.dtype == np.int32 else np.int64))
