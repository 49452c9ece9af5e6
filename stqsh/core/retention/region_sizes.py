"""The areas of regions: square metres on the sphere, square units in the plane."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stqsh.core.kernels.geometry.distance import EARTH_M
from stqsh.core.state.slot_state import SlotState

Array = npt.NDArray[Any]


def boxes(rects: Array, planar: bool) -> Array:
    """Return the areas of rectangles, float64 (n, 4); on the sphere, between meridians and parallels."""
    x1, y1, x2, y2 = rects.T
    found: Array = (x2 - x1) * (y2 - y1) if planar else _strip(np.minimum(x2 - x1, 360.0), y1, y2)
    return found


def circles(radius: Array, planar: bool) -> Array:
    """Return the areas of circles, float64 (n,); on the sphere those of caps, up to the whole sphere."""
    cap = 4 * EARTH_M**2 * np.sin(np.minimum(radius / EARTH_M, np.pi) / 2) ** 2
    found: Array = np.pi * (radius**2 if planar else cap)
    return found


def polygons(state: SlotState, rows: Array, planar: bool) -> Array:
    """Return the areas of rows of the slot's polygons, float64 (n,); 0 for -1."""
    from stqsh.core.regions.polygon_table import (
        PolygonTable,
    )  # shapely takes a while to load, and few slots have areas

    areas = PolygonTable(state)
    distinct, position = np.unique(rows, return_inverse=True)
    known = np.array([_polygon(areas.edges(row), planar) if row >= 0 else 0.0 for row in distinct.tolist()])
    found: Array = known[position]
    return found


def _polygon(edges: Array, planar: bool) -> float:
    """Return the area inside edges, float64 (n, 4).

    A point is inside if it has an odd number of edges to its left. Between the heights of two neighbouring
    corners the width is linear, so its mean is the one in the middle.
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
