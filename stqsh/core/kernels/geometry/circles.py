"""Circles: their bounding boxes, and exact tests of places.

The box never excludes a place of its circle: its margin is far larger than rounding errors. An exact test
costs one distance, and only pairs that pass the box reach it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.geometry.distance import EARTH_M, distance
from stqsh.core.kernels.geometry.shapes import Box
from stqsh.core.kernels.index.static_rects import IS, WAS, CandidatePairs
from stqsh.core.kernels.jit import Flag, Float, kernel

_MARGIN = 1e-7
"""The share by which a box on the sphere is wider than its formula; far more than rounding errors."""

_LEAST_MARGIN = 1e-9
"""The least margin of a box on the sphere, in degrees: a tenth of a millimetre."""

_POLAR = 1e-6
"""A circle within this many degrees of a pole is treated as if it held the pole."""


class QueryCircles(NamedTuple):
    """Circles of queries, float64 (queries,) each; x and y are NaN if there is no circle to test."""

    x: Array
    y: Array
    radius: Array


@kernel
def circle_box(x: Float, y: Float, radius: Float, planar: Flag) -> Box:
    """Return a box that holds all places whose `distance` from (x, y) is at most `radius`.

    On the sphere it covers all longitudes if the circle holds a pole or crosses the 180 degree meridian. It
    is NaN if an argument is NaN.
    """
    if math.isnan(x + y + radius):
        return Box(np.nan, np.nan, np.nan, np.nan)
    if planar:
        reach = radius + (abs(x) + abs(y) + radius) * 1e-12 + 1e-150
        return Box(x - reach, y - reach, x + reach, y + reach)
    up = math.degrees(radius / EARTH_M)
    up += up * _MARGIN + _LEAST_MARGIN
    low, high = y - up, y + up
    if low <= _POLAR - 90 or high >= 90 - _POLAR or abs(x) > 180:
        return Box(-np.inf, low, np.inf, high)
    side = math.degrees(math.asin(min(1.0, math.sin(math.radians(up)) / math.cos(math.radians(y)))))
    side += side * _MARGIN + _LEAST_MARGIN
    if x - side <= -180 or x + side >= 180:
        return Box(-np.inf, low, np.inf, high)
    return Box(x - side, low, x + side, high)


@kernel
def circle_boxes(x: Array, y: Array, radius: Array, planar: Flag) -> Array:
    """Return the `circle_box` of many circles, from float64 (n,) each; float64 (n, 4)."""
    out = np.empty((len(x), 4), np.float64)
    for i in range(len(x)):
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = circle_box(x[i], y[i], radius[i], planar)
    return out


@kernel
def filter_circles(pairs: CandidatePairs, events: Transitions, circles: QueryCircles, planar: Flag) -> Array:
    """Return the flags of pairs; WAS and IS are cleared where a place is outside the query's circle.

    Returns:
        uint8 (pairs,). The border belongs to a circle.
    """
    flags = pairs.flags.copy()
    for i in range(len(flags)):
        q, e = pairs.query[i], pairs.event[i]
        x, y, radius = circles.x[q], circles.y[q], circles.radius[q]
        if np.isnan(x):
            continue
        if flags[i] & WAS and distance(x, y, events.ox[e], events.oy[e], planar) > radius:
            flags[i] ^= WAS
        if flags[i] & IS and distance(x, y, events.nx[e], events.ny[e], planar) > radius:
            flags[i] ^= IS
    return flags


@kernel
def in_circles(circles: QueryCircles, x: Array, y: Array, planar: Flag) -> Array:
    """Return whether place i is in circle i, bool (n,); all arguments float64 (n,), metres or units."""
    out = np.empty(len(x), np.bool_)
    for i in range(len(x)):
        out[i] = distance(circles.x[i], circles.y[i], x[i], y[i], planar) <= circles.radius[i]
    return out
