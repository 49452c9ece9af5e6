"""Statistics of a significant stream's memory, by query and in total."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.retention.drop_choice import QueryLoad, locked_queries
from stqsh.core.retention.dropped_objects import MOST, dropped_count, dropped_references
from stqsh.core.retention.interest_table import FOCAL, LOCKED, InterestTable
from stqsh.core.state.retention_mode import memory_of
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.stats import StreamMemory
from stqsh.spec.stream import StreamSpec


@dataclass(frozen=True)
class QueryTallies:
    """The active queries of a significant stream on a slot, ascending by id, (n,) each.

    Attributes:
        id: int64.
        inside: Kept objects in the query's region, int64. For a kNN query, its neighbours on the slot,
            limited to the number of objects kept for it, because it may have found one that only another
            query needs.
        cached: Kept objects in the extended region but not in the region itself, int64.
        shed: Dropped objects in the extended region, int64.
        area: The area of the region, m2 or square units, float64; infinite for a region that holds
            everything, NaN while a focal object is absent.
        cache_area: The additional area of the extended region, as for `area`.
        min_accuracy, accuracy: 0 .. 1, float64.
        locked: bool.
    """

    id: Array
    inside: Array
    cached: Array
    shed: Array
    area: Array
    cache_area: Array
    min_accuracy: Array
    accuracy: Array
    locked: Array


def tallies(state: SlotState, spec: StreamSpec) -> QueryTallies:
    """Return the tallies of a stream after the last batch; the arrays may be read-only.

    They are read from the arrays of the stream, and those below `areas/`.
    """
    from stqsh.core.retention.query_stats import private_copy, sizes_of

    if not has_interest(state, spec.id):
        ids, numbers = np.empty(0, np.int64), np.empty(0)
        return QueryTallies(ids, ids, ids, ids, numbers, numbers, numbers, numbers, np.empty(0, np.bool_))
    state = private_copy(state, spec.id)
    queries = InterestTable(state, spec.id)
    at = queries.active
    sizes = sizes_of(state, spec, at)
    beyond = np.subtract(sizes.extended, sizes.area, out=np.zeros(len(at)), where=~np.isinf(sizes.area))
    return QueryTallies(
        id=queries.id[at],
        inside=sizes.inside,
        cached=queries.held[at] - sizes.inside,
        shed=queries.shed[at],
        area=sizes.area,
        cache_area=beyond,
        min_accuracy=queries.min_accuracy[at],
        accuracy=accuracies(queries, at),
        locked=locked(queries, at),
    )


def has_interest(state: SlotState, stream: int) -> bool:
    """Return whether counts exist for a stream."""
    return f"s{stream}/interest/held" in state and f"s{stream}/objects/refs" in state


def accuracies(queries: InterestTable, at: Array) -> Array:
    """Return the accuracy of the queries at these positions, 0 .. 1 (SOLE section 6.2).

    The accuracy is the kept share of the needed objects, times the share of the region that query shedding
    leaves.
    """
    held, shed = queries.held[at], queries.shed[at]
    share = 1.0 if queries.shares is None else queries.shares[at]
    return share * np.where(held + shed > 0, held / np.maximum(held + shed, 1), 1.0)


def locked(queries: InterestTable, at: Array) -> Array:
    """Return which of the queries at these positions cannot lose another object; bool (n,)."""
    return locked_queries(QueryLoad(queries.held[at], queries.shed[at], queries.min_accuracy[at]))


def figures(state: SlotState, spec: StreamSpec) -> StreamMemory:
    """Return the figures of a significant stream, and store its histogram S as `s{id}/interest/histogram`."""
    prefix, memory, none = f"s{spec.id}", memory_of(state, spec.id), (0,) * MOST
    used = sum(state.array(name).nbytes for name in state.names(f"{prefix}/"))
    if not has_interest(state, spec.id):
        return StreamMemory(histogram=none, dropped=none, k=memory.k, part=memory.part, bytes=used)
    queries = InterestTable(state, spec.id)
    at = queries.active
    accuracy = accuracies(queries, at)
    refs, role, known = (state.array(f"{prefix}/objects/{name}") for name in ("refs", "role", "known"))
    s = histogram(refs, known & (role & LOCKED == 0))
    state.replace(f"{prefix}/interest/histogram", s)
    dropped = dropped_references(state, spec.id)
    return StreamMemory(
        objects=int(np.count_nonzero(known)),
        focal=int(np.count_nonzero(known & (role & FOCAL != 0))),
        shadow=dropped_count(state, spec.id),
        histogram=tuple(s.tolist()),
        dropped=tuple(histogram(dropped, dropped > 0).tolist()),
        locked=int(np.count_nonzero(locked(queries, at))),
        approximate=int(np.count_nonzero(accuracy < 1)),
        least=float(accuracy.min(initial=1.0)),
        k=memory.k,
        part=memory.part,
        bytes=used,
    )


def histogram(refs: Array, free: Array) -> Array:
    """Count objects by their references: S, int64 (64,), with S[1] … S[63], then the rest.

    Args:
        refs: int32 (n,).
        free: The objects to count, bool (n,): those that are kept and not locked.
    """
    counts = np.bincount(np.minimum(refs[free], MOST), minlength=MOST + 1)
    return counts[1:].astype(np.int64)
