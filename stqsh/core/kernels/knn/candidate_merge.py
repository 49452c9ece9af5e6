"""The first k of many slots' candidates, step by step (SSTD section 6.3: the merger's part of CKQ).

Each query has one list of all slots' candidates, ordered by (rank, key). After each step the first k entries
are the answer, and the `sent` marks show which entries were sent. A change shifts part of its list, so it
costs at most the list's length, which is about k for each slot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.jit import Flag, Float, Int, inlined, kernel
from stqsh.core.kernels.knn.tie_order import KeyOrder, ranks_before

OVERTAKEN = 2
"""Position in `stqsh.spec.chunk.WHY`."""


class CandidateLists(NamedTuple):
    """Candidates in the order of (rank, key), one list for each query: start[q] .. start[q + 1] for query q.

    The first versions number the entries before the batch; higher versions number the batch's rows.

    Attributes:
        start: int64 (queries + 1,).
        version: int32 (n,).
        rank: float64 (n,).
        sent: Whether the candidate is in the answer that was sent, bool (n,).
    """

    start: Array
    version: Array
    rank: Array
    sent: Array


class SlotChanges(NamedTuple):
    """Changes that slots report, by query, step, key, removals first: start[q] .. start[q + 1] for query q.

    Attributes:
        start: int64 (queries + 1,).
        version: int32 (m,).
        step: int64 (m,).
        op: 1 for a candidate that is new or has a new record or rank, -1 for a removal, int8 (m,).
        why: The reason of a removal, int8 (m,).
        rank: float64 (m,); for a removal the distance to show, NaN for none.
        crossing: Whether a removal and a candidate with one key in one step are one object that crosses from
            slot to slot, rather than two successive events.
    """

    start: Array
    version: Array
    step: Array
    op: Array
    why: Array
    rank: Array
    crossing: bool


class MergeTerms(NamedTuple):
    """The terms of each query.

    Attributes:
        k: int32.
        frozen: Whether the query pauses, bool.
        bye: The step in which the query is removed, int64.
        why: The reason of that, int8.
    """

    k: Array
    frozen: Array
    bye: Array
    why: Array


class AnswerChanges(NamedTuple):
    """Updates of answers, (n,) each.

    Attributes:
        step: int64.
        query: int32.
        op, why: int8.
        version: int32.
        rank: float64, NaN for none to show.
    """

    step: Array
    query: Array
    op: Array
    why: Array
    version: Array
    rank: Array


class MemberLog(NamedTuple):
    """The members of answers after each step of a query's changes, ordered by query and step.

    Attributes:
        query: int32 (n,).
        step: int64 (n,).
        version: int32 (n,).
        used: The number of rows written, int64 (1,). No rows are written if there is no room.
    """

    query: Array
    step: Array
    version: Array
    used: Array


class WorkingList(NamedTuple):
    """One list while it changes, with spare space: version int32, rank float64, sent bool."""

    version: Array
    rank: Array
    sent: Array


class Candidate(NamedTuple):
    """An entry of a list."""

    version: Int
    rank: Float
    sent: Flag


class AnswerChange(NamedTuple):
    """One row of `AnswerChanges`."""

    step: Int
    query: Int
    op: Int
    why: Int
    version: Int
    rank: Float


class _Merge(NamedTuple):
    """The input and output of the merge, shared by all queries."""

    news: SlotChanges
    terms: MergeTerms
    order: KeyOrder
    work: WorkingList
    changes: AnswerChanges
    log: MemberLog


@kernel
def merge(
    lists: CandidateLists, news: SlotChanges, terms: MergeTerms, order: KeyOrder, log: MemberLog
) -> tuple[AnswerChanges, CandidateLists]:
    """Merge the slots' changes into the lists, and find how the answers change.

    After each step of a query's changes, the first k entries of its list are its answer.

    Args:
        lists: The candidates before the batch.
        news: The slots' changes.
        terms: k, and when queries pause or end.
        order: The order of keys, by version.
        log: Filled with the members after each step, if it has room.

    Returns:
        The changes of the answers, and the lists after the batch.
    """
    queries = len(terms.k)
    known, said = len(lists.version), len(news.version)
    after = CandidateLists(
        np.zeros(queries + 1, np.int64),
        np.empty(known + said, np.int32),
        np.empty(known + said, np.float64),
        np.empty(known + said, np.bool_),
    )
    longest = np.int64(0)
    for q in range(queries):
        longest = max(longest, lists.start[q + 1] - lists.start[q] + news.start[q + 1] - news.start[q])
    version, rank, sent = (
        np.empty(longest, np.int32),
        np.empty(longest, np.float64),
        np.empty(longest, np.bool_),
    )
    work = WorkingList(version, rank, sent)
    merging = _Merge(news, terms, order, work, _room_for_changes(known + 3 * said), log)
    used, end = np.int64(0), np.int64(0)
    for q in range(queries):
        count = _load(lists, q, terms.frozen[q], work)
        count, used = _apply_news(merging, q, count, used)
        if terms.bye[q] >= 0:
            used = _end_query(merging, q, count, used)
            count = np.int64(0)
        for i in range(count):
            after.version[end], after.rank[end], after.sent[end] = version[i], rank[i], sent[i]
            end += 1
        after.start[q + 1] = end
    kept = CandidateLists(after.start, after.version[:end], after.rank[:end], after.sent[:end])
    return _first_changes(merging.changes, used), kept


@kernel
def _room_for_changes(room: Int) -> AnswerChanges:
    """Return space for changes.

    Each reported change affects at most two members, and each entry is retracted at most once.
    """
    return AnswerChanges(
        np.empty(room, np.int64),
        np.empty(room, np.int32),
        np.empty(room, np.int8),
        np.empty(room, np.int8),
        np.empty(room, np.int32),
        np.empty(room, np.float64),
    )


@kernel
def _first_changes(changes: AnswerChanges, used: Int) -> AnswerChanges:
    return AnswerChanges(
        changes.step[:used],
        changes.query[:used],
        changes.op[:used],
        changes.why[:used],
        changes.version[:used],
        changes.rank[:used],
    )


@kernel
def _load(lists: CandidateLists, q: Int, frozen: Flag, work: WorkingList) -> Int:
    """Copy a query's list (only sent entries if it pauses) to the working list; return its length."""
    count = np.int64(0)
    for i in range(lists.start[q], lists.start[q + 1]):
        if lists.sent[i] or not frozen:
            work.version[count], work.rank[count] = lists.version[i], lists.rank[i]
            work.sent[count] = lists.sent[i]
            count += 1
    return count


