"""The first k of many slots' candidates, step by step (SSTD section 6.3: what the merger does for CKQ)."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from stqsh.core.kernels.jit import Array, Flag, Float, Int, kernel
from stqsh.core.kernels.knn.tie_order import KeyOrder, ranks_before

OVERTAKEN = 2
"""Position in `stqsh.spec.chunk.WHY`."""


class CandidateLists(NamedTuple):
    """Candidates in the order of (rank, key), one list a query: query q's are start[q] .. start[q + 1].

    start: int64 (queries + 1,); (n,) each: version int32, rank float64, told bool (is in the answer that
    was sent). Version v is the v-th entry before the batch, from their number on the batch's rows.
    """

    start: Array
    version: Array
    rank: Array
    told: Array


class SlotChanges(NamedTuple):
    """What slots say, by query, step, and leaves first: query q's are start[q] .. start[q + 1].

    start: int64 (queries + 1,); (m,) each: version int32, step int64, op int8 (-1: is no candidate any
    more; 1: is one, new or with a new record or rank), why int8 (of a leave), rank float64 (of a leave:
    the distance to show, NaN for none).
    """

    start: Array
    version: Array
    step: Array
    op: Array
    why: Array
    rank: Array


class MergeTerms(NamedTuple):
    """For each query: k int32; frozen bool: it pauses; bye int64: the step at which it goes, why int8."""

    k: Array
    frozen: Array
    bye: Array
    why: Array


class AnswerChanges(NamedTuple):
    """Updates of answers, (n,) each: step int64, query int32, op int8, why int8, version int32, rank float64
    (NaN: none to show).
    """

    step: Array
    query: Array
    op: Array
    why: Array
    version: Array
    rank: Array


Work: TypeAlias = tuple[Array, Array, Array]
"""One list while it changes: version int32, rank float64, told bool."""


@kernel
def merge(
    lists: CandidateLists, news: SlotChanges, terms: MergeTerms, order: KeyOrder
) -> tuple[AnswerChanges, CandidateLists]:
    """Take what the slots say in; the changes of the answers, and the lists after the batch.

    order: keys by version. After each step of a query's news, the first k of its list are its answer.
    """
    queries = len(terms.k)
    known, said = len(lists.version), len(news.version)
    changes = _no_changes(known + 3 * said)
    after = CandidateLists(
        np.zeros(queries + 1, np.int64),
        np.empty(known + said, np.int32),
        np.empty(known + said, np.float64),
        np.empty(known + said, np.bool_),
    )
    longest = np.int64(0)
    for q in range(queries):
        longest = max(longest, lists.start[q + 1] - lists.start[q] + news.start[q + 1] - news.start[q])
    work = (np.empty(longest, np.int32), np.empty(longest, np.float64), np.empty(longest, np.bool_))
    used, end = np.int64(0), np.int64(0)
    for q in range(queries):
        count = _load(lists, q, terms.frozen[q], work)
        count, used = _hear(news, q, terms, order, (work, count), (changes, used))
        if terms.bye[q] >= 0:
            used = _farewell(q, terms, (work, count), (changes, used))
            count = np.int64(0)
        for i in range(count):
            after.version[end], after.rank[end], after.told[end] = work[0][i], work[1][i], work[2][i]
            end += 1
        after.start[q + 1] = end
    kept = CandidateLists(after.start, after.version[:end], after.rank[:end], after.told[:end])
    return _cut(changes, used), kept


@kernel
def _no_changes(room: Int) -> AnswerChanges:
    """Each piece of news changes at most two memberships, and each entry is taken back once at most."""
    return AnswerChanges(
        np.empty(room, np.int64),
        np.empty(room, np.int32),
        np.empty(room, np.int8),
        np.empty(room, np.int8),
        np.empty(room, np.int32),
        np.empty(room, np.float64),
    )


@kernel
def _cut(changes: AnswerChanges, used: Int) -> AnswerChanges:
    return AnswerChanges(
        changes.step[:used],
        changes.query[:used],
        changes.op[:used],
        changes.why[:used],
        changes.version[:used],
        changes.rank[:used],
    )


@kernel
def _load(lists: CandidateLists, q: Int, frozen: Flag, work: Work) -> Int:
    """Put a query's list into the work arrays: all of it, or of one that pauses what was sent."""
    count = np.int64(0)
    for i in range(lists.start[q], lists.start[q + 1]):
        if lists.told[i] or not frozen:
            work[0][count], work[1][count], work[2][count] = lists.version[i], lists.rank[i], lists.told[i]
            count += 1
    return count


