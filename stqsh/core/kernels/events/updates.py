"""Turn pairs of events and queries into updates.

A pair whose WAS and IS differ is an update. One pass counts them and one writes them, without branches, so
the cost is linear in the pairs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.base.clock import BatchTiming
from stqsh.core.kernels.events.transitions import RowArrays, StoredArrays, Transitions, ages_of, expiry
from stqsh.core.kernels.index.static_rects import IS, WAS, CandidatePairs
from stqsh.core.kernels.jit import kernel

LEFT, DISCONNECTED, GONE, SHED, DROPPED, ENDED = 1, 3, 4, 7, 8, 9
"""Positions in `stqsh.spec.chunk.WHY`."""


class VersionSources(NamedTuple):
    """What versions refer to: rows of the batch, and objects as stored."""

    rows: RowArrays
    stored: StoredArrays


class UpdateArrays(NamedTuple):
    """Updates, (n,) each.

    Attributes:
        step: int64.
        query: The query's position, int32.
        op: +1 or -1, int8.
        why: int8.
        show: What to show, int64: a version (see `stqsh.core.kernels.events.transitions`); or the number of
            all versions plus an object, for a forgotten object of which only the key is shown.
    """

    step: Array
    query: Array
    op: Array
    why: Array
    show: Array


@kernel
def reasons(versions: Array, steps: Array, sources: VersionSources, timing: BatchTiming) -> Array:
    """Return why objects with these versions after these steps left answers, int8 (n,) as in `UpdateArrays`.

    The object's own state has priority: disconnected or expired (`timing.silent`), or gone. Otherwise the
    reason is `left`.
    """
    rows, stored = sources
    known, silent = len(stored.known), timing.silent
    why, ages, (floor_steps, floors) = np.empty(len(versions), np.int8), ages_of(timing), timing.floors
    row_x, row_ts, old_x, old_ts = rows.x, rows.ts, stored.x, stored.ts
    for i in range(len(versions)):
        v = versions[i]
        x, ts = (old_x[v], old_ts[v]) if v < known else (row_x[v - known], row_ts[v - known])
        why[i] = LEFT
        if expiry(ts, ages, floor_steps, floors) <= steps[i]:
            why[i] = silent
        elif np.isnan(x):
            why[i] = GONE
    return why


@kernel
def make_updates(pairs: CandidatePairs, events: Transitions, why: Array, show: Array) -> UpdateArrays:
    """Make the updates of pairs where an object entered or left.

    The loop has no branches, because branches on pairs are unpredictable.

    Args:
        pairs: Pairs of events and queries.
        events: The events.
        why: The reason if an event removes an object, int8 (events,); see `reasons`.
        show: What to show for a removal, int64 (events,), as in `UpdateArrays`.
    """
    count, changes = np.uint64(len(pairs.flags)), np.int64(0)
    for i in range(count):
        changes += np.int64((pairs.flags[i] == WAS) | (pairs.flags[i] == IS))
    room = changes + 1  # pairs without a change are written, too, and then overwritten
    step, query, op = np.empty(room, np.int64), np.empty(room, np.int32), np.empty(room, np.int8)
    whys, shown = np.empty(room, np.int8), np.empty(room, np.int64)
    k = np.uint64(0)
    for i in range(count):
        e, came = np.uint64(pairs.event[i]), pairs.flags[i] == IS
        step[k], query[k], op[k] = events.step[e], pairs.query[i], 2 * np.int8(came) - 1
        whys[k] = np.int8(0) if came else why[e]
        shown[k] = np.int64(events.new[e]) if came else show[e]
        k += np.uint64(came | (pairs.flags[i] == WAS))
    return UpdateArrays(step[:changes], query[:changes], op[:changes], whys[:changes], shown[:changes])


@kernel
def count_pairs(pairs: CandidatePairs, tested: Array, matched: Array) -> None:
    """Count each query's pairs, and the pairs whose object is in the answer afterwards; int64 (queries,)."""
    for i in range(np.uint64(len(pairs.query))):
        q = np.uint64(pairs.query[i])
        tested[q] += 1
        matched[q] += np.int64((pairs.flags[i] & IS) >> 1)


@kernel
def count_updates(query: Array, op: Array, ids: Array) -> tuple[Array, Array, Array]:
    """Return each update's query id, each query's number of updates, and the growth of each query's answer.

    Args:
        query: int32 (n,), positions of queries.
        op: int8 (n,), +1 or -1.
        ids: int64 (queries,).

    Returns:
        int64 (n,), and twice int64 (queries,).
    """
    out = np.empty(len(query), np.int64)
    sent, grown = np.zeros(len(ids), np.int64), np.zeros(len(ids), np.int64)
    for i in range(np.uint64(len(query))):
        q = np.uint64(query[i])
        out[i] = ids[q]
        sent[q] += 1
        grown[q] += np.int64(op[i])
    return out, sent, grown
