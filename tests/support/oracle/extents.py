"""Shapes, one at a time, by plain shapely: what lies in a region, what touches it, and how far it is away."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import shapely

from support.oracle.geometry import Place, distance

Shape = Any
"""A shapely geometry."""


def relates(shape: Shape, relation: str, region: Shape | tuple[float, float, float], planar: bool) -> bool:
    """Whether a shape is INSIDE a region or INTERSECTS it, which shares a point; a circle is x, y, radius."""
    if not isinstance(region, tuple):
        return bool(region.covers(shape) if relation == "INSIDE" else region.intersects(shape))
    x, y, radius = region
    if relation == "INTERSECTS":
        return bool(far(shape, (x, y), planar) <= radius)
    return all(distance((x, y), place, planar) <= radius for place in shapely.get_coordinates(shape))


def far(shape: Shape, place: Place, planar: bool) -> float:
    """How far a place is from the nearest point of a shape, 0 within it.

    The way over the 180th meridian counts where a part of the shape is more than 180 degrees away.
    """
    if planar:
        return float(shape.distance(shapely.Point(place)))
    west, _, east, _ = shape.bounds
    turns = [0.0, *([360.0] if east - place[0] > 180 else []), *([-360.0] if place[0] - west > 180 else [])]
    if any(shape.intersects(shapely.Point(place[0] + turn, place[1])) for turn in turns):
        return 0.0
    return min(
        distance(place, _nearest(*edge, (place[0] + turn, place[1])), planar=False)
        for edge in edges(shape)
        for turn in turns
    )


def apart(shape: Shape, other: Shape, planar: bool) -> float:
    """How far two shapes are apart, 0 if they share a point: else from a corner of either to the other."""
    if planar:
        return float(shape.distance(other))
    if shape.intersects(other):
        return 0.0
    pairs = [(shape, corner) for corner in shapely.get_coordinates(other)]
    pairs += [(other, corner) for corner in shapely.get_coordinates(shape)]
    return min(far(one, (float(x), float(y)), planar) for one, (x, y) in pairs)


def edges(shape: Shape) -> list[tuple[Place, Place]]:
    """The edges of a shape; a point is an edge to itself."""
    match shape.geom_type:
        case "Point":
            return [((shape.x, shape.y), (shape.x, shape.y))]
        case "LineString" | "LinearRing":
            return list(pairwise(shape.coords))
        case "Polygon":
            return [edge for ring in (shape.exterior, *shape.interiors) for edge in edges(ring)]
    return [edge for part in shape.geoms for edge in edges(part)]


def _nearest(a: Place, b: Place, place: Place) -> Place:
    """The point of an edge nearest to a place, where a degree of longitude is as long as at that place."""
    wide = math.cos(math.radians(place[1]))
    across, up = (b[0] - a[0]) * wide, b[1] - a[1]
    square = across**2 + up**2
    along = ((place[0] - a[0]) * wide * across + (place[1] - a[1]) * up) / square if square else 0.0
    along = min(1.0, max(0.0, along))
    return a[0] + along * (b[0] - a[0]), a[1] + along * (b[1] - a[1])
