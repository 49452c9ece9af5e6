"""Choose the objects that load shedding drops, one by one (SOLE sections 6.4 and 6.5).

Each drop updates the counts of all queries that need the object, so no drop takes a query below its minimum
accuracy. The cost is linear in the pairs of objects and queries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.jit import Flag, Float, Int, kernel


class QueryLoad(NamedTuple):
    """Objects in the extended regions of queries, (queries,) each.

    held: The number of kept objects, int64.
    shed: The number of dropped objects, int64.
    least: The share of all these objects that must be kept, 0 .. 1, float64.
    """

    held: Array
    shed: Array
    least: Array


@kernel
def is_locked(held: Int, shed: Int, least: Float) -> Flag:
    """Return whether losing one more object would take a query's accuracy below its minimum."""
    return held - 1 < least * (held + shed)


@kernel
def shed_objects(start: Array, query: Array, standing: QueryLoad) -> Array:
    """Drop objects in order, except those that a locked query needs; return bool (objects,).

    Each drop updates `held` and `shed`, so that the next decision uses what is left (SOLE section 6.5).

    Args:
        start: int64 (objects + 1,).
        query: int32; the queries at query[start[i]] .. query[start[i + 1]] need object i.
        standing: The objects of the queries; updated.
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
    """Return which queries are locked, bool (queries,); a query without a minimum is never locked."""
    held, shed, least = standing.held, standing.shed, standing.least
    out = np.zeros(len(held), np.bool_)
    for q in range(len(held)):
        out[q] = least[q] > 0 and is_locked(held[q], shed[q], least[q])
    return out
