"""Counts of queries over blocks of cells."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stqsh.routing.cells import Cells
from stqsh.routing.load import Load
from stqsh.routing.partitioning import CellBlock


@given(st.sampled_from([1, 2, 8]), st.integers(0, 12), st.integers(0, 99), st.data())
def test_a_query_counts_once_however_many_cells_of_a_block_it_touches(
    side: int, count: int, seed: int, data: st.DataObject
) -> None:
    cells, chance = Cells((0.0, 0.0, 1.0, 1.0), side), np.random.default_rng(seed)
    corners = np.sort(chance.uniform(-0.2, 1.2, (2, count, 2)), axis=0)
    boxes = np.concatenate(list(corners), axis=1)
    boxes[chance.random(count) < 0.1] = [-np.inf, -np.inf, np.inf, np.inf]
    load = Load.of(cells, np.empty(0), np.empty(0), boxes)
    ends = st.lists(st.integers(0, side), min_size=2, max_size=2, unique=True).map(sorted)
    (low, high), (left, right) = data.draw(ends), data.draw(ends)
    first, past, near, far = cells.of_boxes(boxes).T
    touching = (first < high) & (past > low) & (near < right) & (far > left)
    assert load.query_counts.total(CellBlock(low, high, left, right)) == np.count_nonzero(touching)


def test_blocks_have_cells_in_common_or_none() -> None:
    block = CellBlock(2, 6, 1, 4)
    assert block.common(CellBlock(4, 9, 3, 9)) == CellBlock(4, 6, 3, 4)
    assert block.common(CellBlock(6, 9, 1, 4)) is None
    assert block.common(block) == block
