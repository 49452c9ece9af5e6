"""Areas agree with shapely: on edges and vertices, with holes, in parts, and with many vertices."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
import shapely
import shapely.affinity
from hypothesis import assume, given
from hypothesis import strategies as st

from stqsh.core.kernels.geometry.polygons import turn
from stqsh.core.regions import polygon_table as module
from stqsh.core.regions.polygon_table import PolygonTable, polygon_arrays
from stqsh.core.state.slot_state import SlotState, restore, snapshot

halves = st.integers(-9, 9).map(lambda n: n / 2)
points = st.tuples(halves, halves)


@st.composite
def shapes(draw):
    """Valid geometries: polygons, perhaps with holes, in one part or more, and what else may be in a file."""
    rings = draw(st.lists(st.lists(points, min_size=3, max_size=9), min_size=1, max_size=3))
    parts = [shapely.make_valid(shapely.Polygon(ring)) for ring in rings]
    shape = parts[0]
    for part in parts[1:]:
        shape = draw(st.sampled_from([shapely.union, shapely.difference, shapely.symmetric_difference]))(
            shape, part
        )
    return shapely.make_valid(shape)


def batch(geometries, members=None):
    wkb = [shapely.to_wkb(shape) for shape in geometries]
    members = [None] * len(wkb) if members is None else members
    return pa.RecordBatch.from_arrays(
        [pa.array(members, pa.string()), pa.array(wkb, pa.binary())], ["member", "wkb"]
    )


def near(geometry, more):
    """Places that are hard to tell: vertices, places on edges as far as numbers go, and others."""
    places = shapely.get_coordinates(geometry)
    middles = (places[:-1] + places[1:]) / 2
    return np.concatenate(
        [places, middles, (places[:-1] * 2 + places[1:]) / 3, np.array(more).reshape(-1, 2)]
    )


@given(st.lists(shapes(), min_size=1, max_size=5), st.lists(points, min_size=1, max_size=20))
def test_areas_hold_what_shapely_says(geometries, more):
    areas = PolygonTable(SlotState.fresh(0))
    names = [f"m{i}" for i in range(len(geometries))]
    areas.define(5, batch(geometries, names))
    for name, geometry in zip(names, geometries, strict=True):
        x, y = near(geometry, more).T.copy()
        row = areas.row_of(5, name)
        found = areas.contains(np.full(len(x), row), x, y)
        # Shapely's own arithmetic ends at 1e-32, which corners that unions make are sometimes below.
        clear = shapely.distance(shapely.boundary(geometry), shapely.points(x, y)) > 1e-14
        assert found[clear].tolist() == shapely.intersects_xy(geometry, x, y)[clear].tolist()
        assert found[: len(shapely.get_coordinates(geometry))].all()
        np.testing.assert_array_equal(areas.boxes(np.array([row]))[0], shapely.bounds(geometry))


@st.composite
def rings(draw):
    """Corners of a polygon that is mostly valid: as drawn, or else around their mean."""
    ring = draw(st.lists(points, min_size=3, max_size=9, unique=True))
    if shapely.Polygon(ring).is_valid:
        return ring
    x, y = np.mean(ring, axis=0)
    return sorted(ring, key=lambda at: (math.atan2(at[1] - y, at[0] - x), at))


@given(rings(), st.lists(points, max_size=20))
def test_borders_belong_to_areas(ring, more):
    polygon = shapely.Polygon(ring)
    assume(polygon.is_valid)
    areas = PolygonTable(SlotState.fresh(0))
    (row,) = areas.intern_polygons([[[*ring, ring[0]]]])
    x, y = near(polygon, more).T.copy()
    on_edges = 2 * len(shapely.get_coordinates(polygon)) - 1
    found = areas.contains(np.full(len(x), row), x, y)
    assert found[:on_edges].all()
    assert found[-len(more) - 1 :].tolist() == shapely.intersects_xy(polygon, x, y)[-len(more) - 1 :].tolist()


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=2), st.floats(0, 1))
def test_turns_are_exact(line, share):
    from fractions import Fraction

    (x1, y1), (x2, y2) = line
    x, y = x1 + share * (x2 - x1), y1 + share * (y2 - y1)
    a, b, c, d = (Fraction(p) - Fraction(q) for p, q in ((x1, x), (y2, y), (y1, y), (x2, x)))
    exact = a * b - c * d
    if exact == 0 or abs(exact) > 1e-280:  # products do not underflow
        assert turn(x, y, (x1, y1, x2, y2)) == (exact > 0) - (exact < 0)


def star(vertices, x=0.0, y=0.0):
    angles = np.linspace(0, 2 * math.pi, vertices, endpoint=False)
    far = 1 + 0.5 * np.sin(37 * angles)
    ring = np.column_stack([x + far * np.cos(angles), y + far * np.sin(angles)])
    return np.vstack([ring, ring[:1]])


@pytest.mark.parametrize("vertices", [16, 17, 500, 5000])
def test_many_vertices(vertices):
    hole = star(vertices) / 3
    areas = PolygonTable(SlotState.fresh(0))
    (row,) = areas.intern_polygons([[star(vertices), hole]])
    polygon = shapely.Polygon(star(vertices), [hole])
    draw = np.random.default_rng(1).uniform(-1.6, 1.6, (2000, 2))
    x, y = np.concatenate([draw, star(vertices), hole]).T.copy()
    found = areas.contains(np.full(len(x), row), x, y)
    assert found.tolist() == shapely.intersects_xy(polygon, x, y).tolist()
    assert len(polygon_arrays(areas).edge) < 5 * len(shapely.get_coordinates(polygon)) + 16


@given(st.lists(st.one_of(st.integers(0, 3), st.just("drop")), max_size=12))
def test_rows_stay_while_others_come_and_go(moves):
    """Each move interns polygons, or drops the oldest; a named area stays, and restarts change nothing."""
    areas = PolygonTable(SlotState.fresh(0))
    areas.define(3, batch([shapely.Point(7, 7).buffer(1)]))
    alive = []
    for number, move in enumerate(moves):
        if move == "drop" and alive:
            areas.release_polygons(np.array([alive.pop(0)[0], areas.row_of(3), -1]))
        elif move != "drop":
            places = [float(10 * number + i) for i in range(move)]
            rows = areas.intern_polygons([[star(20, place)] for place in places])
            alive += zip(rows.tolist(), places, strict=True)
        areas = PolygonTable(restore(snapshot(areas.state)))
        rows = np.array([row for row, _ in alive] + [areas.row_of(3)])
        x = np.array([place for _, place in alive] + [7.0])
        y = np.array([0.0] * len(alive) + [7.0])
        assert areas.contains(rows, x, y).all()
        assert len(set(rows.tolist())) == len(rows)
        assert not areas.contains(rows, x + 2, y).any()


def test_room_is_made_for_new_areas(monkeypatch):
    monkeypatch.setattr(module, "_SPARE", 10)
    areas = PolygonTable(SlotState.fresh(0))
    (kept,) = areas.intern_polygons([[star(100)]])
    for number in range(50):
        areas.define(number, batch([shapely.Polygon(star(100, i)) for i in range(3)], ["a", "b", "c"]))
        assert areas.contains(
            np.array([kept, areas.row_of(number, "c")]), np.array([0.0, 2.0]), np.zeros(2)
        ).all()
        areas.drop(number)
    assert len(areas) == 1
    assert len(polygon_arrays(areas).edge) < 2000
    areas.release_polygons(np.array([kept]))
    assert areas.state.nbytes == 0


def test_nothing_lies_in_what_is_not_there():
    areas = PolygonTable(SlotState.fresh(0))
    areas.define(1, batch([shapely.Polygon(), shapely.box(0, 0, 1, 1)], ["empty", "unit"]))
    areas.define(1, batch([shapely.box(5, 5, 6, 6)], ["again"]))
    rows = np.array([areas.row_of(1, name) for name in ("empty", "unit", "again", "unit")])
    assert areas.contains(rows, np.array([0.5, 0.5, 5.5, np.nan]), np.full(4, 0.5)).tolist() == [
        False,
        True,
        False,
        False,
    ]
    assert np.isnan(areas.boxes(rows)[[0, 2]]).all()
    with pytest.raises(KeyError):
        areas.row_of(2)


@given(
    st.lists(shapes(), min_size=1, max_size=3),
    st.lists(points, min_size=1, max_size=20),
    st.sampled_from([0.25, 0.5, 0.75]),
)
def test_areas_made_smaller_hold_what_shapely_says_of_smaller_ones(geometries, more, factor):
    areas = PolygonTable(SlotState.fresh(0))
    names = [f"m{i}" for i in range(len(geometries))]
    areas.define(5, batch(geometries, names))
    for name, geometry in zip(names, geometries, strict=True):
        assume(not geometry.is_empty)
        middle = (np.array(geometry.bounds[:2]) + geometry.bounds[2:]) / 2
        smaller = shapely.transform(geometry, lambda places, m=middle: m + (places - m) * factor)
        x, y = near(smaller, more).T.copy()
        rows = np.full(len(x), areas.row_of(5, name))
        found = areas.contains(rows, x, y, np.full(len(x), factor))
        if geometry.geom_type != "GeometryCollection":  # its parts are united, which may round a corner
            assert found[: len(shapely.get_coordinates(smaller))].all()
        assert found[shapely.intersects_xy(smaller.buffer(-1e-9), x, y)].all()
        # Not by a buffer: one of 1e-9 leaves out parts of shapes that are nearly as thin.
        assert not found[shapely.distance(smaller, shapely.points(x, y)) > 1e-9].any()
        np.testing.assert_array_equal(areas.contains(rows, x, y, np.ones(len(x))), areas.contains(rows, x, y))


def test_scaled_areas_of_many_edges_are_found_in_their_bands():
    turns = np.linspace(0, 2 * math.pi, 400, endpoint=False)
    reach = np.where(np.arange(400) % 2, 1.0, 2.0)
    star = shapely.Polygon(np.column_stack([reach * np.cos(turns), reach * np.sin(turns)]))
    areas = PolygonTable(SlotState.fresh(0))
    areas.define(5, batch([star]))
    x, y = np.random.default_rng(3).uniform(-2, 2, (2, 20_000))
    for factor in (0.9, 0.5, 0.1):
        smaller = shapely.affinity.scale(star, factor, factor)
        found = areas.contains(np.full(len(x), areas.row_of(5)), x, y, np.full(len(x), factor))
        np.testing.assert_array_equal(found, shapely.intersects_xy(smaller, x, y))
