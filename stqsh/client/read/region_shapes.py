"""Descriptions of named regions: corners, extent, area, and the text of the geometry."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import shapely

from stqsh.arrays import Array
from stqsh.client.read.spec_text import box_text
from stqsh.core.kernels.geometry.distance import EARTH_M
from stqsh.spec.chunk import unpack
from stqsh.spec.region import CircleSpec
from stqsh.storage.catalogue import area_geometry
from stqsh.storage.control_log import ControlDb

TEXT_SHOWN = 300
"""The maximum length of a geometry's text, in characters."""
_KM2 = 1e6


class RegionShape(NamedTuple):
    """The description of a member of a set of regions, or of a single region, whose name is None."""

    name: str | None
    shape: str
    extent: str
    area: str
    text: str


def region_shapes(db: ControlDb, area: int, *, planar: bool) -> list[RegionShape]:
    """Describe the members of an area; places are degrees unless `planar`."""
    geometry = unpack(area_geometry(db, area))
    shapes = shapely.from_wkb(geometry.column("wkb").to_numpy(zero_copy_only=False))
    members = geometry.column("member").to_pylist()
    return [_described(name, shape, planar) for name, shape in zip(members, shapes.tolist(), strict=True)]


def circle_shape(circle: CircleSpec, *, planar: bool) -> str:
    """Describe a circle."""
    unit = "" if planar else " m"
    return f"circle of {circle.radius:g}{unit} around ({circle.x:g}, {circle.y:g})"


def _described(name: str | None, shape: shapely.Geometry, planar: bool) -> RegionShape:
    parts = shapely.get_parts(shape)
    rings = int(shapely.get_num_interior_rings(parts).sum())
    corners = int(shapely.get_num_coordinates(shape)) - rings - len(parts)  # a ring repeats its first corner
    what = "polygon" if len(parts) == 1 else f"{len(parts)} polygons"
    holes = f", {rings} hole{'' if rings == 1 else 's'}" if rings else ""
    text = shapely.to_wkt(shape, trim=True, rounding_precision=7)
    cut = f"{text[:TEXT_SHOWN]}…" if len(text) > TEXT_SHOWN else text
    extent = box_text(tuple(map(float, shape.bounds)))
    return RegionShape(name, f"{what} of {corners} corners{holes}", extent, _area(shape, planar), cut)


def _area(shape: shapely.Geometry, planar: bool) -> str:
    """Return the area; on the sphere, by the equal-area projection with x along and sin y up."""
    if planar:
        return f"{shape.area:.4g} square units"
    flat = shapely.transform(shape, _equal_areas)
    return f"{flat.area / _KM2:.4g} km²" if flat.area >= _KM2 / 10 else f"{flat.area:.4g} m²"


def _equal_areas(places: Array) -> Array:
    """Project degrees, float64 (n, 2), to metres in an equal-area projection of the sphere."""
    lon, lat = np.radians(places).T
    return np.column_stack([EARTH_M * lon, EARTH_M * np.sin(lat)])
