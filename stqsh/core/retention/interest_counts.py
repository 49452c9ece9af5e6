"""Reference counts: how many active queries' extended regions contain each object (SOLE section 5)."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from stqsh.arrays import Array
from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.kernels.index.static_rects import QueryLifetimes
from stqsh.core.kernels.retention.reference_counts import count_references, remove_from_cells
from stqsh.core.matching.match import match
from stqsh.core.matching.moving_index import ObjectCellStore
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.matching.query_context import AnswerMembers, QueryContext, context_of
from stqsh.core.matching.static_index import StaticRegionIndex
from stqsh.core.objects.batch_objects import arrivals_at
from stqsh.core.queries.query_table import ACTIVE, PAUSED
from stqsh.core.retention.interest_table import CIRCLING, FOCAL, LOCKED, InterestTable
from stqsh.core.retention.knn_interest import KnnInterest
from stqsh.core.retention.region_sizes import cache_distance
from stqsh.core.retention.stream_stats import locked
from stqsh.core.state.retention_mode import RetentionOrder
from stqsh.core.state.table import ArraySpec, StateTable


class ObjectInterest(StateTable):
    """The reasons why a stream's objects are kept."""

    refs = ArraySpec(np.int32)  # the number of active queries for which the object is kept
    near = ArraySpec(np.int32)  # how many of these are kNN queries
    role = ArraySpec(np.uint8)  # FOCAL and LOCKED, as after the last step

    def forget(self, objects: Array) -> None:
        """Set the counts of objects, int32, to zero."""
        self.refs[objects] = self.near[objects] = 0


