"""Range queries: regions that are fixed, or move with a focal object (SOLE sections 3 to 5)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from stqsh.arrays import Array
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
from stqsh.core.matching.condition_templates import split
from stqsh.core.matching.crossings import crossing_members
from stqsh.core.matching.dwell import DwellingRows, DwellTable
from stqsh.core.matching.earlier_answers import EarlierAnswers, PausedRows
from stqsh.core.matching.keyword_queries import keyword_mode, requires_values
from stqsh.core.matching.match import region_updates
from stqsh.core.matching.query_context import NO_MEMBERS, AnswerMembers, QueryContext
from stqsh.core.matching.query_regions import QueryRegions
from stqsh.core.matching.row_changes import RangeQueries, RowChanges
from stqsh.core.matching.tree_index import NUMBERS
from stqsh.core.matching.update_emitter import UpdateEmitter
from stqsh.core.output.batch_output import BatchOutput, QueryUpdates
from stqsh.core.output.sent_answers import SentAnswers
from stqsh.core.queries.query_table import ACTIVE, PAUSED, QueryTable
from stqsh.core.queries.registrations import NewQueries
from stqsh.spec.query import RANGE
from stqsh.spec.region import EVERYWHERE


class RangeLogic(QueryLogic):
    """One batch of a stream's range queries."""

    queries: RangeQueries

    finds_crossings = True

    def __init__(self, kind: QueryKind, batch: StreamBatch, output: BatchOutput) -> None:
        super().__init__(kind, batch, output)
        state, prefix = batch.state, self.prefix
        self._sent, self._dwell = SentAnswers(state, prefix), DwellTable(state, prefix)
        self._regions = QueryRegions(batch, prefix, self.queries)
        self._changes = RowChanges(state, prefix, self.queries, self._regions.conditions)
        self._paused = PausedRows(batch, prefix, self._changes, output)
        self._earlier = EarlierAnswers(self._changes, self._paused)
        self._since: Array | None = None
        self._replaced, self._replaced_positions = NO_MEMBERS, np.empty(0, np.int64)

    def register(self, positions: Array, new: NewQueries) -> None:
        """Store the conditions and keywords of new queries, and scale their regions."""
        self._regions.add(positions, new)
        self._changes.add(positions, new)

    def retire(self, positions: Array, steps: Array, why: int) -> None:
        """Emit a removal for each member that queries have sent, with its record before the step."""
        context, begun = self._context(), np.ones(len(positions), np.bool_)
        if self._since is not None:
            begun = (self._since[positions] < steps) | (self.queries.mode[positions] == PAUSED)
        for step in np.unique(steps).tolist():
            self._take_back(context, positions[begun & (steps == step)], step, why)
        super().retire(positions, steps, why)
        self._regions.note_removal(why, self._changes.wanted)

    def pause(self, positions: Array) -> None:
        """Store what queries have sent."""
        context, before = self._context(), self.batch.timing.first - 1
        members = self._members(context, positions, before)
        self._sent.add(self.queries.id[members.query], members.obj)
        self._paused.store(context, members, before)
        self._regions.note_change()

    def forget(self, ids: Iterable[int]) -> None:
        """Forget the rows that queries have sent."""
        self._paused.forget(np.array([*ids], np.int64))

    def rescale(self) -> Array:
        """Scale regions to the share of their area that load shedding leaves."""
        at, active = self._regions.changing()
        context, before = self._context(), self.batch.timing.first - 1
        members = context.members(active, before)
        self._keep_sent(context, active, members)
        self._regions.rescale(at)
        self._earlier.add(members.query.astype(np.int64), members.obj)
        return active

    def alter(self, positions: Array, new: NewQueries) -> None:
        """Replace regions and conditions; members of active queries, here or elsewhere, count as sent."""
        before = self.batch.timing.first - 1
        context, active = self._context(), positions[self.queries.mode[positions] == ACTIVE]
        members = context.members(active, before)
        self._keep_sent(context, np.setdiff1d(active, self._replaced_positions), members)
        self._earlier.add(members.query.astype(np.int64), members.obj)
        self._earlier.add_elsewhere(crossing_members(context, active, before))
        self._regions.relocate(positions, new)

    def _keep_sent(self, context: QueryContext, positions: Array, members: AnswerMembers) -> None:
        """Keep what readers hold of queries with DWELL whose regions are replaced.

        `members` include those of the queries before the batch.
        """
        dwelling = positions[self.queries.dwell[positions] > 0]
        some = members.where(np.flatnonzero(np.isin(members.query, dwelling)))
        before = self.batch.timing.first - 1
        sent = self._dwell.sent_members(context, some, dwelling, before, go_on=True)
        self._replaced = AnswerMembers(*(np.append(*pair) for pair in zip(self._replaced, sent, strict=True)))
        self._replaced_positions = np.append(self._replaced_positions, positions)

    def resume(self, positions: Array) -> None:
        """Load what queries had sent before they paused."""
        ids, objects = self._sent.pop_queries(self.queries.id[positions])
        self._earlier.add(np.searchsorted(self.queries.id, ids), objects)
        self._paused.resume(self.queries.id[positions])

    def on_events(self, begun: Array) -> None:
        """Emit the changes of answers, then the first answers of queries that begin."""
        queries, first = self.queries, self.batch.timing.first
        is_used = self._regions.prepare(begun, self._changes.wanted)
        self._since = np.full(len(queries), first - 1)
        self._since[begun] = first
        if not is_used:
            return
        context, living = self._context(), QueryLifetimes(self._since, queries.until)
        follows: Array = self._changes.wanted & (queries.dwell == 0)
        found, staying = region_updates(context, self._regions.index, living, follows)
        updates = [QueryUpdates(*found), self._changes.updates(context, staying)]
        starting = begun[queries.until[begun] > first]
        if len(starting):
            updates += self._earlier.updates(context, context.members(starting, first), follows)
        self._emit(context, updates, self._since)

    def _emit(self, context: QueryContext, updates: list[QueryUpdates], since: Array) -> None:
        """Emit changes of answers; changes of queries with DWELL must last for DWELL first.

        Args:
            context: The context of the batch.
            updates: The changes.
            since: The step after which each query's changes are reported, int64 (queries,).
        """
        emitter, waiting, dwell = UpdateEmitter(context, self.output), [], self.queries.dwell > 0
        rows = DwellingRows(context, self._dwell, self._changes, self._paused)
        held = rows.held(since, self._replaced)
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
                emitter.emit(rows.updates(held, lasting))

    def _members(self, context: QueryContext, positions: Array, step: int) -> AnswerMembers:
        """Return the members that queries have sent by a step and not retracted; drop waiting changes."""
        return self._dwell.sent_members(context, context.members(positions, step), positions, step)

    def _take_back(self, context: QueryContext, positions: Array, step: int, why: int) -> None:
        emitter = UpdateEmitter(context, self.output)
        paused = self.queries.mode[positions] == PAUSED
        members = self._members(context, positions[~paused], step - 1)
        emitter.emit_end(step, members.query, why, members.version)
        self._paused.forget(self.queries.id[positions[paused]])
        ids, objects = self._sent.pop_queries(self.queries.id[positions[paused]])
        versions = self.batch.objects.shown(objects, step - 1)
        emitter.emit_end(step, np.searchsorted(self.queries.id, ids), why, versions)

    def _context(self) -> QueryContext:
        return self._regions.context(self._changes.wanted)


