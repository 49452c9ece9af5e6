"""Estimate how far nearest neighbours are, from the density of records (SSTD section 4.1.1).

A partition has work with a kNN query if it is nearer than the k-th result, `d(q, P) < d(q, q.Rk)`. SSTD takes
the share of such queries from past ones, and so assumes that their reach is known. Here it is estimated: the
density around the place is that of the smallest square of cells with k records, and the k nearest are in a
circle of area k / density.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stqsh.arrays import Floats
from stqsh.routing.cells import Cells


class Neighbours(NamedTuple):
    """Queries for nearest neighbours: float64 (n, 2), the places; int64 (n,), how many neighbours."""

    places: Floats
    k: NDArray[np.int64]

    @staticmethod
    def none() -> Neighbours:
        """Return no queries."""
        return Neighbours(np.empty((0, 2)), np.empty(0, np.int64))


def reach_of(cells: Cells, records: Floats, asked: Neighbours) -> Floats:
    """Return a box around the circle in which the neighbours of each query are expected, float64 (n, 4).

    Args:
        cells: the cells.
        records: the number of records in each, float64 (side, side).
        asked: the queries. If there are fewer records than neighbours, the box has all cells.
    """
    side = cells.side
    below = np.pad(records.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    rows, columns = np.divmod(cells.of_places(*asked.places.T), side)

    def square(reach: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return the records, and the number of cells, of the squares around the places."""
        low, left = np.maximum(rows - reach, 0), np.maximum(columns - reach, 0)
        high, right = np.minimum(rows + reach + 1, side), np.minimum(columns + reach + 1, side)
        inside = below[high, right] - below[low, right] - below[high, left] + below[low, left]
        return inside, (high - low) * (right - left).astype(np.float64)

    least, most = np.zeros(len(rows), np.int64), np.full(len(rows), side)
    while (least < most).any():
        middle = (least + most) // 2
        suffices = square(middle)[0] >= asked.k
        least = np.where(suffices, least, np.minimum(middle + 1, most))
        most = np.where(suffices, middle, most)
    inside, size = square(least)
    x1, y1, x2, y2 = cells.bounds
    cell = (x2 - x1) * (y2 - y1) / side**2
    with np.errstate(divide="ignore"):
        radius = np.sqrt(asked.k * size * cell / (np.pi * inside))[:, None]
    radius[inside < asked.k] = np.inf
    return np.concatenate([asked.places - radius, asked.places + radius], axis=1)
