"""Neighbour-based routing: find the leaves of a tiling that boxes touch (Tornado section 3.1, alg. 1)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


def touched_leaves(
    leaf: NDArray[np.int32], leaves: NDArray[np.int16], spans: Integers
) -> Iterator[tuple[Integers, Integers]]:
    """Yield pairs of positions: a span and a leaf that it touches, each pair once.

    Start at the first cell of a span, and continue at the cells beyond the right and the upper border of its
    leaf, and so on. This visits a leaf at most once from its left and once from below, however many cells it
    has, and finds all leaves of any tiling by rectangles. All spans advance together.

    A leaf is found from the leaf with the cell to the left of its own lowest and leftmost cell in the span,
    if that leaf begins in the same row of the span, and otherwise from the leaf with the cell below. So each
    leaf except the first is found exactly once, without recording visited leaves.

    Args:
        leaf: (side, side), the leaf of the cell in that row and column.
        leaves: the rows and columns of each leaf as in `Cells.of_boxes`, (leaves, 4); they tile the cells.
        spans: rows of `Cells.of_boxes`, (n, 4).
    """
    low, high, left, right = spans.T
    begins_row, past_row, begins_column, past_column = leaves.T
    at = np.flatnonzero((low < high) & (left < right))
    row, column = low[at], left[at]
    found = leaf[row, column]
    while len(at):
        yield at, found.astype(np.int64)
        right_of, above = past_column[found], past_row[found]
        sideways, upwards = np.flatnonzero(right_of < right[at]), np.flatnonzero(above < high[at])

        row_there, column_there = row[sideways], right_of[sideways]
        beside = leaf[row_there, column_there]
        from_left = np.maximum(low[at[sideways]], begins_row[beside]) == row_there

        row_above, column_above = above[upwards], column[upwards]
        over = leaf[row_above, column_above]
        first_column = left[at[upwards]]
        starts_there = np.maximum(first_column, begins_column[over]) == column_above
        # Column -1 wraps to the last cell of the row: invalid, and excluded by the first condition.
        before = leaf[row_above, column_above - 1]
        has_left = (column_above > first_column) & (begins_row[before] == row_above)
        from_below = starts_there & ~has_left

        sideways, upwards = sideways[from_left], upwards[from_below]
        at = np.append(at[sideways], at[upwards])
        row = np.append(row_there[from_left], row_above[from_below])
        column = np.append(column_there[from_left], column_above[from_below])
        found = np.append(beside[from_left], over[from_below])
