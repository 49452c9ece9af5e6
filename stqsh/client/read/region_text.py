"""Regions of bound queries in words, for people."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from stqsh.spec.region import (
    CircleSpec,
    EverywhereSpec,
    MovingCircleSpec,
    MovingRectangleSpec,
    NamedRegionSpec,
    NearestSpec,
    PolygonSpec,
    RectangleSpec,
    Region,
)

_EARTH_KM = 6371.0088


def region_text(region: Region) -> str:  # noqa: PLR0911  # one for each shape
    """Return a region in a readable form close to STQL."""
    match region:
        case EverywhereSpec():
            return "everywhere"
        case RectangleSpec():
            return f"RECT({_numbers(region.box)})"
        case CircleSpec(x, y, radius):
            return f"CIRCLE({_numbers((x, y, radius))})"
        case PolygonSpec(rings):
            corners, holes = sum(len(ring) - 1 for ring in rings), len(rings) - 1
            return f"POLYGON of {corners} corners" + (f", {holes} holes" if holes else "")
        case NamedRegionSpec(_, name, member):
            return name + (f"[{member!r}]" if member is not None else "")
        case MovingRectangleSpec(focal, xdist, ydist):
            return f"RECT({_numbers((xdist, ydist))}) AROUND {focal!r}"
        case MovingCircleSpec(focal, radius):
            return f"CIRCLE({radius:g}) AROUND {focal!r}"
        case NearestSpec():
            to = f"({_numbers(region.place)})" if region.place is not None else repr(region.focal)
            return f"NEAREST {region.k} TO {to}"


def box_text(box: Sequence[float]) -> str:
    """Return a box as two corners."""
    return f"({_numbers(box)})"


def area_text(box: Sequence[float], planar: bool) -> str:
    """Return the area of a box: in square units of the plane, or in square kilometres of the sphere."""
    x1, y1, x2, y2 = box
    if planar:
        return f"{(x2 - x1) * (y2 - y1):.4g} square units"
    low, high = (math.sin(math.radians(max(-90.0, min(90.0, y)))) for y in (y1, y2))
    return f"{_EARTH_KM**2 * math.radians(min(360.0, x2 - x1)) * (high - low):.4g} km²"


def _numbers(values: Iterable[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
