"""Continuous queries with LIMIT: the first n members of a region, by (ORDER BY, key)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stqsh.core.base.clock import NEVER
from stqsh.core.contract.merging_kind import MergingKind, MergingLogic
from stqsh.core.contract.query_kind import ExplainInput, KindExplanation, QueryKind, StreamBatch
from stqsh.core.first.first_merge import merge_first
from stqsh.core.first.member_ranks import MemberRanks
from stqsh.core.first.orders import FirstQueries, QueryOrders, order_operators
from stqsh.core.first.places import with_distances
from stqsh.core.first.stepped_members import (
    SteppedChanges,
    SteppedMembers,
    changes_between,
    steps_of_change,
)
from stqsh.core.groups.group_deltas import MemberChanges
from stqsh.core.kernels.events.updates import ENDED, count_pairs
from stqsh.core.kernels.groups.net_members import list_changes
from stqsh.core.kernels.index.static_rects import QueryLifetimes
from stqsh.core.kernels.knn.candidate_merge import OVERTAKEN
from stqsh.core.kinds.ranges import RangeKind
from stqsh.core.matching.crossings import are_members
from stqsh.core.matching.match import match
from stqsh.core.matching.moving_index import ObjectCellStore
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.matching.query_context import QueryContext, context_of
from stqsh.core.matching.region_scaling import scale, will_scale, with_shed_reasons
from stqsh.core.matching.row_changes import RowChanges
from stqsh.core.matching.static_index import StaticRegionIndex
from stqsh.core.output.batch_output import BatchOutput, QueryUpdates
from stqsh.core.output.merge import MergedUpdates, MergeInput
from stqsh.core.output.partials import CandidateOffers
from stqsh.core.output.sent_answers import SentAnswers
from stqsh.core.queries.query_table import ACTIVE, PAUSED
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.state.retention_mode import memory_of
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.query import FIRST

Array = npt.NDArray[Any]


class FirstKind(MergingKind):
    """The first n present objects inside a region that satisfy a condition, by (ORDER BY, key).

    Each slot offers the first n of its own objects, with their places in the order.
    """

    name = FIRST.name

    def build(self, batch: StreamBatch, output: BatchOutput) -> FirstLogic:
        """Load the queries of a slot for one batch."""
        return FirstLogic(self, batch, output)

    def queries(self, state: SlotState, stream: int) -> FirstQueries:
        """Return the kind's queries over a stream."""
        return FirstQueries(state, self.prefix(stream))

    def merge(self, batch: MergeInput) -> MergedUpdates:
        """Merge the slots' candidates, and return the changes of the first n of all slots."""
        return merge_first(batch)

    def explain(self, given: ExplainInput) -> KindExplanation:
        """Return what EXPLAIN shows: members are found as a range query's are, and ordered."""
        found = RangeKind().explain(given)
        return replace(
            found, operators=(*found.operators, *order_operators(getattr(given.spec, "first", None)))
        )


class _SeenCodes(NamedTuple):
    """What queries offer, and who their members are, as codes of `FirstLogic`; int64 (n,) each."""

    offered: Array
    members: Array


