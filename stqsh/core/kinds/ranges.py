"""Range queries: regions that are fixed, or move with a focal object (SOLE sections 3 to 5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

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
from stqsh.core.matching.keyword_queries import keyword_mode
from stqsh.core.matching.match import region_updates
from stqsh.core.matching.moving_index import ObjectCellStore
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.matching.query_context import AnswerMembers, QueryContext, context_of
from stqsh.core.matching.region_scaling import scale, will_scale
from stqsh.core.matching.row_changes import RangeQueries, RowChanges, StayingMembers
from stqsh.core.matching.static_index import StaticRegionIndex
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
        members = self._members(self._context(), positions, self.batch.timing.first - 1)
        self._sent.add(self.queries.id[members.query], members.obj)
        self._is_outdated = True

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
        found, staying = region_updates(context, self._index, living, self._changes.wanted)
        updates = [QueryUpdates(*found), self._changes.updates(context, staying)]
        starting = begun[queries.until[begun] > first]
        if len(starting):
            updates += self._first_answers(context, starting)
        self._emit(context, updates)

    def _emit(self, context: QueryContext, updates: list[QueryUpdates]) -> None:
        """Emit changes of answers; those of queries with DWELL must last first."""
        emitter, waiting, dwell = UpdateEmitter(context, self.output), [], self.queries.dwell > 0
        for some in updates:
            if not dwell.any():
                emitter.emit(some)
                continue
            waiting.append(some.where(dwell[some.query]))
            emitter.emit(some.where(~dwell[some.query]))
        if waiting or len(self._dwell):
            emitter.emit(self._dwell.lasting(context, waiting))

    def _first_answers(self, context: QueryContext, positions: Array) -> Iterator[QueryUpdates]:
        """Yield first answers, and for resumed and rescaled queries the difference to what they had sent."""
        objects, first = context.batch.objects, context.batch.timing.first
        members = context.members(positions, first)
        had_query, had_obj = (np.concatenate(column) for column in zip(*self._frozen, strict=True))
        if not len(had_query):  # comparing with nothing would sort millions of first members
            yield arrivals(first, members.query, members.version)
            return
        count = len(objects.table)
        had, has = had_query * count + had_obj, members.query.astype(np.int64) * count + members.obj
        new, gone = ~np.isin(has, had), ~np.isin(had, has)
        yield arrivals(first, members.query[new], members.version[new])
        stays = np.flatnonzero(~new & self._changes.wanted[members.query])
        query, obj, version = (column[stays] for column in members)
        steps = np.full(len(obj), first)
        before = objects.versions_after(obj, steps - 1)
        yield self._changes.updates(context, StayingMembers(steps, query, before, version))
        query, obj = had_query[gone], had_obj[gone].astype(np.int32)
        steps = np.full(len(obj), first)
        why, show = objects.reasons(objects.versions_after(obj, steps), obj, steps)
        yield QueryUpdates(steps, query, np.full(len(obj), -1), why, show)

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
        ids, objects = self._sent.pop_queries(self.queries.id[positions[paused]])
        versions = self.batch.objects.shown(objects, step - 1)
        emitter.emit_end(step, np.searchsorted(self.queries.id, ids), why, versions)