class InterestTracker:
    """The extended regions and reference counts of a significant stream during one piece of a batch.

    An object's count excludes the queries around it, because it is never in their answers. The count is 0 for
    objects that are not present.

    Attributes:
        queries: All queries of the stream, including kNN queries; a "query" here is a position in this table.
        reach: The distance D by which moving regions are extended.
        still: The index of static regions.
        near: The kNN queries' circles.
        by_object: The counts and roles of the objects.
    """

    def __init__(self, batch: StreamBatch, memory: RetentionOrder) -> None:
        self.batch, self._memory, self.first = batch, memory, batch.timing.first
        self.queries = InterestTable(batch.state, batch.spec.id)
        self.prefix = self.queries.prefix
        self.reach = cache_distance(batch.spec, batch.timing.tick, memory.factor * memory.cache)
        self._conditions = QueryConditions(batch.state, self.prefix, self.queries, batch.objects, batch.focal)
        self.still = StaticRegionIndex(batch, self.prefix)
        self.near = KnnInterest(batch, self.reach)
        self.by_object = ObjectInterest(batch.state, f"s{batch.spec.id}/objects")
        self.by_object.resize(len(batch.objects.table))

    @property
    def refs(self) -> Array:
        """The reference counts, int32 (objects,); a view that may be changed."""
        return self.by_object.refs

    @cached_property
    def context(self) -> QueryContext:
        """The extended regions of the current queries, over the stream's objects."""
        return context_of(self.batch, self.queries, self._conditions, self.prefix)

    def _refresh(self) -> None:
        """Rebuild the data that is derived from the queries, after they have changed."""
        self.__dict__.pop("context", None)
        self.still.fill(self.context)

    def follow(self) -> None:
        """Apply the piece's commands and events; afterwards `refs` and `held` are valid for its last step."""
        begun = self._apply_commands()
        if self.still.is_due:
            self._refresh()
        since = np.full(len(self.queries), self.first - 1)
        since[begun] = self.first
        lives = QueryLifetimes(since, self.queries.until)
        if len(self.queries):
            context = self.context
            pairs, events = match(context, self.still, lives)
            count_references(pairs, events, self.refs, self.queries.held)
            ranges = begun[(self.queries.mode[begun] == ACTIVE) & (lives.until[begun] > self.first)]
            self._count(context.members(ranges, self.first), 1)
        self._end_queries(since)
        self._count_near()

    def focals(self) -> Array:
        """Return which objects are focal objects of active queries; bool (objects,)."""
        out = np.zeros(len(self.batch.objects.table), np.bool_)
        own = self.context.focals[self.queries.active]
        out[own[own >= 0]] = True
        return out

    def pairs_of(self, objects: Array, at: Array | None = None) -> AnswerMembers:
        """Find the queries whose extended regions contain some objects after the last step.

        Args:
            objects: Present objects, int32, ascending.
            at: The positions of the queries to consider; by default all active queries, including kNN
                queries.

        Returns:
            Pairs, ascending by object, then query.
        """
        at, last = self.queries.active if at is None else at, self.batch.timing.last
        ranges = self.context.members(at[self.queries.mode[at] == ACTIVE], last, objects)
        query, obj = self.near.pairs(self.context, objects)
        mine = np.isin(query, at)
        query, obj = np.concatenate([ranges.query, query[mine]]), np.concatenate([ranges.obj, obj[mine]])
        order = np.lexsort((query, obj))
        query, obj = query[order].astype(np.int32), obj[order].astype(np.int32)
        return AnswerMembers(query, obj, self.batch.objects.at(last).versions[obj])

    def _apply_commands(self) -> Array:
        """Apply commands; return the positions of queries whose objects must be recounted."""
        commands, queries = self.batch.commands, self.queries
        if not commands.any:
            return np.empty(0, np.int64)
        gone, paused = queries.positions(commands.dropped), queries.positions(commands.paused)
        self._discount(np.union1d(gone, paused), self.first - 1)
        queries.mode[paused] = PAUSED
        queries.remove(gone)
        resumed = queries.resume(commands.resumed, self.first)
        queries.circle(resumed)
        new = queries.register_all(self.batch) if len(commands.registered) else np.empty(0, np.int64)
        if len(new) or commands.memory is not None:
            queries.set_reach(self.reach, self._memory.area)
        self._refresh()
        begun: Array = np.concatenate([resumed, new[queries.mode[new] != PAUSED]])
        if commands.memory is not None:
            self.refs[:] = self.by_object.near
            begun = queries.active
            queries.held[queries.mode == ACTIVE] = 0
        return begun

    def _discount(self, positions: Array, step: int) -> None:
        """Subtract the objects in the regions of queries that end from the counts."""
        mode = self.queries.mode[positions]
        self._count(self.context.members(positions[mode == ACTIVE], step), -1)
        self.queries.held[positions] = self.queries.shed[positions] = 0

    def _count(self, members: AnswerMembers, sign: int) -> None:
        if len(members.query):
            self.refs[:] += sign * np.bincount(members.obj, minlength=len(self.refs)).astype(np.int32)
            self.queries.held[:] += sign * np.bincount(members.query, minlength=len(self.queries))

    def _end_queries(self, since: Array) -> None:
        """Remove queries whose FOR has ended, each at its own step."""
        until = self.queries.until
        over = np.flatnonzero(until <= self.batch.timing.last)
        for step in np.unique(until[over]).tolist():
            at = over[(until[over] == step) & (since[over] < step)]
            self._discount(at, step - 1)
        if len(over):
            self.queries.remove(over)
            self._refresh()

    def _count_near(self) -> None:
        """Recount the objects near kNN queries, because their circles change with each step."""
        near = self.by_object.near
        circling = np.flatnonzero(self.queries.mode == CIRCLING)
        if not len(circling) and not near.any():
            return
        counts, held = self.near.counts(self.context, circling)
        self.refs[:] += counts - near
        near[:] = counts
        self.queries.held[circling] = held


def set_roles(interest: InterestTracker, focal: Array) -> None:
    """Store the roles of objects after the last step; `focal` is bool (objects,)."""
    role, at = interest.by_object.role, interest.queries.active
    role[:] = np.where(focal, FOCAL, 0)
    at = at[locked(interest.queries, at)]
    if len(at):
        present = arrivals_at(interest.batch.objects, interest.batch.timing.last).obj
        role[interest.pairs_of(present, at).obj] |= np.uint8(LOCKED)


def remove_from_index(interest: InterestTracker, objects: Array) -> None:
    """Remove objects, int32, from the cells of moving queries after the last step."""
    batch, prefix = interest.batch, interest.prefix
    if len(objects) and f"{prefix}/cells/lattice" in batch.state:
        frame, cells = ObjectCellStore(batch, prefix).open(batch.objects.events)
        remove_from_cells(cells, objects, frame)
