"""Continuous aggregates over the k nearest objects that are refreshed at instants (language.md section 7).

Members matter at refreshes only, so nothing is tracked between them: at each refresh a slot searches for its
own k nearest, as a snapshot does, and offers them if they differ from those of the refresh before. All slots
begin again at the first refresh of a batch, so Aggregate keeps groups from batch to batch, but no candidates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stqsh.core.base.clock import NEVER
from stqsh.core.contract.merging_kind import MergingKind, MergingLogic
from stqsh.core.contract.query_kind import ExplainInput, KindExplanation, StreamBatch
from stqsh.core.groups.looked_up import Lookups
from stqsh.core.groups.marks import BEGIN, SpokenMarks
from stqsh.core.groups.query_forms import FormedQueries, QueryForms
from stqsh.core.groups.refresh_schedule import DueQueries, RefreshSchedule
from stqsh.core.kinds.nearest_aggregates import NearestAggregateKind, marks_of_groups, merge_neighbours
from stqsh.core.matching.keyword_queries import (
    add_keywords,
    keywords_of,
    record_texts,
    release_keywords,
)
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.nearest.refreshed_neighbours import NOBODY, Neighbours, RefreshedNeighbours
from stqsh.core.output.batch_output import BatchOutput
from stqsh.core.output.merge import MergedUpdates, MergeInput
from stqsh.core.output.partials import CandidateOffers
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import ArraySpec
from stqsh.spec.chunk import Chunk
from stqsh.spec.query import REFRESHED_NEAREST

Array = npt.NDArray[Any]


class RefreshedNearestQueries(FormedQueries):
    """Refreshed aggregate queries over the nearest."""

    looks = ArraySpec(np.int32)  # what it looks up, a place in the header's list from 1 on; 0 for nothing


class RefreshedNearestKind(MergingKind):
    """What the first k present objects that satisfy a condition add up to at refreshes, by group."""

    name = REFRESHED_NEAREST.name

    def build(self, batch: StreamBatch, output: BatchOutput) -> RefreshedNearestLogic:
        """Load the queries of a slot for one batch."""
        return RefreshedNearestLogic(self, batch, output)

    def queries(self, state: SlotState, stream: int) -> RefreshedNearestQueries:
        """Return the kind's queries over a stream."""
        return RefreshedNearestQueries(state, self.prefix(stream))

    def merge(self, batch: MergeInput) -> MergedUpdates:
        """Merge the slots' candidates, and return the changes of the groups of the first k."""
        return merge_neighbours(batch, keep=False)

    def explain(self, given: ExplainInput) -> KindExplanation:
        """Return what EXPLAIN shows: a refresh finds members as a snapshot does."""
        found = NearestAggregateKind().explain(given)
        return replace(found, index="none: each refresh searches the objects near", chance=0.0)


