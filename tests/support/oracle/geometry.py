"""Places, distances and regions, by the plainest formula of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

EARTH_M = 6371008.8

Place = tuple[float, float]
Ring = Sequence[Sequence[float]]
Rings = Sequence[Ring]


def distance(a: Place, b: Place, planar: bool) -> float:
    """Euclid's, or the haversine of two (lon, lat) in metres."""
    if planar:
        return math.sqrt((b[0] - a[0]) * (b[0] - a[0]) + (b[1] - a[1]) * (b[1] - a[1]))
    lat1, lat2 = math.radians(a[1]), math.radians(b[1])
    up, side = math.sin(math.radians(b[1] - a[1]) / 2), math.sin(math.radians(b[0] - a[0]) / 2)
    h = up * up + math.cos(lat1) * math.cos(lat2) * (side * side)
    return 2 * EARTH_M * math.asin(math.sqrt(min(1.0, h)))


def in_rectangle(place: Place, x1: float, y1: float, x2: float, y2: float) -> bool:
    """Inside, or on the border."""
    return x1 <= place[0] <= x2 and y1 <= place[1] <= y2


def around(centre: Place, xdist: float, ydist: float, planar: bool) -> tuple[float, float, float, float]:
    """The rectangle of xdist by ydist (metres, or units) with `centre` in its middle."""
    x, y = centre
    dx, dy = xdist / 2, ydist / 2
    if not planar:
        dx = math.degrees(xdist / 2 / (EARTH_M * math.cos(math.radians(y))))
        dy = math.degrees(ydist / 2 / EARTH_M)
    return x - dx, y - dy, x + dx, y + dy


def is_around(place: Place, centre: Place, xdist: float, ydist: float, planar: bool) -> bool:
    """Whether a place is in the rectangle around a centre, which goes on beyond the 180th meridian."""
    turns = (0.0,) if planar else (0.0, -360.0, 360.0)
    box = around(centre, xdist, ydist, planar)
    return any(in_rectangle((place[0] + turn, place[1]), *box) for turn in turns)


def in_polygon(place: Place, rings: Rings) -> bool:
    """Inside or on the border of a valid polygon: an odd number of edges lies to the right."""
    odd = False
    for ring in rings:
        for a, b in pairwise(ring):
            turn = _turn(place, a, b)
            if turn == 0 and _is_between(place, a, b):
                return True
            if (a[1] > place[1]) != (b[1] > place[1]):
                odd ^= (turn > 0) == (b[1] > a[1])
    return odd


def _turn(place: Place, a: Sequence[float], b: Sequence[float]) -> float:
    return (b[0] - a[0]) * (place[1] - a[1]) - (b[1] - a[1]) * (place[0] - a[0])


def _is_between(place: Place, a: Sequence[float], b: Sequence[float]) -> bool:
    """Whether a place lies in the rectangle of which an edge is a diagonal."""
    x, y = place
    return (a[0] <= x <= b[0] or b[0] <= x <= a[0]) and (a[1] <= y <= b[1] or b[1] <= y <= a[1])
