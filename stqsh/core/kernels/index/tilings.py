"""The parts of a tiling by rectangles that boxes touch, found from neighbour to neighbour."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.core.kernels.jit import Array, kernel

_EVERY = -1
"""The owner of a part that stands for all owners."""


class CellTiling(NamedTuple):
    """Rectangles that tile cells.

    Attributes:
        part_of: int32 (side, side), the part that has the cell in that row and column.
        parts: int16 (parts, 4), first row, row after the last, first column, column after the last.
        owner: int16 (parts,), the owner of each part, or -1 for all owners.
    """

    part_of: Array
    parts: Array
    owner: Array


@kernel
def mark_owners(tiling: CellTiling, boxes: Array, touched: Array) -> None:
    """Mark the owners of the parts that boxes touch: Tornado's neighbour-based routing (section 3.1).

    Its algorithm 1 goes from the first cell of a box to the cells behind the right and the upper border of
    the part that has it, and on from there. It looks at a part at most once from its left and once from
    below, however many cells it has, and finds all parts of any tiling by rectangles.

    Args:
        tiling: The parts and their owners.
        boxes: int64 (n, 4), as the `parts` of a tiling.
        touched: bool (n, owners), in which the owners are marked.
    """
    part_of, parts, owner = tiling
    last = np.full(len(parts), -1)  # the last box that touched a part
    stack = np.empty((len(parts) + 2, 2), np.int64)
    for i in range(len(boxes)):
        low, high, left, right = boxes[i]
        stack[0, 0], stack[0, 1] = low, left
        used = 1
        while used > 0:
            used -= 1
            row, column = stack[used]
            if row >= high or column >= right:
                continue
            part = part_of[row, column]
            if last[part] == i:
                continue
            last[part] = i
            if owner[part] == _EVERY:
                touched[i, :] = True
            else:
                touched[i, owner[part]] = True
            stack[used, 0], stack[used, 1] = parts[part, 1], max(left, parts[part, 2])
            stack[used + 1, 0], stack[used + 1, 1] = max(low, parts[part, 0]), parts[part, 3]
            used += 2
