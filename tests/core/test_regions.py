"""Answers over circles and polygons after every step, against the formula, at poles and borders."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from core.slots import Slot, records, register
from stqsh.core.kernels.geometry.distance import EARTH_M, distance
from stqsh.core.regions.polygon_table import PolygonTable
from stqsh.spec.chunk import pack

FLAT = st.tuples(*[st.integers(-4, 4).map(lambda n: n / 2)] * 2)
ROUND = st.tuples(
    st.sampled_from([-180.0, 180.0, 179.9, -179.9, 0.0, 10.0]),
    st.sampled_from([-90.0, 90.0, 89.99, -89.9, 0.0, 45.0]),
)
REACH = {
    True: st.sampled_from([0.0, 0.5, 1.0, 1.5, 50.0]),
    False: st.sampled_from([0.0, 1.0, 2e4, 1e6, math.pi / 2 * EARTH_M, 1.5e7, math.pi * EARTH_M]),
}
KEYS = "abcdef"


@st.composite
def scenes(draw, planar):
    """Regions by query id, and for each step the places of objects that move then, None for gone."""
    places, regions = FLAT if planar else ROUND, {}
    for query in range(1, draw(st.integers(2, 6))):
        (x, y), radius = draw(places), draw(REACH[planar])
        still = {"type": "circle", "x": x, "y": y, "radius": radius}
        around = {"type": "moving_circle", "focal": draw(st.sampled_from("ab")), "radius": radius}
        ring = [[x - 1, y - 1], [x + 1, y - 1.5], [x + 2, y + 2], [x, y], [x - 1, y - 1]]
        regions[query] = draw(st.sampled_from([still, around, {"type": "polygon", "rings": [ring]}]))
    moves = st.dictionaries(st.sampled_from(KEYS), st.one_of(places, places, st.none()))
    return regions, draw(st.lists(moves, min_size=1, max_size=6))


def members(region, places, planar):
    """Who is in a region, by the formula."""
    there = {key: place for key, place in places.items() if place is not None}
    if region["type"] == "polygon":
        polygon = shapely.Polygon(region["rings"][0])
        return {key for key, place in there.items() if shapely.intersects_xy(polygon, *place)}
    focal = region.get("focal")
    centre = there.pop(focal, None) if focal else (region["x"], region["y"])
    if centre is None:
        return set()
    return {key for key, place in there.items() if distance(*centre, *place, planar) <= region["radius"]}


@pytest.mark.parametrize("planar", [True, False])
@given(data=st.data(), size=st.integers(1, 6))
def test_answers_are_those_of_the_formula(planar, data, size):
    regions, steps = data.draw(scenes(planar))
    slot, places = Slot(planar=planar), {}
    held = {query: set() for query in regions}
    for begin in range(0, len(steps), size):
        some = steps[begin : begin + size]
        rows = [
            (step, key, *(place or (None, None)), step)
            for step, moves in enumerate(some, start=begin + 1)
            for key, place in moves.items()
        ]
        focal = [row for row in rows if row[1] in "ab"]
        asked = [register(query, region) for query, region in regions.items()] if begin == 0 else []
        more = {"focal": records(slot.spec, focal)} if focal else {}
        found = slot.updates(begin + 1, begin + len(some), rows, asked, **more)
        for step, moves in enumerate(some, start=begin + 1):
            places |= moves
            for query, region in regions.items():
                mine = [(op, key) for at, of, op, key, _ in found if (at, of) == (step, query)]
                held[query] ^= {key for _, key in mine}
                assert held[query] == members(region, places, planar)
                assert all((op == "+") == (key in held[query]) for op, key in mine)


def test_answers_over_overlapping_members_of_a_set():
    slot = Slot()
    shapes = [shapely.box(0, 0, 2, 2), shapely.box(1, 1, 3, 3), shapely.Point(1.5, 1.5).buffer(0.1)]
    columns = [pa.array(["a", "b", "hole"]), pa.array([shapely.to_wkb(shape) for shape in shapes])]
    define = pack(pa.RecordBatch.from_arrays(columns, names=["member", "wkb"]))
    slot.batch(1, 1, area_define=define)
    asked = [
        register(i, {"type": "area", "area": 1, "name": "s", "member": m}) for i, m in ((7, "a"), (8, "b"))
    ]
    assert slot.updates(2, 2, [(2, "o", 1.5, 1.5, 2), (2, "p", 2.5, 2.5, 2)], asked) == [
        (2, 7, "+", "o", "none"),
        (2, 8, "+", "o", "none"),
        (2, 8, "+", "p", "none"),
    ]
    assert slot.updates(3, 3, [(3, "o", 0.5, 2, 3)]) == [(3, 8, "-", "o", "left")]
    slot.batch(4, 4, commands=[{"op": "drop", "id": 7}, {"op": "drop", "id": 8}])
    assert PolygonTable(slot.state).row_of(1, "a") == 0


def test_the_polygon_of_a_query_goes_with_it():
    slot = Slot()
    star = {"type": "polygon", "rings": [[[0, 0], [1, 0], [0, 1], [0, 0]]]}
    slot.batch(1, 1, commands=[register(7, star), register(8, star, for_us=3_000_000), register(9, star)])
    assert len(PolygonTable(slot.state)) == 3
    slot.batch(2, 2, commands=[{"op": "drop", "id": 9}])
    assert len(PolygonTable(slot.state)) == 2
    slot.batch(3, 9)
    slot.batch(10, 10, commands=[{"op": "drop", "id": 7}])
    assert len(PolygonTable(slot.state)) == 0