@kernel
def _add_change(changes: AnswerChanges, used: Int, change: AnswerChange) -> Int:
    """Append one change, and return the number of changes."""
    changes.step[used], changes.query[used], changes.op[used] = change.step, change.query, change.op
    changes.why[used], changes.version[used], changes.rank[used] = change.why, change.version, change.rank
    return used + 1


@kernel
def _apply_news(merging: _Merge, q: Int, count: Int, used: Int) -> tuple[Int, Int]:
    """Apply a query's reported changes step by step; return its list's length and the number of changes."""
    news, order, work = merging.news, merging.order, merging.work
    i = news.start[q]
    while i < news.start[q + 1]:
        step = news.step[i]
        while i < news.start[q + 1] and news.step[i] == step:
            if news.crossing and _is_replaced(merging, q, i):
                i += 1
                continue
            version, rank = news.version[i], news.rank[i]
            at = _find(work, count, version, order)
            sent = False
            if at >= 0:
                sent = work.sent[at]
                count = _delete(work, count, at)
            if news.op[i] > 0:
                _insert(work, count, Candidate(version, rank, sent), order)
                count += 1
            elif sent:
                change = AnswerChange(step, q, -1, news.why[i], version, rank)
                used = _add_change(merging.changes, used, change)
            i += 1
        used = _update_answer(merging, q, step, count, used)
    return count, used


@kernel
def _is_replaced(merging: _Merge, q: Int, i: Int) -> Flag:
    """Return whether a candidate of the same key follows a removal in the same step."""
    news, codes = merging.news, merging.order.codes
    if news.op[i] > 0 or i + 1 == news.start[q + 1]:
        return False
    is_same = news.step[i + 1] == news.step[i] and codes[news.version[i + 1]] == codes[news.version[i]]
    return is_same and news.op[i + 1] > 0


@kernel
def _find(work: WorkingList, count: Int, version: Int, order: KeyOrder) -> Int:
    """Return the position of the entry with the key of a version; -1 if there is none."""
    key = order.codes[version]
    for i in range(count):
        if order.codes[work.version[i]] == key:
            return i
    return np.int64(-1)


@inlined
def _copy_entry(work: WorkingList, source: Int, target: Int) -> None:
    work.version[target], work.rank[target] = work.version[source], work.rank[source]
    work.sent[target] = work.sent[source]


@kernel
def _delete(work: WorkingList, count: Int, at: Int) -> Int:
    for i in range(at, count - 1):
        _copy_entry(work, i + 1, i)
    return count - 1


@kernel
def _insert(work: WorkingList, count: Int, entry: Candidate, order: KeyOrder) -> None:
    """Insert an entry at its place in a list with space for it."""
    i = count
    while i > 0 and ranks_before(order, entry.rank, entry.version, work.rank[i - 1], work.version[i - 1]):
        _copy_entry(work, i - 1, i)
        i -= 1
    work.version[i], work.rank[i], work.sent[i] = entry.version, entry.rank, entry.sent


@kernel
def _update_answer(merging: _Merge, q: Int, step: Int, count: Int, used: Int) -> Int:
    """Append the entries that moved into or out of the first k; return the number of changes."""
    work, k = merging.work, merging.terms.k[q]
    for i in range(count):
        if work.sent[i] != (i < k):
            work.sent[i] = i < k
            op, why = (1, 0) if i < k else (-1, OVERTAKEN)
            change = AnswerChange(step, q, op, why, work.version[i], work.rank[i])
            used = _add_change(merging.changes, used, change)
    if len(merging.log.step):
        _log_members(merging, q, step, min(count, k))
    return used


@kernel
def _log_members(merging: _Merge, q: Int, step: Int, count: Int) -> None:
    """Write the first `count` entries of the working list to the log."""
    log, begin = merging.log, merging.log.used[0]
    for i in range(count):
        log.query[begin + i], log.step[begin + i] = q, step
        log.version[begin + i] = merging.work.version[i]
    log.used[0] = begin + count


@kernel
def _end_query(merging: _Merge, q: Int, count: Int, used: Int) -> Int:
    """Retract all entries that a query has sent; return the number of changes."""
    work, terms = merging.work, merging.terms
    for i in range(count):
        if work.sent[i]:
            change = AnswerChange(terms.bye[q], q, -1, terms.why[q], work.version[i], work.rank[i])
            used = _add_change(merging.changes, used, change)
    return used
