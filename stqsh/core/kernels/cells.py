"""Lists in the cells of a grid: objects by place, and moving rectangles by the cells they touch.

A cell's objects lie in blocks, each object's place beside the next one's, so that a look at a cell reads
memory in a row: where objects were linked one by one, each look at one waited for the memory. Links are
numbers + 1, 0 ends a list. A rectangle that touches too many cells is in one more list, which comes after
those of the cells and holds for every place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.core.kernels.jit import Array, Float, Int, inlined, kernel
from stqsh.core.kernels.stationary import Lattice, cell_of, cover

BLOCK = 8
"""Objects in a block: two lines of memory of places. Only a cell's first block is not full."""


class ObjectCells(NamedTuple):
    """Objects in their cells. head, size int32 (cells,): a cell's first block, and how many objects it has.

    slot int32 (objects,): the seat of each object + 1, 0 for one that is nowhere. next int32 (blocks,): the
    cell's next block, of a free one the next free one. owner int32 (seats,) and place float64 (seats * 2,):
    the object in each seat, and its x and y. free int64 (2,): the first free block, and how many blocks have
    ever been used. There are `blocks_for` blocks, of `BLOCK` seats each.
    """

    head: Array
    size: Array
    slot: Array
    next: Array
    owner: Array
    place: Array
    free: Array


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


def blocks_for(objects: int, cells: int) -> int:
    """How many blocks are enough, wherever the objects go: each cell may have one that is not full."""
    return objects // BLOCK + cells + 1


@kernel
def _take(cells: ObjectCells, cell: Int, seat: Int) -> None:
    """Free a seat of a cell: whoever sits in the last one takes it."""
    left = cells.size[cell] - 1
    block = cells.head[cell] - 1
    last = block * BLOCK + left % BLOCK
    if last != seat:
        whose = cells.owner[last]
        cells.owner[seat], cells.slot[whose] = whose, seat + 1
        cells.place[2 * seat], cells.place[2 * seat + 1] = cells.place[2 * last], cells.place[2 * last + 1]
    cells.size[cell] = left
    if left % BLOCK == 0:
        cells.head[cell], cells.next[block] = cells.next[block], cells.free[0]
        cells.free[0] = block + 1


@kernel
def _seat(cells: ObjectCells, cell: Int) -> Int:
    """One more seat of a cell."""
    count = cells.size[cell]
    cells.size[cell] = count + 1
    if count % BLOCK == 0:
        block = cells.free[0]
        if block:
            cells.free[0] = cells.next[block - 1]
        else:
            cells.free[1] += 1
            block = cells.free[1]
        cells.next[block - 1], cells.head[cell] = cells.head[cell], block
    return (np.int64(cells.head[cell]) - 1) * BLOCK + count % BLOCK


@inlined
def settle_object(cells: ObjectCells, o: Int, x: Float, y: Float, lattice: Lattice) -> None:
    """Put an object where it is now; NaN takes it away."""
    seat, old = np.int64(cells.slot[o]) - 1, np.int64(-1)
    if seat >= 0:
        old = cell_of(cells.place[2 * seat], cells.place[2 * seat + 1], lattice)
    cell = np.int64(-1) if np.isnan(x) else cell_of(x, y, lattice)
    if cell != old:
        if old >= 0:
            _take(cells, old, seat)
            cells.slot[o] = 0
        if cell >= 0:
            seat = _seat(cells, cell)
            cells.owner[seat], cells.slot[o] = o, seat + 1
    if cell >= 0:
        cells.place[2 * seat], cells.place[2 * seat + 1] = x, y


@kernel
def move_object(cells: ObjectCells, o: Int, x: Float, y: Float, lattice: Lattice) -> None:
    """`settle_object`, for those who call it now and then."""
    settle_object(cells, o, x, y, lattice)


@kernel
def fill_objects(cells: ObjectCells, x: Array, y: Array, lattice: Lattice) -> None:
    """Put all objects into cells that are empty."""
    for o in range(len(x)):
        settle_object(cells, o, x[o], y[o], lattice)


@kernel
def places_in(cells: ObjectCells) -> tuple[Array, Array]:
    """Where all objects are: x, y float64 (objects,), NaN: nowhere."""
    x, y = np.full(len(cells.slot), np.nan), np.full(len(cells.slot), np.nan)
    for o in range(len(cells.slot)):
        seat = np.int64(cells.slot[o]) - 1
        if seat >= 0:
            x[o], y[o] = cells.place[2 * seat], cells.place[2 * seat + 1]
    return x, y


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
