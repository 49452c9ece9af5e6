"""Range queries: regions that are fixed, or move with a focal object (SOLE sections 3 to 5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from stqsh.core.contract.query_kind import (
    ExplainInput,
    KindExplanation,
    QueryKind,
    QueryLogic,
    StreamBatch,
)
from stqsh.core.contract.snapshot_selection import SnapshotSelection
from stqsh.core.kernels.events.updates import ENDED
from stqsh.core.kernels.index.static_rects import QueryLifetimes
from stqsh.core.matching.dwell import DwellTable
from stqsh.core.matching.dwelling_rows import held_members
from stqsh.core.matching.keyword_queries import keyword_mode
from stqsh.core.matching.match import region_updates
from stqsh.core.matching.moving_index import ObjectCellStore
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.matching.query_context import AnswerMembers, QueryContext, context_of
from stqsh.core.matching.region_scaling import scale, will_scale
from stqsh.core.matching.row_changes import RangeQueries, RowChanges, StayingMembers
from stqsh.core.matching.static_index import StaticRegionIndex
from stqsh.core.matching.told_rows import ToldMembers, ToldRows
from stqsh.core.matching.update_emitter import UpdateEmitter
from stqsh.core.output.batch_output import BatchOutput, QueryUpdates, arrivals
from stqsh.core.output.sent_answers import SentAnswers
from stqsh.core.queries.query_table import ACTIVE, PAUSED, QueryTable
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.state.retention_mode import memory_of
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.query import RANGE

Array = npt.NDArray[Any]
SentPairs = tuple[Array, Array]
"""What queries sent before a step: their positions and objects, (n,) each."""


class RangeKind(QueryKind):
    """The present objects inside a region that satisfy a condition."""

    name = RANGE.name

    def build(self, batch: StreamBatch, output: BatchOutput) -> RangeLogic:
        """Load the queries of a slot for one batch."""
        return RangeLogic(self, batch, output)

    def queries(self, state: SlotState, stream: int) -> RangeQueries:
        """Return the kind's queries over a stream."""
        return RangeQueries(state, self.prefix(stream))

    def needs_each_step(self, queries: QueryTable) -> bool:
        """Return whether a query has DWELL: its updates show the record at the step in which they are due."""
        return bool((queries.dwell > 0).any())

    def count_members(self, selection: SnapshotSelection) -> int:
        """Return how many objects are members, from the box alone if there are no further tests."""
        return selection.count_in_box() if selection.is_box_only else super().count_members(selection)

    def explain(self, given: ExplainInput) -> KindExplanation:
        """Return what EXPLAIN shows of a range query."""
        spec, measure = given.spec, given.measure
        present, terms = measure.objects, keyword_mode(spec, given.stream)
        fixed = "moving cells" if spec.region.focal_key is not None else "grid"
        return KindExplanation(
            index="keyword index" if terms else fixed,
            access=f"scan of {present} objects against the box",
            chance=measure.boxed / present if present else 0.0,
            operators=given.operators,
            terms=terms,
        )


