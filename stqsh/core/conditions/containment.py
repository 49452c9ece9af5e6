"""Test whether places are in a region: INSIDE within a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from msgspec import UNSET

from stqsh.arrays import Array
from stqsh.core.conditions.region_test import reach_of
from stqsh.core.kernels.geometry.boxes import are_beside, extended_boxes
from stqsh.core.kernels.geometry.circles import QueryCircles, in_circles
from stqsh.core.kernels.jit import frozen
from stqsh.spec.expression import InsideEachExpr
from stqsh.spec.region import MOVING, Region

if TYPE_CHECKING:
    from stqsh.core.conditions.resolver import Resolver


def inside(region: Region, places: tuple[Array, Array], resolver: Resolver) -> Array:
    """Return whether each place is in a closed region; False for NaN.

    Args:
        region: A static region, or a moving region with the place of its focal object.
        places: x and y, float64 (n,) each.
        resolver: The stream's resolver.

    Returns:
        bool (n,).

    Raises:
        ValueError: the place of a moving region is unknown.
        KeyError: the area does not exist.
    """
    if not isinstance(region, MOVING):
        return reach_of(region, resolver).holds(*places)
    if region.at is UNSET:
        raise ValueError(f"it is not known where {region.focal!r} is")
    return reach_of(region, resolver, region.at).holds(*places)


def inside_each(
    expr: InsideEachExpr, operands: list[pa.Array[Any]], places: tuple[Array, Array], resolver: Resolver
) -> Array:
    """Return whether each place is in its own region, for conditions of many queries at once.

    Args:
        expr: The expression that defines the regions.
        operands: The numbers of the regions, or the members of an area, one for each place.
        places: x and y, float64 (n,) each.
        resolver: The stream's resolver.
    """
    if expr.type == "area":
        return _in_members(expr.area, operands[0], places, resolver)
    x, y = places
    if expr.type == "rect":
        x1, y1, x2, y2 = map(_numbers, operands)
        within: Array = (x1 <= x) & (x <= x2) & (y1 <= y) & (y <= y2)
        return within
    if expr.type == "moving_rect":
        focal_x, focal_y, xdist, ydist = map(_numbers, operands)
        return _around((focal_x, focal_y), (xdist, ydist), places, resolver.planar)
    centre_x, centre_y, radius = map(_numbers, operands)
    return in_circles(QueryCircles(centre_x, centre_y, radius), frozen(x), frozen(y), resolver.planar)


def _around(
    centres: tuple[Array, Array], sizes: tuple[Array, Array], places: tuple[Array, Array], planar: bool
) -> Array:
    """Return whether each place is in the rectangle with its own width, height and centre."""
    (focal_x, focal_y), (xdist, ydist) = centres, sizes
    x, y = (frozen(one) for one in places)
    # Do not freeze the copies, because kernels would have to be compiled for frozen arrays.
    sides = xdist.copy(), ydist.copy(), np.full(len(x), np.nan)
    boxes = extended_boxes(focal_x.copy(), focal_y.copy(), *sides, planar)
    within: Array = (boxes[:, 0] <= x) & (x <= boxes[:, 2]) & (boxes[:, 1] <= y) & (y <= boxes[:, 3])
    # A rectangle that crosses the 180th meridian has a box of all longitudes.
    over = np.flatnonzero(within & np.isneginf(boxes[:, 0]))
    within[over] = ~are_beside(x[over], focal_x[over], focal_y[over], xdist[over])
    return within


def _numbers(values: pa.Array[Any]) -> Array:
    return frozen(values.to_numpy(zero_copy_only=False))


def _in_members(area: int, members: pa.Array[Any], places: tuple[Array, Array], resolver: Resolver) -> Array:
    """Return whether each place is in its own member of a set of areas."""
    coded = members.dictionary_encode()
    rows = [resolver.areas.row_of(area, member) for member in coded.dictionary.to_pylist()]
    return resolver.areas.contains(np.array(rows, np.int32)[coded.indices.to_numpy()], *places)
