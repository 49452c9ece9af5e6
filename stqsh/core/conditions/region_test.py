"""How far a snapshot's region reaches: a box for the scan, and the exact test for what lies in the box."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson

from stqsh.core.kernels.geometry.boxes import region_box as rectangle_around
from stqsh.core.kernels.geometry.circles import circle_box
from stqsh.core.kernels.geometry.distance import distances
from stqsh.core.state.slot_state import SlotState

if TYPE_CHECKING:
    from stqsh.core.conditions.resolver import Resolver
    from stqsh.core.regions.polygon_table import PolygonTable

Array = npt.NDArray[Any]
Spec: TypeAlias = dict[str, Any]
Place: TypeAlias = tuple[float, float]
Shape: TypeAlias = Callable[[Array, Array], Array]

_EVERYWHERE = (-np.inf, -np.inf, np.inf, np.inf)
_NOWHERE = (np.nan, np.nan, np.nan, np.nan)
_POLYGONS_KEPT = 256


@dataclass(frozen=True)
class RegionNow:
    """A region as it is now.

    box: float64 (4,), x1, y1, x2, y2; NaN while the focal object is not present. shape: whether points of
    the box, x and y float64 (n,), belong to the region, bool (n,); None where all do. centre: what DISTANCE
    counts from, None where there is no such place.
    """

    box: Array
    shape: Shape | None = None
    centre: Place | None = None

    @property
    def is_nowhere(self) -> bool:
        """Whether nothing can lie in the region."""
        return bool(np.isnan(self.box).any())

    def holds(self, x: Array, y: Array) -> Array:
        """Whether points lie in the region; NaN never does. bool (n,)."""
        x1, y1, x2, y2 = self.box
        inside: Array = (x1 <= x) & (x <= x2) & (y1 <= y) & (y <= y2)
        if self.shape is not None:
            at = np.flatnonzero(inside)
            inside[at] = self.shape(x[at], y[at])
        return inside


def reach_of(region: Spec, resolver: Resolver, place: Place | None = None) -> RegionNow:
    """The reach of a region of a snapshot spec.

    resolver: of the stream on this slot. place: where the focal object is, None while it is not present.

    Raises:
        ValueError: a region that there is not.
    """
    kind = region["type"]
    if kind == "all":
        return RegionNow(np.array(_EVERYWHERE))
    if kind == "rect":
        return RegionNow(np.array([region[name] for name in ("x1", "y1", "x2", "y2")], np.float64))
    if kind == "polygon":
        return _polygon(orjson.dumps(region["rings"]))
    if kind == "area":
        return _of_row(resolver.areas, resolver.areas.row_of(region["area"], region["member"]))
    if "focal" not in region and "x" in region:
        place = (region["x"], region["y"])
    if place is None and "focal" in region:
        return RegionNow(np.array(_NOWHERE))
    if place is not None and kind in _AROUND:
        return _AROUND[kind](region, place, resolver.planar)
    raise ValueError(f"no region of the type {kind!r}")


def _circle(region: Spec, centre: Place, planar: bool) -> RegionNow:
    radius = region["radius"]
    box = np.array(circle_box(*centre, radius, planar), np.float64)
    return RegionNow(box, lambda x, y: distances(*centre, x, y, planar) <= radius, centre)


def _moving_rectangle(region: Spec, centre: Place, planar: bool) -> RegionNow:
    return RegionNow(
        np.array(rectangle_around(*centre, region["xdist"], region["ydist"], planar), np.float64)
    )


def _nearest(region: Spec, centre: Place, planar: bool) -> RegionNow:
    del region, planar
    return RegionNow(np.array(_EVERYWHERE), None, centre)


_AROUND: dict[str, Callable[[Spec, Place, bool], RegionNow]] = {
    "circle": _circle,
    "moving_circle": _circle,
    "moving_rect": _moving_rectangle,
    "nearest": _nearest,
}


@lru_cache(_POLYGONS_KEPT)
def _polygon(rings: bytes) -> RegionNow:
    """The reach of a polygon, its rings in JSON, by the same edges as those of registered queries."""
    from stqsh.core.regions.polygon_table import PolygonTable  # shapely takes a while to load

    areas = PolygonTable(SlotState.fresh(0))
    return _of_row(areas, int(areas.intern_polygons([orjson.loads(rings)])[0]))


def _of_row(areas: PolygonTable, row: int) -> RegionNow:
    box = areas.boxes(np.array([row]))[0]
    return RegionNow(box, lambda x, y: areas.contains(np.full(len(x), row), x, y))