class RefreshedNearestLogic(MergingLogic):
    """One batch of a stream's refreshed aggregates over the nearest."""

    queries: RefreshedNearestQueries

    def __init__(self, kind: RefreshedNearestKind, batch: StreamBatch, output: BatchOutput) -> None:
        super().__init__(kind, batch, output)
        self.queries = kind.queries(batch.state, batch.spec.id)
        self._forms = QueryForms(batch.state, self.prefix, self.queries)
        self._conditions = QueryConditions(batch.state, self.prefix, self.queries, batch.objects)
        self._groups = SpokenMarks()
        self._lookups = Lookups(batch.state, self.prefix)

    def register(self, positions: Array, new: NewQueries) -> None:
        """Store the conditions of new queries and what they compute, and announce them to Aggregate."""
        super().register(positions, new)
        self._conditions.add(positions, new)
        add_keywords(self.batch, self.prefix, new)
        specs, self.queries.looks[positions] = self._lookups.separate(new)
        self._forms.add(positions, new, self._groups, self.batch.timing.first, specs)

    def retire(self, positions: Array, steps: Array, why: int) -> None:
        """Remove queries; Aggregate takes back their rows."""
        self._groups.retire(self.queries.id[positions], steps, why)
        super().retire(positions, steps, why)
        if not len(self.queries):
            self._lookups.clear()

    def pause(self, positions: Array) -> None:
        """Say nothing more of queries, so that Aggregate keeps what was sent."""
        del positions

    def on_events(self, begun: Array) -> None:
        """Offer the neighbours of queries at their refreshes; one that begins waits for its next one."""
        del begun
        self._follow_keywords()
        schedule = RefreshSchedule(self.batch, self.queries, self._forms, self._conditions)
        for refreshes in schedule.by_duration():
            self._refresh(refreshes, schedule.windows_us)
        awake = self._forms.heeding_time(self.queries.until > self.batch.timing.first)
        self._groups.wake(self.queries.id[awake], self.batch.clock)

    def chunks(self) -> list[Chunk]:
        """Return the candidates, and the marks of members and of groups."""
        return [*super().chunks(), *marks_of_groups(self.batch, self._groups, REFRESHED_NEAREST.name)]

    def _follow_keywords(self) -> None:
        """Count the terms of new records, and forget those that only queries that are gone asked for."""
        queries, index = self.queries, keywords_of(self.batch, self.prefix)
        if index is None:
            return
        if not len(queries):
            release_keywords(self.batch, self.prefix)
            return
        record_texts(self.batch, index)
        nowhere = np.full((len(queries), 4), np.nan)  # the terms are all that a refresh looks up
        index.refresh(queries.id, nowhere, np.zeros(len(queries), np.bool_), self.batch.spec.bounds)

    def _refresh(self, refreshes: Iterator[DueQueries], windows_us: Array) -> None:
        """Offer how neighbours differ from one refresh to the next."""
        before = NOBODY
        for due in refreshes:
            step, ids = due.refresh.step, self.queries.id
            if due.begin:
                self._groups.add(ids[due.positions], step, BEGIN)
            found = RefreshedNeighbours(self.batch, self.queries, self.prefix, due)
            after = found.of(due.positions, windows_us)
            self._offer_changes(before, after, step)
            before = after.where(self.queries.until[after.query] > due.end)
            end = due.end
        if len(before.query) and end < NEVER:
            self._offer_changes(before, NOBODY, end)

    def _offer_changes(self, before: Neighbours, after: Neighbours, step: int) -> None:
        """Take back the neighbours that are none any more, and offer new ones and those that changed."""
        objects = len(self.batch.objects.table)
        was, now = (some.query * objects + some.obj for some in (before, after))
        gone = before.where(~np.isin(was, now))
        come = after.where(~_unchanged(before, after, was, now))
        versions = self.batch.objects.numbers.or_keys(np.full(len(gone.obj), -1), gone.obj)
        self._offer(gone, step, -1, versions)
        self._offer(come, step, 1, come.version.astype(np.int64))

    def _offer(self, some: Neighbours, step: int, op: int, show: Array) -> None:
        count = len(some.query)
        steps, ops = np.full(count, step), np.full(count, op, np.int8)
        ids, no_reason = self.queries.id[some.query], np.zeros(count, np.int8)
        looks = self.queries.looks[some.query] if op > 0 else np.zeros(count, np.int32)
        keys = self._lookups.keys(looks, show, self._conditions)
        self.partials.offer(CandidateOffers(steps, ids, ops, no_reason, show, some.distance, keys))


def _unchanged(before: Neighbours, after: Neighbours, was: Array, now: Array) -> Array:
    """Return which neighbours were there before with the same record and distance; bool (after,).

    `was` and `now` number the pairs of query and object.
    """
    if not len(was):
        return np.zeros(len(now), np.bool_)
    order = np.argsort(was)
    at = order[np.minimum(np.searchsorted(was[order], now), len(was) - 1)]
    pairs, records = was[at] == now, before.version[at] == after.version
    same: Array = pairs & records & (before.distance[at] == after.distance)
    return same
