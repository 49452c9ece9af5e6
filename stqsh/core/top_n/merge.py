"""Merge the slots' candidates into the first n of all slots, and return the changes as updates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute

from stqsh.arrays import Array
from stqsh.core.base.clock import NEVER
from stqsh.core.kernels.events.updates import DROPPED, ENDED
from stqsh.core.kernels.knn.candidate_merge import OVERTAKEN
from stqsh.core.kernels.top_n.ranks import RankedChanges, TopNTerms, first_changes
from stqsh.core.output.batch_output import QueryUpdates
from stqsh.core.output.candidates import CandidateRecords
from stqsh.core.output.merge import MergedUpdates, MergeInput
from stqsh.core.output.partials import DROP, END, PARTIAL, REGISTER, QueryMarks, all_candidates, all_marks
from stqsh.core.output.renewed_rows import RenewedRows
from stqsh.core.state.string_dictionary import pool_of
from stqsh.core.state.table import ArraySpec, StateTable
from stqsh.core.top_n.orders import distances_in

pc: Any = pyarrow.compute  # its stubs lack bytes

_BEFORE = -1
"""The step of candidates from before the batch."""


class _LimitedQueries(StateTable):
    """Queries by id, on a slot of Aggregate."""

    id = ArraySpec(np.int64)
    limit = ArraySpec(np.int32)
    shows = ArraySpec(np.bool_)


class _StoredCandidates(StateTable):
    """Candidates, in the order of their records."""

    query = ArraySpec(np.int64)
    place = ArraySpec(np.int32, "strings")  # bytes that compare like (ORDER BY, key)


def merge_first(batch: MergeInput) -> MergedUpdates:
    """Merge a batch for a kind whose answers are the first n of all candidates by their places."""
    return _TopNMerge(batch).run()


class _Offers(NamedTuple):
    """Candidates and withdrawals by version, (n,) each: the stored ones, then those of the batch.

    Attributes:
        query: The position of the query.
        step: The step, `_BEFORE` for stored candidates.
        op: 1 for a candidate, -1 for a withdrawal, int8.
        why: The reason of a withdrawal, int8.
        key: The key, or the number of its text.
    """

    query: Array
    step: Array
    op: Array
    why: Array
    key: Array


@dataclass(frozen=True)
class _Timeline:
    """The offers by query, key and step: each holds until the next offer of the same query and key.

    Attributes:
        offers: The offers.
        places: The place of each.
        bye: The step at which each query is removed, NEVER if it stays.
        crossing: Whether a withdrawal and a candidate of one key in one step mean that an object crosses from
            one slot to another; if not, they are two events with the same key.
    """

    offers: _Offers
    places: pa.BinaryArray
    bye: Array
    crossing: bool

    @cached_property
    def following(self) -> Array:
        """The next offer of the same query and key, -1 for none; int64 (n,)."""
        offers = self.offers
        order = np.lexsort((offers.op, offers.step, offers.key, offers.query))
        following = np.full(len(order), -1)
        if self.crossing:
            step, op = offers.step[order], offers.op[order]
            replaced = self._same(order)
            # A withdrawal directly before a candidate of the same key and step is a crossing: drop it.
            replaced[:-1] &= (step[1:] == step[:-1]) & (op[1:] > 0) & (op[:-1] < 0)
            order = order[~replaced]
        same = self._same(order)
        following[order[:-1][same[:-1]]] = order[1:][same[:-1]]
        return following

    def _same(self, order: Array) -> Array:
        """Return whether the next offer in an order has the same query and key; bool (n,)."""
        query, key = self.offers.query[order], self.offers.key[order]
        same = np.zeros(len(order), np.bool_)
        same[:-1] = (query[1:] == query[:-1]) & (key[1:] == key[:-1])
        return same

    @cached_property
    def until(self) -> Array:
        """The step from which each offer no longer holds, NEVER if it lasts; int64 (n,)."""
        following = self.following
        return np.where(following < 0, NEVER, self.offers.step[following])

    @cached_property
    def lasting(self) -> Array:
        """The candidates after the batch, ascending."""
        offers = self.offers
        lasts = (offers.op > 0) & (self.until == NEVER) & (self.bye[offers.query] == NEVER)
        return np.flatnonzero(lasts)

    def in_order(self, candidates: Array) -> Array:
        """Return candidates by query and place."""
        chosen: Any = pa.array(candidates)
        query: Any = pa.array(self.offers.query[candidates])
        table = pa.table({"query": query, "place": self.places.take(chosen)})
        keys: Any = [("query", "ascending"), ("place", "ascending")]
        ordered: Array = candidates[pc.sort_indices(table, sort_keys=keys).to_numpy()]
        return ordered

    def first(self, limit: Array) -> tuple[Array, Array, Array]:
        """Return the candidates that enter or leave the first n: offers, steps, and 1 or -1.

        All candidates of a query are ranked once by place, as in `member_ranks.MemberRanks`.
        """
        offers, count = self.offers, len(limit)
        come = np.flatnonzero((offers.op > 0) & (offers.step < self.bye[offers.query]))
        go = come[self.until[come] < self.bye[offers.query[come]]]
        ordered = self.in_order(come)
        begin = np.searchsorted(offers.query[ordered], np.arange(count + 1))
        rank = np.zeros(len(offers.query), np.int64)
        rank[ordered] = np.arange(len(ordered)) - begin[offers.query[ordered]]
        which, steps = np.concatenate([come, go]), np.concatenate([offers.step[come], self.until[go]])
        signs = np.repeat(np.array([1, -1], np.int8), [len(come), len(go)])
        order = np.lexsort((steps, offers.query[which]))
        start = np.searchsorted(offers.query[which[order]], np.arange(count + 1)).astype(np.int64)
        ranked = RankedChanges(start, steps[order], rank[which[order]], signs[order])
        found = first_changes(ranked, TopNTerms(np.diff(begin), limit.astype(np.int64), _BEFORE))
        return ordered[begin[found.query] + found.rank], found.step, found.op


class _TopNMerge:
    """One batch of one kind's queries over a stream.

    Arrays below `s{stream}/{kind}/`: those of `_LimitedQueries` below queries/, those of `_StoredCandidates`
    below candidates/, and those of `CandidateRecords` below records/.
    """

    def __init__(self, batch: MergeInput) -> None:
        self._batch, self._state = batch, batch.state
        self._prefix = f"s{batch.spec.id}/{batch.kind}"
        self._queries = _LimitedQueries(batch.state, f"{self._prefix}/queries")
        self._stored = _StoredCandidates(batch.state, f"{self._prefix}/candidates")
        self._records = CandidateRecords(batch.state, f"{self._prefix}/records", batch.spec)
        self._pool = pool_of(batch.state, batch.spec.id)
        self._marks = all_marks(batch.marks)

    def run(self) -> MergedUpdates:
        """Merge the batch, and return the changes of the answers."""
        self._register()
        bye, why = self._end_steps()
        timeline = self._timeline(bye)
        changes = self._changes(timeline)
        farewells = self._retractions(timeline, why)
        columns = zip(changes[:5], farewells[:5], strict=True)
        updates = QueryUpdates(*(np.concatenate(pair) for pair in columns))
        updates = updates._replace(distance=self._distances(timeline, updates))
        self._keep(timeline)
        return MergedUpdates(updates, self._records)

    def _distances(self, timeline: _Timeline, updates: QueryUpdates) -> Array | None:
        """Return the distances that slots sent with the shown records; None if no query shows distances."""
        asks = np.flatnonzero(self._queries.shows[np.searchsorted(self._queries.id, updates.query)])
        if not len(asks):
            return None
        found, shown = np.full(len(updates.query), np.nan), updates.show[asks]
        chosen: Any = pa.array(shown)
        found[asks] = distances_in(timeline.places.take(chosen))
        return found

    def _register(self) -> None:
        """Add new queries, whose ids are greater than all others and ascend."""
        marks = self._marks
        new = np.flatnonzero(marks.mark == REGISTER)
        new = new[~np.isin(marks.query[new], self._queries.id)]
        self._queries.append(id=marks.query[new], limit=marks.k[new], shows=marks.shows[new])

    def _end_steps(self) -> tuple[Array, Array]:
        """Return the step at which each query is removed, NEVER if it stays, and the reason."""
        count = len(self._queries)
        bye, why = np.full(count, NEVER), np.zeros(count, np.int8)
        for mark, reason in ((END, ENDED), (DROP, DROPPED)):
            mine: QueryMarks = QueryMarks(*(column[self._marks.mark == mark] for column in self._marks))
            at = np.searchsorted(self._queries.id, mine.query)
            bye[at], why[at] = mine.step, reason
        return bye, why

    def _timeline(self, bye: Array) -> _Timeline:
        """Return the stored candidates and the slots' changes."""
        known = len(self._stored)
        query, op = [self._stored.query.copy()], [np.ones(known, np.int8)]
        step, why = [np.full(known, _BEFORE)], [np.zeros(known, np.int8)]
        places: list[Any] = [self._texts(self._stored.place)]
        if self._batch.partials:
            news = all_candidates(self._batch.partials)
            columns = [news.column(i) for i in range(len(PARTIAL) - 1)]
            for some, column in zip((query, step, op, why), columns, strict=True):
                some.append(column.to_numpy(zero_copy_only=False))
            places.append(news.column(len(PARTIAL) - 1))
            self._records.take(news.columns[len(PARTIAL) :])
        position = np.searchsorted(self._queries.id, np.concatenate(query))
        steps, ops, whys = (np.concatenate(some) for some in (step, op, why))
        offers = _Offers(position, steps, ops, whys, self._records.keys())
        return _Timeline(offers, pa.concat_arrays(places), bye, crossing=not self._batch.spec.is_event)

    def _changes(self, timeline: _Timeline) -> QueryUpdates:
        """Return the updates of members that enter and leave the first n.

        A new record of a member is a new candidate, but if both old and new are among the first n, only
        queries that want changes send updates.
        """
        offers, following = timeline.offers, timeline.following
        which, step, op = timeline.first(self._queries.limit)
        came, came_at = which[op > 0], step[op > 0]
        left, left_at = which[op < 0], step[op < 0]
        after = np.maximum(following[left], 0)
        turned = (following[left] >= 0) & (offers.step[after] == left_at)
        renewed = turned & (offers.op[after] > 0)
        enters = np.zeros(len(offers.step), np.bool_)
        enters[came[offers.step[came] == came_at]] = True
        stays = renewed & enters[after]
        renewals = RenewedRows(offers.query[left], left_at, left, after)
        renewals = RenewedRows(*(column[stays] for column in renewals))
        is_held = np.isin(self._queries.id[renewals.query], self._batch.held)
        more = renewals.changed(self._records.numbers_looked_up(), is_held)
        again = np.isin(came, after[stays]) & (offers.step[came] == came_at)
        why = np.where(turned & ~renewed, offers.why[after], OVERTAKEN)[~stays]
        show = np.where(turned, after, left)[~stays]
        left, left_at, came, came_at = left[~stays], left_at[~stays], came[~again], came_at[~again]
        ops = np.repeat(np.array([-1, 1], np.int8), [len(left), len(came)])
        whys = np.concatenate([why, np.zeros(len(came), np.int8)]).astype(np.int8)
        shown = np.concatenate([show, came]).astype(np.int64)
        query, steps = offers.query[np.concatenate([left, came])], np.concatenate([left_at, came_at])
        parts = zip(QueryUpdates(steps, query, ops, whys, shown)[:5], more.updates()[:5], strict=True)
        updates = QueryUpdates(*(np.concatenate(pair) for pair in parts))
        return updates._replace(query=self._queries.id[updates.query])

    def _retractions(self, timeline: _Timeline, why: Array) -> QueryUpdates:
        """Return the updates by which removed queries retract their members."""
        offers, bye, none = timeline.offers, timeline.bye, np.empty(0, np.int64)
        over = bye[offers.query] < NEVER
        if not over.any():
            return QueryUpdates(none, none, none.astype(np.int8), none.astype(np.int8), none)
        last = bye[offers.query]
        holds = over & (offers.op > 0) & (offers.step < last) & (timeline.until >= last)
        at = timeline.in_order(np.flatnonzero(holds))
        query = offers.query[at]
        at = at[np.arange(len(at)) - np.searchsorted(query, query) < self._queries.limit[query]]
        query, after = offers.query[at], timeline.following[at]
        show = np.where(after < 0, at, after)  # a paused query shows the latest records
        op = np.full(len(at), -1, np.int8)
        return QueryUpdates(bye[query], self._queries.id[query], op, why[query], show)

    def _keep(self, timeline: _Timeline) -> None:
        """Store the candidates after the batch; forget the queries that are removed."""
        stay = timeline.bye == NEVER
        if not stay.any():
            self._state.release(f"{self._prefix}/")
            return
        at = timeline.lasting
        chosen: Any = pa.array(at)
        place = self._pool.intern(timeline.places.take(chosen).view(pa.string()))
        self._stored.store(query=self._queries.id[timeline.offers.query[at]], place=place)
        self._records.keep(at)
        self._queries.keep(stay)

    def _texts(self, numbers: Array) -> Any:
        """Return the bytes with these numbers in the pool."""
        chosen: Any = pa.array(numbers)
        texts: Any = self._pool.strings()
        return texts.take(chosen).view(pa.binary())
