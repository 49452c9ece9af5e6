"""From pairs of events and queries to updates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.core.clock import Timing
from stqsh.core.kernels.events import Events, RowArrays, StoredArrays, expiry
from stqsh.core.kernels.jit import Array, kernel
from stqsh.core.kernels.stationary import IS, WAS, Pairs

LEFT, DISCONNECTED, GONE, SHED, DROPPED, ENDED = 1, 3, 4, 7, 8, 9
"""Positions in `stqsh.core.chunks.WHY`."""


class Updates(NamedTuple):
    """Updates, (n,) each: step int64, query int32 (position), op int8 (+1, -1), why int8 and show int64.

    show: what the row is: a version (see `stqsh.core.kernels.events`), or, from the number of all versions
    on, the key alone of the object show - versions.
    """

    step: Array
    query: Array
    op: Array
    why: Array
    show: Array


@kernel
def reasons(
    versions: Array, objects: Array, steps: Array, sources: tuple[RowArrays, StoredArrays], timing: Timing
) -> tuple[Array, Array]:
    """Why objects with these versions after these steps are in no answer any more, and the row to show.

    The object's own state comes first: disconnected or expired (`timing.silent`; then only its key is shown),
    gone, else it left. All arguments (n,); returns why int8 and show int64 as in `Updates`.
    """
    rows, stored = sources
    known, every = len(stored.known), len(stored.known) + len(rows.obj)
    why, show = np.empty(len(versions), np.int8), np.empty(len(versions), np.int64)
    for i in range(len(versions)):
        v = versions[i]
        x, ts = (stored.x[v], stored.ts[v]) if v < known else (rows.x[v - known], rows.ts[v - known])
        why[i], show[i] = LEFT, v
        if expiry(ts, timing) <= steps[i]:
            why[i], show[i] = timing.silent, every + objects[i]
        elif np.isnan(x):
            why[i] = GONE
    return why, show


@kernel
def tell(pairs: Pairs, events: Events, why: Array, show: Array) -> Updates:
    """The updates of pairs where an object came in or went out.

    why, show: what to say of each event if it takes an object out, as from `reasons`.
    """
    count = 0
    for i in range(len(pairs.flags)):
        count += pairs.flags[i] == WAS or pairs.flags[i] == IS
    updates = Updates(
        np.empty(count, np.int64),
        np.empty(count, np.int32),
        np.empty(count, np.int8),
        np.zeros(count, np.int8),
        np.empty(count, np.int64),
    )
    k = 0
    for i in range(len(pairs.flags)):
        if pairs.flags[i] != WAS and pairs.flags[i] != IS:
            continue
        e = pairs.event[i]
        updates.step[k], updates.query[k] = events.step[e], pairs.query[i]
        if pairs.flags[i] == IS:
            updates.op[k], updates.show[k] = 1, events.new[e]
        else:
            updates.op[k], updates.why[k], updates.show[k] = -1, why[e], show[e]
        k += 1
    return updates


@kernel
def count_pairs(pairs: Pairs, tested: Array, matched: Array) -> None:
    """Add to each query's counters, int64 (queries,), its pairs, and those after which it has the object."""
    for i in range(len(pairs.query)):
        q = pairs.query[i]
        tested[q] += 1
        matched[q] += (pairs.flags[i] & IS) >> 1
