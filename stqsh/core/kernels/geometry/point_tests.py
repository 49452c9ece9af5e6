"""Many places against as many regions."""

from __future__ import annotations

import numpy as np

from stqsh.core.kernels.geometry.distance import distance
from stqsh.core.kernels.jit import Array, Flag, kernel


@kernel
def in_circles(
    centre_x: Array, centre_y: Array, radius: Array, places: tuple[Array, Array], planar: Flag
) -> Array:
    """Whether place i lies in circle i; all float64 (n,), metres or units. bool (n,); NaN lies nowhere."""
    x, y = places
    out = np.empty(len(x), np.bool_)
    for i in range(len(x)):
        out[i] = distance(centre_x[i], centre_y[i], x[i], y[i], planar) <= radius[i]
    return out
