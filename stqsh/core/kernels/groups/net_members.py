"""Turn pairs of events and queries into changes of members, counted or listed.

A pair adds a member if only IS is set, and removes one if only WAS is set. If both are set, the member has
another record, which leaves the count unchanged. The cost is linear in the pairs.
"""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.index.static_rects import IS, WAS, CandidatePairs
from stqsh.core.kernels.jit import Int, kernel


@kernel
def count_changes(pairs: CandidatePairs, step: Array, first: Int, counts: Array, span: Int) -> Array:
    """Add the net number of members that enter to the count of each query and step; return `counts`.

    Args:
        pairs: Pairs of events and queries.
        step: The step of each event.
        first: The first step.
        counts: int32 (queries * span,), zero.
        span: The number of steps.
    """
    for i in range(np.uint64(len(pairs.flags))):
        flags = pairs.flags[i]
        change = np.int32((flags & IS) >> 1) - np.int32(flags & WAS)
        if change != 0:
            counts[np.int64(pairs.query[i]) * span + step[np.uint64(pairs.event[i])] - first] += change
    return counts


@kernel
def list_changes(pairs: CandidatePairs, events: Transitions) -> tuple[Array, Array, Array, Array]:
    """List the members that enter and leave; a member with another record does both.

    Returns:
        The query's position, int32, the step, int64, the version of the record, int32, and the sign, int8: 1
        for a member that enters and -1 for one that leaves.
    """
    room = 0
    for i in range(len(pairs.flags)):
        flags, e = pairs.flags[i], pairs.event[i]
        if flags == WAS | IS and events.old[e] == events.new[e]:
            continue
        room += (flags & WAS) + ((flags & IS) >> 1)
    query, step = np.empty(room, np.int32), np.empty(room, np.int64)
    version, sign = np.empty(room, np.int32), np.empty(room, np.int8)
    k = 0
    for i in range(len(pairs.flags)):
        flags, e = pairs.flags[i], pairs.event[i]
        if flags == WAS | IS and events.old[e] == events.new[e]:
            continue
        if flags & WAS:
            query[k], step[k], version[k], sign[k] = pairs.query[i], events.step[e], events.old[e], -1
            k += 1
        if flags & IS:
            query[k], step[k], version[k], sign[k] = pairs.query[i], events.step[e], events.new[e], 1
            k += 1
    return query, step, version, sign