class RangeKind(QueryKind):
    """The present objects inside a region that satisfy a condition."""

    name = RANGE.name
    logic = RangeLogic
    table = RangeQueries

    def release(self, batch: StreamBatch, positions: Array) -> bool:
        """Remove queries in whose regions this slot has no records any more."""
        prefix = self.prefix(batch.spec.id)
        queries = RangeQueries(batch.state, prefix)
        queries.remove(positions)
        QueryRegions(batch, prefix, queries).note_removal(ENDED, queries.shown > 0)
        return True

    def needs_each_step(self, queries: QueryTable) -> bool:
        """Return whether a query has DWELL: its updates show the record at the step in which they are due."""
        return bool((queries.dwell > 0).any())

    def count_members(self, selection: SnapshotSelection) -> int:
        """Return the number of members, from the box alone if there are no further tests."""
        return selection.count_in_box() if selection.is_box_only else super().count_members(selection)

    def explain(self, given: ExplainInput) -> KindExplanation:
        """Return what EXPLAIN shows of a range query."""
        spec, measure = given.spec, given.measure
        present, terms = measure.objects, keyword_mode(spec, given.stream)
        is_covered = spec.region == EVERYWHERE and bool(
            split(spec.condition)[0].cover if spec.condition else ()
        )
        fixed = "moving cells" if spec.region.focal_key is not None or is_covered else "grid"
        chance = measure.boxed / present if present else 0.0
        if is_covered and measure.sampled:  # about as many candidates as members
            chance *= measure.satisfied / measure.sampled
        if terms or requires_values(spec, given.stream):
            fixed = "keyword index"
        fixed, instead = (fixed, None) if fixed == "moving cells" else _with_trees(given, fixed)
        return KindExplanation(
            index=fixed,
            may_be_in=instead,
            access=f"scan of {present} objects against the box",
            chance=chance,
            operators=given.operators,
            terms=terms,
        )


def _with_trees(given: ExplainInput, fixed: str) -> tuple[str, str | None]:
    """Return the index of a query with a fixed region, and the one that may hold it instead.

    `fixed` is its index without CH-trees.
    """
    spec, measure, choice = given.spec, given.measure, given.indexes
    trees = f"CH-trees (of at most {choice.tree_queries:,} queries)"
    if choice.queries == "chtree":
        return trees, None
    if measure.in_trees:
        some = f" on {measure.in_trees} of {measure.holders} slots"
        return trees + some * (measure.in_trees < measure.holders), None
    types = {name: kind for name, kind in given.stream.types.items() if name not in given.stream.roles}
    bounds = split(spec.condition)[0].intervals if spec.condition else ()
    is_open = choice.queries == "auto" and any(types.get(bound.column) in NUMBERS for bound in bounds)
    return fixed, "CH-trees if many queries ask for such intervals" if is_open else None
