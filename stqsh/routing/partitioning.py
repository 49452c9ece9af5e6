"""Partitioning: deal weights evenly, cut rectangles of cells, and assign sets to slots."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stqsh.arrays import Floats
from stqsh.routing.table import HASHED

Integers = NDArray[np.int64]

_CLOSE = 1e-6
"""The relative error of `cut_in_runs` from the minimum weight of the heaviest run."""


class CellBlock(NamedTuple):
    """Cells from row `low` to before `high`, and from column `left` to before `right`."""

    low: int
    high: int
    left: int
    right: int

    @property
    def height(self) -> int:
        """The number of rows."""
        return self.high - self.low

    @property
    def width(self) -> int:
        """The number of columns."""
        return self.right - self.left

    @property
    def area(self) -> int:
        """The number of cells."""
        return self.height * self.width

    def common(self, other: CellBlock) -> CellBlock | None:
        """Return the cells that are also in another block; None if there are none."""
        low, left = max(self.low, other.low), max(self.left, other.left)
        high, right = min(self.high, other.high), min(self.right, other.right)
        return CellBlock(low, high, left, right) if low < high and left < right else None

    def quarters(self) -> list[CellBlock]:
        """Return the four quarters of a square, along the Z curve."""
        row, column = (self.low + self.high) // 2, (self.left + self.right) // 2
        return [
            CellBlock(*rows, *columns)
            for rows in ((self.low, row), (row, self.high))
            for columns in ((self.left, column), (column, self.right))
        ]


class Cut(NamedTuple):
    """A rectangle cut in two.

    Attributes:
        cost: the cost of the more expensive half; for other shares, scaled in proportion.
        first: the part with the lower rows or columns.
        second: the other part.
    """

    cost: float
    first: CellBlock
    second: CellBlock


@dataclass(frozen=True, eq=False)
class PrefixSums:
    """Prefix sums of a value, for O(1) sums over any rectangle of cells (Tornado section 4.3).

    Attributes:
        below: float64 (side + 1, side + 1), the sum of the cells below a row and left of a column.
    """

    below: Floats

    @staticmethod
    def of(values: Floats) -> PrefixSums:
        """Compute the prefix sums of the values of cells, float64 (side, side)."""
        return PrefixSums(np.pad(values.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0))))

    def total(self, within: CellBlock) -> float:
        """Return the sum over a rectangle."""
        low, high, left, right = within
        below = self.below
        return float(below[high, right] - below[low, right] - below[high, left] + below[low, left])

    def cut_rows(self, within: CellBlock, share: float = 0.5) -> Cut | None:
        """Cut a rectangle between two rows to minimize the cost of the dearer part; None for a single row.

        The first part should get `share` of the cost; each part is measured relative to its share.
        """
        low, high, left, right = within
        if high - low < 2:
            return None
        at = low + _even_cut(self.below[low : high + 1, right] - self.below[low : high + 1, left], share)
        return self._parts(CellBlock(low, at, left, right), CellBlock(at, high, left, right), share)

    def cut_columns(self, within: CellBlock, share: float = 0.5) -> Cut | None:
        """Cut a rectangle between two columns likewise; None for a single column."""
        low, high, left, right = within
        if right - left < 2:
            return None
        at = left + _even_cut(self.below[high, left : right + 1] - self.below[low, left : right + 1], share)
        return self._parts(CellBlock(low, high, left, at), CellBlock(low, high, at, right), share)

    def best_cut(self, within: CellBlock, share: float = 0.5) -> Cut | None:
        """Return the best of all cuts (Tornado section 4.1); of equally good ones the cut of the longer side.

        A single cell has none.
        """
        cuts = [self.cut_columns(within, share), self.cut_rows(within, share)]
        if within.height > within.width:
            cuts.reverse()
        return min((cut for cut in cuts if cut is not None), key=lambda cut: cut.cost, default=None)

    def halves(self, within: CellBlock) -> list[CellBlock]:
        """Return the two parts of the best cut into halves; a single cell is returned whole."""
        cut = self.best_cut(within)
        return [within] if cut is None else [cut.first, cut.second]

    def _parts(self, first: CellBlock, second: CellBlock, share: float) -> Cut:
        dearer = max(self.total(first) / share, self.total(second) / (1 - share)) / 2
        return Cut(dearer, first, second)


def _even_cut(running: Floats, share: float) -> int:
    """Return the number of lines before the cut, from running sums, float64 (lines + 1,), of at least two.

    Of equally good cuts, such as those in empty space, return the one nearest to the share.
    """
    first = running[1:-1] - running[0]
    dearer = np.maximum(first / share, (running[-1] - running[0] - first) / (1 - share))
    best = np.flatnonzero(dearer <= dearer.min())
    wanted = (len(running) - 1) * share
    return 1 + int(best[np.argmin(np.abs(best + 1 - wanted))])


def painted(rectangles: Sequence[CellBlock], side: int) -> NDArray[np.int32]:
    """Return the number of each cell's rectangle: int32 (side, side); the rectangles tile the cells."""
    found = np.zeros((side, side), np.int32)
    for number, (low, high, left, right) in enumerate(rectangles):
        found[low:high, left:right] = number
    return found


