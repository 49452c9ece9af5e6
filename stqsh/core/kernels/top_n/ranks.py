"""The first n of ordered members after each step, from the members that enter and leave.

A Fenwick tree over ranks counts the members up to a rank. In each step only two kinds of ranks can enter or
leave the first n: those that change, and those between the old and the new last rank. So a change costs the
logarithm of the number of ranks, however large n is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.jit import Int, inlined, kernel


class RankedChanges(NamedTuple):
    """Members that enter and leave, by query and step: start[q] .. start[q + 1] for query q.

    Attributes:
        start: int64 (queries + 1,).
        step: int64 (n,).
        rank: The place of the member in its query's order, int64 (n,); each rank is one record of a member.
        sign: 1 for a member that enters, -1 for one that leaves, int8 (n,).
    """

    start: Array
    step: Array
    rank: Array
    sign: Array


class TopNTerms(NamedTuple):
    """The parameters of each query.

    Attributes:
        sizes: The number of ranks, int64 (queries,).
        limit: n, int64 (queries,).
        base: The step up to which the first n are known; changes up to it are not reported.
    """

    sizes: Array
    limit: Array
    base: Int


class TopNChanges(NamedTuple):
    """Ranks that enter or leave the first n, by query and step; (n,) each.

    Attributes:
        query: int32.
        step: int64.
        rank: int64.
        op: int8, 1 or -1.
    """

    query: Array
    step: Array
    rank: Array
    op: Array


class _Ranks(NamedTuple):
    """The ranks of one query.

    Attributes:
        counts: A Fenwick tree over the number of members with each rank, int64 (room + 1,).
        present: The number of members with each rank, int64 (room,).
        first: Whether each rank is among the first n, bool (room,).
        size: The number of ranks.
    """

    counts: Array
    present: Array
    first: Array
    size: Int


@kernel
def first_changes(changes: RankedChanges, terms: TopNTerms) -> TopNChanges:
    """Find the ranks that enter or leave the first n of each query.

    A change takes time logarithmic in the number of ranks, however large n is.
    """
    room = 2 * len(changes.step)
    found = TopNChanges(
        np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int8)
    )
    used = np.int64(0)
    for q in range(len(terms.sizes)):
        if changes.start[q] < changes.start[q + 1]:
            used = _follow(changes, terms, q, _no_ranks(terms.sizes[q]), found, used)
    return TopNChanges(found.query[:used], found.step[:used], found.rank[:used], found.op[:used])


@kernel
def _no_ranks(size: Int) -> _Ranks:
    return _Ranks(np.zeros(size + 1, np.int64), np.zeros(size, np.int64), np.zeros(size, np.bool_), size)


@kernel
def _follow(
    changes: RankedChanges, terms: TopNTerms, q: Int, ranks: _Ranks, found: TopNChanges, used: Int
) -> Int:
    """Process one query step by step; return the number of changes found so far."""
    i, end = changes.start[q], changes.start[q + 1]
    total: Int = np.int64(0)
    last: Int = np.int64(-1)
    while i < end:
        step, begin = changes.step[i], i
        while i < end and changes.step[i] == step:
            _add(ranks, changes.rank[i], changes.sign[i])
            total += changes.sign[i]
            i += 1
        before, last = last, _find(ranks, min(terms.limit[q], total))
        known = used
        for j in range(begin, i):
            used = _settle(ranks, changes.rank[j], last, found, used)
        low, high = min(before, last), max(before, last)
        for number in range(_count(ranks, low) + 1, _count(ranks, high) + 1):
            used = _settle(ranks, _find(ranks, number), last, found, used)
        if step <= terms.base:
            used = known
        for j in range(known, used):
            found.query[j], found.step[j] = q, step
    return used


@inlined
def _settle(ranks: _Ranks, rank: Int, last: Int, found: TopNChanges, used: Int) -> Int:
    """Update whether a rank is among the first n, up to rank `last`; return the number of changes."""
    now = ranks.present[rank] > 0 and rank <= last
    if now != ranks.first[rank]:
        ranks.first[rank] = now
        found.rank[used], found.op[used] = rank, np.int8(1) if now else np.int8(-1)
        used += 1
    return used


@inlined
def _add(ranks: _Ranks, rank: Int, sign: Int) -> None:
    ranks.present[rank] += sign
    i = rank + 1
    while i <= ranks.size:
        ranks.counts[i] += sign
        i += i & -i


@inlined
def _count(ranks: _Ranks, rank: Int) -> Int:
    """Return the number of members with this rank or an earlier one."""
    total, i = np.int64(0), rank + 1
    while i > 0:
        total += ranks.counts[i]
        i -= i & -i
    return total


@inlined
def _find(ranks: _Ranks, number: Int) -> Int:
    """Return the rank of the member at this position, counted from 1; -1 for 0."""
    width = np.int64(1)
    while 2 * width <= ranks.size:
        width *= 2
    at, left = np.int64(0), number
    while width > 0:
        if at + width <= ranks.size and ranks.counts[at + width] < left:
            at += width
            left -= ranks.counts[at]
        width //= 2
    return at if number > 0 else np.int64(-1)
