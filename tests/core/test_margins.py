"""Margins of cells: they hold what a box has of a cell, are chosen by load, and go when unused."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.test_views import EAGER, renumbered
from stqsh.core.kernels.events.transitions import StoredArrays
from stqsh.core.snapshots.cache import margin_choice, time_slots
from stqsh.core.snapshots.cache.cells import CellGrid, Extent
from stqsh.core.snapshots.cache.margin_choice import choose_margins
from stqsh.core.snapshots.cache.margins import (
    MARGIN_BYTES,
    PARTS,
    Margins,
    Past,
    corners_of,
    distance,
    margin_area,
    needs,
)
from stqsh.core.snapshots.cache.snapshot_cache import SnapshotCache
from stqsh.core.snapshots.cache.time_slots import TimeSlots

AREA = Extent(0.0, 0.0, 1.0, 1.0)
NUMBERS = st.floats(-0.5, 1.5, allow_nan=False)
BOX = (0.1, -1.0, 2.0, 2.0)


@pytest.fixture(autouse=True)
def _small_slots():
    """Time slots of four events, four by four cells, and margins of cells with any number of events."""
    with (
        mock.patch.multiple(time_slots, FINEST=4, depth_for=lambda events: 2),
        mock.patch.object(margin_choice, "LEAST", 1),
    ):
        yield


def stored(x, y) -> StoredArrays:
    count = len(x)
    return StoredArrays(np.array(x), np.array(y), np.arange(count), np.ones(count, np.bool_))


def slots_of(events: StoredArrays) -> TimeSlots:
    return TimeSlots.over(events, CellGrid(AREA, 2))


def kept(events: StoredArrays, past: list[Past], budget: float = 1 << 20) -> tuple[Margins, TimeSlots]:
    """The margins that are chosen by past questions, with their events."""
    slots, made = slots_of(events), Margins()
    made.replace(*choose_margins(past, slots, events, budget, 0.0), slots.grid, 1)
    for slot in slots.slots:
        made.fill(events, slot)
    return made, slots


@given(
    st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1),
    st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS),
    st.data(),
)
def test_a_margin_that_reaches_far_enough_holds_all_of_its_cell_in_the_box(places, corners, data) -> None:
    x, y = np.array(places).T
    x1, x2, y1, y2 = *sorted(corners[:2]), *sorted(corners[2:])
    box = np.array([x1, y1, x2, y2])
    grid = CellGrid(AREA, 2)
    cells = grid.numbers(x, y).astype(np.int64)
    part = np.full(len(x), data.draw(st.integers(0, len(PARTS) - 1)))
    corner = corners_of(grid, cells, part)
    inside = (x1 <= x) & (x <= x2) & (y1 <= y) & (y <= y2)
    reached = distance(x, y, part, corner) <= needs(box, part, corner)
    assert reached[inside].all()


def test_a_side_and_a_corner_are_listed_and_tested_in_the_place_of_their_cells() -> None:
    draw = np.random.default_rng(3)
    events = stored(*draw.random((2, 400)))
    past = [Past(BOX, 1.0)] * 3 + [Past((-1.0, -1.0, 0.3, 0.6), 1.0)] * 3
    margins, slots = kept(events, past)
    assert {PARTS[part] for part in margins.parts} & {"right side", "left side"}
    border = np.arange(slots.grid.cells)
    use = margins.find(border, np.array(BOX), slots.slots)
    assert len(use.margins) >= 4
    assert (use.spared > 0).all()
    rows = np.concatenate(margins.rows(use, slots.slots))
    numbers = slots.grid.numbers(events.x, events.y)
    wanted = np.flatnonzero(np.isin(numbers, use.cells) & (events.x >= BOX[0]))
    assert set(wanted) <= set(rows)
    assert len(rows) + use.spared.sum() == np.isin(numbers, use.cells).sum()
    for number in range(len(margins)):
        x1, y1, x2, y2 = margin_area(margins, number, slots.grid)
        assert 0.0 <= x1 <= x2 <= 1.0
        assert 0.0 <= y1 <= y2 <= 1.0


def test_the_choice_spares_most_for_its_space() -> None:
    x = np.array([0.01, 0.02, 0.03, 0.2, 0.21, 0.22, 0.23, 0.24])
    events = stored(x, np.full(8, 0.1))
    often, seldom = Past((-1.0, -1.0, 0.03, 2.0), 1.0), Past((-1.0, -1.0, 0.22, 2.0), 1.0)
    left = PARTS.index("left side")
    narrow, _ = kept(events, [often] * 5 + [seldom])
    assert (left, 0.03) in {*zip(narrow.parts.tolist(), narrow.limits.tolist(), strict=True)}
    assert not len(kept(events, [often] * 5, budget=MARGIN_BYTES)[0])
    wide, _ = kept(events, [often, *[seldom] * 30])
    assert (left, 0.22) in {*zip(wide.parts.tolist(), wide.limits.tolist(), strict=True)}
    everything = Past((-1.0, -1.0, 2.0, 2.0), 1.0)
    assert not len(kept(events, [everything] * 5)[0])


def test_margins_that_were_not_used_for_the_longest_time_go_first() -> None:
    draw = np.random.default_rng(4)
    events = stored(*draw.random((2, 400)))
    margins, slots = kept(events, [Past((x, -1.0, 2.0, 2.0), 1.0) for x in (0.1, 0.4, 0.6)])
    border = np.arange(slots.grid.cells)
    margins.note(margins.find(border, np.array((0.4, -1.0, 2.0, 2.0)), slots.slots), 9)
    used = {*margins.cells[margins.used == 9].tolist()}
    assert 0 < len(used) < len(margins)
    budget = margins.nbytes * len(used) // len(margins)
    margins.fit(budget)
    assert len(margins) > 0
    assert margins.nbytes <= budget
    assert {*margins.cells.tolist()} <= used
    for slot in slots.slots:
        rows, starts = margins.lists[slot.rows]
        assert starts[-1] == len(rows)
        whole = Margins(margins.cells, margins.parts, margins.limits, margins.corners)
        whole.fill(events, slot)
        assert np.array_equal(whole.lists[slot.rows][0], rows)
    margins.fit(0)
    assert not len(margins)


def test_margins_are_used_and_outlive_the_renumbering_of_events() -> None:
    kept = SnapshotCache(0, EAGER, 1 << 20)
    views, usage = renumbered(kept, "(0.2, 0.2, 1.3, 0.7)")
    assert not views.views
    assert views.margins.hits.sum() > 10
    assert usage.margins > 0
    assert usage.untested > 0
    kept.limit(0, 0)
    assert not [*kept.all()]
