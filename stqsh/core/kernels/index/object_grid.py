"""Objects in the cells of a grid.

The objects of a cell are stored in blocks, with their places side by side, so scanning a cell reads memory
sequentially; with linked lists of single objects, each access waited for memory. Moving an object costs
constant time: the cell's last object takes its seat. Links are numbers + 1, and 0 ends a list.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.index.static_rects import GridFrame, cell_of, cover
from stqsh.core.kernels.jit import Float, Int, inlined, kernel

BLOCK = 8
"""Objects in a block: two cache lines of places. Only a cell's first block may be partly full."""


class ObjectGrid(NamedTuple):
    """Objects in their cells, with `blocks_for` blocks of `BLOCK` seats each.

    Attributes:
        head: The first block of each cell, int32 (cells,).
        size: The number of objects of each cell, int32 (cells,).
        slot: The seat of each object + 1, int32 (objects,); 0 for an object that is not present.
        next: The next block of the same cell, or for a free block the next free block, int32 (blocks,).
        owner: The object in each seat, int32 (seats,).
        place: The x and y of the object in each seat, float64 (seats * 2,).
        free: The first free block, and the number of blocks that were ever used, int64 (2,).
    """

    head: Array
    size: Array
    slot: Array
    next: Array
    owner: Array
    place: Array
    free: Array


def blocks_for(objects: int, cells: int) -> int:
    """Return how many blocks always suffice, because each cell may have one block that is partly full."""
    return objects // BLOCK + cells + 1


@kernel
def _free_seat(cells: ObjectGrid, cell: Int, seat: Int) -> None:
    """Free a seat of a cell; the object in the cell's last seat moves to it."""
    left = cells.size[cell] - 1
    block = cells.head[cell] - 1
    last = block * BLOCK + left % BLOCK
    if last != seat:
        moved = cells.owner[last]
        cells.owner[seat], cells.slot[moved] = moved, seat + 1
        cells.place[2 * seat], cells.place[2 * seat + 1] = cells.place[2 * last], cells.place[2 * last + 1]
    cells.size[cell] = left
    if left % BLOCK == 0:
        cells.head[cell], cells.next[block] = cells.next[block], cells.free[0]
        cells.free[0] = block + 1


@kernel
def _new_seat(cells: ObjectGrid, cell: Int) -> Int:
    """Return a new seat of a cell."""
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
def place_object(cells: ObjectGrid, o: Int, x: Float, y: Float, frame: GridFrame) -> None:
    """Put an object at its current place; NaN removes it."""
    seat, old = np.int64(cells.slot[o]) - 1, np.int64(-1)
    if seat >= 0:
        old = cell_of(cells.place[2 * seat], cells.place[2 * seat + 1], frame)
    cell = np.int64(-1) if np.isnan(x) else cell_of(x, y, frame)
    if cell != old:
        if old >= 0:
            _free_seat(cells, old, seat)
            cells.slot[o] = 0
        if cell >= 0:
            seat = _new_seat(cells, cell)
            cells.owner[seat], cells.slot[o] = o, seat + 1
    if cell >= 0:
        cells.place[2 * seat], cells.place[2 * seat + 1] = x, y


@kernel
def move_object(cells: ObjectGrid, o: Int, x: Float, y: Float, frame: GridFrame) -> None:
    """Call `place_object`; it is compiled once, for callers outside of inner loops."""
    place_object(cells, o, x, y, frame)


@kernel
def fill_objects(cells: ObjectGrid, x: Array, y: Array, frame: GridFrame) -> None:
    """Put all objects into empty cells."""
    for o in range(len(x)):
        place_object(cells, o, x[o], y[o], frame)


@kernel
def count_places(x: Array, y: Array, counted: Array, frame: GridFrame, counts: Array) -> None:
    """Add the places marked in `counted`, bool (n,), to the counts of their cells.

    `counts` is int32 (side * side,). A place with NaN coordinates is in no cell.
    """
    for i in range(len(counted)):
        if counted[i] and x[i] == x[i] and y[i] == y[i]:
            counts[cell_of(x[i], y[i], frame)] += 1


@kernel
def any_in_box(counts: Array, frame: GridFrame, box: Array) -> bool:
    """Return whether any cell that a closed box touches has a count; `box` is x1, y1, x2, y2.

    A box with NaN may touch any cell.
    """
    if not (box[0] <= box[2] and box[1] <= box[3]):
        return True
    left, right, low, high = cover(box, frame)
    for row in range(low, high + 1):
        for cell in range(row * frame.side + left, row * frame.side + right + 1):
            if counts[cell] != 0:
                return True
    return False
