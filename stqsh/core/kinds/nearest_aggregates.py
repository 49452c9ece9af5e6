"""Continuous aggregates over the k nearest objects (language.md section 7).

Slots offer their own k nearest, as for the query without aggregates. Aggregate merges these into the k
nearest of all slots. After each step in which the k may have changed, it subtracts the contributions of the
earlier k from the groups and adds those of the new k.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.aggregates.states import group_payloads
from stqsh.core.contract.query_kind import ExplainInput, KindExplanation, StreamBatch
from stqsh.core.groups.candidate_columns import CandidateColumns
from stqsh.core.groups.candidate_groups import candidate_groups
from stqsh.core.groups.group_deltas import MemberChanges
from stqsh.core.groups.group_merge import merge_groups
from stqsh.core.groups.marks import BEGIN, GroupMarks, MarkWriter, read_marks
from stqsh.core.kinds.nearest import NearestKind, NearestLogic
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.nearest.candidate_changes import CandidateChanges
from stqsh.core.output.merge import MembersByStep, MergedMembers, MergedUpdates, MergeInput, first_k_members
from stqsh.core.queries.query_table import ACTIVE, QueryTable
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.state.table import ArraySpec
from stqsh.spec.chunk import Chunk, ChunkOrder, Phase, pack
from stqsh.spec.query import NEAREST_AGGREGATE, GroupForm


class NearestAggregateQueries(QueryTable):
    """Aggregate queries over the k nearest."""

    looks = ArraySpec(np.int32)  # its lookups: place in the header's list, from 1 on; 0 for none
    heeds_time = ArraySpec(np.bool_)  # whether rows change as time passes


class GroupLookup:
    """The values that queries look up for candidates, because Aggregate has only the records."""

    def __init__(
        self, batch: StreamBatch, queries: NearestAggregateQueries, conditions: QueryConditions
    ) -> None:
        self._queries, self._conditions, self._first = queries, conditions, batch.timing.first
        self._lookups = CandidateColumns(batch.state, queries.prefix)
        self.groups = MarkWriter()

    def add(self, positions: Array, new: NewQueries) -> None:
        """Send the specs of new queries to Aggregate, and store what they look up."""
        specs, self._queries.looks[positions] = self._lookups.separate(new)
        texts = [GroupForm(spec).text for spec in specs]
        forms = list(dict.fromkeys(texts))
        number = {text: i for i, text in enumerate(forms)}
        which = new.spread([number[text] for text in texts], np.int32)
        self.groups.register(self._queries.id[positions], self._first, forms, which)
        heeds = new.spread([spec.heeds_time for spec in specs], np.bool_)
        self._queries.heeds_time[positions] = heeds

    def keys(self, changes: CandidateChanges) -> pa.BinaryArray:
        """Return the keys of the looked-up values of offered candidates, null for others."""
        looks = np.where(changes.op > 0, self._queries.looks[changes.query], 0)
        return self._lookups.keys(looks, changes.show, self._conditions)

    def clear(self) -> None:
        """Forget all lookups, because there are no queries."""
        self._lookups.clear()


class NearestAggregateLogic(NearestLogic):
    """One batch of a stream's aggregates over the nearest."""

    queries: NearestAggregateQueries

    @cached_property
    def lookup(self) -> GroupLookup:
        """The values that queries look up for candidates."""
        return GroupLookup(self.batch, self.queries, self._conditions)

    def retire(self, positions: Array, steps: Array, why: int) -> None:
        """Remove queries, and mark them so that Aggregate retracts their groups too."""
        self.lookup.groups.retire(self.queries.id[positions], steps, why)
        super().retire(positions, steps, why)
        if not len(self.queries):
            self.lookup.clear()

    def on_events(self, begun: Array) -> None:
        """Offer candidates, and mark the answers that begin."""
        first = self.batch.timing.first
        starting = begun[self.queries.until[begun] > first]
        queries = self.queries
        self.lookup.groups.add(queries.id[starting], first, BEGIN)
        awake = queries.heeds_time & (queries.mode == ACTIVE) & (queries.until > first)
        self.lookup.groups.wake(queries.id[awake], self.batch.clock)
        super().on_events(begun)

    def chunks(self) -> list[Chunk]:
        """Return the candidates, and the marks of members and of groups."""
        return [*super().chunks(), *marks_of_groups(self.batch, self.lookup.groups, NEAREST_AGGREGATE.name)]


