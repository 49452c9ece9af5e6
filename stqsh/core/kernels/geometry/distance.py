"""Distances between places, computed identically everywhere.

On the sphere (language.md section 1) `distance` uses the haversine formula, in the plane Euclid's formula.
All callers pass the centre first, so equal arguments round to equal results. A distance on the sphere costs
several trigonometric functions, so callers test boxes first.
"""

from __future__ import annotations

import math

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.jit import Flag, Float, kernel

EARTH_M = 6371008.8
"""The sphere's radius in metres."""


@kernel
def distance(x1: Float, y1: Float, x2: Float, y2: Float, planar: Flag) -> Float:
    """Return the distance between two places.

    The unit is the stream's unit, or metres for (lon, lat) in degrees. The first place is the centre, so that
    rounding is the same everywhere. The result is NaN if a coordinate is NaN.
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
    """Return the `distance` of many places from one place; float64 (n,)."""
    out = np.empty(len(xs), np.float64)
    for i in range(len(xs)):
        out[i] = distance(x, y, xs[i], ys[i], planar)
    return out


@kernel
def distances_between(x1: Array, y1: Array, x2: Array, y2: Array, planar: Flag) -> Array:
    """Return the `distance` of pairs of places, the centres first; float64 (n,)."""
    out = np.empty(len(x1), np.float64)
    for i in range(len(x1)):
        out[i] = distance(x1[i], y1[i], x2[i], y2[i], planar)
    return out
