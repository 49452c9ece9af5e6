"""Continuous aggregates over the k nearest objects that are refreshed at instants (language.md section 7).

Queries that read NOW for their members are refreshed in each step. Only the members at refreshes matter, so
nothing is tracked between refreshes: at each one a slot searches for its own k nearest, as a snapshot does,
and offers the differences from the previous refresh. All slots offer all of their candidates again at the
first refresh of a batch, so Aggregate keeps groups from batch to batch, but no candidates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.arrays import Array
from stqsh.core.base.clock import NEVER
from stqsh.core.contract.merging_kind import MergingKind, MergingLogic
from stqsh.core.contract.query_kind import ExplainInput, KindExplanation, StreamBatch
from stqsh.core.groups.candidate_columns import CandidateColumns
from stqsh.core.groups.marks import BEGIN, MarkWriter
from stqsh.core.groups.query_forms import FormedQueries, QueryForms
from stqsh.core.groups.refresh_schedule import DueQueries, RefreshSchedule, timings_of_groups
from stqsh.core.kinds.nearest import exchange_neighbours
from stqsh.core.kinds.nearest_aggregates import NearestAggregateKind, marks_of_groups, merge_neighbours
from stqsh.core.matching.keyword_queries import add_keywords, follow_keywords
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.nearest.refreshed_neighbours import NOBODY, Neighbours, RefreshedNeighbours
from stqsh.core.output.batch_output import BatchOutput
from stqsh.core.output.merge import MergedUpdates, MergeInput
from stqsh.core.output.partials import CandidateOffers
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.state.table import ArraySpec
from stqsh.spec.chunk import Chunk
from stqsh.spec.query import REFRESHED_NEAREST


class RefreshedNearestQueries(FormedQueries):
    """Refreshed aggregate queries over the k nearest."""

    looks = ArraySpec(np.int32)  # its lookups: place in the header's list, from 1 on; 0 for none


class RefreshedNearestLogic(MergingLogic):
    """One batch of a stream's refreshed aggregates over the k nearest."""

    queries: RefreshedNearestQueries

    def __init__(self, kind: RefreshedNearestKind, batch: StreamBatch, output: BatchOutput) -> None:
        super().__init__(kind, batch, output)
        self._forms = QueryForms(batch.state, self.prefix, self.queries)
        self._conditions = QueryConditions(batch.state, self.prefix, self.queries, batch.objects, batch.focal)
        self._groups = MarkWriter()
        self._lookups = CandidateColumns(batch.state, self.prefix)

    def register(self, positions: Array, new: NewQueries) -> None:
        """Store the conditions of new queries and what they compute, and announce them to Aggregate."""
        super().register(positions, new)
        self._conditions.add(positions, new)
        add_keywords(self.batch, self.prefix, new)
        specs, self.queries.looks[positions] = self._lookups.separate(new)
        self._forms.add(positions, new, self._groups, self.batch.timing.first, specs)

    def retire(self, positions: Array, steps: Array, why: int) -> None:
        """Remove queries; Aggregate retracts their rows."""
        self._groups.retire(self.queries.id[positions], steps, why)
        super().retire(positions, steps, why)
        if not len(self.queries):
            self._lookups.clear()

    def alter(self, positions: Array, new: NewQueries) -> None:
        """Replace the places, k and conditions of queries; they count from the next refresh on."""
        exchange_neighbours(self, self._conditions, positions, new)

    def pause(self, positions: Array) -> None:
        """Send nothing more for queries, so that Aggregate keeps their answers."""
        del positions

    def on_events(self, begun: Array) -> None:
        """Offer the neighbours of queries at their refreshes; queries that begin wait for their next one."""
        del begun
        follow_keywords(self.batch, self.queries)
        timings = timings_of_groups(self._forms, self._lookups.compared())
        schedule = RefreshSchedule(self.batch, self.queries, self._conditions, timings)
        for refreshes in schedule.by_duration():
            self._refresh(refreshes, schedule.windows_us)
        awake = self._forms.time_dependent(self.queries.until > self.batch.timing.first)
        self._groups.wake(self.queries.id[awake], self.batch.clock)

    def chunks(self) -> list[Chunk]:
        """Return the candidates, and the marks of members and of groups."""
        return [*super().chunks(), *marks_of_groups(self.batch, self._groups, REFRESHED_NEAREST.name)]

    def _refresh(self, refreshes: Iterator[DueQueries], windows_us: Array) -> None:
        """Offer the changes of neighbours from one refresh to the next."""
        before = _Refreshed(NOBODY, pa.array([], pa.binary()))
        for due in refreshes:
            step, ids = due.refresh.step, self.queries.id
            if due.begin:
                self._groups.add(ids[due.positions], step, BEGIN)
            search = RefreshedNeighbours(self.batch, self.queries, self.prefix, due)
            found = search.of(due.positions, windows_us)
            for counter in (self.queries.tested, self.queries.matched):
                np.add.at(counter, found.query, 1)
            looks = self.queries.looks[found.query]
            keys = self._lookups.keys(looks, found.version, self._conditions, due.refresh.instant)
            after = _Refreshed(found, keys)
            self._offer_changes(before, after, step)
            before = after.where(np.flatnonzero(self.queries.until[found.query] > due.end))
            end = due.end
        if len(before.neighbours.query) and end < NEVER:
            self._offer_changes(before, before.where(np.empty(0, np.int64)), end)

    def _offer_changes(self, before: _Refreshed, after: _Refreshed, step: int) -> None:
        """Withdraw objects that are no longer neighbours; offer new and changed neighbours."""
        objects = len(self.batch.objects.table)
        was, now = (some.neighbours.query * objects + some.neighbours.obj for some in (before, after))
        gone = before.where(np.flatnonzero(~np.isin(was, now)))
        come = after.where(np.flatnonzero(~_unchanged(before, after, was, now)))
        lost = gone.neighbours.obj
        versions = self.batch.objects.numbers.or_keys(np.full(len(lost), -1), lost)
        self._offer(gone, step, -1, versions)
        self._offer(come, step, 1, come.neighbours.version.astype(np.int64))

    def _offer(self, some: _Refreshed, step: int, op: int, show: Array) -> None:
        query, distance = some.neighbours.query, some.neighbours.distance
        count = len(query)
        steps, ops = np.full(count, step), np.full(count, op, np.int8)
        ids, no_reason = self.queries.id[query], np.zeros(count, np.int8)
        self.partials.offer(CandidateOffers(steps, ids, ops, no_reason, show, distance, some.keys))