class NearestAggregateKind(NearestKind):
    """Aggregates of the first k present objects that satisfy a condition, by group."""

    name = NEAREST_AGGREGATE.name
    logic = NearestAggregateLogic
    table = NearestAggregateQueries
    holds_back = False

    def merge(self, batch: MergeInput) -> MergedUpdates:
        """Merge the slots' candidates, and return the changes of the groups of the first k."""
        return merge_neighbours(batch, keep=True)

    def explain(self, given: ExplainInput) -> KindExplanation:
        """Return what EXPLAIN shows: members are found as for a kNN query."""
        found = super().explain(given)
        return replace(found, operators=(*found.operators, "hash aggregate"))


def marks_of_groups(batch: StreamBatch, groups: MarkWriter, kind: str) -> list[Chunk]:
    """Return the marks of groups as a chunk; empty without marks."""
    marks, timing = groups.batch(), batch.timing
    if marks is None:
        return []
    slot, stream, order = batch.state.slot, batch.spec.id, ChunkOrder(Phase.EVALUATED)
    count, payload = marks.num_rows, pack(marks)
    return [Chunk(slot, stream, f"groups/{kind}", order, timing.first, timing.last, count, payload)]


def merge_neighbours(batch: MergeInput, *, keep: bool) -> MergedUpdates:
    """Merge the slots' candidates, and return the changes of the groups of the first k.

    Without `keep`, slots offer all candidates again in the next batch, and mark that their queries begin.
    """
    members = first_k_members(replace(batch, kind=f"{batch.kind}/members"), keep=keep)
    groups = replace(batch, kind=f"{batch.kind}/groups", marks=batch.groups, partials=[])
    marks, ranks = read_marks(batch.groups), members.ranks
    changes = _changes(members, marks[0].those(BEGIN))
    found = candidate_groups(groups, changes, members.records, lambda _, versions: ranks[versions], marks)
    partials = list(group_payloads(found))
    return merge_groups(replace(groups, partials=partials))


def _changes(members: MergedMembers, begins: GroupMarks) -> MemberChanges:
    """Return the members as changes: at each step all previous members leave, and all current ones come.

    When an answer begins, Aggregate resets its groups, so its members from before the batch come again.
    """
    before, after = members.before, members.after
    at = np.searchsorted(begins.query, before.query)
    begun = np.isin(before.query, begins.query)
    coming = MembersByStep(before.query[begun], begins.step[at[begun]], before.version[begun])
    leaving = _until(before, members), _until(after, members)
    parts = [(coming, 1), (after, 1), *((part, -1) for part in leaving)]
    signs = [np.full(len(part.query), sign, np.int8) for part, sign in parts]
    query, step, version = (
        np.concatenate(column) for column in zip(*(part for part, _ in parts), strict=True)
    )
    return MemberChanges(query, step, version, np.concatenate(signs))


def _until(some: MembersByStep, members: MergedMembers) -> MembersByStep:
    """Return members at the next step for which their query's members are listed; drop those that stay."""
    span = int(members.step.max(initial=0)) + 1
    listed = members.query * span + members.step
    place = np.searchsorted(listed, some.query * span + some.step, side="right")
    inside = np.minimum(place, max(len(listed) - 1, 0))
    again = (place < len(listed)) & (members.query[inside] == some.query) if len(listed) else place < 0
    return MembersByStep(some.query[again], members.step[inside[again]], some.version[again])
