"""Which rows come near any region: those of objects that no query asks for are not looked at any further."""

from __future__ import annotations

import numpy as np

from stqsh.core.kernels.index.static_rects import (
    GridFrame,
    RectGrid,
    cell_of,
    coarser,
    cover,
    grids_above,
    within,
)
from stqsh.core.kernels.jit import Array, Flag, Float, Int, kernel


@kernel
def mark_cells(rects: Array, lattice: GridFrame) -> Array:
    """The cells that rectangles touch, float64 (n, 4); bool (cells,). One with NaN is nowhere."""
    marked = np.zeros(lattice.side * lattice.side, np.bool_)
    for q in range(len(rects)):
        if np.isnan(rects[q, 0]):
            continue
        c1, c2, r1, r2 = cover(rects[q], lattice)
        for row in range(r1, r2 + 1):
            marked[row * lattice.side + c1 : row * lattice.side + c2 + 1] = True
    return marked


@kernel
def _in_some(lattice: GridFrame, lists: RectGrid, x: Float, y: Float) -> Flag:
    first = np.int64(0)
    for times in range(grids_above(lattice)):
        grid = coarser(lattice, times)
        cell = first + cell_of(x, y, grid)
        if lists.whole[cell] < lists.start[cell + 1]:
            return True
        for k in range(lists.start[cell], lists.whole[cell]):
            if within(x, y, lists.rects[0, k], lists.rects[1, k], lists.rects[2, k], lists.rects[3, k]):
                return True
        first += grid.side * grid.side
    return False


@kernel
def near_some(
    x: Array, y: Array, still: tuple[GridFrame, RectGrid], moving: tuple[GridFrame, Array]
) -> Array:
    """Which places lie in a rectangle of a grid, or in a marked cell; bool (n,)."""
    out = np.zeros(len(x), np.bool_)
    for i in range(len(x)):
        if not np.isnan(x[i]):
            near = moving[1][cell_of(x[i], y[i], moving[0])]
            out[i] = near or _in_some(still[0], still[1], x[i], y[i])
    return out


@kernel
def _place_of(table: Array, h: np.uint64) -> Int:
    """Where a hash is in a table, or the empty place where it belongs."""
    mask = np.uint64(len(table) - 1)
    at = h & mask
    while table[at] != 0 and table[at] != h:
        at = (at + np.uint64(1)) & mask
    return np.int64(at)


@kernel
def sift(hashes: Array, near: Array, known: Array) -> Array:
    """Which rows may matter: of objects that are known, or that have some row near a region; bool (n,).

    hashes: uint64 (n,), of the rows' keys. Objects of one hash count as one, and 0 is no hash: a row too many
    may stay, never one too few.
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
