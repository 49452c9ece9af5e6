"""How far two places are apart, computed in one way wherever it counts; and boxes that hold circles.

On the sphere of language.md, "What a query sees", by the haversine formula, in the plane by Euclid's.
"""

from __future__ import annotations

import math

import numpy as np

from stqsh.core.kernels.jit import Array, Flag, Float, kernel

EARTH_M = 6371008.8
"""The sphere's radius in metres."""

_MARGIN = 1e-7
"""How much wider than by the formula a box on the sphere is, as a share; rounding takes away far less."""

_LEAST = 1e-9
"""And at least by so many degrees, a tenth of a millimetre."""

_POLAR = 1e-6
"""A circle that comes as near to a pole as this, in degrees, is taken to hold it."""


@kernel
def distance(x1: Float, y1: Float, x2: Float, y2: Float, planar: Flag) -> Float:
    """The distance between two places: in the stream's unit, or in metres between (lon, lat) in degrees.

    The centre comes first, so that rounding is the same everywhere. NaN where a coordinate is NaN.
    """
    if planar:
        dx, dy = x2 - x1, y2 - y1
        return math.sqrt(dx * dx + dy * dy)
    up = math.sin(math.radians(y2 - y1) / 2)
    side = math.sin(math.radians(x2 - x1) / 2)
    a = up * up + math.cos(math.radians(y1)) * math.cos(math.radians(y2)) * (side * side)
    if a > 1.0:  # noqa: PLR1730 - rounding between antipodes; NaN has to stay NaN
        a = 1.0
    return 2 * EARTH_M * math.asin(math.sqrt(a))


@kernel
def distances(x: Float, y: Float, xs: Array, ys: Array, planar: Flag) -> Array:
    """The distances of many places from one: float64 (n,) each; see `distance`."""
    out = np.empty(len(xs), np.float64)
    for i in range(len(xs)):
        out[i] = distance(x, y, xs[i], ys[i], planar)
    return out


@kernel
def distances_between(x1: Array, y1: Array, x2: Array, y2: Array, planar: Flag) -> Array:
    """The distances of pairs of places, the centres first: float64 (n,) each; see `distance`."""
    out = np.empty(len(x1), np.float64)
    for i in range(len(x1)):
        out[i] = distance(x1[i], y1[i], x2[i], y2[i], planar)
    return out


@kernel
def circle_box(x: Float, y: Float, radius: Float, planar: Flag) -> tuple[Float, Float, Float, Float]:
    """A box x1, y1, x2, y2 in which all places lie whose `distance` from (x, y) is at most `radius`.

    On the sphere it takes in all longitudes where the circle holds a pole or reaches across the line of 180
    degrees. NaN where an argument is NaN.
    """
    if math.isnan(x + y + radius):
        return np.nan, np.nan, np.nan, np.nan
    if planar:
        reach = radius + (abs(x) + abs(y) + radius) * 1e-12 + 1e-150
        return x - reach, y - reach, x + reach, y + reach
    up = math.degrees(radius / EARTH_M)
    up += up * _MARGIN + _LEAST
    low, high = y - up, y + up
    if low <= _POLAR - 90 or high >= 90 - _POLAR or abs(x) > 180:
        return -np.inf, low, np.inf, high
    side = math.degrees(math.asin(min(1.0, math.sin(math.radians(up)) / math.cos(math.radians(y)))))
    side += side * _MARGIN + _LEAST
    if x - side <= -180 or x + side >= 180:
        return -np.inf, low, np.inf, high
    return x - side, low, x + side, high


@kernel
def circle_boxes(x: Array, y: Array, radius: Array, planar: Flag) -> Array:
    """`circle_box` of many: float64 (n,) each; returns float64 (n, 4)."""
    out = np.empty((len(x), 4), np.float64)
    for i in range(len(x)):
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = circle_box(x[i], y[i], radius[i], planar)
    return out
