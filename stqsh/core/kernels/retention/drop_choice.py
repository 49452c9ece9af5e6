"""The choice of objects that load shedding drops, one by one (SOLE sections 6.4 and 6.5)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.jit import Flag, Float, Int, kernel


class QueryLoad(NamedTuple):
    """Objects in the extended regions of queries, (queries,) each.

    Attributes:
        held: Those that are kept, int64.
        shed: Those that were dropped, int64.
        least: The share of both that must be kept, 0 .. 1, float64.
    """

    held: Array
    shed: Array
    least: Array


@kernel
def is_locked(held: Int, shed: Int, least: Float) -> Flag:
    """Return whether a query cannot lose another object: its accuracy would fall below its minimum."""
    return held - 1 < least * (held + shed)


@kernel
def shed_objects(start: Array, query: Array, standing: QueryLoad) -> Array:
    """Drop objects in order, except those that a locked query needs; return bool (objects,).

    held and shed are updated with each drop, so that the next object is judged by what is left (SOLE section
    6.5).

    Args:
        start: int64 (objects + 1,).
        query: int32; the queries at query[start[i]] .. query[start[i + 1]] need object i.
        standing: The queries' objects.
    """
    held, shed, least = standing.held, standing.shed, standing.least
    dropped = np.zeros(len(start) - 1, np.bool_)
    for i in range(len(dropped)):
        free = True
        for k in range(start[i], start[i + 1]):
            q = query[k]
            if is_locked(held[q], shed[q], least[q]):
                free = False
                break
        if not free:
            continue
        dropped[i] = True
        for k in range(start[i], start[i + 1]):
            held[query[k]] -= 1
            shed[query[k]] += 1
    return dropped


@kernel
def locked_queries(standing: QueryLoad) -> Array:
    """Return which queries are locked, bool (queries,); one without a minimum never is."""
    held, shed, least = standing.held, standing.shed, standing.least
    out = np.zeros(len(held), np.bool_)
    for q in range(len(held)):
        out[q] = least[q] > 0 and is_locked(held[q], shed[q], least[q])
    return out
