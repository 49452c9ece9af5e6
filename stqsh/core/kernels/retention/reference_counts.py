"""Reference counts, and the k-th distances within which neighbours are kept (SOLE section 5.3).

An object's count is the number of queries that need it. Pairs that begin add 1 and pairs that end subtract 1,
so the cost is linear in the pairs, not in the objects.
"""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.index.object_grid import ObjectGrid, move_object
from stqsh.core.kernels.index.static_rects import IS, WAS, CandidatePairs, GridFrame
from stqsh.core.kernels.jit import kernel


@kernel
def count_references(pairs: CandidatePairs, events: Transitions, refs: Array, held: Array) -> None:
    """Update the counts of objects, int32, and of queries, int64, by the pairs that began and ended."""
    for i in range(len(pairs.query)):
        change = (pairs.flags[i] & IS != 0) - (pairs.flags[i] & WAS != 0)
        refs[events.obj[pairs.event[i]]] += change
        held[pairs.query[i]] += change


@kernel
def present_after(events: Transitions, known: Array) -> Array:
    """Return which objects are present after a piece in which each object has at most one event; bool (n,).

    `known`, bool (n,), marks the objects that were present before the piece.
    """
    present = known.copy()
    for k in range(len(events.step)):
        present[events.obj[k]] = not np.isnan(events.nx[k])
    return present


@kernel
def remove_from_cells(cells: ObjectGrid, objects: Array, frame: GridFrame) -> None:
    """Remove objects, int32 (n,), from their cells."""
    for o in objects:
        move_object(cells, o, np.nan, np.nan, frame)


@kernel
def kth_distances(start: Array, distance: Array, k: Array) -> Array:
    """Return the k-th smallest distance of each list, float64 (lists,); infinite if the list is shorter.

    List i is distance[start[i] : start[i + 1]]; start is int64 (lists + 1,), k int32 (lists,). NaN sorts
    last.
    """
    out = np.full(len(k), np.inf)
    for i in range(len(k)):
        if start[i + 1] - start[i] >= k[i]:
            far = np.sort(distance[start[i] : start[i + 1]])[k[i] - 1]
            if not np.isnan(far):
                out[i] = far
    return out
