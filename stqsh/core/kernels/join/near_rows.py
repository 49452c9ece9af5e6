"""A filter of rows: rows of objects that come near no region are dropped.

A place is near a region if it is in a static rectangle or in a marked cell, which moving regions touch. The
test may keep extra rows, but it never drops a row that a region needs. It costs one look-up in each grid per
row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.index.static_rects import (
    GridFrame,
    RectGrid,
    cell_of,
    coarser,
    count_grids,
    cover,
    within,
)
from stqsh.core.kernels.jit import Flag, Float, Int, kernel


@kernel
def mark_cells(rects: Array, frame: GridFrame) -> Array:
    """Mark the cells that rectangles, float64 (n, 4), touch; NaN touches none. Return bool (cells,)."""
    marked = np.zeros(frame.side * frame.side, np.bool_)
    for q in range(len(rects)):
        if np.isnan(rects[q, 0]):
            continue
        c1, c2, r1, r2 = cover(rects[q], frame)
        for row in range(r1, r2 + 1):
            marked[row * frame.side + c1 : row * frame.side + c2 + 1] = True
    return marked


@kernel
def _in_some(frame: GridFrame, lists: RectGrid, x: Float, y: Float) -> Flag:
    first = np.int64(0)
    for times in range(count_grids(frame)):
        grid = coarser(frame, times)
        cell = first + cell_of(x, y, grid)
        if lists.whole[cell] < lists.start[cell + 1]:
            return True
        for k in range(lists.start[cell], lists.whole[cell]):
            if within(x, y, lists.rects[0, k], lists.rects[1, k], lists.rects[2, k], lists.rects[3, k]):
                return True
        first += grid.side * grid.side
    return False


class NearRegions(NamedTuple):
    """Static rectangles in a grid, and the marked cells of another grid, see `mark_cells`."""

    static_frame: GridFrame
    static: RectGrid
    marked_frame: GridFrame
    marked: Array


@kernel
def is_near(x: Array, y: Array, regions: NearRegions) -> Array:
    """Return which places are in a rectangle of the grid, or in a marked cell; bool (n,)."""
    out = np.zeros(len(x), np.bool_)
    for i in range(len(x)):
        if not np.isnan(x[i]):
            near = regions.marked[cell_of(x[i], y[i], regions.marked_frame)]
            out[i] = near or _in_some(regions.static_frame, regions.static, x[i], y[i])
    return out


@kernel
def _place_of(table: Array, h: np.uint64) -> Int:
    """Return the position of a hash in a table, or the empty position where it belongs."""
    mask = np.uint64(len(table) - 1)
    at = h & mask
    while table[at] != 0 and table[at] != h:
        at = (at + np.uint64(1)) & mask
    return np.int64(at)


@kernel
def select_rows(hashes: Array, near: Array, known: Array) -> Array:
    """Select the rows of objects that are known, or that have any row near a region; bool (n,).

    Objects with the same hash count as one, and hash 0 is not used: extra rows may stay, but none is lost.

    Args:
        hashes: The hashes of the rows' keys, uint64 (n,).
        near: Whether the row is near a region, bool (n,).
        known: Whether the row's object is known, bool (n,).
    """
    size = 64
    while size < 2 * np.sum(near):
        size *= 2
    table = np.zeros(2 * size, np.uint64)
    for r in range(len(hashes)):
        if near[r]:
            table[_place_of(table, hashes[r])] = hashes[r]
    out = np.empty(len(hashes), np.bool_)
    for r in range(len(hashes)):
        out[r] = near[r] or known[r] or table[_place_of(table, hashes[r])] == hashes[r]
    return out
