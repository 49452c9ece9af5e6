"""Routing by space: fine cells, many of which belong to one slot.

This follows CheetahGIS (section IV, the global index; section V, many cells to one processor), except for
the assignment of cells: there it is random and then adjusted, here it follows a sample of the records, which
a replay has beforehand. The bounds of a stream are cut into equal cells; a place outside counts to the cell
at the border. Cells in Z-order are assigned to slots in runs of about equal weight, so that near cells are
mostly on one slot and a small region touches few. The result depends only on bounds, sample and the number
of slots, so it is the same in every process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Cells a side; a power of two.
SIDE = 64
#: Cells without a record in the sample together weigh as much as this share of the sample.
_EMPTY_SHARE = 0.1

Bounds = tuple[float, float, float, float]


@dataclass(frozen=True)
class CellRouting:
    """The slot of each cell.

    Attributes:
        bounds: x1, y1, x2, y2 with x1 < x2 and y1 < y2.
        owners: int32 (SIDE, SIDE), the slot of the cell in that row (y) and column (x).
        slots: the number of slots.
    """

    bounds: Bounds
    owners: NDArray[np.int32]
    slots: int

    @staticmethod
    def of(bounds: Sequence[float], sample: Sequence[Sequence[float]], slots: int) -> CellRouting:
        """Assign the cells of `bounds` to slots by the weight of a sample of places, (x, y) each."""
        x1, y1, x2, y2 = bounds
        places = np.array(sample, np.float64).reshape(-1, 2)
        columns, rows = _cell_indices(places[:, 0], x1, x2), _cell_indices(places[:, 1], y1, y2)
        counts = np.zeros((SIDE, SIDE))
        np.add.at(counts, (rows, columns), 1.0)
        owners = np.empty(SIDE * SIDE, np.int32)
        order = z_order()
        owners[order] = _assign_cells(counts.ravel()[order], slots)
        return CellRouting((x1, y1, x2, y2), owners.reshape(SIDE, SIDE), slots)

    def slots_of(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.int32]:
        """Return the slot of each place, int32 (n,); x, y float64 (n,), not NaN."""
        x1, y1, x2, y2 = self.bounds
        return self.owners[_cell_indices(y, y1, y2), _cell_indices(x, x1, x2)]

    def slots_touching(self, boxes: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return the slots whose cells boxes touch.

        Args:
            boxes: float64 (n, 4), x1, y1, x2, y2 each; may be infinite. A box with NaN touches all.

        Returns:
            bool (n, slots). The slot of each place in a box, its border included, is among them.
        """
        everywhere = np.array([-np.inf, -np.inf, np.inf, np.inf])
        boxes = np.where(np.isnan(boxes).any(axis=1, keepdims=True), everywhere, boxes)
        x1, y1, x2, y2 = self.bounds
        left, right = _cell_indices(boxes[:, 0], x1, x2), _cell_indices(boxes[:, 2], x1, x2) + 1
        low, high = _cell_indices(boxes[:, 1], y1, y2), _cell_indices(boxes[:, 3], y1, y2) + 1
        sums = self._sums()
        held = sums[high, right] - sums[low, right] - sums[high, left] + sums[low, left]
        touched: NDArray[np.bool_] = held > 0
        return touched

    def _sums(self) -> NDArray[np.int32]:
        """Return how many cells of each slot are below a row and left of a column.

        Returns:
            int32 (SIDE + 1, SIDE + 1, slots).
        """
        each = self.owners[:, :, None] == np.arange(self.slots)
        sums = np.zeros((SIDE + 1, SIDE + 1, self.slots), np.int32)
        sums[1:, 1:] = each.cumsum(axis=0).cumsum(axis=1)
        return sums


def z_order() -> NDArray[np.int64]:
    """Return the cells, row * SIDE + column, along the Z curve: int64 (SIDE * SIDE,)."""
    along = np.arange(SIDE * SIDE)
    columns, rows = np.zeros_like(along), np.zeros_like(along)
    for bit in range(SIDE.bit_length() - 1):
        columns |= (along >> 2 * bit & 1) << bit
        rows |= (along >> 2 * bit + 1 & 1) << bit
    return rows * SIDE + columns


def _cell_indices(values: NDArray[np.float64], low: float, high: float) -> NDArray[np.int64]:
    """Return the column (or row) of each coordinate, 0 .. SIDE - 1; never falls where coordinates rise."""
    scaled = np.clip((values - low) * (SIDE / (high - low)), 0, SIDE - 1)
    return np.floor(scaled).astype(np.int64)


def _assign_cells(counts: NDArray[np.float64], slots: int) -> NDArray[np.int32]:
    """Cut cells in a row, of weights `counts` (n,), into runs of about equal weight; return their slots."""
    weights = counts + max(counts.sum(), 1.0) * _EMPTY_SHARE / len(counts)
    middles = np.cumsum(weights) - weights / 2
    owners: NDArray[np.int32] = np.minimum(middles * slots / weights.sum(), slots - 1).astype(np.int32)
    return owners
