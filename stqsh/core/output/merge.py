"""Merge the slots' candidates of a stream's queries into answers, and return the changes as updates.

This follows CheetahGIS section VI-A, where the Aggregator merges the local results of a kNN query, and SSTD
section 6.3, where the merger keeps the results of continuous kNN queries. Here the merge is done for every
step of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.kernels.events.updates import DROPPED, ENDED
from stqsh.core.kernels.knn.candidate_merge import (
    AnswerChanges,
    CandidateLists,
    MemberLog,
    MergeTerms,
    SlotChanges,
    merge,
)
from stqsh.core.kernels.knn.tie_order import KeyOrder
from stqsh.core.output.batch_output import QueryUpdates
from stqsh.core.output.candidates import CandidateRecords
from stqsh.core.output.partials import (
    DROP,
    END,
    PARTIAL,
    PAUSE,
    REGISTER,
    RESIZE,
    all_candidates,
    all_marks,
)
from stqsh.core.output.renewed_rows import KeyedChanges, RenewedRows, renewed_rows
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import ArraySpec, StateTable
from stqsh.spec.stream import StreamSpec


class _MergedQueries(StateTable):
    """Queries by id, and the start of the candidates of each."""

    id = ArraySpec(np.int64)
    k = ArraySpec(np.int32)
    shows = ArraySpec(np.bool_)
    rank = ArraySpec(np.float64, length=0)
    sent = ArraySpec(np.bool_, length=0)
    start = ArraySpec(np.int64, length=1)


@dataclass(frozen=True)
class MergeInput:
    """The slots' offers for one kind's queries over a stream in a batch, on one slot of Aggregate.

    Attributes:
        state: The slot's state.
        spec: The stream's spec.
        kind: The kind's name.
        partials, marks, holds, groups: The payloads of the chunks "partial/<kind>", "marks/<kind>" and so on.
        first: The first step of the batch.
        held: The ids of the queries with DWELL, for which all new records of staying members are wanted.
    """

    state: SlotState
    spec: StreamSpec
    kind: str
    partials: list[pa.RecordBatch]
    marks: list[pa.RecordBatch]
    holds: list[pa.RecordBatch]
    groups: list[pa.RecordBatch]
    first: int
    held: Array


class ShownRows(Protocol):
    """The rows that updates show, by number."""

    def __len__(self) -> int:
        """The number of rows."""

    def show(self, versions: Array) -> pa.RecordBatch:
        """Return some of the rows."""


class MergedUpdates(NamedTuple):
    """Updates of answers; `updates.show` names rows of the records."""

    updates: QueryUpdates
    records: ShownRows


def first_k(batch: MergeInput) -> MergedUpdates:
    """Merge a batch for a kind whose answers are the first k of all candidates by (rank, key).

    This is the default of `stqsh.core.contract.merging_kind.MergingKind.merge`.
    """
    return _Merger(batch).run()


class MembersByStep(NamedTuple):
    """Members of answers; (n,) each.

    Attributes:
        query: The query's id, int64.
        step: The step after which they are members, int64.
        version: The record of each, int32.
    """

    query: Array
    step: Array
    version: Array


class MergedMembers(NamedTuple):
    """The first k of each query, before a batch and after each step in which they may change.

    Attributes:
        before: The members before the batch; their step is 0.
        after: The members after each of these steps, in the order of queries and steps.
        query, step: All of these steps, including those without members after them; int64 (m,), ordered.
        records: The records of all versions.
        ranks: The rank of each version, float64.
    """

    before: MembersByStep
    after: MembersByStep
    query: Array
    step: Array
    records: CandidateRecords
    ranks: Array


def first_k_members(batch: MergeInput, *, keep: bool) -> MergedMembers:
    """Merge a batch as `first_k` does, and return the members instead of their changes.

    Args:
        batch: The slots' offers.
        keep: Whether candidates are stored for the next batch; if not, slots offer all of them again.
    """
    return _Merger(batch).run_members(keep=keep)


class MergedCandidates(NamedTuple):
    """The changes of the first k as candidates: members that come, have new records, or leave.

    Attributes:
        changes: The changes.
        distances: The rank of each if its query shows distances, else NaN, float64.
        shows: Whether the query of each shows distances, bool.
        records: The records of all versions.
    """

    changes: QueryUpdates
    distances: Array
    shows: Array
    records: CandidateRecords


def first_k_candidates(batch: MergeInput) -> MergedCandidates:
    """Merge a batch as `first_k` does, and return the changes as candidates of a second merge.

    Slots must send looked-up bytes; without them new records of members that stay are not found.
    """
    return _Merger(batch).run_candidates()


class _Merger:
    """The answers of one kind's queries over a stream.

    Arrays below `s{stream}/{kind}/`. By query: id int64, k int32, shows bool (whether it has a distance),
    start int64 (with one more element). By candidate: rank float64, sent bool (in the answer that was sent),
    and the columns of `CandidateRecords`.
    """

    def __init__(self, batch: MergeInput) -> None:
        self._batch, self._state = batch, batch.state
        self._prefix = f"s{batch.spec.id}/{batch.kind}"
        self._queries = _MergedQueries(batch.state, self._prefix)
        self._records = CandidateRecords(batch.state, self._prefix, batch.spec)
        self._marks = all_marks(batch.marks)

    def run(self) -> MergedUpdates:
        """Merge the batch, and return the changes of the answers."""
        changes, renewed, ranks, shows = self._merged()
        is_held = np.isin(self._ids[renewed.query], self._batch.held)
        renewed = renewed.changed(self._records.numbers_looked_up(), is_held)
        merged, far = _updates(changes, renewed.updates(), ranks)
        updates = merged._replace(distance=np.where(shows[merged.query], far, np.nan))
        return MergedUpdates(self._with_ids(updates), self._records)

    def run_candidates(self) -> MergedCandidates:
        """Merge the batch, and return the changes of the answers as candidates for another merge."""
        changes, renewed, ranks, shows = self._merged()
        again = renewed.updates()
        merged, far = _updates(changes, again.where(again.op > 0), ranks)
        far = np.where(shows[merged.query], far, np.nan)
        return MergedCandidates(self._with_ids(merged), far, shows[merged.query], self._records)

    def _with_ids(self, updates: QueryUpdates) -> QueryUpdates:
        return updates._replace(query=self._ids[updates.query])

    def _merged(self) -> tuple[AnswerChanges, RenewedRows, Array, Array]:
        """Merge; return changes of answers, staying members with new records, ranks, and `shows`."""
        self._register()
        self._ids, shows = self._queries.id.copy(), self._queries.shows.copy()
        known = np.arange(len(self._queries.rank), dtype=np.int32)
        lists = CandidateLists(self._queries.start, known, self._queries.rank, self._queries.sent)
        news, order = self._news()
        terms = self._terms()
        changes, after = merge(lists, news, terms, order, _room_for_members(0))
        renewed, ranks = self._renewed(lists, news, changes), self._ranks(news)
        self._keep(after, np.flatnonzero(terms.bye < 0))
        return changes, renewed, ranks, shows

    def run_members(self, *, keep: bool) -> MergedMembers:
        """Merge the batch, and return the members of the answers; `keep` stores the candidates."""
        self._register()
        ids, sent = self._queries.id.copy(), np.flatnonzero(self._queries.sent)
        known = np.arange(len(self._queries.rank), dtype=np.int32)
        lists = CandidateLists(self._queries.start, known, self._queries.rank, self._queries.sent)
        owner = np.searchsorted(lists.start, sent, side="right") - 1
        before = MembersByStep(ids[owner], np.zeros(len(sent), np.int64), sent.astype(np.int32))
        news, order = self._news()
        terms = self._terms()
        ranks = self._ranks(news)
        at = np.repeat(np.arange(len(ids)), np.diff(news.start))
        turns = np.flatnonzero(np.diff(at, prepend=-1) | np.diff(news.step, prepend=-1))
        log = _room_for_members(int(terms.k[at[turns]].sum()))
        _, after = merge(lists, news, terms, order, log)
        query, step, version = (column[: log.used[0]] for column in log[:3])
        members = MembersByStep(ids[query], step, version)
        self._keep(after if keep else _no_candidates(len(ids)), np.flatnonzero(terms.bye < 0))
        return MergedMembers(before, members, ids[at[turns]], news.step[turns], self._records, ranks)

    def _register(self) -> None:
        """Add new queries, whose ids are greater than all others and ascend; note the k of altered ones."""
        new = np.flatnonzero(self._marks.mark == REGISTER)
        new = new[~np.isin(self._marks.query[new], self._queries.id)]
        marks = self._marks
        self._queries.append(id=marks.query[new], k=marks.k[new], shows=marks.shows[new])
        self._queries.grow(start=np.full(len(new), self._queries.start[-1]))
        resized = np.flatnonzero(marks.mark == RESIZE)
        self._queries.k[np.searchsorted(self._queries.id, marks.query[resized])] = marks.k[resized]

    def _news(self) -> tuple[SlotChanges, KeyOrder]:
        """Return the slots' changes in the kernel's order, and the order of keys.

        A removal precedes a candidate of the same key.
        """
        queries, known = len(self._queries.id), len(self._queries.rank)
        if not self._batch.partials:
            return _no_changes(queries), self._records.order()
        batch = all_candidates(self._batch.partials)
        query, step, op, why, rank = (
            batch.column(i).to_numpy(zero_copy_only=False) for i in range(len(PARTIAL))
        )
        at = np.searchsorted(self._queries.id, query)
        self._records.take(batch.columns[len(PARTIAL) :])
        keys = self._records.order()
        order = np.lexsort((op, keys.codes[known:], step, at))
        start = np.searchsorted(at[order], np.arange(queries + 1))
        columns = (known + order).astype(np.int32), step[order], op[order], why[order], rank[order]
        return SlotChanges(start, *columns, crossing=not self._batch.spec.is_event), keys

    def _ranks(self, news: SlotChanges) -> Array:
        """Return the rank of each version."""
        ranks = np.empty(len(self._queries.rank) + len(news.version))
        ranks[: len(self._queries.rank)], ranks[news.version] = self._queries.rank, news.rank
        return ranks

    def _renewed(self, lists: CandidateLists, news: SlotChanges, changes: AnswerChanges) -> RenewedRows:
        """Return the members that stay in answers with new records; empty if no query needs them."""
        known = len(lists.version)
        if not len(self._batch.held) and (self._records.numbers_looked_up() < 0).all():
            return RenewedRows(*(np.empty(0, np.int64) for _ in RenewedRows._fields))
        keys = np.unique(self._records.keys(), return_inverse=True)[1]
        owner = np.repeat(np.arange(len(lists.start) - 1), np.diff(lists.start))
        query = np.concatenate([owner, np.repeat(np.arange(len(news.start) - 1), np.diff(news.start))])
        version = np.concatenate([lists.version, news.version])
        step = np.concatenate([np.full(known, -1), news.step])
        op = np.concatenate([np.ones(known, np.int8), news.op])
        sent = np.concatenate([lists.sent, np.zeros(len(news.step), np.bool_)])
        candidates = KeyedChanges(query, keys[version], step, op, version)
        turns = KeyedChanges(changes.query, keys[changes.version], changes.step, changes.op, changes.version)
        return renewed_rows(candidates, sent, turns, crossing=news.crossing)

    def _terms(self) -> MergeTerms:
        """Return the steps at which queries pause or retire."""
        ids, marks = self._queries.id, self._marks
        frozen = np.isin(ids, marks.query[marks.mark == PAUSE])
        bye, why = np.full(len(ids), -1, np.int64), np.zeros(len(ids), np.int8)
        for mark, reason in ((END, ENDED), (DROP, DROPPED)):
            mine = np.flatnonzero(marks.mark == mark)
            at = np.searchsorted(ids, marks.query[mine])
            bye[at], why[at] = marks.step[mine], reason
        return MergeTerms(self._queries.k, frozen, bye, why)

    def _keep(self, lists: CandidateLists, staying: Array) -> None:
        """Store the lists after the batch; those of retired queries are empty."""
        if not len(staying):
            self._state.release(f"{self._prefix}/")
            return
        self._queries.keep(np.isin(np.arange(len(self._queries)), staying))
        start = lists.start[np.append(0, staying + 1)]
        self._queries.store(start=start, rank=lists.rank, sent=lists.sent)
        self._records.keep(lists.version)


def _updates(changes: AnswerChanges, more: QueryUpdates, ranks: Array) -> tuple[QueryUpdates, Array]:
    """Concatenate changes of answers and more updates, with queries by position; return also ranks."""
    some = QueryUpdates(changes.step, changes.query, changes.op, changes.why, changes.version)
    pairs = zip(some[:5], more[:5], strict=True)
    step, query, op, why, show = (np.concatenate(pair) for pair in pairs)
    far = np.concatenate([changes.rank, ranks[more.show]])
    return QueryUpdates(step, query, op, why, show.astype(np.int64)), far


def _no_changes(queries: int) -> SlotChanges:
    whole, number = np.empty(0, np.int64), np.empty(0, np.float64)
    code = np.empty(0, np.int8)
    start = np.zeros(queries + 1, np.int64)
    return SlotChanges(start, np.empty(0, np.int32), whole, code, code, number, crossing=False)


def _no_candidates(queries: int) -> CandidateLists:
    return CandidateLists(
        np.zeros(queries + 1, np.int64), np.empty(0, np.int32), np.empty(0), np.empty(0, np.bool_)
    )


def _room_for_members(room: int) -> MemberLog:
    return MemberLog(
        np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room, np.int32), np.zeros(1, np.int64)
    )
