"""The reach of a snapshot's region: a box to scan, and an exact test for places inside the box."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.geometry.boxes import are_beside, extended_box
from stqsh.core.kernels.geometry.circles import circle_box
from stqsh.core.kernels.geometry.distance import distances
from stqsh.core.regions.polygon_table import PolygonTable
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.region import (
    CircleSpec,
    EverywhereSpec,
    MovingCircleSpec,
    MovingRectangleSpec,
    NamedRegionSpec,
    NearestSpec,
    Place,
    PolygonSpec,
    RectangleSpec,
    Region,
)

if TYPE_CHECKING:
    from stqsh.core.conditions.resolver import Resolver

Shape: TypeAlias = Callable[[Array, Array], Array]

_EVERYWHERE = (-np.inf, -np.inf, np.inf, np.inf)
_NOWHERE = (np.nan, np.nan, np.nan, np.nan)
_POLYGONS_KEPT = 256


@dataclass(frozen=True)
class RegionNow:
    """A region as it is now.

    Attributes:
        box: x1, y1, x2, y2, float64 (4,); NaN while the focal object is absent.
        shape: Returns whether points in the box (x and y, float64 (n,)) are in the region, bool (n,); None if
            all are.
        centre: The origin of DISTANCE; None if there is none.
        extent: The focal object's extent, WKT, from which the distances of its neighbours are measured; "" if
            they are measured from the centre.
    """

    box: Array
    shape: Shape | None = None
    centre: Place | None = None
    extent: str = ""

    @property
    def is_nowhere(self) -> bool:
        """Whether the region contains no place at all."""
        return bool(np.isnan(self.box).any())

    def holds(self, x: Array, y: Array) -> Array:
        """Return whether points are in the region, bool (n,); False for NaN."""
        x1, y1, x2, y2 = self.box
        inside: Array = (x1 <= x) & (x <= x2) & (y1 <= y) & (y <= y2)
        if self.shape is not None:
            at = np.flatnonzero(inside)
            inside[at] = self.shape(x[at], y[at])
        return inside


def reach_of(  # noqa: PLR0911  # one for each shape
    region: Region, resolver: Resolver, place: Place | None = None
) -> RegionNow:
    """Return the reach of a snapshot's region.

    Args:
        region: The region.
        resolver: The stream's resolver on this slot.
        place: The place of the focal object; None while it is absent.
    """
    match region:
        case EverywhereSpec():
            return RegionNow(np.array(_EVERYWHERE))
        case RectangleSpec():
            return RegionNow(np.array(region.box, np.float64))
        case PolygonSpec():
            return _polygon(region)
        case NamedRegionSpec():
            return _of_row(resolver.areas, resolver.areas.row_of(region.area, region.member))
        case CircleSpec():
            return _circle(region.radius, (region.x, region.y), resolver.planar)
    centre = region.place if isinstance(region, NearestSpec) and region.focal is None else place
    if centre is None:
        return RegionNow(np.array(_NOWHERE))
    match region:
        case MovingCircleSpec(meets=True):
            return RegionNow(np.array(_EVERYWHERE), None, centre)
        case MovingCircleSpec():
            return _circle(region.radius, centre, resolver.planar)
        case MovingRectangleSpec():
            return _rectangle_around(region, centre, resolver.planar)
        case NearestSpec():
            return RegionNow(np.array(_EVERYWHERE), None, centre, region.extent)


def _rectangle_around(region: MovingRectangleSpec, centre: Place, planar: bool) -> RegionNow:
    box = np.array(extended_box(*centre, region.xdist, region.ydist, np.nan, planar), np.float64)
    if not np.isneginf(box[0]):
        return RegionNow(box)

    def is_in(x: Array, _: Array) -> Array:
        around = (np.full(len(x), value) for value in (*centre, region.xdist))
        return ~are_beside(x.copy(), *around)

    return RegionNow(box, is_in)


def _circle(radius: float, centre: Place, planar: bool) -> RegionNow:
    box = np.array(circle_box(*centre, radius, planar), np.float64)
    return RegionNow(box, lambda x, y: distances(*centre, x, y, planar) <= radius, centre)


@lru_cache(_POLYGONS_KEPT)
def _polygon(region: PolygonSpec) -> RegionNow:
    """Return the reach of a polygon, with the same edges as those of registered queries."""
    areas = PolygonTable(SlotState.fresh(0))
    return _of_row(areas, int(areas.intern_polygons([region.rings])[0]))


def _of_row(areas: PolygonTable, row: int) -> RegionNow:
    box = areas.boxes(np.array([row]))[0]
    return RegionNow(box, lambda x, y: areas.contains(np.full(len(x), row), x, y))
