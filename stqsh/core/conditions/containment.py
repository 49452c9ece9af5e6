"""Whether places lie in a stationary region: what INSIDE means within a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stqsh.core.conditions.region_test import reach_of
from stqsh.core.kernels.geometry.circles import QueryCircles, in_circles
from stqsh.core.kernels.jit import frozen

if TYPE_CHECKING:
    from stqsh.core.conditions.resolver import Resolver

Array = npt.NDArray[Any]


def inside(region: dict[str, Any], x: Array, y: Array, resolver: Resolver) -> Array:
    """Whether each place lies in a region, which is closed; a place of NaN lies nowhere.

    Args:
        region: of the type rect, circle, polygon or area. Its numbers, and an area's member, are the same
            for all places, or Arrow arrays with one for each, as conditions of many queries at once have.
        x, y: float64 (n,).
        resolver: of the stream.

    Returns:
        bool (n,).

    Raises:
        ValueError: a region of another type.
        KeyError: no such area.
    """
    own = {name: value for name, value in region.items() if isinstance(value, pa.Array)}
    if not own:
        return reach_of(region, resolver).holds(x, y)
    if region["type"] == "rect":
        x1, y1, x2, y2 = (_numbers(region[name]) for name in ("x1", "y1", "x2", "y2"))
        within: Array = (x1 <= x) & (x <= x2) & (y1 <= y) & (y <= y2)
        return within
    if region["type"] == "circle":
        centre_x, centre_y, radius = (_numbers(region[name]) for name in ("x", "y", "radius"))
        return in_circles(QueryCircles(centre_x, centre_y, radius), frozen(x), frozen(y), resolver.planar)
    return _in_members(region["area"], region["member"], (x, y), resolver)


def _numbers(values: pa.Array[Any]) -> Array:
    return frozen(values.to_numpy(zero_copy_only=False))


def _in_members(area: int, members: pa.Array[Any], places: tuple[Array, Array], resolver: Resolver) -> Array:
    """Whether each place lies in its own member of a set of areas."""
    coded = members.dictionary_encode()
    rows = [resolver.areas.row_of(area, member) for member in coded.dictionary.to_pylist()]
    return resolver.areas.contains(np.array(rows, np.int32)[coded.indices.to_numpy()], *places)
