"""Convert coordinates from other reference systems to longitude and latitude in degrees."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stqsh.errors import OptionError
from stqsh.sources.formats.optional_packages import needed

Floats: TypeAlias = NDArray[np.float64]
Projection: TypeAlias = Callable[[Floats, Floats], tuple[Floats, Floats]]
"""Takes x and y, float64 (n,) each; returns longitudes and latitudes, infinite where there are none."""

NONE = "none"
"""The name of the reference system of coordinates that are not converted."""
_DEGREES = frozenset(
    {"EPSG:4326", "OGC:CRS84", "CRS84", "WGS84", "URN:OGC:DEF:CRS:OGC:1.3:CRS84", NONE.upper()}
)


def projection(crs: str | None) -> Projection | None:
    """Return a conversion of coordinates to degrees of WGS 84; None if they are not converted.

    Args:
        crs: a reference system such as `EPSG:25832`, as WKT or as PROJ JSON, always with x before y; None if
            unknown; `none` for coordinates that are not in degrees and are not converted.

    Raises:
        OptionError: there is no such reference system.
        SourceError: pyproj is not installed.
    """
    if crs is None or crs.upper().replace("::", ":") in _DEGREES:
        return None
    return _projection(crs)


@lru_cache(maxsize=64)
def _projection(crs: str) -> Projection | None:
    pyproj = needed("pyproj", f"the reference system {shown(crs)}")
    try:
        source = pyproj.CRS.from_user_input(crs)
        transformer = pyproj.Transformer.from_crs(source, "EPSG:4326", always_xy=True)
    except pyproj.exceptions.ProjError:
        hint = "for instance crs => 'EPSG:25832', or crs => 'none' for coordinates that stay as they are"
        raise OptionError(f"there is no reference system {shown(crs)!r}", "crs", hint=hint) from None
    if source.is_geographic and source.equals(pyproj.CRS.from_epsg(4326), ignore_axis_order=True):
        return None

    def project(x: Floats, y: Floats) -> tuple[Floats, Floats]:
        known: Any = np.isfinite(x) & np.isfinite(y)
        lon, lat = np.array(x), np.array(y)
        lon[known], lat[known] = transformer.transform(x[known], y[known])
        return lon, lat

    return project


def shown(crs: str) -> str:
    """Return the name of a reference system for messages.

    >>> shown('PROJCS["NAD83 / New York", …]')
    'NAD83 / New York'
    """
    return crs.split('"')[1] if crs.count('"') > 1 and not crs.startswith("{") else crs[:60]
