"""Regions around a place: what a region is while its centre is there (SOLE section 5.3)."""

from __future__ import annotations

import math

import numpy as np

from stqsh.core.kernels.geometry.distance import EARTH_M
from stqsh.core.kernels.jit import Array, Flag, Float, kernel


@kernel
def region(x: Float, y: Float, xdist: Float, ydist: Float, planar: Flag) -> tuple[Float, Float, Float, Float]:
    """The rectangle x1, y1, x2, y2 of xdist by ydist around (x, y): metres on the sphere, or units.

    NaN coordinates give a rectangle of NaN, in which nothing lies.
    """
    dx, dy = xdist / 2, ydist / 2
    if not planar:
        dx = math.degrees(xdist / 2 / (EARTH_M * math.cos(math.radians(y))))
        dy = math.degrees(ydist / 2 / EARTH_M)
    return x - dx, y - dy, x + dx, y + dy


@kernel
def extended(
    x: Float, y: Float, sides: tuple[Float, Float], reach: Float, planar: Flag
) -> tuple[Float, Float, Float, Float]:
    """`region` with sides (xdist, ydist), and what it can become while its centre moves by up to `reach`.

    On the sphere the region is widest at the latitude farthest from the equator that is within reach; it
    takes in all longitudes where that is a pole, or where it reaches across the line of 180 degrees. A reach
    of NaN is none.
    """
    if not reach > 0:
        return region(x, y, sides[0], sides[1], planar)
    dx, dy = sides[0] / 2 + reach, sides[1] / 2 + reach
    if planar:
        return x - dx, y - dy, x + dx, y + dy
    dy = math.degrees(dy / EARTH_M)
    farthest = abs(y) + math.degrees(reach / EARTH_M)
    if farthest >= 90:
        return x - np.inf, y - dy, x + np.inf, y + dy
    dx = math.degrees(dx / (EARTH_M * math.cos(math.radians(farthest))))
    if x - dx <= -180 or x + dx >= 180:
        dx = np.inf
    return x - dx, y - dy, x + dx, y + dy


@kernel
def regions(x: Array, y: Array, sides: tuple[Array, Array], reach: Array, planar: Flag) -> Array:
    """`extended` of many: float64 (n,) each; returns float64 (n, 4)."""
    out = np.empty((len(x), 4), np.float64)
    for i in range(len(x)):
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = extended(
            x[i], y[i], (sides[0][i], sides[1][i]), reach[i], planar
        )
    return out
