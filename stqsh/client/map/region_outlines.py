"""Outlines of queries' regions and of named regions, as rings of corners that can be drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.geometry.boxes import region_box as rectangle_around
from stqsh.core.kernels.geometry.distance import EARTH_M
from stqsh.spec.chunk import unpack
from stqsh.spec.expression import ExtentTestExpr, extent_tests
from stqsh.spec.query import nearest_extents
from stqsh.spec.region import (
    EVERYWHERE,
    CircleSpec,
    MovingCircleSpec,
    MovingRectangleSpec,
    NamedRegionSpec,
    NearestSpec,
    PolygonSpec,
    RectangleSpec,
    Region,
)
from stqsh.storage.catalogue import area_geometry
from stqsh.storage.control_log import ControlDb
from stqsh.storage.rows import AreaRow, QueryRow

Place = tuple[float, float]
Rings = tuple[Array, ...]

CORNERS = 72
"""The number of corners of a ring that represents a circle."""
MOST_AREAS = 2000
"""Maximum number of members of sets of regions that a map draws."""


@dataclass(frozen=True, slots=True)
class RegionOutline:
    """The current outline of a region.

    Attributes:
        rings: closed, float64 (m, 2) of x and y each; empty for a region without an outline (everywhere,
            nearest neighbours) or while its focal object is absent.
        centre: of circles and of nearest-neighbour regions.
        focal: the key of the object with which the region moves.
    """

    name: str
    rings: Rings = ()
    centre: Place | None = None
    focal: Any = None


class RegionOutlines:
    """Makes outlines; caches those of named areas, which never change."""

    def __init__(self, db: ControlDb) -> None:
        self._db = db
        self._areas: dict[int, dict[str | None, Rings]] = {}

    def of_region(self, name: str, region: Region, planar: bool, place: Place | None) -> RegionOutline:
        """Return the outline of a query's region.

        `place` is the place of its focal object, None while that is absent.
        """
        if isinstance(region, NamedRegionSpec):
            return RegionOutline(name, self._members(region.area).get(region.member, ()))
        focal = region.focal_key
        centre = place if focal is not None else _stationary_centre(region)
        return RegionOutline(name, _rings(region, centre, planar), centre, focal)

    def of_query(self, query: QueryRow, planar: bool, place: Place | None) -> RegionOutline:
        """Return the outline of a query's region, or of the regions that extents must meet."""
        region = query.spec.region
        if region != EVERYWHERE and not region.is_nearest:
            return self.of_region(query.name, region, planar, place)
        nearest, tests = nearest_extents(query.spec), extent_tests(query.spec.condition)
        rings = tuple(ring for test in tests for ring in _rings_of_test(test))
        centre = self.of_region(query.name, region if nearest is None else nearest, planar, place).centre
        return RegionOutline(query.name, rings, centre, region.focal_key)

    def of_area(self, area: AreaRow, planar: bool) -> list[RegionOutline]:
        """Return the outlines of a named region, or of the members of a set of regions."""
        if area.spec.circle is not None:
            return [self.of_region(area.name, area.spec.circle, planar, None)]
        return [
            RegionOutline(area.name if member is None else f"{area.name}[{member}]", rings)
            for member, rings in self._members(area.id).items()
        ]

    def of_member(self, area: int, member: str) -> RegionOutline:
        """Return the outline of a member of a set of regions, by the set's id."""
        return RegionOutline(member, self._members(area).get(member, ()))

    def _members(self, area: int) -> dict[str | None, Rings]:
        """Return the rings of an area's members by name; the key None stands for the whole area."""
        if area not in self._areas:
            self._areas[area] = _rings_of_area(area_geometry(self._db, area))
        return self._areas[area]


def _rings_of_test(test: ExtentTestExpr) -> Rings:
    if test.around is not None:  # where its object is, the query does not say
        return ()
    match test.type, test.numbers():
        case "rect", (x1, y1, x2, y2):
            return _box(x1, y1, x2, y2)
        case "circle", (x, y, radius):
            return (circle((x, y), radius, test.planar),)
    import shapely  # takes a while to load

    return _rings_of(shapely.from_wkt(test.polygon))


def _rings_of(shape: Any) -> Rings:
    import shapely

    parts = shapely.get_parts(shape)
    rings = shapely.get_rings(parts[shapely.get_type_id(parts) == shapely.GeometryType.POLYGON])
    return tuple(shapely.get_coordinates(ring) for ring in rings)


def _rings_of_area(payload: bytes) -> dict[str | None, Rings]:
    import shapely  # takes a while to load

    geometry = unpack(payload)
    members = geometry.column("member").to_pylist()
    shapes = shapely.from_wkb(geometry.column("wkb").to_numpy(zero_copy_only=False))
    found: dict[str | None, Rings] = {}
    for member, shape in zip(members[:MOST_AREAS], shapes, strict=False):
        found[member] = _rings_of(shape)
    if None not in found:
        found[None] = tuple(ring for rings in found.values() for ring in rings)
    return found


def _stationary_centre(region: Region) -> Place | None:
    match region:
        case CircleSpec(x, y):
            return x, y
        case NearestSpec():
            return region.place
    return None


def _rings(region: Region, centre: Place | None, planar: bool) -> Rings:
    """Return the rings of a region with or without a centre; empty for one without an outline."""
    match region, centre:
        case RectangleSpec(), _:
            return _box(*region.box)
        case PolygonSpec(rings), _:
            return tuple(np.array(ring, np.float64) for ring in rings)
        case MovingRectangleSpec(_, xdist, ydist), (x, y):
            return _box(*rectangle_around(x, y, xdist, ydist, planar))
        case CircleSpec() | MovingCircleSpec(), (x, y):
            return (circle((x, y), region.radius, planar),)
    return ()


def circle(centre: Place, radius: float, planar: bool) -> Array:
    """Return a ring of `CORNERS` corners at a radius around the centre; float64 (CORNERS + 1, 2).

    On the sphere (radius in metres, places in degrees) the corners are destinations along great circles.
    """
    turn = np.linspace(0, 2 * math.pi, CORNERS + 1)
    x, y = centre
    if planar:
        return np.column_stack([x + radius * np.sin(turn), y + radius * np.cos(turn)])
    low, far = math.radians(y), radius / EARTH_M
    sine = math.sin(low) * math.cos(far) + math.cos(low) * math.sin(far) * np.cos(turn)
    across = np.arctan2(np.sin(turn) * math.sin(far) * math.cos(low), math.cos(far) - math.sin(low) * sine)
    return np.column_stack([x + np.degrees(across), np.degrees(np.arcsin(np.clip(sine, -1, 1)))])


def _box(x1: float, y1: float, x2: float, y2: float) -> Rings:
    return (np.array([(x1, y1), (x2, y1), (x2, y2), (x1, y2), (x1, y1)], np.float64),)
