"""Continuous queries with LIMIT: the first n members of a region, by (ORDER BY, key)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stqsh.core.contract.merging_kind import MergingKind, MergingLogic
from stqsh.core.contract.query_kind import ExplainInput, KindExplanation, QueryKind, StreamBatch
from stqsh.core.first.first_merge import merge_first
from stqsh.core.first.member_ranks import FirstMembers, MemberRanks
from stqsh.core.first.places import places_of
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
from stqsh.core.matching.static_index import StaticRegionIndex
from stqsh.core.output.batch_output import BatchOutput
from stqsh.core.output.merge import MergedUpdates, MergeInput
from stqsh.core.output.partials import CandidateOffers
from stqsh.core.output.sent_answers import SentAnswers
from stqsh.core.queries.query_table import PAUSED, QueryTable
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import ArraySpec
from stqsh.spec.query import FIRST, FirstSpec

Array = npt.NDArray[Any]


class FirstQueries(QueryTable):
    """Queries with LIMIT."""

    form = ArraySpec(np.int32)  # its ORDER BY and LIMIT, a position in the header's list
    limit = ArraySpec(np.int32)


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
        found, first = RangeKind().explain(given), getattr(given.spec, "first", None)
        last = "order and limit" if first is None else f"first {first.limit}"
        return replace(found, operators=(*found.operators, last))


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
        self._forms: list[str] = state.entry("forms").setdefault(prefix, [])
        self._offered: tuple[Array, Array] = np.empty(0, np.int64), np.empty(0, np.int32)
        self._is_outdated = False

    def limits(self, positions: Array) -> Array:
        """Return the LIMIT of queries."""
        limits: Array = self.queries.limit[positions]
        return limits

    def register(self, positions: Array, new: NewQueries) -> None:
        """Store the conditions and the order of new queries, and announce them to Aggregate."""
        self._conditions.add(positions, self._index.add_keywords(new))
        specs = [pattern.first or FirstSpec((), 0) for pattern in new.patterns]  # some of other kinds
        texts = [msgspec.json.encode(spec).decode() for spec in specs]
        used = dict.fromkeys(texts[which] for which in np.unique(new.which).tolist())
        self._forms += [text for text in used if text not in self._forms]
        number = {text: i for i, text in enumerate(self._forms)}
        self.queries.form[positions] = new.spread([number.get(text, -1) for text in texts], np.int32)
        self.queries.limit[positions] = new.spread([spec.limit for spec in specs], np.int32)
        self._is_outdated = True
        super().register(positions, new)

    def retire(self, positions: Array, steps: Array, why: int) -> None:
        """Take back what paused queries have sent; for the others Aggregate knows what was sent."""
        for step in np.unique(steps).tolist():
            at = positions[(steps == step) & (self.queries.mode[positions] == PAUSED)]
            ids, objects = self._sent.pop_queries(self.queries.id[at])
            if len(ids):
                shown = self.batch.objects.shown(objects, step - 1)
                self._withdraw(np.full(len(ids), step), ids, np.full(len(ids), why, np.int8), shown)
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
        self._offered = self._sent.pop_queries(self.queries.id[positions])

    def on_events(self, begun: Array) -> None:
        """Offer the changes of each query's first n objects on this slot."""
        queries, first = self.queries, self.batch.timing.first
        if self._is_outdated or len(begun):
            self._index.fill(self._context())
        if not len(queries):
            ObjectCellStore(self.batch, self.prefix).release()
            return
        since = np.full(len(queries), first - 1)
        since[begun] = first
        context = self._context()
        pairs, events = match(context, self._index, QueryLifetimes(since, queries.until))
        count_pairs(pairs, queries.tested, queries.matched)
        starting = np.sort(begun[queries.until[begun] > first])
        changes = _together(
            MemberChanges(*list_changes(pairs, events)), self._members(context, starting, first)
        )
        before = np.setdiff1d(changes.query, begun)
        changes = _together(changes, self._members(context, before, first - 1))
        ranks = self._ranks(changes)
        found = ranks.first(queries.limit, first - 1)
        self._offer(changes, ranks, found)
        self._take_back(changes, found)

    def _first_before(self, positions: Array) -> tuple[Array, Array]:
        """Return the first n of active queries on this slot before the batch: ids of queries and objects."""
        before = self.batch.timing.first - 1
        members = self._members(self._context(), positions, before)
        found = self._ranks(members).first(self.queries.limit, before - 1)
        return self.queries.id[found.query], self._objects_of(found.version)

    def _members(self, context: QueryContext, positions: Array, step: int) -> MemberChanges:
        """Return all members of queries after a step, as if they came in it."""
        members = context.members(positions, step)
        count = len(members.query)
        return MemberChanges(members.query, np.full(count, step), members.version, np.ones(count, np.int8))

    def _ranks(self, changes: MemberChanges) -> MemberRanks:
        return MemberRanks(changes, self.queries.form, self.batch.objects.versions, self._places_of)

    def _places_of(self, form: int, versions: Array) -> pa.BinaryArray:
        spec = msgspec.json.decode(self._forms[form], type=FirstSpec)
        return places_of(self._conditions, self.batch.spec.key, spec.order, versions)

    def _offer(self, changes: MemberChanges, ranks: MemberRanks, found: FirstMembers) -> None:
        """Offer members that come into the first n or have new records there; withdraw those that leave."""
        queries = self.queries
        came = found.where(found.op > 0)
        queries.sent[:] += np.bincount(found.query, minlength=len(queries))
        chosen: Any = pa.array(came.place)
        places = ranks.places.take(chosen)
        ids, whole = queries.id[came.query], came.version.astype(np.int64)
        why = np.zeros(len(ids), np.int8)
        self.partials.offer(CandidateOffers(came.step, ids, came.op, why, whole, places))
        left = found.where(found.op < 0)
        obj = self._objects_of(left.version)
        stays = np.isin(
            self._codes(left.query, left.step, obj),
            self._codes(came.query, came.step, self._objects_of(came.version)),
        )
        left, obj = left.where(~stays), obj[~stays]
        self._remove(left.query, left.step, obj, self._is_member(changes, left, obj))

    def _is_member(self, changes: MemberChanges, left: FirstMembers, obj: Array) -> Array:
        """Return whether objects that leave the first n are still members after the step; bool (n,).

        They may be members on another slot.
        """
        codes = self._codes(left.query, left.step, obj)
        all_codes = self._codes(changes.query, changes.step, self._objects_of(changes.version))
        moved, come = np.isin(codes, all_codes), np.isin(codes, all_codes[changes.sign > 0])
        is_member: Array = come | ~moved
        versions = self.batch.objects.versions_after(obj, left.step)
        elsewhere = np.flatnonzero(self.batch.objects.have_departed(versions))
        is_member[elsewhere] = are_members(
            self._context(), left.query[elsewhere], versions[elsewhere], left.step[elsewhere]
        )
        return is_member

    def _take_back(self, changes: MemberChanges, found: FirstMembers) -> None:
        """Withdraw what resumed queries had offered and do not offer again."""
        ids, obj = self._offered
        if not len(ids):
            return
        first, query = self.batch.timing.first, np.searchsorted(self.queries.id, ids)
        steps = np.full(len(ids), first)
        codes = self._codes(query, steps, obj)
        again = found.where((found.step == first) & (found.op > 0))
        gone = ~np.isin(codes, self._codes(again.query, again.step, self._objects_of(again.version)))
        members = self._codes(changes.query, changes.step, self._objects_of(changes.version))
        is_member = np.isin(codes, members[changes.sign > 0])
        self._remove(query[gone], steps[gone], obj[gone], is_member[gone])

    def _remove(self, query: Array, steps: Array, obj: Array, is_member: Array) -> None:
        """Withdraw objects after steps: those that are still members are overtaken."""
        objects = self.batch.objects
        versions = objects.versions_after(obj, steps)
        why, show = objects.reasons(versions, obj, steps)
        why, show = np.where(is_member, OVERTAKEN, why), np.where(is_member, versions, show)
        self._withdraw(steps, self.queries.id[query], why.astype(np.int8), show)

    def _withdraw(self, steps: Array, ids: Array, why: Array, show: Array) -> None:
        op, places = np.full(len(ids), -1, np.int8), pa.nulls(len(ids), pa.binary())
        self.partials.offer(CandidateOffers(steps, ids, op, why, show.astype(np.int64), places))

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
