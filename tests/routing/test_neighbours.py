"""Neighbour-based routing finds the leaves that spans touch, each of them once."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stqsh.routing.neighbours import touched_leaves

SIDE = 8
FOUR = [(0, 4, 0, 4), (0, 4, 4, 8), (4, 8, 0, 4), (4, 8, 4, 8)]
PINWHEEL = [(0, 3, 0, 5), (0, 5, 5, 8), (5, 8, 3, 8), (3, 8, 0, 3), (3, 5, 3, 5)]


@st.composite
def tilings(draw: st.DrawFn) -> list[tuple[int, ...]]:
    """Draw rectangles that tile the cells, from the first free cell on, as far as there is room."""
    taken = np.zeros((SIDE, SIDE), np.bool_)
    boxes = []
    while not taken.all():
        row, column = (int(at) for at in np.argwhere(~taken)[0])
        free = np.flatnonzero(taken[row, column:])
        width = min(draw(st.integers(1, SIDE)), int(free[0]) if len(free) else SIDE - column)
        height = min(draw(st.integers(1, SIDE)), SIDE - row)
        taken[row : row + height, column : column + width] = True
        boxes.append((row, row + height, column, column + width))
    return boxes


def leaf_of_cells(boxes: list[tuple[int, ...]]) -> NDArray[np.int32]:
    leaf = np.full((SIDE, SIDE), -1, np.int32)
    for number, (low, high, left, right) in enumerate(boxes):
        assert (leaf[low:high, left:right] == -1).all()
        leaf[low:high, left:right] = number
    return leaf


ends = st.tuples(st.integers(0, SIDE), st.integers(0, SIDE)).map(sorted)
spans = st.tuples(ends, ends).map(lambda both: [*both[0], *both[1]])


@example(FOUR, [[0, SIDE, 0, SIDE]])
@example(PINWHEEL, [[0, SIDE, 0, SIDE]])
@given(tilings(), st.lists(spans, max_size=12))
def test_each_leaf_that_a_span_touches_is_found_once(
    boxes: list[tuple[int, ...]], asked: list[list[int]]
) -> None:
    leaf = leaf_of_cells(boxes)
    found = [
        (int(at), int(number))
        for some, numbers in touched_leaves(
            leaf, np.array(boxes, np.int16), np.array(asked, np.int64).reshape(-1, 4)
        )
        for at, number in zip(some, numbers, strict=True)
    ]
    assert sorted(found) == [
        (at, int(number))
        for at, (low, high, left, right) in enumerate(asked)
        for number in np.unique(leaf[low:high, left:right])
    ]
