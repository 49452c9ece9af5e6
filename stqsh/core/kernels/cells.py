"""Lists in the cells of a grid: objects by place, and moving rectangles by the cells they touch.

What is in a cell lies in blocks, each object's place or rectangle's corners beside the next one's, so that a
look at a cell reads memory in a row: where they were linked one by one, each look waited for the memory.
Links are numbers + 1, 0 ends a list. A rectangle that touches too many cells is in one more list, which comes
after those of the cells and holds for every place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.core.kernels.jit import Array, Float, Int, inlined, kernel
from stqsh.core.kernels.stationary import Lattice, cell_of, cover

BLOCK = 8
"""Objects in a block: two lines of memory of places. Only a cell's first block is not full."""

RECTS = 16
"""Rectangles in a block; there are far more of them in a cell."""


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
    """Rectangles in the lists of cells: head, size int32 (cells + 1,), a list's first block, and how many
    rectangles are in it. next int32 (blocks,): as in `ObjectCells`.

    In each seat of the blocks lie box float64 (seats, 4), the corners x1, y1, x2, y2; tag int32, twice the
    rectangle's number, plus 1 where it has to be looked at more closely; link int32, which link tells of the
    seat. Links, int32 (links,) each: seat, cell, and chain, the rectangle's next link, of a free one the next
    free one; first int32 (rectangles,): a rectangle's first link. free int64 (4,): the first free block, how
    many blocks have ever been used, the first free link, and how many links are free.
    """

    head: Array
    size: Array
    next: Array
    box: Array
    tag: Array
    link: Array
    seat: Array
    cell: Array
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
    blocks = room // RECTS + cells + 2
    chain = np.arange(2, room + 2).astype(np.int32)
    chain[room - 1] = 0
    return RectCells(
        np.zeros(cells + 1, np.int32),
        np.zeros(cells + 1, np.int32),
        np.empty(blocks, np.int32),
        np.empty((blocks * RECTS, 4), np.float64),
        np.empty(blocks * RECTS, np.int32),
        np.empty(blocks * RECTS, np.int32),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        chain,
        np.zeros(rectangles, np.int32),
        np.array([0, 0, 1, room], np.int64),
    )


@kernel
def _with_room(lists: RectCells, needed: Int) -> RectCells:
    """The same lists with at least `needed` free links, and blocks for all links that there are then."""
    if lists.free[3] >= needed:
        return lists
    old, used = len(lists.seat), lists.free[1]
    room = old + max(needed, old)
    blocks, seats = room // RECTS + len(lists.head) + 1, used * RECTS
    box = np.empty((blocks * RECTS, 4), np.float64)
    following, tag, link = (
        np.empty(blocks, np.int32),
        np.empty(blocks * RECTS, np.int32),
        np.empty(blocks * RECTS, np.int32),
    )
    following[:used], box[:seats] = lists.next[:used], lists.box[:seats]
    tag[:seats], link[:seats] = lists.tag[:seats], lists.link[:seats]
    seat, cell, chain = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int32)
    seat[:old], cell[:old], chain[:old] = lists.seat, lists.cell, lists.chain
    chain[old:] = np.arange(old + 2, room + 2)
    chain[room - 1] = lists.free[2]
    lists.free[2] = old + 1
    lists.free[3] += room - old
    return RectCells(
        lists.head, lists.size, following, box, tag, link, seat, cell, chain, lists.first, lists.free
    )


@kernel
def unlink_rect(lists: RectCells, r: Int) -> None:
    """Take a rectangle out of all lists."""
    link = lists.first[r]
    while link:
        e = link - 1
        seat, cell = lists.seat[e], lists.cell[e]
        left = lists.size[cell] - 1
        block = lists.head[cell] - 1
        last = block * RECTS + left % RECTS
        if last != seat:
            for corner in range(4):
                lists.box[seat, corner] = lists.box[last, corner]
            lists.tag[seat], lists.link[seat] = lists.tag[last], lists.link[last]
            lists.seat[lists.link[seat]] = seat
        lists.size[cell] = left
        if left % RECTS == 0:
            lists.head[cell], lists.next[block] = lists.next[block], lists.free[0]
            lists.free[0] = block + 1
        following = lists.chain[e]
        lists.chain[e] = lists.free[2]
        lists.free[2] = link
        lists.free[3] += 1
        link = following
    lists.first[r] = 0


@kernel
def link_rect(lists: RectCells, r: Int, rect: Array, tag: Int, where: tuple[Lattice, Int]) -> RectCells:
    """Put a rectangle that is in no list into those of the cells it touches; one of NaN stays out.

    where: the grid, and from how many cells on a rectangle is large. The loop calls nothing: handing arrays
    on costs more than what it does with them.
    """
    if np.isnan(rect[0]):
        return lists
    lattice, large = where
    c1, c2, r1, r2 = cover(rect, lattice)
    count = (c2 - c1 + 1) * (r2 - r1 + 1)
    if count > large:
        c1, c2, r1, r2, count = lattice.side * lattice.side, lattice.side * lattice.side, 0, 0, 1
    lists = _with_room(lists, count)
    head, size, following, box = lists.head, lists.size, lists.next, lists.box
    tags, link, seats, cells, chain, free = (
        lists.tag,
        lists.link,
        lists.seat,
        lists.cell,
        lists.chain,
        lists.free,
    )
    x1, y1, x2, y2 = rect[0], rect[1], rect[2], rect[3]
    before, e = np.int64(lists.first[r]), free[2] - 1
    for row in range(r1, r2 + 1):
        for cell in range(row * lattice.side + c1, row * lattice.side + c2 + 1):
            at = np.int64(size[cell])
            size[cell] = at + 1
            if at % RECTS == 0:
                block = free[0]
                if block:
                    free[0] = following[block - 1]
                else:
                    free[1] += 1
                    block = free[1]
                following[block - 1], head[cell] = head[cell], block
            seat = (np.int64(head[cell]) - 1) * RECTS + at % RECTS
            box[seat, 0], box[seat, 1], box[seat, 2], box[seat, 3] = x1, y1, x2, y2
            tags[seat], link[seat], seats[e], cells[e] = tag, e, seat, cell
            after = np.int64(chain[e]) - 1
            chain[e] = before
            before, e = e + 1, after
    lists.first[r] = before
    free[2] = e + 1
    free[3] -= count
    return lists


@kernel
def rewrite_rect(lists: RectCells, r: Int, rect: Array, tag: Int) -> None:
    """Give a rectangle other corners and another tag in the lists where it is; rect: 4 numbers or more."""
    link = lists.first[r]
    while link:
        seat = lists.seat[link - 1]
        for corner in range(4):
            lists.box[seat, corner] = rect[corner]
        lists.tag[seat] = tag
        link = lists.chain[link - 1]
