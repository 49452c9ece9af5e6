"""Cells: divide the bounds of a stream into a fine grid of equal cells.

This is the virtual fine grid of Tornado (section 3.1) and the global grid of CheetahGIS (section IV). A place
outside the bounds belongs to the nearest border cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

Bounds = tuple[float, float, float, float]


@dataclass(frozen=True)
class Cells:
    """The cells of a stream.

    Attributes:
        bounds: x1, y1, x2, y2 with x1 < x2 and y1 < y2.
        side: the number of cells per side, a power of two.
    """

    bounds: Bounds
    side: int

    def of_places(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the cell of each place, row * side + column: int64 (n,); x, y float64 (n,), not NaN."""
        x1, y1, x2, y2 = self.bounds
        return _indices(y, y1, y2, self.side) * self.side + _indices(x, x1, x2, self.side)

    def centres(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the centre of each cell: x and y, float64 (side * side,) each."""
        x1, y1, x2, y2 = self.bounds
        middles = (np.arange(self.side) + 0.5) / self.side
        return np.tile(x1 + middles * (x2 - x1), self.side), np.repeat(y1 + middles * (y2 - y1), self.side)

    def of_boxes(self, boxes: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the cells that boxes touch.

        Args:
            boxes: float64 (n, 4), x1, y1, x2, y2 each; may be infinite. A box with NaN touches all cells.

        Returns:
            int64 (n, 4): first row, row after the last, first column, column after the last. They include
            the cell of each place in a box, its border included.
        """
        missing = np.isnan(boxes).any(axis=1, keepdims=True)
        if missing.any():
            boxes = np.where(missing, np.array([-np.inf, -np.inf, np.inf, np.inf]), boxes)
        x1, y1, x2, y2 = self.bounds
        cells = _indices(boxes, np.array([x1, y1, x1, y1]), np.array([x2, y2, x2, y2]), self.side)
        spans = cells[:, [1, 3, 0, 2]]
        spans[:, 1::2] += 1
        return spans


@cache
def z_order(side: int) -> NDArray[np.int64]:
    """Return the cells, row * side + column, along the Z curve: int64 (side * side,)."""
    along = np.arange(side * side)
    columns, rows = np.zeros_like(along), np.zeros_like(along)
    for bit in range(side.bit_length() - 1):
        columns |= (along >> 2 * bit & 1) << bit
        rows |= (along >> 2 * bit + 1 & 1) << bit
    order = rows * side + columns
    order.flags.writeable = False  # the array is cached
    return order


def maximal_squares(values: NDArray[np.int64], costs: NDArray[np.float64], most: float) -> NDArray[np.int32]:
    """Return the smallest quadtree whose leaves have one value each and, except single cells, a bounded cost.

    Along the Z curve each node of the quadtree is a run of 4^k cells. From the bottom up, a node is uniform
    if its four children are uniform with one value and its cost is within the bound. The leaves are the
    largest uniform nodes. Time is O(n log n).

    Args:
        values: int64 (n,), along the Z curve over a square of cells; n is a power of four.
        costs: float64 (n,), the cost of each cell.
        most: the bound.

    Returns:
        int32 (n,), the leaf of each cell; leaves count up along the curve.
    """
    level = np.zeros(len(values), np.int64)
    uniform, size = np.ones(len(values), np.bool_), 1
    while len(uniform) > 1:
        firsts = values[::size].reshape(-1, 4)
        size *= 4
        uniform = uniform.reshape(-1, 4).all(axis=1) & (firsts == firsts[:, :1]).all(axis=1)
        uniform &= costs.reshape(-1, size).sum(axis=1) <= most
        level += np.repeat(uniform, size)
    starts = np.arange(len(values)) % 4**level == 0
    leaves: NDArray[np.int32] = (starts.cumsum() - 1).astype(np.int32)
    return leaves


def _indices(
    values: NDArray[np.float64],
    low: float | NDArray[np.float64],
    high: float | NDArray[np.float64],
    side: int,
) -> NDArray[np.int64]:
    """Return the column (or row) of each coordinate, 0 .. side - 1, monotonic in the coordinate."""
    with np.errstate(over="ignore"):  # infinite coordinates belong to border cells
        scaled = np.minimum(np.maximum((values - low) * (side / (high - low)), 0), side - 1)
    return scaled.astype(np.int64)
