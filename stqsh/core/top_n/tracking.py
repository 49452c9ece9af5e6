"""Track the first n members of each query on a slot through a batch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stqsh.arrays import Array
from stqsh.core.base.clock import NEVER
from stqsh.core.groups.group_deltas import MemberChanges
from stqsh.core.kernels.events.updates import count_pairs
from stqsh.core.kernels.groups.net_members import list_changes
from stqsh.core.kernels.index.static_rects import QueryLifetimes
from stqsh.core.matching.match import match
from stqsh.core.matching.query_context import QueryContext
from stqsh.core.matching.static_index import StaticRegionIndex
from stqsh.core.queries.query_table import ACTIVE
from stqsh.core.top_n.member_ranks import MemberRanks
from stqsh.core.top_n.near_members import near_changes
from stqsh.core.top_n.orders import QueryOrders, TopNQueries
from stqsh.core.top_n.stepped_members import (
    SteppedChanges,
    SteppedMembers,
    changes_between,
    member_codes,
    steps_of_change,
)

Followed = tuple[SteppedChanges, Array]
"""Changes of the first n, and members that come, including all of the first step, see `member_codes`."""


class TopNTracker:
    """Tracks the first n members of queries.

    Args:
        context: The context of the batch.
        queries: The queries of the context.
        orders: The orders of the queries.
    """

    def __init__(self, context: QueryContext, queries: TopNQueries, orders: QueryOrders) -> None:
        self._context, self._queries, self._orders = context, queries, orders
        self._objects, self._timing = context.batch.objects, context.batch.timing
        self._stepped = SteppedMembers(context, queries.form, orders.places)

    def follow(self, index: StaticRegionIndex, begun: Array) -> Iterator[Followed]:
        """Yield the changes of a batch; `begun` has the positions of queries whose answers begin."""
        living = begun[self._queries.until[begun] > self._timing.first]
        stepped = self._queries.each_step[living]
        yield self._by_records(index, begun, np.sort(living[~stepped]))
        if self._queries.each_step.any():
            yield from self._by_steps(np.sort(living[stepped]))

    def before(self, positions: Array) -> tuple[Array, Array]:
        """Return the first n of active queries before the batch: ids of queries and objects."""
        queries, before = self._queries, self._timing.first - 1
        members = self._members(positions[~queries.each_step[positions]], before)
        found = self._ranks(members).first(queries.limit, before - 1)
        limits = queries.limit.astype(np.int64)
        more = self._stepped.after(positions[queries.each_step[positions]], limits, before)
        query = np.concatenate([found.query, more.query])
        return queries.id[query], np.concatenate([self._objects_of(found.version), more.obj])

    def _by_records(self, index: StaticRegionIndex, begun: Array, starting: Array) -> Followed:
        """Return the changes of queries whose order changes only with records."""
        queries, first, batch = self._queries, self._timing.first, self._context.batch
        since = np.where(queries.each_step, NEVER, first - 1)
        since[starting] = first
        since[np.setdiff1d(begun, starting)] = NEVER
        pairs, events = match(self._context, index, QueryLifetimes(since, queries.until))
        count_pairs(pairs, queries.tested, queries.matched)
        changes = _together(MemberChanges(*list_changes(pairs, events)), self._members(starting, first))
        before = np.setdiff1d(changes.query, begun)
        changes = _together(changes, self._members(before, first - 1))
        ranks = self._ranks(changes)
        found = ranks.first(queries.limit, first - 1)
        obj = self._objects_of(found.version)
        codes, all_codes = (
            member_codes(batch, some.query, some.step, objects)
            for some, objects in ((found, obj), (changes, self._objects_of(changes.version)))
        )
        come = all_codes[changes.sign > 0]
        is_member = np.isin(codes, come) | ~np.isin(codes, all_codes)
        return SteppedChanges(found, ranks.places, obj, is_member), come

    def _by_steps(self, starting: Array) -> Iterator[Followed]:
        """Yield the changes of queries whose order may change in each step."""
        queries, first, objects = self._queries, self._timing.first, len(self._objects.table)
        mine = queries.each_step & (queries.mode == ACTIVE)
        limits = queries.limit.astype(np.int64)
        before = self._stepped.after(np.setdiff1d(np.flatnonzero(mine), starting), limits, first - 1)
        for step in steps_of_change(self._context, np.flatnonzero(mine), self._orders.timings()):
            after = self._stepped.after(np.flatnonzero(mine & (queries.until > step)), limits, step)
            changes = changes_between(before.of_queries(queries.until > step), after, step, objects)
            query, obj = after.members if step == first else (np.empty(0, np.int32),) * 2
            yield changes, member_codes(self._context.batch, query, np.full(len(query), step), obj)
            before = after

    def _members(self, positions: Array, step: int) -> MemberChanges:
        """Return all members of queries after a step, as if they came in it."""
        members = self._context.members(positions, step)
        count = len(members.query)
        return MemberChanges(members.query, np.full(count, step), members.version, np.ones(count, np.int8))

    def _ranks(self, changes: MemberChanges) -> MemberRanks:
        changes = near_changes(changes, self._queries, self._orders, self._context.conditions)
        return MemberRanks(changes, self._queries.form, self._objects.versions, self._orders.places)

    def _objects_of(self, versions: Array) -> Array:
        return self._objects.numbers.objects_of(versions)


def _together(some: MemberChanges, more: MemberChanges) -> MemberChanges:
    return MemberChanges(*(np.concatenate(columns) for columns in zip(some, more, strict=True)))
