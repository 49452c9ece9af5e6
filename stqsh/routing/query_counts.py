"""Count the queries that touch a block of cells, each query once.

Prefix sums over cells count a query once for each cell. An Euler histogram (Beigel and Tanin, 1998) also has
the edges and corners between cells: a query's share of a block is a rectangle, of which cells plus corners
minus edges are 1. Tornado keeps such a count, queryCount, for each partition (section 4.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stqsh.arrays import Floats
from stqsh.routing.partitioning import CellBlock


def coverage(spans: NDArray[np.int64], side: int) -> Floats:
    """Return how many spans cover each cell: float64 (side, side); spans are rows of `Cells.of_boxes`."""
    low, high, left, right = spans.T
    corners = np.zeros((side + 1, side + 1))
    for row, column, sign in ((low, left, 1), (low, right, -1), (high, left, -1), (high, right, 1)):
        counts = np.bincount(row * (side + 1) + column, minlength=corners.size)
        corners += sign * counts.reshape(corners.shape)
    found: Floats = corners.cumsum(axis=0).cumsum(axis=1)[:side, :side]
    return found


class BlockTotals(Protocol):
    """Totals of a value over blocks of cells."""

    def total(self, within: CellBlock) -> float:
        """Return the total over a block."""
        ...


@dataclass(frozen=True, eq=False)
class QueryCounts:
    """The queries over blocks of cells.

    Attributes:
        below: float64 (2 side, 2 side), prefix sums over cells (even rows and columns), corners (odd ones)
            and edges between cells, which count negatively.
    """

    below: Floats

    @staticmethod
    def of(spans: NDArray[np.int64], side: int) -> QueryCounts:
        """Count queries by the cells that they touch: spans, rows of `Cells.of_boxes`, int64 (n, 4)."""
        wide = 2 * side - 1
        doubled = 2 * spans
        doubled[:, 1::2] -= 1
        signs = 1 - 2 * (np.arange(wide) % 2)
        counts = coverage(doubled, wide) * signs * signs[:, None]
        return QueryCounts(np.pad(counts.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0))))

    def total(self, within: CellBlock) -> float:
        """Return the number of queries that touch a block."""
        low, high, left, right = (2 * edge for edge in within)
        below = self.below
        high, right = high - 1, right - 1
        return float(below[high, right] - below[low, right] - below[high, left] + below[low, left])