@kernel
def _put(
    out: tuple[AnswerChanges, Int], q: Int, step: Int, what: tuple[Int, Int], shown: tuple[Int, Float]
) -> Int:
    """Note one change: what is (op, why), shown is (version, rank). How many there are then."""
    changes, used = out
    changes.step[used], changes.query[used] = step, q
    changes.op[used], changes.why[used] = what
    changes.version[used], changes.rank[used] = shown
    return used + 1


@kernel
def _hear(
    news: SlotChanges,
    q: Int,
    terms: MergeTerms,
    order: KeyOrder,
    held: tuple[Work, Int],
    out: tuple[AnswerChanges, Int],
) -> tuple[Int, Int]:
    """Take a query's news in, step by step; the length of its list and the number of changes then."""
    work, count = held
    changes, used = out
    i = news.start[q]
    while i < news.start[q + 1]:
        step = news.step[i]
        while i < news.start[q + 1] and news.step[i] == step:
            at = _find(work, count, news.version[i], order)
            told = False
            if at >= 0:
                told = work[2][at]
                count = _take_out(work, count, at)
            if news.op[i] > 0:
                _put_in(work, count, (news.version[i], news.rank[i], told), order)
                count += 1
            elif told:
                what, shown = (-1, news.why[i]), (news.version[i], news.rank[i])
                used = _put((changes, used), q, step, what, shown)
            i += 1
        used = _tell(q, step, terms.k[q], (work, count), (changes, used))
    return count, used


@kernel
def _find(work: Work, count: Int, version: Int, order: KeyOrder) -> Int:
    """Where a list has the key of a version, -1 if it does not."""
    key = order.codes[version]
    for i in range(count):
        if order.codes[work[0][i]] == key:
            return i
    return np.int64(-1)


@kernel
def _take_out(work: Work, count: Int, at: Int) -> Int:
    for i in range(at, count - 1):
        work[0][i], work[1][i], work[2][i] = work[0][i + 1], work[1][i + 1], work[2][i + 1]
    return count - 1


@kernel
def _put_in(work: Work, count: Int, entry: tuple[Int, Float, Flag], order: KeyOrder) -> None:
    """Put an entry into its place in a list with room for it."""
    version, rank, told = entry
    i = count
    while i > 0 and ranks_before(order, rank, version, work[1][i - 1], work[0][i - 1]):
        work[0][i], work[1][i], work[2][i] = work[0][i - 1], work[1][i - 1], work[2][i - 1]
        i -= 1
    work[0][i], work[1][i], work[2][i] = version, rank, told


@kernel
def _tell(q: Int, step: Int, k: Int, held: tuple[Work, Int], out: tuple[AnswerChanges, Int]) -> Int:
    """Say who came into the first k and who was pushed out of them; the number of changes then."""
    work, count = held
    changes, used = out
    for i in range(count):
        if work[2][i] != (i < k):
            work[2][i] = i < k
            what = (1, 0) if i < k else (-1, OVERTAKEN)
            used = _put((changes, used), q, step, what, (work[0][i], work[1][i]))
    return used


@kernel
def _farewell(q: Int, terms: MergeTerms, held: tuple[Work, Int], out: tuple[AnswerChanges, Int]) -> Int:
    """Take back all that a query has sent; the number of changes then."""
    work, count = held
    changes, used = out
    for i in range(count):
        if work[2][i]:
            what, shown = (-1, terms.why[q]), (work[0][i], work[1][i])
            used = _put((changes, used), q, terms.bye[q], what, shown)
    return used
