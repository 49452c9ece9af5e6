"""Aggregates with DWELL: an object counts once it has stayed in for DWELL, until it has stayed out as long.

The members that count are those that a range query with DWELL would have sent. Only the result differs: each
slot sends the differences that its members cause in groups, as for other aggregates.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from stqsh.arrays import Array
from stqsh.core.contract.merging_kind import MergingKind
from stqsh.core.contract.query_kind import ExplainInput, KindExplanation, QueryKind, StreamBatch
from stqsh.core.groups.group_deltas import GroupDeltas, MemberChanges
from stqsh.core.groups.group_merge import merge_groups
from stqsh.core.groups.query_forms import FormedQueries, SlotGroups, changed_groups
from stqsh.core.kinds.aggregates import AggregateKind
from stqsh.core.kinds.ranges import RangeLogic
from stqsh.core.matching.dwell import held_before, held_members
from stqsh.core.matching.query_context import AnswerMembers, QueryContext
from stqsh.core.matching.row_changes import RangeQueries
from stqsh.core.output.batch_output import BatchOutput, QueryUpdates
from stqsh.core.output.merge import MergedUpdates, MergeInput
from stqsh.core.queries.query_table import QueryTable
from stqsh.core.queries.registrations import NewQueries
from stqsh.spec.chunk import Chunk
from stqsh.spec.query import DWELLING_AGGREGATE


class DwellingQueries(FormedQueries, RangeQueries):
    """Aggregate queries with DWELL."""


class DwellingAggregateLogic(RangeLogic):
    """One batch of a stream's aggregate queries with DWELL."""

    queries: DwellingQueries

    def __init__(self, kind: QueryKind, batch: StreamBatch, output: BatchOutput) -> None:
        super().__init__(kind, batch, output)
        self._groups = SlotGroups(batch, kind.name, self.queries)
        self._resumed: tuple[Array, Array] = np.empty(0, np.int64), np.empty(0, np.int32)

    def register(self, positions: Array, new: NewQueries) -> None:
        """Store what new queries compute, and announce them to Aggregate."""
        self._regions.add(positions, new)
        self._groups.add(positions, new)

    def retire(self, positions: Array, steps: Array, why: int) -> None:
        """Remove queries; Aggregate retracts their rows."""
        self._groups.retire(positions, steps, why)
        super().retire(positions, steps, why)

    def resume(self, positions: Array) -> None:
        """Load the members that counted before queries paused."""
        ids, objects = self._sent.pop_queries(self.queries.id[positions])
        self._resumed = np.searchsorted(self.queries.id, ids), objects
        self._earlier.add(*self._resumed)

    def chunks(self) -> list[Chunk]:
        """Return the marks and the differences of groups."""
        return self._groups.chunks()

    def _emit(self, context: QueryContext, updates: list[QueryUpdates], since: Array) -> None:
        """Compute the group changes caused by members that come, leave or have new records."""
        first, queries, batch = self.batch.timing.first, self.queries, self.batch
        self._groups.begin(np.setdiff1d(self.begun, self._replaced_positions), first)
        self._groups.wake()
        everyone = np.ones(len(queries), np.bool_)
        held = held_before(context, self._dwell, everyone, since, self._replaced)
        changes = self._member_changes(context, held, self._dwell.lasting(context, updates))
        # DISTANCE is read only from fixed centres here, so any step will do; no record is compared with NOW.
        distances = partial(context.distances, step=first)
        conditions, versions = self._regions.conditions, batch.objects.versions
        deltas = GroupDeltas(conditions, versions, batch.timing, queries.id, distances)
        self._groups.found(changed_groups(self._groups.forms, deltas, changes))

    def _member_changes(
        self, context: QueryContext, held: AnswerMembers, lasting: QueryUpdates
    ) -> MemberChanges:
        """Return the changes of the members that count.

        Args:
            context: The context of the batch.
            held: The members that count before the batch.
            lasting: The members that come and leave in it. In resumed queries, members that stay come again.
        """
        objects, first = self.batch.objects, self.batch.timing.first
        query, obj = self._resumed
        again = AnswerMembers(
            query.astype(np.int32), obj, objects.versions_after(obj, np.full(len(obj), first))
        )
        together = AnswerMembers(*(np.concatenate(pair) for pair in zip(held, again, strict=True)))
        is_again = np.arange(len(together.query)) >= len(held.query)
        staying = held_members(context, together, is_again, lasting)
        size, turned = len(objects.table), objects.numbers.shown_objects(lasting.show)
        code, back = lasting.query.astype(np.int64) * size + turned, query * size + obj
        goes_at_once = (lasting.op < 0) & (lasting.step == first)
        stays = ~np.isin(back, code[goes_at_once])
        come = np.flatnonzero(lasting.op > 0)
        go = np.flatnonzero((lasting.op < 0) & ~(goes_at_once & np.isin(code, back)))
        parts = [
            (again.query[stays], np.full(stays.sum(), first), again.version[stays], 1),
            (lasting.query[come], lasting.step[come], lasting.show[come], 1),
            (
                lasting.query[go],
                lasting.step[go],
                objects.versions_after(turned[go], lasting.step[go] - 1),
                -1,
            ),
            (staying.query, staying.step, staying.old, -1),
            (staying.query, staying.step, staying.new, 1),
        ]
        signs = [np.full(len(part[0]), part[3], np.int8) for part in parts]
        query, step, version = (np.concatenate([part[i] for part in parts]) for i in range(3))
        return MemberChanges(query, step, version, np.concatenate(signs))

    def _take_back(self, context: QueryContext, positions: Array, step: int, why: int) -> None:
        """Forget the waiting changes of queries and the members that count."""
        del context, step, why
        ids = self.queries.id[positions].tolist()
        self._dwell.pop_queries(ids)
        self._sent.pop_queries(ids)


class DwellingAggregateKind(MergingKind):
    """Aggregates of the members of a region, by group, with DWELL."""

    name = DWELLING_AGGREGATE.name
    logic = DwellingAggregateLogic
    table = DwellingQueries
    holds_back = False

    def needs_each_step(self, queries: QueryTable) -> bool:
        """Return True if there are queries: due members contribute the record that they have in that step."""
        return len(queries) > 0

    def merge(self, batch: MergeInput) -> MergedUpdates:
        """Add up the slots' differences, and return the changes of the answers."""
        return merge_groups(batch)

    def explain(self, given: ExplainInput) -> KindExplanation:
        """Return what EXPLAIN shows: members are found as for any aggregate."""
        found = AggregateKind().explain(given)
        return replace(found, operators=(*found.operators[:-1], "dwell", found.operators[-1]))
