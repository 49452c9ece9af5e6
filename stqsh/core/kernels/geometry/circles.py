"""The exact test of pairs that the boxes of circles let through."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.geometry.distance import distance
from stqsh.core.kernels.index.static_rects import IS, WAS, CandidatePairs
from stqsh.core.kernels.jit import Array, Flag, kernel


class QueryCircles(NamedTuple):
    """Circles of queries, float64 (queries,) each; x and y are NaN where there is none to be looked at."""

    x: Array
    y: Array
    radius: Array


@kernel
def settle_circles(pairs: CandidatePairs, events: Transitions, circles: QueryCircles, planar: Flag) -> Array:
    """The flags of pairs, with WAS and IS taken away where a place is farther than the circle reaches.

    uint8 (pairs,). The border belongs to a circle.
    """
    flags = pairs.flags.copy()
    for i in range(len(flags)):
        q, e = pairs.query[i], pairs.event[i]
        x, y, radius = circles.x[q], circles.y[q], circles.radius[q]
        if np.isnan(x):
            continue
        if flags[i] & WAS and distance(x, y, events.ox[e], events.oy[e], planar) > radius:
            flags[i] ^= WAS
        if flags[i] & IS and distance(x, y, events.nx[e], events.ny[e], planar) > radius:
            flags[i] ^= IS
    return flags
