"""Objects in the cells of a grid.

What is in a cell lies in blocks, each object's place beside the next one's, so that a look at a cell reads
memory in a row: where they were linked one by one, each look waited for the memory. Links are numbers + 1, 0
ends a list.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.core.kernels.index.static_rects import GridFrame, cell_of
from stqsh.core.kernels.jit import Array, Float, Int, inlined, kernel

BLOCK = 8
"""Objects in a block: two lines of memory of places. Only a cell's first block is not full."""


class ObjectGrid(NamedTuple):
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


def blocks_for(objects: int, cells: int) -> int:
    """How many blocks are enough, wherever the objects go: each cell may have one that is not full."""
    return objects // BLOCK + cells + 1


@kernel
def _take(cells: ObjectGrid, cell: Int, seat: Int) -> None:
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
def _seat(cells: ObjectGrid, cell: Int) -> Int:
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
def settle_object(cells: ObjectGrid, o: Int, x: Float, y: Float, lattice: GridFrame) -> None:
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
def move_object(cells: ObjectGrid, o: Int, x: Float, y: Float, lattice: GridFrame) -> None:
    """`settle_object`, for those who call it now and then."""
    settle_object(cells, o, x, y, lattice)


@kernel
def fill_objects(cells: ObjectGrid, x: Array, y: Array, lattice: GridFrame) -> None:
    """Put all objects into cells that are empty."""
    for o in range(len(x)):
        settle_object(cells, o, x[o], y[o], lattice)


@kernel
def places_in(cells: ObjectGrid) -> tuple[Array, Array]:
    """Where all objects are: x, y float64 (objects,), NaN: nowhere."""
    x, y = np.full(len(cells.slot), np.nan), np.full(len(cells.slot), np.nan)
    for o in range(len(cells.slot)):
        seat = np.int64(cells.slot[o]) - 1
        if seat >= 0:
            x[o], y[o] = cells.place[2 * seat], cells.place[2 * seat + 1]
    return x, y
