"""Counts of places by the cells of a grid: where a slot may have objects, and where it has none."""

from __future__ import annotations

from stqsh.arrays import Array
from stqsh.core.kernels.index.static_rects import GridFrame, cell_of, cover
from stqsh.core.kernels.jit import kernel


@kernel
def count_places(x: Array, y: Array, counted: Array, frame: GridFrame, counts: Array) -> None:
    """Add the places that are marked in `counted`, bool (n,), to the counts of their cells.

    `counts` is int32 (side * side,). A place without coordinates (NaN) is in no cell.
    """
    for i in range(len(counted)):
        if counted[i] and x[i] == x[i] and y[i] == y[i]:
            counts[cell_of(x[i], y[i], frame)] += 1


@kernel
def any_in_box(counts: Array, frame: GridFrame, box: Array) -> bool:
    """Return whether a cell that a closed box touches has a count; `box` is x1, y1, x2, y2.

    One with NaN may touch any.
    """
    if not (box[0] <= box[2] and box[1] <= box[3]):
        return True
    left, right, low, high = cover(box, frame)
    for row in range(low, high + 1):
        for cell in range(row * frame.side + left, row * frame.side + right + 1):
            if counts[cell] != 0:
                return True
    return False
