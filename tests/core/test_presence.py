"""Counts of objects by cell: a slot that has an object in a box never says that it has none."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.slots import TICK, Slot, records
from stqsh.core.objects import event_objects, presence
from stqsh.core.objects.presence import SIDE, counted_cells, may_hold
from stqsh.core.retention import object_retention
from stqsh.core.state.slot_state import restore, snapshot
from stqsh.spec.chunk import ROLE, RecordRole, pack, unpack

MOVING = {"report_every_us": 3 * TICK}
EVENTS = {"kind": "event", "keep_us": 3 * TICK, "report_every_us": None}
PLACES = st.one_of(st.integers(0, 9), st.sampled_from([-1e6, 0.5, 1e9]), st.none())


@st.composite
def records_of_steps(draw):
    """Records of steps 1 to 12, at most 4 a step: the same few keys again and again, and some once."""
    rows = []
    for step in range(1, 13):
        for at in range(draw(st.integers(0, 4))):
            key = draw(st.sampled_from(["a", "b", f"{step}-{at}"]))
            x, y = draw(PLACES), draw(PLACES)
            rows.append((step, key, x, None if x is None else y, step))
    return rows


def has_objects(slot, box):
    """Return whether there is an object in a box, present or not."""
    x, y, known = (slot.state.array(f"s1/objects/{name}") for name in ("x", "y", "known"))
    x1, y1, x2, y2 = box
    return bool((known & (x >= x1) & (x <= x2) & (y >= y1) & (y <= y2)).any())


@pytest.mark.parametrize("kind", [MOVING, EVENTS], ids=["moving", "events"])
@given(
    rows=records_of_steps(),
    cuts=st.sets(st.integers(1, 12)),
    few=st.integers(0, 8),
    restarts=st.booleans(),
    grid=st.sampled_from([None, 1, 3, 256]),
)
def test_no_object_is_overlooked(kind, rows, cuts, few, restarts, grid):
    before = presence._FEW, event_objects._SPARE, object_retention._SPARE
    presence._FEW, event_objects._SPARE, object_retention._SPARE = few, 0, 0
    boxes = [
        (*low, *high) for low in itertools.product((-2e6, 0, 4), repeat=2) for high in ((4, 5), (2e9, 6))
    ]
    try:
        slot = Slot(**kind, grid=grid)
        for first, after in itertools.pairwise(sorted({1, 13, *(cut + 1 for cut in cuts)})):
            slot.batch(first, after - 1, [row for row in rows if first <= row[0] < after])
            if restarts:
                slot.state = restore(list(snapshot(slot.state)))
            for box in boxes:
                assert may_hold(slot.state, 1, np.array(box, np.float64)) >= has_objects(slot, box)
    finally:
        presence._FEW, event_objects._SPARE, object_retention._SPARE = before


def held(slot, *box):
    return may_hold(slot.state, 1, np.array(box, np.float64))


def test_where_nothing_is_is_known():
    slot = Slot()
    slot.batch(1, 1)
    assert not held(slot, -9, -9, 99, 99)
    slot.batch(2, 2, [(2, f"k{i}", i % 10, i // 10, 2) for i in range(100) if i != 55])
    assert held(slot, 0, 0, 0, 0) and held(slot, 4.9, 4.9, 6.1, 6.1)
    assert not held(slot, 4.5, 4.5, 5.5, 5.5)
    # A record counts at once, also one beyond the grid.
    slot.batch(3, 3, [(3, "new", 5, 5, 3), (3, "far", 500, 500, 3)])
    assert held(slot, 4.5, 4.5, 5.5, 5.5) and held(slot, 499, 499, 501, 501)
    assert held(slot, np.nan, 0, 1, 1)
    assert slot.state.array("s1/presence/counts").sum() == 101


def test_all_is_counted_anew_after_as_many_records_as_objects(monkeypatch):
    monkeypatch.setattr(presence, "_FEW", 0)
    slot = Slot()
    slot.batch(1, 1, [(1, f"k{i}", i, i, 1) for i in range(64)])
    # They go elsewhere: where they were counts until there are more records than objects.
    slot.batch(2, 2, [(2, f"k{i}", 1000 + i, i, 2) for i in range(64)])
    assert held(slot, 0, 0, 5, 5)
    slot.batch(3, 3, [(3, "k0", 1000, 0, 3)])
    assert not held(slot, 500, 9, 900, 63) and held(slot, 1000, 0, 1000, 0)
    x0, _, per_x, _ = slot.state.array("s1/presence/frame")
    assert x0 >= 1000 and per_x == pytest.approx(SIDE / 63, rel=0.05)


def test_the_cells_are_those_of_grid_and_another_number_of_them_comes_with_the_next_count(monkeypatch):
    monkeypatch.setattr(presence, "_FEW", 0)
    slot = Slot(grid=8)
    rows = [(f"k{i}", i % 8, i // 8) for i in range(64)]
    slot.batch(1, 1, [(1, *row, 1) for row in rows])
    assert len(slot.state.array("s1/presence/counts")) == 64 == len(counted_cells(slot.state, 1))
    # A slot of an older version has other cells.
    slot.state.replace("s1/presence/counts", np.full(SIDE * SIDE, 9, np.int32))
    slot.batch(2, 2, [(2, *rows[0], 2)])
    assert len(slot.state.array("s1/presence/counts")) == SIDE * SIDE and held(slot, 0, 0, 0, 0)
    slot.batch(3, 3, [(3, *row, 3) for row in rows])
    assert [cell.objects for cell in counted_cells(slot.state, 1)] == [1] * 64


def test_an_object_that_departs_to_another_slot_does_not_count_and_one_that_arrives_does():
    slot = Slot()
    slot.batch(1, 1, [(1, f"k{i}", i, i, 1) for i in range(10)])
    crossing = unpack(records(slot.spec, [(2, "k0", 7, 2, 2), (2, "new", 2, 7, 2)]))
    roles = pa.array([RecordRole.DEPARTED, RecordRole.REGULAR], pa.int8())
    slot.batch(2, 2, records=pack(crossing.append_column(ROLE, roles)))
    assert not held(slot, 6.6, 1.6, 7.4, 2.4)
    assert held(slot, 1.6, 6.6, 2.4, 7.4)


def test_a_stream_that_keeps_nothing_or_is_dropped_has_no_counts():
    slot = Slot(**EVENTS | {"keep_us": 0})
    slot.batch(1, 1, [(1, "a", 0, 0, 1)])
    assert not slot.state.names("s1/presence/") and not held(slot, -9, -9, 9, 9)
    slot = Slot()
    slot.batch(1, 1, [(1, "a", 0, 0, 1)])
    assert slot.state.names("s1/presence/")
    slot.batch(2, 2, commands=[{"op": "drop_stream"}])
    assert not slot.state.names("s1/")
