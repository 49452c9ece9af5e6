"""Neighbour-based routing: the leaves of a tiling that boxes touch (Tornado section 3.1, algorithm 1)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

_AT_ONCE = 1 << 22
"""The most pairs of a box and a leaf of which it is noted at a time whether they were found."""


def touched_leaves(
    leaf: NDArray[np.int32], leaves: NDArray[np.int16], spans: Integers
) -> Iterator[tuple[Integers, Integers]]:
    """Yield positions of spans and leaves that they touch, each pair once.

    From the first cell of a span one goes to the cells behind the right and the upper border of the leaf that
    has it, and so on. That looks at a leaf at most once from its left and once from below, however many
    cells it has, and finds all leaves of any tiling by rectangles. It is done for all spans at once.

    Args:
        leaf: (side, side), the leaf of the cell in that row and column.
        leaves: the rows and columns of each leaf as in `Cells.of_boxes`, (leaves, 4); they tile the cells.
        spans: rows of `Cells.of_boxes`, (n, 4).
    """
    size = max(1, _AT_ONCE // len(leaves))
    for first in range(0, len(spans), size):
        for at, found in _touched(leaf, leaves, spans[first : first + size]):
            yield at + first, found


def _touched(
    leaf: NDArray[np.int32], leaves: NDArray[np.int16], spans: Integers
) -> Iterator[tuple[Integers, Integers]]:
    low, high, left, right = spans.T
    _, past_row, _, past_column = leaves.T
    order = np.zeros(len(spans) * len(leaves), np.int32)  # 1 for pairs found earlier, more for those of now
    at = np.flatnonzero((low < high) & (left < right))
    row, column = low[at], left[at]
    while len(at):
        found = leaf[row, column].astype(np.int64)
        pair, number = at * len(leaves) + found, np.arange(2, len(at) + 2, dtype=np.int32)
        new = np.flatnonzero(order[pair] == 0)
        order[pair[new]] = number[new]
        new = new[order[pair[new]] == number[new]]
        order[pair[new]] = 1
        at, found = at[new], found[new]
        yield at, found
        up, right_of = past_row[found].astype(np.int64), past_column[found].astype(np.int64)
        upwards, sideways = np.flatnonzero(up < high[at]), np.flatnonzero(right_of < right[at])
        row = np.append(up[upwards], np.maximum(low[at], leaves[found, 0])[sideways])
        column = np.append(np.maximum(left[at], leaves[found, 2])[upwards], right_of[sideways])
        at = np.append(at[upwards], at[sideways])
