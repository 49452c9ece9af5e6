"""Circles: their boxes lose no member, at poles, at the line of 180 degrees and anywhere else."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.slots import Slot, of_kind, records, register
from stqsh.core.kernels.geometry.circles import circle_box, circle_boxes
from stqsh.core.kernels.geometry.distance import EARTH_M, distance, distances, distances_between
from stqsh.spec.chunk import unpack

HALF = math.pi * EARTH_M

lons = st.one_of(st.floats(-180, 180), st.sampled_from([-180.0, -179.9999999, 0.0, 179.9999999, 180.0]))
lats = st.one_of(st.floats(-90, 90), st.sampled_from([-90.0, -89.9999999, 0.0, 89.9999999, 90.0]))
radii = st.one_of(st.floats(0, HALF), st.sampled_from([0.0, 0.01, HALF / 2, HALF, 1e9, math.inf]))
shifts = st.one_of(st.floats(-1e-6, 1e-6), st.floats(-1, 1), st.floats(-400, 400))


@given(lons, lats, lons, lats, shifts, shifts, radii)
@example(0.0, 0.0, 90.0, 0.0, 0.0, 0.0, HALF / 2)
@example(180.0, 45.0, -180.0, 45.0, 0.0, 0.0, 1.0)
def test_a_box_on_the_sphere_loses_no_member(x, y, ox, oy, dx, dy, radius):
    near = max(-180.0, min(180.0, x + dx)), max(-90.0, min(90.0, y + dy))
    for px, py in ((ox, oy), near):
        far = distance(x, y, px, py, False)
        for reach in (radius, far):  # at the border, too
            x1, y1, x2, y2 = circle_box(x, y, reach, False)
            assert far > reach or (x1 <= px <= x2 and y1 <= py <= y2)


@given(*[st.floats(-1e9, 1e9)] * 4, st.floats(0, 1e9))
def test_a_box_in_the_plane_loses_no_member(x, y, px, py, radius):
    far = distance(x, y, px, py, True)
    for reach in (radius, far):
        x1, y1, x2, y2 = circle_box(x, y, reach, True)
        assert far > reach or (x1 <= px <= x2 and y1 <= py <= y2)


@given(lons, st.floats(-89, 89), st.floats(0, 100_000))
@example(0.0, 89.0, 75718.0)
def test_boxes_are_tight_where_nothing_is_in_the_way(x, y, radius):
    x1, y1, x2, y2 = circle_box(x, y, radius, False)
    assert y2 - y1 < 2.001 * math.degrees(radius / EARTH_M) + 1e-6
    if math.isfinite(x1):
        reach = 1.0005 * radius / EARTH_M + 1e-8
        wide = math.degrees(math.asin(min(1.0, math.sin(reach) / math.cos(math.radians(y)))))
        assert x2 - x1 < 2.001 * wide + 1e-6


def test_distances_are_known():
    quarter = HALF / 2
    assert distance(0.0, 0.0, 0.0, 90.0, False) == pytest.approx(quarter)
    assert distance(10.0, 90.0, -120.0, 90.0, False) == pytest.approx(0, abs=1e-6)
    assert distance(180.0, 0.0, -180.0, 0.0, False) == pytest.approx(0, abs=1e-6)
    assert distance(0.0, 0.0, 180.0, 0.0, False) == pytest.approx(HALF)
    assert distance(116.0, 40.0, 116.0, 41.0, False) == pytest.approx(111_195.08, abs=0.01)
    assert distance(0.0, 0.0, 3.0, 4.0, True) == 5.0


@pytest.mark.parametrize("planar", [True, False])
def test_many_distances_are_those_of_one(planar):
    x1, x2 = np.random.default_rng(1).uniform(-180, 180, (2, 50))
    y1, y2 = np.random.default_rng(2).uniform(-90, 90, (2, 50))
    one = [distance(*places, planar) for places in zip(x1, y1, x2, y2, strict=True)]
    assert distances_between(x1, y1, x2, y2, planar).tolist() == one
    assert distances(x1[0], y1[0], x2, y2, planar)[0] == one[0]
    np.testing.assert_array_equal(
        circle_boxes(x1, y1, x2, planar)[3], circle_box(x1[3], y1[3], x2[3], planar)
    )


def test_nothing_is_near_what_is_nowhere():
    nan = math.nan
    assert math.isnan(distance(nan, nan, 0.0, 0.0, False))
    for planar in (True, False):
        for place in ((nan, nan, 1.0), (0.0, nan, 1.0), (0.0, 0.0, nan)):
            assert all(map(math.isnan, circle_box(*place, planar)))


def told(chunks):
    """(key, op, distance) of each update."""
    (shown,), (chunk,) = of_kind(chunks, "rows"), of_kind(chunks, "updates")
    keys = unpack(shown.payload).column("oid").to_pylist()
    return sorted((keys[u["row"]], u["op"], u["distance"]) for u in unpack(chunk.payload).to_pylist())


def asking(id_, region):
    """A query that selects DISTANCE."""
    command = register(id_, region)
    return command | {"query": command["query"] | {"select": [["oid", ["col", "oid"]], ["d", ["distance"]]]}}


def test_updates_tell_the_distance_of_what_they_show():
    slot = Slot()
    circle = {"type": "circle", "x": 0.0, "y": 0.0, "radius": 5.0}
    rows = [(1, "a", 3, 4, 1), (1, "b", 0, 5.1, 1), (1, "c", 0, 0, 1)]
    assert told(slot.batch(1, 1, rows, [asking(7, circle)])) == [("a", 1, 5.0), ("c", 1, 0.0)]
    rows = [(2, "a", 6, 8, 2), (2, "c", None, None, 2)]
    assert told(slot.batch(2, 2, rows)) == [("a", -1, 10.0), ("c", -1, None)]
    slot.batch(3, 3, [(3, "a", 0, 1, 3)])
    assert told(slot.batch(4, 4, [(4, "a", 0, 2, 4)], [{"op": "drop", "id": 7}])) == [("a", -1, 1.0)]


def test_distances_are_from_where_the_focal_object_has_come():
    slot = Slot()
    circle = {"type": "moving_circle", "focal": "f", "radius": 5.0}
    rows = [(1, "f", 0, 0, 1), (1, "a", 3, 0, 1)]
    focal = records(slot.spec, rows[:1])
    assert told(slot.batch(1, 1, rows, [asking(7, circle), register(8)], focal=focal)) == [
        ("a", 1, 3.0),
        ("f", 1, None),
    ]
    moved = [(2, "f", 9, 0, 2), (3, "f", None, None, 3)]
    out = slot.batch(2, 3, moved, focal=records(slot.spec, moved))
    assert told(out) == [("a", -1, 6.0), ("f", -1, None)]


def test_queries_that_do_not_ask_for_distances_are_not_told():
    slot = Slot()
    out = slot.batch(1, 1, [(1, "a", 0, 0, 1)], [register(7)])
    assert "distance" not in unpack(of_kind(out, "updates")[0].payload).schema.names


def test_pairs_matches_and_updates_are_counted():
    slot = Slot()
    circle = {"type": "circle", "x": 0.0, "y": 0.0, "radius": 1.0}
    slot.batch(1, 1, [], [register(7, circle), register(8)])
    slot.batch(2, 3, [(2, "a", 0.9, 0.9, 2), (2, "b", 0, 0.5, 2), (3, "b", 0, 0.6, 3)])
    counters = {name: slot.state.array(f"s1/range/{name}").tolist() for name in ("tested", "matched", "sent")}
    assert counters == {"tested": [3, 2], "matched": [2, 2], "sent": [1, 2]}