class FirstLogic(MergingLogic):
    """One batch of a stream's queries with LIMIT."""

    queries: FirstQueries

    def __init__(self, kind: QueryKind, batch: StreamBatch, output: BatchOutput) -> None:
        super().__init__(kind, batch, output)
        state, prefix = batch.state, self.prefix
        self.queries = FirstQueries(state, prefix)
        self._sent = SentAnswers(state, prefix)
        self._index = StaticRegionIndex(batch, prefix)
        self._conditions = QueryConditions(state, prefix, self.queries, batch.objects)
        self._changes = RowChanges(state, f"{prefix}/changes", self.queries, self._conditions)
        self._orders = QueryOrders(prefix, batch.spec.key, self.queries, self._conditions)
        self._area = memory_of(state, batch.spec.id).area
        self._offered: tuple[Array, Array] = np.empty(0, np.int64), np.empty(0, np.int32)
        self._is_outdated = False

    def limits(self, positions: Array) -> Array:
        """Return the LIMIT of queries."""
        limits: Array = self.queries.limit[positions]
        return limits

    def register(self, positions: Array, new: NewQueries) -> None:
        """Store the conditions and the order of new queries, and announce them to Aggregate."""
        self._conditions.add(positions, self._index.add_keywords(new))
        self._changes.add(positions, new)
        self._orders.add(positions, new)
        scale(self.queries, self._area, positions)
        self._is_outdated = True
        super().register(positions, new)

    def retire(self, positions: Array, steps: Array, why: int) -> None:
        """Take back what paused queries have sent; for the others Aggregate knows what was sent."""
        for step in np.unique(steps).tolist():
            at = positions[(steps == step) & (self.queries.mode[positions] == PAUSED)]
            ids, objects = self._sent.pop_queries(self.queries.id[at])
            if len(ids):
                shown, steps_before = self.batch.objects.shown(objects, step - 1), np.full(len(ids), step - 1)
                query, whys = np.searchsorted(self.queries.id, ids), np.full(len(ids), why, np.int8)
                far = self._distances(query, shown, steps_before)
                self._withdraw(steps_before + 1, query, whys, shown, far)
        super().retire(positions, steps, why)
        if why == ENDED:
            self._index.fill(self._context())
        else:
            self._is_outdated = True

    def pause(self, positions: Array) -> None:
        """Store what queries have offered."""
        self._sent.add(*self._first_before(positions))
        self._is_outdated = True
        super().pause(positions)

    def remember(self, positions: Array) -> None:
        """Store all members: other slots have offered some of them."""
        members = self._context().members(positions, self.batch.timing.first - 1)
        self._sent.add(self.queries.id[members.query], members.obj)
        self._is_outdated = True
        super().pause(positions)

    def resume(self, positions: Array) -> None:
        """Load what queries had offered before they paused."""
        ids, objects = self._sent.pop_queries(self.queries.id[positions])
        self._offered = np.append(self._offered[0], ids), np.append(self._offered[1], objects)

    def rescale(self) -> Array:
        """Scale regions to the share of their area that load shedding leaves."""
        queries = self.queries
        at = will_scale(queries, self._area, np.flatnonzero(queries.until > self.batch.timing.first))
        active: Array = at[queries.mode[at] == ACTIVE]
        self._offered = self._first_before(active)
        scale(queries, self._area, at)
        return active

    def on_events(self, begun: Array) -> None:
        """Offer the changes of each query's first n objects on this slot."""
        queries, first = self.queries, self.batch.timing.first
        if self._is_outdated or len(begun):
            self._index.fill(self._context())
        if not len(queries):
            ObjectCellStore(self.batch, self.prefix).release()
            return
        context, living = self._context(), begun[queries.until[begun] > first]
        stepped = queries.each_step[living]
        again = [self._follow(context, begun, np.sort(living[~stepped]))]
        if queries.each_step.any():
            again += self._follow_steps(context, np.sort(living[stepped]))
        self._take_back(_SeenCodes(*(np.concatenate(codes) for codes in zip(*again, strict=True))))

    def _follow(self, context: QueryContext, begun: Array, starting: Array) -> _SeenCodes:
        """Offer the changes of queries whose order changes with records only."""
        queries, first = self.queries, self.batch.timing.first
        since = np.where(queries.each_step, NEVER, first - 1)
        since[starting] = first
        since[np.setdiff1d(begun, starting)] = NEVER
        pairs, events = match(context, self._index, QueryLifetimes(since, queries.until))
        count_pairs(pairs, queries.tested, queries.matched)
        changes = _together(
            MemberChanges(*list_changes(pairs, events)), self._members(context, starting, first)
        )
        before = np.setdiff1d(changes.query, begun)
        changes = _together(changes, self._members(context, before, first - 1))
        ranks = self._ranks(changes)
        found = ranks.first(queries.limit, first - 1)
        obj = self._objects_of(found.version)
        codes, all_codes = (
            self._codes(some.query, some.step, objects)
            for some, objects in ((found, obj), (changes, self._objects_of(changes.version)))
        )
        come = all_codes[changes.sign > 0]
        is_member = np.isin(codes, come) | ~np.isin(codes, all_codes)
        self._offer(SteppedChanges(found, ranks.places, obj, is_member))
        return _SeenCodes(codes[found.op > 0], come)

    def _follow_steps(self, context: QueryContext, starting: Array) -> list[_SeenCodes]:
        """Offer the changes of queries whose order may change in each step."""
        queries, first, objects = self.queries, self.batch.timing.first, len(self.batch.objects.table)
        mine = queries.each_step & (queries.mode == ACTIVE)
        stepped, limits = self._stepped(context), queries.limit.astype(np.int64)
        before = stepped.after(np.setdiff1d(np.flatnonzero(mine), starting), limits, first - 1)
        specs = [self._orders.spec(form) for form in np.unique(queries.form[mine]).tolist()]
        seen: list[_SeenCodes] = []
        for step in steps_of_change(context, specs):
            after = stepped.after(np.flatnonzero(mine & (queries.until > step)), limits, step)
            changes = changes_between(before.of_queries(queries.until > step), after, step, objects)
            self._offer(changes)
            if step == first:
                come = changes.found.op > 0
                query, obj = after.members
                steps, found = np.full(len(query), step), changes.found.where(come)
                codes = self._codes(found.query, found.step, changes.obj[come])
                seen.append(_SeenCodes(codes, self._codes(query, steps, obj)))
            before = after
        return seen

    def _stepped(self, context: QueryContext) -> SteppedMembers:
        return SteppedMembers(context, self.queries.form, self._orders.places)

    def _first_before(self, positions: Array) -> tuple[Array, Array]:
        """Return the first n of active queries on this slot before the batch: ids of queries and objects."""
        before, context, stepped = self.batch.timing.first - 1, self._context(), self.queries.each_step
        members = self._members(context, positions[~stepped[positions]], before)
        found = self._ranks(members).first(self.queries.limit, before - 1)
        limits = self.queries.limit.astype(np.int64)
        more = self._stepped(context).after(positions[stepped[positions]], limits, before)
        query = np.concatenate([found.query, more.query])
        return self.queries.id[query], np.concatenate([self._objects_of(found.version), more.obj])

    def _members(self, context: QueryContext, positions: Array, step: int) -> MemberChanges:
        """Return all members of queries after a step, as if they came in it."""
        members = context.members(positions, step)
        count = len(members.query)
        return MemberChanges(members.query, np.full(count, step), members.version, np.ones(count, np.int8))

    def _ranks(self, changes: MemberChanges) -> MemberRanks:
        return MemberRanks(changes, self.queries.form, self.batch.objects.versions, self._orders.places)

    def _offer(self, changes: SteppedChanges) -> None:
        """Offer members that come into the first n or have new places there; withdraw those that leave."""
        queries, found = self.queries, changes.found
        came = found.where(found.op > 0)
        queries.sent[:] += np.bincount(found.query, minlength=len(queries))
        chosen: Any = pa.array(came.place)
        places = changes.places.take(chosen)
        ids, whole = queries.id[came.query], came.version.astype(np.int64)
        why, far = np.zeros(len(ids), np.int8), self._distances(came.query, whole, came.step)
        keys = self._changes.keys(came.query, came.version, far)
        self.partials.offer(CandidateOffers(came.step, ids, came.op, why, whole, places, keys))
        codes = self._codes(found.query, found.step, changes.obj)
        leaves = (found.op < 0) & ~np.isin(codes, codes[found.op > 0])
        left, obj, is_member = found.where(leaves), changes.obj[leaves], changes.is_member[leaves]
        versions = self.batch.objects.versions_after(obj, left.step)
        elsewhere = np.flatnonzero(self.batch.objects.have_departed(versions))
        is_member[elsewhere] = are_members(
            self._context(), left.query[elsewhere], versions[elsewhere], left.step[elsewhere]
        )
        self._remove(left.query, left.step, obj, is_member)

    def _take_back(self, seen: _SeenCodes) -> None:
        """Withdraw what resumed queries had offered and do not offer again."""
        ids, obj = self._offered
        if not len(ids):
            return
        query, steps = np.searchsorted(self.queries.id, ids), np.full(len(ids), self.batch.timing.first)
        codes = self._codes(query, steps, obj)
        gone = ~np.isin(codes, seen.offered)
        self._remove(query[gone], steps[gone], obj[gone], np.isin(codes, seen.members)[gone])

    def _remove(self, query: Array, steps: Array, obj: Array, is_member: Array) -> None:
        """Withdraw objects after steps: those that are still members are overtaken."""
        objects = self.batch.objects
        versions = objects.versions_after(obj, steps)
        why, show = objects.reasons(versions, obj, steps)
        why, show = np.where(is_member, OVERTAKEN, why), np.where(is_member, versions, show)
        far = np.where(show == versions, self._distances(query, versions, steps), np.nan)
        gone = QueryUpdates(steps, query, np.full(len(query), -1, np.int8), why.astype(np.int8), show)
        self._withdraw(steps, query, with_shed_reasons(self._context(), gone).why, show, far)

    def _withdraw(self, steps: Array, query: Array, why: Array, show: Array, far: Array) -> None:
        op, shows = np.full(len(query), -1, np.int8), self.queries.shows_distance[query] > 0
        none: Any = pa.repeat(pa.scalar(b"", pa.binary()), len(query))
        places, ids = with_distances(none, far, shows), self.queries.id[query]
        keys = self._changes.keys(np.full(len(query), -1), show, far)
        self.partials.offer(CandidateOffers(steps, ids, op, why, show.astype(np.int64), places, keys))

    def _distances(self, query: Array, show: Array, steps: Array) -> Array:
        """Return the distances to show of versions after steps, NaN for queries that show none."""
        found = np.full(len(query), np.nan)
        asking = np.flatnonzero(
            (self.queries.shows_distance[query] > 0) & (show < self.batch.objects.versions)
        )
        if len(asking):
            context = self._context()
            found[asking] = context.distances(query[asking], show[asking], steps[asking])
        return found

    def _objects_of(self, versions: Array) -> Array:
        return self.batch.objects.numbers.objects_of(versions)

    def _codes(self, query: Array, step: Array, obj: Array) -> Array:
        """Return a query, a step of the batch or the one before, and an object as one number each."""
        timing = self.batch.timing
        span, size = timing.last - timing.first + 2, len(self.batch.objects.table)
        codes: Array = (query.astype(np.int64) * span + (step - timing.first + 1)) * size + obj
        return codes

    def _context(self) -> QueryContext:
        return context_of(self.batch, self.queries, self._conditions, self.prefix, staying=True)


def _together(some: MemberChanges, more: MemberChanges) -> MemberChanges:
    return MemberChanges(*(np.concatenate(columns) for columns in zip(some, more, strict=True)))
