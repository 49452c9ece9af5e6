"""The outline of the world's land, which maps draw below everything else.

`land.json` has Natural Earth's land at 1:110 million (public domain), simplified to a twentieth of a degree:
for each ring the differences between its corners, lon and lat alternating, in units of 1 / `scale` degrees.
Rings are closed implicitly; an area that two rings enclose is water.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

Ring: TypeAlias = NDArray[np.float64]


def land_json() -> str:
    """Return the unparsed content of the file, for a page that draws it."""
    return files("stqsh.client.map").joinpath("land.json").read_text(encoding="utf-8")


@cache
def land_rings() -> tuple[Ring, ...]:
    """Return the rings in degrees, float64 (n, 2) each, without the first corner at the end."""
    content = orjson.loads(land_json())
    return tuple(
        np.cumsum(np.array(ring, np.float64).reshape(-1, 2), axis=0) / content["scale"]
        for ring in content["rings"]
    )