class RangeLogic(QueryLogic):
    """One batch of a stream's range queries."""

    queries: RangeQueries

    def __init__(self, kind: QueryKind, batch: StreamBatch, output: BatchOutput) -> None:
        super().__init__(kind, batch, output)
        state, prefix = batch.state, self.prefix
        self._sent, self._dwell = SentAnswers(state, prefix), DwellTable(state, prefix)
        self._index = StaticRegionIndex(batch, prefix)
        self._conditions = QueryConditions(state, prefix, self.queries, batch.objects)
        self._changes = RowChanges(state, prefix, self.queries, self._conditions)
        self._area = memory_of(state, batch.spec.id).area
        self._frozen: list[SentPairs] = [(np.empty(0, np.int64), np.empty(0, np.int32))]
        self._told: tuple[ToldRows, ToldMembers] | None = None
        self._since: Array | None = None
        self._is_outdated = False

    def register(self, positions: Array, new: NewQueries) -> None:
        """Store the conditions and keywords of new queries, and scale their regions."""
        self._conditions.add(positions, self._index.add_keywords(new))
        self._changes.add(positions, new)
        scale(self.queries, self._area, positions)
        self._is_outdated = True

    def retire(self, positions: Array, steps: Array, why: int) -> None:
        """Emit a removal, with the record before the step, for each member that queries have sent."""
        context, begun = self._context(), np.ones(len(positions), np.bool_)
        if self._since is not None:
            begun = (self._since[positions] < steps) | (self.queries.mode[positions] == PAUSED)
        for step in np.unique(steps).tolist():
            self._take_back(context, positions[begun & (steps == step)], step, why)
        super().retire(positions, steps, why)
        if why == ENDED:
            self._index.fill(self._context())
        else:
            self._is_outdated = True

    def pause(self, positions: Array) -> None:
        """Store what queries have sent."""
        context, before = self._context(), self.batch.timing.first - 1
        members = self._members(context, positions, before)
        self._sent.add(self.queries.id[members.query], members.obj)
        wanted = np.flatnonzero(self._changes.wanted[members.query])
        if len(wanted):
            some = AnswerMembers(*(column[wanted] for column in members))
            ToldRows(self.batch, self.prefix).store(self._as_told(context, some, before))
        self._is_outdated = True

    def forget(self, ids: Iterable[int]) -> None:
        """Forget the rows that queries have sent."""
        self._pop_told(np.array([*ids], np.int64))

    def rescale(self) -> Array:
        """Scale regions to the share of their area that load shedding leaves."""
        queries, first = self.queries, self.batch.timing.first
        at = will_scale(queries, self._area, np.flatnonzero(queries.until > first))
        active: Array = at[queries.mode[at] == ACTIVE]
        members = self._context().members(active, first - 1)
        scale(queries, self._area, at)
        self._frozen.append((members.query.astype(np.int64), members.obj))
        return active

    def resume(self, positions: Array) -> None:
        """Load what queries had sent before they paused."""
        ids, objects = self._sent.pop_queries(self.queries.id[positions])
        self._frozen.append((np.searchsorted(self.queries.id, ids), objects))
        self._told = self._pop_told(self.queries.id[positions])

    def on_events(self, begun: Array) -> None:
        """Emit the changes of answers, then the answers that begin."""
        queries, first = self.queries, self.batch.timing.first
        if self._is_outdated or len(begun):
            self._index.fill(self._context())
        self._since = np.full(len(queries), first - 1)
        self._since[begun] = first
        if not len(queries):
            ObjectCellStore(self.batch, self.prefix).release()
            return
        context = self._context()
        living = QueryLifetimes(self._since, queries.until)
        found, staying = region_updates(context, self._index, living, self._follows)
        updates = [QueryUpdates(*found), self._changes.updates(context, staying)]
        starting = begun[queries.until[begun] > first]
        if len(starting):
            updates += self._first_answers(context, starting)
        self._emit(context, updates)

    @property
    def _follows(self) -> Array:
        """Which queries send changes of the rows of all members as they come; bool (queries,)."""
        follows: Array = self._changes.wanted & (self.queries.dwell == 0)
        return follows

    def _emit(self, context: QueryContext, updates: list[QueryUpdates]) -> None:
        """Emit changes of answers; those of queries with DWELL must last first."""
        emitter, waiting, dwell = UpdateEmitter(context, self.output), [], self.queries.dwell > 0
        held = self._held(context)
        for some in updates:
            if not dwell.any():
                emitter.emit(some)
                continue
            waiting.append(some.where(dwell[some.query]))
            emitter.emit(some.where(~dwell[some.query]))
        if waiting or len(self._dwell):
            lasting = self._dwell.lasting(context, waiting)
            emitter.emit(lasting)
            if held is not None:
                emitter.emit(self._changes_of_held(context, held, lasting))

    def _held(self, context: QueryContext) -> AnswerMembers | None:
        """Return what readers hold before the batch of queries with DWELL and changes; None without such.

        What they hold of queries that resume is among the rows that these had sent before they paused.
        """
        queries, first = self.queries, self.batch.timing.first
        mine = self._changes.wanted & (queries.dwell > 0) & (queries.mode == ACTIVE)
        if not mine.any():
            return None
        assert self._since is not None, "the queries of the batch are known"
        positions = np.flatnonzero(mine & (self._since < first))
        members = context.members(positions, first - 1)
        return self._dwell.sent_members(context, members, positions, first - 1, go_on=True)

    def _changes_of_held(
        self, context: QueryContext, held: AnswerMembers, lasting: QueryUpdates
    ) -> QueryUpdates:
        """Return the changes of rows that readers hold all the while, of queries with DWELL."""
        lasting = lasting.where(self._changes.wanted[lasting.query])
        resumed, updates = AnswerMembers(*(np.empty(0, np.int32) for _ in range(3))), []
        if self._told is not None:
            resumed, changes = self._resumed_rows(context, lasting)
            updates.append(changes)
        together = AnswerMembers(*(np.concatenate(pair) for pair in zip(held, resumed, strict=True)))
        is_resumed = np.arange(len(together.query)) >= len(held.query)
        updates.append(self._changes.updates(context, held_members(context, together, is_resumed, lasting)))
        return QueryUpdates(
            *(np.concatenate(column) for column in zip(*(u[:5] for u in updates), strict=True))
        )

    def _resumed_rows(
        self, context: QueryContext, lasting: QueryUpdates
    ) -> tuple[AnswerMembers, QueryUpdates]:
        """Return what readers hold of resumed queries with DWELL, and the new rows of those that changed."""
        assert self._told is not None, "only queries that had sent something get here"
        objects, first, told = self.batch.objects, self.batch.timing.first, self._told[1]
        query = np.searchsorted(self.queries.id, told.query)
        mine = self.queries.dwell[query] > 0
        query, obj = query[mine].astype(np.int32), told.obj[mine]
        members = AnswerMembers(query, obj, objects.versions_after(obj, np.full(len(obj), first)))
        size, now = len(objects.table), lasting.step == first
        turned = lasting.query[now].astype(np.int64) * size + objects.numbers.shown_objects(lasting.show[now])
        stays = ~np.isin(query.astype(np.int64) * size + obj, turned)
        there = AnswerMembers(*(column[stays] for column in members))
        return members, self._changes_since_pause(context, there)

    def _first_answers(self, context: QueryContext, positions: Array) -> Iterator[QueryUpdates]:
        """Yield first answers, and for resumed and rescaled queries the difference to what they had sent."""
        objects, first, queries = context.batch.objects, context.batch.timing.first, self.queries
        members = context.members(positions, first)
        had_query, had_obj = (np.concatenate(column) for column in zip(*self._frozen, strict=True))
        if not len(had_query):  # comparing with nothing would sort millions of first members
            yield arrivals(first, members.query, members.version)
            return
        count = len(objects.table)
        had, has = had_query * count + had_obj, members.query.astype(np.int64) * count + members.obj
        new, gone = ~np.isin(has, had), ~np.isin(had, has)
        yield arrivals(first, members.query[new], members.version[new])
        follows = np.flatnonzero(self._follows[members.query])
        yield self._changes_since_pause(context, AnswerMembers(*(column[follows] for column in members)))
        told = np.empty(0, np.int64) if self._told is None else self._told[1].query
        stays = ~new & self._follows[members.query] & ~np.isin(queries.id[members.query], told)
        query, obj, version = (column[stays] for column in members)
        steps = np.full(len(obj), first)
        before = objects.versions_after(obj, steps - 1)
        yield self._changes.updates(context, StayingMembers(steps, query, before, version))
        query, obj = had_query[gone], had_obj[gone].astype(np.int32)
        steps = np.full(len(obj), first)
        why, show = objects.reasons(objects.versions_after(obj, steps), obj, steps)
        yield QueryUpdates(steps, query, np.full(len(obj), -1), why, show)

    def _changes_since_pause(self, context: QueryContext, members: AnswerMembers) -> QueryUpdates:
        """Take back the rows that resumed queries had sent and that differ now; return the new rows."""
        first = self.batch.timing.first
        if self._told is None:
            return arrivals(first, *(np.empty(0, np.int32) for _ in range(2)))
        rows, told = self._told
        count, query = len(self.batch.objects.table), np.searchsorted(self.queries.id, told.query)
        had, has = query * count + told.obj, members.query.astype(np.int64) * count + members.obj
        _, before, after = np.intersect1d(had, has, assume_unique=True, return_indices=True)
        told, now = told.where(before), AnswerMembers(*(column[after] for column in members))
        differs = pc.not_equal(told.key, self._as_told(context, now, first).key)
        changed = np.flatnonzero(differs.to_numpy(zero_copy_only=False))
        rows.send_changes(told.where(changed), self.output)
        return arrivals(first, now.query[changed], now.version[changed])

    def _as_told(self, context: QueryContext, members: AnswerMembers, step: int) -> ToldMembers:
        """Return members of queries that send changes as they are after a step."""
        query, obj, version = members
        far = context.distances(query, version, step)
        keys = self._changes.keys(query, version, far)
        assert keys is not None, "these queries send changes"
        shown = np.where(self.queries.shows_distance[query] > 0, far, np.nan)
        return ToldMembers(self.queries.id[query], obj, shown, version.astype(np.int64), keys)

    def _pop_told(self, ids: Array) -> tuple[ToldRows, ToldMembers] | None:
        """Remove what queries that paused have told, if any of them sends changes."""
        if not ToldRows.are_there(self.batch, self.prefix):
            return None
        rows = ToldRows(self.batch, self.prefix)
        return rows, rows.pop_queries(ids)

    def _members(self, context: QueryContext, positions: Array, step: int) -> AnswerMembers:
        """Return what queries have sent by a step and not taken back; waiting changes are dropped."""
        return self._dwell.sent_members(context, context.members(positions, step), positions, step)

    def _context(self) -> QueryContext:
        staying = self._changes.wanted
        return context_of(self.batch, self.queries, self._conditions, self.prefix, staying=staying)

    def _take_back(self, context: QueryContext, positions: Array, step: int, why: int) -> None:
        emitter = UpdateEmitter(context, self.output)
        paused = self.queries.mode[positions] == PAUSED
        members = self._members(context, positions[~paused], step - 1)
        emitter.emit_end(step, members.query, why, members.version)
        self._pop_told(self.queries.id[positions[paused]])
        ids, objects = self._sent.pop_queries(self.queries.id[positions[paused]])
        versions = self.batch.objects.shown(objects, step - 1)
        emitter.emit_end(step, np.searchsorted(self.queries.id, ids), why, versions)
