"""Snapshots of slots: what lies in a region, who is nearest, one object, how many; in order, and cut."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle.geometry import around, distance, in_rectangle
from support.specs import stream_spec
from support.typed import snapshot_spec

from core.slots import SPEC, TICK, Slot
from stqsh.client.read.slot_answers import placed
from stqsh.core.snapshots.select import nothing, part, whole
from stqsh.core.state.slot_state import SlotState, snapshot

BASE = {
    "stream_id": 1,
    "kind": "range",
    "region": {"type": "all"},
    "condition": None,
    "select": [["oid", ["col", "oid"]]],
    "lookup": None,
    "order": [],
    "limit": None,
    "aggregate": None,
}
RECT = {"type": "rect", "x1": 0.0, "y1": 0.0, "x2": 2.0, "y2": 2.0}
POLYGON = {
    "type": "polygon",
    "rings": [
        [[0, 0], [4, 0], [4, 4], [0, 4], [0, 0]],
        [[1, 1], [3, 1], [3, 3], [1, 3], [1, 1]],
    ],
}


def slots(rows, count=1, **changes):
    """Slots whose objects are dealt out in turn; rows: (oid, x, y, second, status, n), all in step 1."""
    made = []
    for number in range(count):
        slot = Slot(**changes)
        slot.batch(1, 1, [(1, *row) for row in rows[number::count]])
        made.append(slot.state)
    return made


def ask(states, **changes):
    spec = snapshot_spec(BASE | changes)
    spec, place = placed(states, spec)
    parts = [part(state, spec, place) for state in states]
    return whole([share for share in parts if share is not None] or [nothing(stream_spec(SPEC), spec)], spec)


def keys(states, **changes):
    return ask(states, **changes).column("oid").to_pylist()


ROWS = [
    ("a", 1.0, 1.0, 1, "free", 3),
    ("b", 2.0, 2.0, 1, "busy", 1),
    ("c", 3.0, 3.0, 1, "free", None),
    ("d", 2.0, 0.5, 1, None, 2),
    ("e", None, None, 1, "free", 9),
]


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    ("region", "expected"),
    [
        ({"type": "all"}, "abcd"),
        (RECT, "abd"),
        ({"type": "circle", "x": 1.0, "y": 1.0, "radius": 1.5}, "abd"),
        ({"type": "circle", "x": 2.0, "y": 1.0, "radius": 1.0}, "abd"),
        (POLYGON, "acd"),
        ({"type": "moving_rect", "focal": "b", "xdist": 2.0, "ydist": 2.0}, "ac"),
        ({"type": "moving_circle", "focal": "a", "radius": 1.2}, "d"),
        ({"type": "moving_circle", "focal": "e", "radius": 9.0}, ""),
        ({"type": "moving_circle", "focal": "nobody", "radius": 9.0}, ""),
    ],
)
def test_regions(count, region, expected):
    assert "".join(keys(slots(ROWS, count), region=region)) == expected


def test_the_border_of_a_hole_belongs_to_the_polygon_and_its_inside_does_not():
    assert keys(slots([("in", 2.0, 2.0, 1), ("on", 1.0, 2.0, 1)]), region=POLYGON) == ["on"]


def test_columns_keep_their_types_and_expressions_are_computed():
    select = [
        ["who", ["col", "oid"]],
        ["ts", ["col", "ts"]],
        ["twice", ["arith", "*", ["col", "n"], ["lit", 2, "BIGINT"]]],
        ["far", ["distance"]],
        ["km", ["arith", "/", ["distance"], ["lit", 2, "BIGINT"]]],
    ]
    found = ask(slots(ROWS, 2), select=select, region={"type": "circle", "x": 1.0, "y": 1.0, "radius": 1.0})
    assert found.schema.field("ts").type == pa.timestamp("us", tz="UTC")
    assert found.drop_columns(["ts"]).to_pylist() == [{"who": "a", "twice": 6, "far": 0.0, "km": 0.0}]


def test_order_puts_nulls_last_and_ties_by_key_and_a_limit_cuts():
    by_n = [[["col", "n"], True]]
    assert keys(slots(ROWS, 2), order=by_n) == ["a", "d", "b", "c"]
    by_status = [[["col", "status"], False]]
    assert keys(slots(ROWS, 2), order=by_status) == ["b", "a", "c", "d"]
    assert keys(slots(ROWS, 2), order=by_status, limit=2) == ["b", "a"]
    assert keys(slots(ROWS, 2), limit=3) == ["a", "b", "c"]


def test_conditions_count_and_one_object():
    free = ["cmp", "=", ["col", "status"], ["lit", "free", "STRING"]]
    assert keys(slots(ROWS, 2), condition=free) == ["a", "c"]
    counted = {"aggregate": "count", "select": []}
    assert ask(slots(ROWS, 2), **counted, output="n").to_pylist() == [{"n": 4}]
    assert ask(slots(ROWS, 2), **counted, region=RECT, condition=free).to_pylist() == [{"count": 1}]
    assert keys(slots(ROWS, 2), lookup="c") == ["c"]
    assert keys(slots(ROWS, 2), lookup="c", region=RECT) == []
    own = ["cmp", "=", ["col", "oid"], ["lit", "c", "STRING"]]
    assert keys(slots(ROWS, 2), lookup="c", condition=own) == ["c"]
    assert keys(slots(ROWS, 2), lookup="c", condition=["and", [own, ["isnull", ["col", "oid"]]]]) == []
    assert keys(slots(ROWS, 2), lookup="e") == keys(slots(ROWS, 2), lookup="nobody") == []


def test_objects_that_are_silent_for_too_long_are_not_there():
    slot = Slot(report_every_us=3 * TICK)
    slot.batch(1, 1, [(1, "old", 1.0, 1.0, 1), (1, "new", 1.0, 1.0, 4)])
    slot.batch(2, 4)
    assert keys([slot.state]) == ["new", "old"]
    slot.batch(5, 5)
    assert keys([slot.state]) == ["new"]
    assert keys([slot.state], lookup="old") == []


def test_now_is_the_time_of_the_last_step():
    recent = ["cmp", ">=", ["col", "ts"], ["arith", "-", ["now"], ["dur", TICK]]]
    slot = Slot()
    slot.batch(1, 1, [(1, "a", 1.0, 1.0, 1), (1, "b", 1.0, 1.0, 2)])
    slot.batch(2, 3)
    assert keys([slot.state], condition=recent) == ["b"]


def test_events_come_from_their_own_kind_of_table():
    rows = [("p", 1.0, 1.0, 1), ("q", 5.0, 5.0, 1)]
    states = slots(rows, 2, kind="event", keep_us=None)
    assert keys(states, region=RECT) == keys(states, lookup="p") == ["p"]


def test_a_slot_without_the_stream_has_no_share_and_nothing_is_an_answer_too():
    assert part(SlotState.fresh(0), snapshot_spec(BASE)) is None
    somewhere = snapshot_spec(BASE | {"region": {"type": "area", "area": 7, "name": "a"}})
    empty = whole([nothing(stream_spec(SPEC), somewhere)], snapshot_spec(BASE))
    assert (empty.num_rows, empty.column_names) == (0, ["oid"])
    counted = snapshot_spec(BASE | {"aggregate": "count"})
    assert whole([nothing(stream_spec(SPEC), counted)], counted).to_pylist() == [{"count": 0}]


def test_asking_changes_nothing():
    (state,) = slots(ROWS)
    before = b"".join(snapshot(state))
    nearest = {"type": "nearest", "k": 2, "x": 0.0, "y": 0.0}
    ask([state], kind="nearest", region=nearest, condition=["isnull", ["col", "status"]])
    assert b"".join(snapshot(state)) == before


COORDINATE = st.integers(-4, 4).map(float)
OBJECTS = st.lists(
    st.tuples(COORDINATE, COORDINATE, st.sampled_from(["free", "busy", None])), min_size=1, max_size=40
)


@given(
    objects=OBJECTS,
    centre=st.tuples(COORDINATE, COORDINATE),
    k=st.integers(1, 6),
    count=st.integers(1, 3),
    planar=st.booleans(),
    conditioned=st.booleans(),
    around_object=st.booleans(),
)
def test_the_nearest_by_distance_then_key(objects, centre, k, count, planar, conditioned, around_object):
    rows = [(f"o{i}", x, y, 1, status, i) for i, (x, y, status) in enumerate(objects)]
    states = slots(rows, count, planar=planar)
    region = {"type": "nearest", "k": k, "x": centre[0], "y": centre[1]}
    if around_object:
        region, centre = {"type": "nearest", "k": k, "focal": "o0"}, rows[0][1:3]
    free = ["cmp", "=", ["col", "status"], ["lit", "free", "STRING"]]
    condition = free if conditioned else None
    fits = [row for row in rows if row[4] == "free" or not conditioned]
    fits = [row for row in fits if not (around_object and row[0] == "o0")]
    best = sorted((distance(centre, row[1:3], planar), row[0]) for row in fits)[:k]
    found = ask(
        states,
        kind="nearest",
        region=region,
        condition=condition,
        select=[["oid", ["col", "oid"]], ["far", ["distance"]]],
    )
    assert found.column("oid").to_pylist() == [key for _, key in best]
    assert np.allclose(found.column("far").to_pylist(), [far for far, _ in best])


def test_the_nearest_of_many_are_found_within_a_box_that_shrinks():
    rng = np.random.default_rng(4)
    places = rng.uniform(-10, 10, (5000, 2))
    states = slots([(f"o{i}", x, y, 1) for i, (x, y) in enumerate(places.tolist())], 2)
    far = np.hypot(*(places - 0.5).T)
    best = [f"o{i}" for i in np.argsort(far)[:7]]
    assert keys(states, kind="nearest", region={"type": "nearest", "k": 7, "x": 0.5, "y": 0.5}) == best
    many = keys(states, kind="nearest", region={"type": "nearest", "k": 2000, "x": 0.5, "y": 0.5})
    assert many == [f"o{i}" for i in np.argsort(far)[:2000]]


@given(OBJECTS, st.tuples(COORDINATE, COORDINATE), st.integers(1, 3))
def test_moving_rectangles_leave_their_focal_object_out(objects, size, count):
    width, height = abs(size[0]) + 1, abs(size[1]) + 1
    rows = [(f"o{i}", x, y, 1) for i, (x, y, _) in enumerate(objects)]
    region = {"type": "moving_rect", "focal": "o0", "xdist": width, "ydist": height}
    box = around(rows[0][1:3], width, height, True)
    inside = sorted(row[0] for row in rows[1:] if in_rectangle(row[1:3], *box))
    assert keys(slots(rows, count), region=region) == inside


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_count_of_neighbours_is_k_at_the_most(count):
    region = {"type": "nearest", "k": 2, "x": 0.0, "y": 0.0}
    found = ask(slots(ROWS, count), kind="nearest", region=region, aggregate="count", select=[])
    assert found.to_pydict() == {"count": [2]}
