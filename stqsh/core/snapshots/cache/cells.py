"""Cells of a grid over a stream's places, in the order of a pyramid's nodes (STAR section 4).

A cell's number interleaves the bits of its column and its row, so the cells of every pyramid node have
consecutive numbers. Columns and rows never decrease as x and y increase, however values are rounded. So every
place in a cell strictly between the cells of a box's corners is in the box, exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array

DEEPEST = 8
"""The most levels below the root: cell numbers fit in 16 bits, which numpy sorts by radix."""

_SPREAD = np.array([sum((n >> bit & 1) << 2 * bit for bit in range(DEEPEST)) for n in range(1 << DEEPEST)])
"""The bits of a column, each with a free bit before it for a bit of a row."""


class Extent(NamedTuple):
    """The area of places: x1, y1, x2, y2."""

    x1: float
    y1: float
    x2: float
    y2: float

    def joined(self, other: Extent) -> Extent:
        """Return the smallest area that contains both."""
        return Extent(
            min(self.x1, other.x1), min(self.y1, other.y1), max(self.x2, other.x2), max(self.y2, other.y2)
        )


NO_EXTENT = Extent(np.inf, np.inf, -np.inf, -np.inf)


class CellNode(NamedTuple):
    """A node of the pyramid: its level, 0 for the root, and its column and row on that level."""

    level: int
    column: int
    row: int

    def holds(self, other: CellNode) -> bool:
        """Return whether another node is this node or below it."""
        down = other.level - self.level
        return down >= 0 and (other.column >> down, other.row >> down) == (self.column, self.row)

    @property
    def children(self) -> tuple[CellNode, ...]:
        """The four nodes of the next level."""
        level, column, row = self.level + 1, 2 * self.column, 2 * self.row
        return tuple(CellNode(level, column + i, row + j) for j in (0, 1) for i in (0, 1))


ROOT = CellNode(0, 0, 0)


class CellBox(NamedTuple):
    """Columns and rows of cells that a box touches or covers; empty if last < first or high < low."""

    first: int
    low: int
    last: int
    high: int

    def joined(self, other: CellBox) -> CellBox:
        """Return the smallest box that contains both; an empty `other` adds nothing."""
        if other.is_empty:
            return self
        first, low = min(self.first, other.first), min(self.low, other.low)
        return CellBox(first, low, max(self.last, other.last), max(self.high, other.high))

    @property
    def is_empty(self) -> bool:
        """Whether there are no cells."""
        return self.last < self.first or self.high < self.low


class CellGrid:
    """A square grid of `2 ** depth` columns over an area; places outside the area are in border cells.

    Attributes:
        depth: the level of the cells.
        cells: the number of cells; used as a cell number, it means no place.
    """

    def __init__(self, area: Extent, depth: int) -> None:
        self.area, self.depth, self.cells = area, depth, 1 << 2 * depth
        self._side = 1 << depth
        width, height = max(area.x2 - area.x1, 0.0), max(area.y2 - area.y1, 0.0)
        self._per_x = self._side / width if width > 0 else 0.0
        self._per_y = self._side / height if height > 0 else 0.0

    def numbers(self, x: Array, y: Array) -> Array:
        """Return the cells of places, uint32 (n,); `cells` for NaN."""
        column, row = self._columns(x), self._rows(y)
        number: Array = (_SPREAD[column] | _SPREAD[row] << 1).astype(np.uint32)
        number[np.isnan(x) | np.isnan(y)] = self.cells
        return number

    def touched(self, box: Array) -> CellBox:
        """Return the cells that a box, float64 (4,), touches."""
        columns, rows = self._columns(box[::2]).tolist(), self._rows(box[1::2]).tolist()
        return CellBox(columns[0], rows[0], columns[1], rows[1])

    def covered(self, box: Array, seen: Extent) -> CellBox:
        """Return the cells whose places are all in a box, provided that all places are within `seen`."""
        touched, last = self.touched(box), self._side - 1
        x1, y1, x2, y2 = box.tolist()
        return CellBox(
            0 if x1 <= seen.x1 else touched.first + 1,
            0 if y1 <= seen.y1 else touched.low + 1,
            last if x2 >= seen.x2 else touched.last - 1,
            last if y2 >= seen.y2 else touched.high - 1,
        )

    def number_of(self, columns: Array, rows: Array) -> Array:
        """Return the numbers of cells by their columns and rows, int64 (n,)."""
        numbers: Array = _SPREAD[columns] | _SPREAD[rows] << 1
        return numbers

    def places_of(self, numbers: Array) -> tuple[Array, Array]:
        """Return the columns and the rows of cells, int64 (n,) both."""
        column, row = np.zeros_like(numbers), np.zeros_like(numbers)
        for bit in range(self.depth):
            column |= (numbers >> 2 * bit & 1) << bit
            row |= (numbers >> 2 * bit + 1 & 1) << bit
        return column, row

    def span(self, node: CellNode) -> tuple[int, int]:
        """Return the first number of a node's cells, and the number after the last cell."""
        size = 1 << 2 * (self.depth - node.level)
        first = int(_SPREAD[node.column] | _SPREAD[node.row] << 1) * size
        return first, first + size

    def box_of(self, node: CellNode) -> CellBox:
        """Return the cells of a node."""
        side = 1 << self.depth - node.level
        first, low = node.column * side, node.row * side
        return CellBox(first, low, first + side - 1, low + side - 1)

    def area_of(self, node: CellNode) -> Extent:
        """Return the area of a node; border nodes also contain the places outside the grid."""
        side = 1 << node.level
        width, height = (self.area.x2 - self.area.x1) / side, (self.area.y2 - self.area.y1) / side
        x1, y1 = self.area.x1 + node.column * width, self.area.y1 + node.row * height
        return Extent(x1, y1, x1 + width, y1 + height)

    def _columns(self, x: Array) -> Array:
        return self._places(x, self.area.x1, self._per_x)

    def _rows(self, y: Array) -> Array:
        return self._places(y, self.area.y1, self._per_y)

    def _places(self, values: Array, first: float, per: float) -> Array:
        with np.errstate(invalid="ignore"):  # infinite places, or an area without places
            scaled = (values - first) * per
        inside = np.clip(np.nan_to_num(scaled, nan=0.0), 0, self._side - 1)
        places: Array = inside.astype(np.int64)
        return places


def depth_for(events: int) -> int:
    """Return the depth of a grid for a number of events, with about 60 events per cell."""
    depth = 0
    while depth < DEEPEST and events > 60 << 2 * depth:
        depth += 1
    return depth
