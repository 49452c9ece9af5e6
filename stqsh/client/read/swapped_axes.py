"""Detect swapped axes: the region misses a stream's data, but would not with its axes swapped."""

from __future__ import annotations

import math

from stqsh.spec.region import CircleSpec, NearestSpec, PolygonSpec, RectangleSpec, Region
from stqsh.spec.source_facts import SourceFacts, extent_text
from stqsh.spec.stream import Bounds

#: Metres per degree of latitude.
_DEGREE_M = 111_195.0


def swapped_remark(region: Region, facts: SourceFacts) -> str:
    """Return a remark if a region misses all data but would meet them with its axes swapped, else "".

    >>> facts = SourceFacts(1, extent=(9.9, 49.9, 10.1, 50.1))
    >>> swapped_remark(RectangleSpec(9.95, 49.95, 10, 50), facts)
    ''
    >>> print(swapped_remark(RectangleSpec(49.95, 9.95, 50, 10), facts).partition(" and ")[0])
    the region misses the data (longitude 9.9 to 10.1, latitude 49.9 to 50.1)
    """
    box = _box(region, facts.is_planar)
    if box is None or facts.extent is None or meet(box, facts.extent):
        return ""
    x1, y1, x2, y2 = box
    if not meet((y1, x1, y2, x2), facts.extent):
        return ""
    x, y = ("x", "y") if facts.is_planar else ("longitude", "latitude")
    return (
        f"the region misses the data ({extent_text(facts)}) and would meet them with {x} and {y} swapped:"
        f" {x} comes first, in regions and in LOCATION"
    )


def _box(region: Region, is_planar: bool) -> Bounds | None:
    """Return the bounds x1, y1, x2, y2 of a stationary region; None for others."""
    match region:
        case RectangleSpec():
            return region.box
        case CircleSpec(x=x, y=y, radius=radius):
            high = radius if is_planar else radius / _DEGREE_M
            wide = high if is_planar else high / max(math.cos(math.radians(min(abs(y), 89.0))), 0.01)
            return x - wide, y - high, x + wide, y + high
        case PolygonSpec(rings=rings):
            xs, ys = zip(*rings[0], strict=True)
            return min(xs), min(ys), max(xs), max(ys)
        case NearestSpec(place=(float(x), float(y))):
            return x, y, x, y
    return None


def meet(one: Bounds, other: Bounds) -> bool:
    """Return whether two boxes intersect; one across the 180th meridian intersects all."""
    if one[0] > one[2]:
        return True
    return one[0] <= other[2] and other[0] <= one[2] and one[1] <= other[3] and other[1] <= one[3]