class RefreshedNearestKind(MergingKind):
    """Aggregates, at refreshes, of the first k present objects that satisfy a condition, by group."""

    name = REFRESHED_NEAREST.name
    logic = RefreshedNearestLogic
    table = RefreshedNearestQueries
    holds_back = False

    def merge(self, batch: MergeInput) -> MergedUpdates:
        """Merge the slots' candidates, and return the changes of the groups of the first k."""
        return merge_neighbours(batch, keep=False)

    def explain(self, given: ExplainInput) -> KindExplanation:
        """Return what EXPLAIN shows: a refresh finds members as a snapshot does."""
        found = NearestAggregateKind().explain(given)
        return replace(found, index="none: each refresh searches the objects near", chance=0.0)


class _Refreshed(NamedTuple):
    """Neighbours at a refresh, and the keys of their looked-up values, null for none."""

    neighbours: Neighbours
    keys: pa.BinaryArray

    def where(self, at: Array) -> _Refreshed:
        """Return the chosen rows, given by positions."""
        chosen: Any = pa.array(at)
        return _Refreshed(self.neighbours.where(at), self.keys.take(chosen))


def _unchanged(before: _Refreshed, after: _Refreshed, was: Array, now: Array) -> Array:
    """Return which neighbours are unchanged: same record, distance and keys as before; bool (after,).

    `was` and `now` number the pairs of query and object.
    """
    if not len(was):
        return np.zeros(len(now), np.bool_)
    order = np.argsort(was)
    at = order[np.minimum(np.searchsorted(was[order], now), len(was) - 1)]
    old, new = before.neighbours, after.neighbours
    pairs, records = was[at] == now, old.version[at] == new.version
    chosen: Any = pa.array(at)
    looked_up: Any = pc.equal(before.keys.take(chosen).fill_null(b""), after.keys.fill_null(b""))
    keys = looked_up.to_numpy(zero_copy_only=False)
    same: Array = pairs & records & (old.distance[at] == new.distance) & keys
    return same
