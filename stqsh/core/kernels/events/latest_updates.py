"""The latest update of each query and object, for the compaction of the update log.

A counting sort groups updates by query. A hash table of the members of one query at a time keeps the latest
update; it fits in the processor's caches. The expected cost is linear in the updates.
"""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.jit import Int, kernel

_MIX = np.uint64(0x9E3779B97F4A7C15)


@kernel
def latest_updates(query: Array, member: Array, when: Array, queries: Int) -> Array:
    """Return the positions of the latest update of each query and member, int64 (m,), ascending by query.

    Args:
        query: int64 (n,), 0 <= query < queries.
        member: The number of a key, int32 (n,).
        when: int64 (n,), distinct for the updates of a query and member.
        queries: The number of queries.
    """
    start, place, who, time = _group_by_query(query, member, when, queries)
    size = _table_size(start)
    table, out, used = np.zeros(size, np.int64), np.empty(len(query), np.int64), 0
    for q in range(queries):
        begin, end = start[q], start[q + 1]
        bits = np.uint64(1)
        while (1 << bits) < 2 * (end - begin):
            bits += np.uint64(1)
        mask = (np.int64(1) << bits) - 1
        for i in range(begin, end):
            at = np.int64((np.uint64(who[i]) * _MIX) >> (np.uint64(64) - bits))
            while table[at] != 0 and who[table[at] - 1] != who[i]:
                at = (at + 1) & mask
            if table[at] == 0 or time[i] > time[table[at] - 1]:
                table[at] = i + 1
        for seat in range(mask + 1 if end > begin else 0):
            if table[seat] != 0:
                out[used] = place[table[seat] - 1]
                used += 1
                table[seat] = 0
    return out[:used].copy()


@kernel
def _group_by_query(
    query: Array, member: Array, when: Array, queries: Int
) -> tuple[Array, Array, Array, Array]:
    """Group updates by query.

    Returns:
        The start of each query's updates, int64 (queries + 1,); and, ordered by query, the position of each
        update, int64, its member, int32, and its time, int64.
    """
    start = np.zeros(queries + 2, np.int64)
    for i in range(len(query)):
        start[query[i] + 2] += 1
    for q in range(2, queries + 2):
        start[q] += start[q - 1]
    place, who = np.empty(len(query), np.int64), np.empty(len(query), np.int32)
    time = np.empty(len(query), np.int64)
    for i in range(len(query)):
        at = start[query[i] + 1]
        place[at], who[at], time[at] = i, member[i], when[i]
        start[query[i] + 1] += 1
    return start[: queries + 1], place, who, time


@kernel
def _table_size(start: Array) -> Int:
    """Return a power of two that is at least twice the number of updates of any query."""
    most = 1
    for q in range(len(start) - 1):
        most = max(most, start[q + 1] - start[q])
    size = 2
    while size < 2 * most:
        size *= 2
    return size
