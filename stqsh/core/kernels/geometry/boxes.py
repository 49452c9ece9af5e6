"""Rectangles around a focal place, in the plane and on the sphere (SOLE section 5.3).

Boxes are computed in closed form, at constant cost. A box never excludes a place of its region. Where a box
on the sphere crosses the 180 degree meridian it covers all longitudes, and `is_beside` makes the exact test.
"""

from __future__ import annotations

import math

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.geometry.distance import EARTH_M
from stqsh.core.kernels.geometry.shapes import Box
from stqsh.core.kernels.jit import Flag, Float, kernel


@kernel
def region_box(x: Float, y: Float, xdist: Float, ydist: Float, planar: Flag) -> Box:
    """Return the rectangle of xdist by ydist around (x, y), in metres on the sphere, or in the plane's units.

    NaN coordinates give a rectangle of NaN, which contains nothing.
    """
    dx, dy = xdist / 2, ydist / 2
    if not planar:
        dx = math.degrees(xdist / 2 / (EARTH_M * math.cos(math.radians(y))))
        dy = math.degrees(ydist / 2 / EARTH_M)
    return Box(x - dx, y - dy, x + dx, y + dy)


@kernel
def extended_box(x: Float, y: Float, xdist: Float, ydist: Float, reach: Float, planar: Flag) -> Box:
    """Return the box of all places that `region_box` can reach while its centre moves by up to `reach`.

    On the sphere the region is widest at the latitude within reach that is farthest from the equator. The box
    covers all longitudes if that latitude is a pole, or if the box crosses the 180 degree meridian. A reach
    of NaN means no extension; if the box then covers all longitudes, `is_beside` tests the places in it.
    """
    if not reach > 0:
        x1, y1, x2, y2 = region_box(x, y, xdist, ydist, planar)
        if not planar and (x1 <= -180 or x2 >= 180):
            x1, x2 = -np.inf, np.inf
        return Box(x1, y1, x2, y2)
    dx, dy = xdist / 2 + reach, ydist / 2 + reach
    if planar:
        return Box(x - dx, y - dy, x + dx, y + dy)
    dy = math.degrees(dy / EARTH_M)
    farthest = abs(y) + math.degrees(reach / EARTH_M)
    if farthest >= 90:
        return Box(x - np.inf, y - dy, x + np.inf, y + dy)
    dx = math.degrees(dx / (EARTH_M * math.cos(math.radians(farthest))))
    if x - dx <= -180 or x + dx >= 180:
        dx = np.inf
    return Box(x - dx, y - dy, x + dx, y + dy)


@kernel
def is_beside(lon: Float, x: Float, y: Float, xdist: Float) -> Flag:
    """Return whether a longitude is outside the rectangle that is `xdist` wide around (x, y) on the sphere.

    A rectangle that crosses the 180 degree meridian continues on its other side.
    """
    dx = math.degrees(xdist / 2 / (EARTH_M * math.cos(math.radians(y))))
    return not (x - dx <= lon <= x + dx or x - dx <= lon - 360 or lon + 360 <= x + dx)


@kernel
def are_beside(lon: Array, x: Array, y: Array, xdist: Array) -> Array:
    """Apply `is_beside` to arrays, float64 (n,) each; return bool (n,)."""
    out = np.empty(len(lon), np.bool_)
    for i in range(len(lon)):
        out[i] = is_beside(lon[i], x[i], y[i], xdist[i])
    return out


@kernel
def extended_boxes(x: Array, y: Array, xdist: Array, ydist: Array, reach: Array, planar: Flag) -> Array:
    """Return the `extended_box` of many regions, from float64 (n,) each; float64 (n, 4)."""
    out = np.empty((len(x), 4), np.float64)
    for i in range(len(x)):
        box = extended_box(x[i], y[i], xdist[i], ydist[i], reach[i], planar)
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = box
    return out
