"""Extents against regions and places: the vectorised answers are those of one shape at a time."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
import shapely
from support.oracle.extents import edges, far, relates
from support.oracle.geometry import distance

from stqsh.core.conditions import extents
from stqsh.core.conditions.extents import Extents, extents_of

SHAPES = [
    "POINT (0 0)",
    "LINESTRING (0 0, 2 1, 2 3)",
    "POLYGON ((0 0, 3 0, 3 3, 0 3, 0 0), (1 1, 1 2, 2 2, 2 1, 1 1))",
    "MULTIPOLYGON (((0 0, 1 0, 0 1, 0 0)), ((2 2, 3 2, 3 3, 2 2)))",
    "GEOMETRYCOLLECTION (POINT (5 5), LINESTRING (0 0, 0 4))",
    None,
]
CORNERS = [
    (a, b, a + wide, b + high) for a in (-1, 0, 1) for b in (0, 1) for wide in (0, 2) for high in (0, 1, 4)
]
PLACES = [(x / 2, y / 2) for x in range(-3, 9) for y in range(-3, 9)]
HOLE = "(0.5 0.5, 0.5 0.75, 0.75 0.75, 0.5 0.5)"
ZONE = f"MULTIPOLYGON (((0 0, 4 0, 4 4, 0 4, 0 0), {HOLE}), ((4 0, 6 0, 6 6, 4 0)))"


def crossed(count: int) -> tuple[Extents, list[shapely.Geometry | None], np.ndarray]:
    """Each shape beside each of `count` other things: extents, shapes and the numbers of the others."""
    texts = [text for text in SHAPES for _ in range(count)]
    column = pa.array(texts, pa.string())
    shapes = [None if text is None else shapely.from_wkt(text) for text in texts]
    return extents_of(column), shapes, np.tile(np.arange(count), len(SHAPES))


@pytest.mark.parametrize("relation", ["inside", "intersects"])
def test_rectangles(relation: extents.Relation) -> None:
    found, shapes, which = crossed(len(CORNERS))
    told = extents.in_rectangles(found, tuple(np.array(CORNERS, np.float64)[which].T), relation)
    for held, shape, number in zip(told, shapes, which, strict=True):
        x1, y1, x2, y2 = CORNERS[number]
        region = shapely.MultiPoint([(x1, y1), (x1, y2), (x2, y1), (x2, y2)]).convex_hull
        assert held == (shape is not None and relates(shape, relation.upper(), region, True))


@pytest.mark.parametrize("relation", ["inside", "intersects"])
@pytest.mark.parametrize("planar", [True, False])
def test_circles(relation: extents.Relation, planar: bool) -> None:
    found, shapes, which = crossed(len(PLACES))
    radius = 1.3 if planar else 144_000.0
    x, y = np.array(PLACES)[which].T
    told = extents.in_circles(found, (x, y, np.full(len(x), radius)), relation, planar)
    for held, shape, number in zip(told, shapes, which, strict=True):
        circle = (*PLACES[number], radius)
        assert held == (shape is not None and relates(shape, relation.upper(), circle, planar))


@pytest.mark.parametrize("relation", ["inside", "intersects"])
def test_polygons(relation: extents.Relation) -> None:
    found, shapes, _ = crossed(1)
    told = extents.in_polygon(found, ZONE, relation)
    zone = shapely.union_all(shapely.get_parts(shapely.from_wkt(ZONE)))
    expected = [shape is not None and relates(shape, relation.upper(), zone, True) for shape in shapes]
    assert told.tolist() == expected


@pytest.mark.parametrize("planar", [True, False])
def test_distances(planar: bool) -> None:
    found, shapes, which = crossed(len(PLACES))
    x, y = (np.ascontiguousarray(one) for one in np.array(PLACES)[which].T)
    told = extents.distances(found, x, y, planar)
    for away, shape, number in zip(told, shapes, which, strict=True):
        if shape is None:
            assert np.isnan(away)
        else:
            assert away == pytest.approx(far(shape, PLACES[number], planar), rel=1e-12, abs=1e-6)


def test_many_edges_are_measured_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _, which = crossed(len(PLACES))
    x, y = (np.ascontiguousarray(one) for one in np.array(PLACES)[which].T)
    whole = extents.distances(found, x, y, True)
    monkeypatch.setattr(extents, "_EDGES_AT_ONCE", 3)
    assert np.array_equal(extents.distances(found, x, y, True), whole, equal_nan=True)


def test_either_way_around_the_globe_counts() -> None:
    found = extents_of(
        pa.array(["LINESTRING (178 0, 179 0)", "POLYGON ((-180 -1, -178 -1, -178 1, -180 1, -180 -1))"])
    )
    told = extents.distances(found, np.array([-179.0, 180.0]), np.zeros(2), False)
    assert told == pytest.approx([2 * 111_195.08, 0.0], abs=1)


def test_the_nearest_point_on_the_sphere_is_nearly_the_one_of_the_map() -> None:
    draw = random.Random(1)
    for _ in range(50):
        lon, lat = draw.uniform(-179, 179), draw.uniform(-65, 65)
        corners = [(lon + draw.uniform(0, 0.1), lat + draw.uniform(0, 0.1)) for _ in range(3)]
        shape, place = shapely.LineString(corners), (lon + draw.uniform(0, 0.1), lat + draw.uniform(0, 0.1))
        some = [
            (a[0] + part / 5000 * (b[0] - a[0]), a[1] + part / 5000 * (b[1] - a[1]))
            for a, b in edges(shape)
            for part in range(5001)
        ]
        least = min(distance(place, one, planar=False) for one in some)
        [told] = extents.distances(
            extents_of(pa.array([shape.wkt])), np.array([place[0]]), np.array([place[1]]), False
        )
        assert told == pytest.approx(least, rel=1e-3, abs=3)


@pytest.mark.parametrize("planar", [True, False])
def test_no_distance_is_below_its_bound(planar: bool) -> None:
    draw = random.Random(2)
    wide, high = (1e6, 1e6) if planar else (180, 90)
    texts, places = [], []
    for _ in range(3000):
        size = draw.choice([1e-6, 0.1, 30, 200])
        x, y = draw.uniform(-wide, wide), draw.uniform(-high, high)
        corners = [(x + draw.uniform(-size, size), y + draw.uniform(-size, size)) for _ in range(2)]
        inside = [(min(max(a, -wide), wide), min(max(b, -high), high)) for a, b in corners]
        texts.append(shapely.LineString(inside).wkt)
        near = (
            draw.choice(inside)
            if draw.random() < 0.3
            else (draw.uniform(-wide, wide), draw.uniform(-high, high))
        )
        places.append(near)
    found, (x, y) = extents_of(pa.array(texts)), map(np.ascontiguousarray, np.array(places).T)
    exact = extents.distances(found, x, y, planar)
    least = extents.least_distances(found, x, y, planar)
    assert (least <= exact).all()
    assert np.median(least[exact > 0] / exact[exact > 0]) > 0.5


def test_first_corners() -> None:
    x, y = extents.first_corners(pa.array([*SHAPES, SHAPES[1]], pa.string()))
    assert x[[0, 1, 4]].tolist() == [0, 0, 5] and y[[0, 1, 4]].tolist() == [0, 0, 5]
    assert np.isnan(x[5]) and np.isnan(y[5]) and x[6] == 0
