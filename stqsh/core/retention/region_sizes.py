"""The areas of regions, in square metres or square units, and how far moving regions are extended."""

from __future__ import annotations

from typing import Any

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.geometry.distance import EARTH_M
from stqsh.core.regions.polygon_table import PolygonTable
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.stream import StreamSpec


def boxes(rects: Array, planar: bool) -> Array:
    """Return the areas of rectangles, float64 (n, 4); on the sphere, between meridians and parallels."""
    x1, y1, x2, y2 = rects.T
    found: Array = (x2 - x1) * (y2 - y1) if planar else _strip(np.minimum(x2 - x1, 360.0), y1, y2)
    return found


def circles(radius: Array, planar: bool) -> Array:
    """Return the areas of circles, float64 (n,); on the sphere the areas of caps, up to the whole sphere."""
    cap = 4 * EARTH_M**2 * np.sin(np.minimum(radius / EARTH_M, np.pi) / 2) ** 2
    found: Array = np.pi * (radius**2 if planar else cap)
    return found


def polygons(state: SlotState, rows: Array, planar: bool) -> Array:
    """Return the areas of rows of the slot's polygons, float64 (n,); 0 for row -1."""
    areas = PolygonTable(state)
    distinct, position = np.unique(rows, return_inverse=True)
    known = np.array([_polygon(areas.edges(row), planar) if row >= 0 else 0.0 for row in distinct.tolist()])
    found: Array = known[position]
    return found


def _polygon(edges: Array, planar: bool) -> float:
    """Return the area inside edges, float64 (n, 4).

    A point is inside if it has an odd number of edges to its left. Between the heights of two neighbouring
    corners the width is linear, so its mean is the width in the middle.
    """
    edges = np.unique(edges, axis=0)
    edges = np.where((edges[:, 1] > edges[:, 3])[:, None], edges[:, [2, 3, 0, 1]], edges)
    edges = edges[edges[:, 1] < edges[:, 3]]
    heights = np.unique(edges[:, [1, 3]])
    total = 0.0
    for low, high in zip(heights[:-1].tolist(), heights[1:].tolist(), strict=True):
        middle = (low + high) / 2
        across = edges[(edges[:, 1] < middle) & (middle < edges[:, 3])]
        x1, y1, x2, y2 = across.T
        x = np.sort(x1 + (x2 - x1) * (middle - y1) / (y2 - y1))
        width = np.sum(x[1::2] - x[: len(x) // 2 * 2 : 2])
        total += float(width * (high - low) if planar else _strip(width, np.array(low), np.array(high)))
    return total


def _strip(width: Any, y1: Array, y2: Array) -> Any:
    """Return the area between two parallels over a width in degrees."""
    south, north = (np.sin(np.radians(np.clip(y, -90.0, 90.0))) for y in (y1, y2))
    return EARTH_M**2 * np.radians(width) * (north - south)


def cache_distance(spec: StreamSpec, tick_us: int, factor: float = 1.0) -> float:
    """Return the cache distance D = factor * V * (2 REPORT + 3 TICK), in metres or the stream's unit.

    Args:
        spec: A stream with REPORT EVERY and MAX SPEED.
        tick_us: The tick in µs.
        factor: 0 .. 1; 1 is exact (SOLE's conservative cache).

    A moving region is extended by D: this is its cache area (SOLE sections 4.4 and 4.5).
    For exact answers, the cache area of a moving region must contain the following. Let V be MAX SPEED, R be
    REPORT EVERY, and t be the tick. Object P is in query Q after step T by its record of step s <= T; Q is
    around the focal object F. A step lasts t, so a record's time is at most t before that of its step, or
    earlier if it arrived late. After T, P's record is at most R old: T - s <= R. After any step u of s .. T,
    the current record of F is at most R old, and that of T is not from after T. So the times of the two
    records are at most (T - u) + R <= 2 R apart; 3 t more allow for the rounding of the times of u, s and T
    to steps. Hence F after u is within D = V (2 R + 3 t) of F after T. P stays where it is, so P is in the
    region that is extended by D around F after u: for a circle by the triangle inequality, for rectangles see
    `stqsh.core.kernels.geometry.boxes.extended_box`. So P has been kept from s on, in each step. P's own
    movement does not matter, because s is the step of its record at T; D covers it all the same, which bounds
    what conditions and neighbours need.

    This holds while F is connected. When F comes back after a gap, its queries are like new ones: they see
    what is kept, and have all objects within REPORT EVERY. To avoid that, all objects that F may meet would
    have to be kept: within D of its last place, and V farther for each second of the gap, for queries without
    an answer in that time, whether F comes back or not. SOLE's queries are where their focal objects are, so
    nothing is kept for them.
    """
    assert spec.max_speed is not None and spec.report_every_us is not None, "RETAIN SIGNIFICANT needs both"
    seconds = (2 * spec.report_every_us + 3 * tick_us) / 1e6
    return float(factor * spec.max_speed * seconds)
