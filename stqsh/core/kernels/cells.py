"""Linked lists in the cells of a grid: objects by place, and moving rectangles by the cells they touch.

Links are indices + 1, 0 ends a list. A rectangle that touches too many cells is in one more list, which comes
after those of the cells and holds for every place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.core.kernels.jit import Array, Float, Int, kernel
from stqsh.core.kernels.stationary import Lattice, cell_of, cover


class ObjectCells(NamedTuple):
    """Objects in their cells: head int32 (cells,); the rest (objects,): next, prev and cell int32 (cell + 1,
    0 for an object that is nowhere), x, y float64 (NaN: nowhere).
    """

    head: Array
    next: Array
    prev: Array
    cell: Array
    x: Array
    y: Array


class RectCells(NamedTuple):
    """Rectangles in the lists of cells: head int32 (cells + 1,) and, for each of a pool of entries, int32:
    owner, cell, next and prev in the cell's list, chain (the owner's next entry). first int32
    (rectangles,): an owner's first entry. free int64 (2,): head of the list of free entries (by chain), and
    their number.
    """

    head: Array
    owner: Array
    cell: Array
    next: Array
    prev: Array
    chain: Array
    first: Array
    free: Array


@kernel
def move_object(cells: ObjectCells, o: Int, x: Float, y: Float, lattice: Lattice) -> None:
    """Put an object where it is now; NaN takes it away."""
    cells.x[o], cells.y[o] = x, y
    cell = np.int64(0) if np.isnan(x) else cell_of(x, y, lattice) + 1
    old = cells.cell[o]
    if cell == old:
        return
    if old:
        before, after = cells.prev[o], cells.next[o]
        if before:
            cells.next[before - 1] = after
        else:
            cells.head[old - 1] = after
        if after:
            cells.prev[after - 1] = before
    cells.cell[o] = cell
    if cell:
        head = cells.head[cell - 1]
        cells.next[o], cells.prev[o] = head, 0
        if head:
            cells.prev[head - 1] = o + 1
        cells.head[cell - 1] = o + 1


@kernel
def fill_objects(cells: ObjectCells, x: Array, y: Array, lattice: Lattice) -> None:
    """Put all objects into cells that are empty."""
    for o in range(len(x)):
        move_object(cells, o, x[o], y[o], lattice)


@kernel
def no_rects(cells: int, rectangles: int) -> RectCells:
    """Empty lists for so many cells and rectangles."""
    room = 4 * rectangles + 16
    pool = np.zeros((5, room), np.int32)
    pool[4] = np.arange(2, room + 2)
    pool[4, room - 1] = 0
    free = np.array([1, room], np.int64)
    head, first = np.zeros(cells + 1, np.int32), np.zeros(rectangles, np.int32)
    return RectCells(head, pool[0], pool[1], pool[2], pool[3], pool[4], first, free)


@kernel
def _with_room(lists: RectCells, needed: Int) -> RectCells:
    """The same lists with at least `needed` free entries."""
    if lists.free[1] >= needed:
        return lists
    old = len(lists.owner)
    more = max(needed, old)
    pool = np.zeros((5, old + more), np.int32)
    pool[0, :old], pool[1, :old], pool[2, :old] = lists.owner, lists.cell, lists.next
    pool[3, :old], pool[4, :old] = lists.prev, lists.chain
    pool[4, old:] = np.arange(old + 2, old + more + 2)
    pool[4, old + more - 1] = lists.free[0]
    lists.free[0] = old + 1
    lists.free[1] += more
    return RectCells(lists.head, pool[0], pool[1], pool[2], pool[3], pool[4], lists.first, lists.free)


@kernel
def unlink_rect(lists: RectCells, r: Int) -> None:
    """Take a rectangle out of all lists."""
    entry = lists.first[r]
    while entry:
        e = entry - 1
        before, after = lists.prev[e], lists.next[e]
        if before:
            lists.next[before - 1] = after
        else:
            lists.head[lists.cell[e]] = after
        if after:
            lists.prev[after - 1] = before
        following = lists.chain[e]
        lists.chain[e] = lists.free[0]
        lists.free[0] = entry
        lists.free[1] += 1
        entry = following
    lists.first[r] = 0


@kernel
def link_rect(lists: RectCells, r: Int, rect: Array, lattice: Lattice, large: Int) -> RectCells:
    """Put a rectangle that is in no list into those of the cells it touches; one of NaN stays out."""
    if np.isnan(rect[0]):
        return lists
    c1, c2, r1, r2 = cover(rect, lattice)
    count = (c2 - c1 + 1) * (r2 - r1 + 1)
    if count > large:
        c1, c2, r1, r2, count = lattice.side * lattice.side, lattice.side * lattice.side, 0, 0, 1
    lists = _with_room(lists, count)
    for row in range(r1, r2 + 1):
        for column in range(c1, c2 + 1):
            cell = row * lattice.side + column
            entry = lists.free[0]
            e = entry - 1
            lists.free[0] = lists.chain[e]
            lists.free[1] -= 1
            head = lists.head[cell]
            lists.owner[e], lists.cell[e], lists.next[e], lists.prev[e] = r, cell, head, 0
            if head:
                lists.prev[head - 1] = entry
            lists.head[cell] = entry
            lists.chain[e] = lists.first[r]
            lists.first[r] = entry
    return lists