def cut_in_runs(weights: Floats, parts: int) -> Integers:
    """Cut a sequence into runs: minimize the heaviest run, and make the others about equal.

    Bisection finds the minimum weight of the heaviest run. Each cut is then placed as near to its even
    position as that weight allows for the runs before it and after it.

    Args:
        weights: float64 (n,), not negative. If all are 0, each counts the same.
        parts: the number of runs, at least 1; some are empty if there are few weights.

    Returns:
        int64 (n,), the run of each weight, which never falls.
    """
    if not weights.any():
        weights = np.ones(len(weights))
    ends = np.append(0.0, weights.cumsum()).tolist()
    most = _least_heaviest(ends, float(weights.max(initial=0.0)), parts)
    earliest = [
        len(weights)
    ]  # the earliest cuts after which the remaining runs can hold the rest, last cut first
    for _ in range(parts - 1):
        earliest.append(bisect_left(ends, ends[earliest[-1]] - most))
    cuts = [0]
    for part in range(1, parts):
        latest = bisect_right(ends, ends[cuts[-1]] + most) - 1
        even = _nearest(ends, ends[-1] * part / parts)
        cuts.append(min(max(even, earliest[parts - part], cuts[-1]), latest))
    return np.repeat(np.arange(parts), np.diff([*cuts, len(weights)]))


def _least_heaviest(ends: list[float], heaviest: float, parts: int) -> float:
    """Return the minimum weight of the heaviest run, by bisection; ends are running sums from 0."""
    low, high = max(ends[-1] / parts, heaviest), ends[-1] / parts + heaviest
    while high - low > _CLOSE * high:
        middle = (low + high) / 2
        low, high = (low, middle) if _fits(ends, middle, parts) else (middle, high)
    return high * (1 + _CLOSE)


def _fits(ends: list[float], most: float, parts: int) -> bool:
    """Return whether all weights fit into `parts` runs of weight at most `most`."""
    at = 0
    for _ in range(parts):
        at = bisect_right(ends, ends[at] + most) - 1
    return at == len(ends) - 1


def _nearest(ends: list[float], wanted: float) -> int:
    """Return the position of the number nearest to `wanted`; `ends` are ascending."""
    at = min(bisect_left(ends, wanted), len(ends) - 1)
    return at - 1 if at and wanted - ends[at - 1] < ends[at] - wanted else at


def karmarkar_karp(weights: Floats, parts: int) -> Integers:
    """Deal weights to sets of about equal sums by Karmarkar and Karp's differencing (SSTD section 4.1.2).

    The heap holds partial solutions: `parts` sums in falling order, less the smallest one. The two with the
    largest spread are merged, the largest sum of one with the smallest of the other. Time is O(n (log n +
    parts log parts)). `heads` has a representative weight of each set.

    Args:
        weights: float64 (n,), not negative.
        parts: the number of sets, at least 1.

    Returns:
        int64 (n,), the set of each weight, 0 .. parts - 1. The same weights always give the same sets.
    """
    into = np.arange(len(weights))  # a weight whose set this one shares
    heap = [
        (-weight, number, np.append(weight, np.zeros(parts - 1)), np.append(number, np.full(parts - 1, -1)))
        for number, weight in enumerate(weights.tolist())
    ]
    heapq.heapify(heap)
    for number in range(len(weights), 2 * len(weights) - 1):
        _, _, sums, heads = heapq.heappop(heap)
        _, _, lesser, tails = heapq.heappop(heap)
        sums, tails = sums + lesser[::-1], tails[::-1]
        met = (heads >= 0) & (tails >= 0)
        into[tails[met]] = heads[met]
        order = np.argsort(-sums, kind="stable")
        sums = sums[order] - sums[order[-1]]
        heapq.heappush(heap, (-float(sums[0]), number, sums, np.where(heads >= 0, heads, tails)[order]))
    found = np.zeros(len(weights), np.int64)
    for _, _, _, heads in heap:
        held = heads >= 0
        found[heads[held]] = np.flatnonzero(held)
    return found[_ends_of(into)]


def _ends_of(into: Integers) -> Integers:
    """Return the end of each number's chain, int64 (n,); the end of a chain points to itself."""
    while True:
        further = into[into]
        if (further == into).all():
            return into
        into = further


def slots_of_sets(sets: Integers, slot: NDArray[np.int16], weights: Floats, slots: int) -> NDArray[np.int16]:
    """Return the assignment of sets to slots that moves the least weight (SSTD section 5.2).

    Args:
        sets: int64 (n,), the set of each item, 0 .. slots - 1.
        slot: int16 (n,), the current slot of each item; HASHED items move in any case.
        weights: float64 (n,), the weight of each item. If all are 0, each counts the same.
        slots: the number of sets and of slots.

    Returns:
        int16 (slots,), a permutation.
    """
    # Imported here because every engine imports this module, few move sets, and scipy.optimize takes 0.2 s.
    from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]

    if not weights.any():
        weights = np.ones(len(weights))
    # Maximizing the weight that stays is an assignment problem between sets and slots.
    placed = slot != HASHED
    kept = np.bincount(sets[placed] * slots + slot[placed], weights[placed], slots * slots)
    _, found = linear_sum_assignment(kept.reshape(slots, slots), maximize=True)
    assigned: NDArray[np.int16] = found.astype(np.int16)
    return assigned


def least_transfer(sets: Integers, slot: NDArray[np.int16], weights: Floats, slots: int) -> NDArray[np.int16]:
    """Return the new slot of each item, int16 (n,); for arguments see `slots_of_sets`."""
    return slots_of_sets(sets, slot, weights, slots)[sets]
