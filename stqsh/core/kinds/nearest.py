"""The k objects nearest to a place or a focal object, step by step (SOLE, SSTD's CKQ, CheetahGIS VI-A)."""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.contract.merging_kind import MergingKind, MergingLogic
from stqsh.core.contract.query_kind import (
    ExplainInput,
    KindExplanation,
    MemberCircles,
    StreamBatch,
)
from stqsh.core.contract.snapshot_selection import SnapshotSelection
from stqsh.core.kernels.geometry.distance import distances_between
from stqsh.core.kernels.geometry.shapes import Point
from stqsh.core.kernels.index.scan import nearest
from stqsh.core.kernels.retention.reference_counts import kth_distances
from stqsh.core.kinds.neighbour_results import NeighbourResult
from stqsh.core.matching.keyword_queries import (
    add_keywords,
    exchange_keywords,
    keyword_mode,
    keywords_of,
    record_texts,
    release_keywords,
)
from stqsh.core.matching.moving_index import release_cells
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.matching.query_context import QueryContext, context_of
from stqsh.core.nearest.candidate_changes import (
    CandidateChanges,
    concatenated,
    no_longer_candidates,
    sent_before_pause,
)
from stqsh.core.nearest.circle_tracking import CircleTracker
from stqsh.core.nearest.members import MemberTable
from stqsh.core.nearest.near_extents import within_kth
from stqsh.core.output.batch_output import BatchOutput
from stqsh.core.output.merge import MergedUpdates, MergeInput
from stqsh.core.output.partials import CandidateOffers
from stqsh.core.output.sent_answers import SentAnswers
from stqsh.core.queries.query_table import ACTIVE, PAUSED, QueryTable
from stqsh.core.queries.registrations import NewQueries
from stqsh.spec.chunk import Chunk
from stqsh.spec.query import BoundQuery
from stqsh.spec.region import NearestSpec

_GROWTH = 8
"""The factor by which a snapshot widens its search while too few neighbours satisfy the condition."""


def _centres(queries: QueryTable, at: Array, batch: StreamBatch) -> tuple[Array, Array]:
    """Return the centres of kNN queries before the first step."""
    x, y, focal = queries.x1[at].copy(), queries.y1[at].copy(), queries.focal[at]
    moving = np.flatnonzero(focal >= 0)
    before = np.full(len(moving), batch.timing.first - 1)
    x[moving], y[moving] = batch.focal.places(focal[moving], before)
    return x, y


def _neighbours(spec: BoundQuery) -> int:
    """Return the k of a kNN query."""
    assert isinstance(spec.region, NearestSpec), "the binder gives kNN queries such a region"
    return spec.region.k


class NearestLogic(MergingLogic):
    """One batch of a stream's kNN queries."""

    def __init__(self, kind: NearestKind, batch: StreamBatch, output: BatchOutput) -> None:
        super().__init__(kind, batch, output)
        self._sent = SentAnswers(batch.state, self.prefix)
        self._members = MemberTable(batch.state, self.prefix)
        self._conditions = QueryConditions(batch.state, self.prefix, self.queries, batch.objects, batch.focal)
        self._result = kind.result(self, self._conditions)
        self._frozen: tuple[Array, Array] = np.empty(0, np.int64), np.empty(0, np.int32)

    def register(self, positions: Array, new: NewQueries) -> None:
        """Store the conditions of new queries, and add empty circles for them."""
        super().register(positions, new)
        self.queries.radius[positions] = 0
        self._members.insert_empty(positions)
        self._conditions.add(positions, new)
        add_keywords(self.batch, self.prefix, new)
        self._result.add(positions, new)

    def retire(self, positions: Array, steps: Array, why: int) -> None:
        """Withdraw what paused queries have offered; Aggregate itself retracts the answers of the others."""
        for step in np.unique(steps).tolist():
            at = positions[steps == step]
            ids, objects = self._sent.pop_queries(self.queries.id[at[self.queries.mode[at] == PAUSED]])
            if len(ids):
                query = np.searchsorted(self.queries.id, ids)
                self._offer(sent_before_pause(self._context(), query, objects, step, why))
        self._result.retire(positions, steps, why)
        self._members.remove(positions)
        super().retire(positions, steps, why)

    def remember(self, positions: Array) -> None:
        """Store the k nearest before the batch, because other slots have offered them."""
        tracker = CircleTracker(self._context(), self._members, np.full(len(self.queries), -1))
        tracker.widen_fully(positions)
        self.pause(positions)

    def pause(self, positions: Array) -> None:
        """Store what queries have offered, and forget their circles."""
        query, objects = self._take_circles(positions)
        self._sent.add(self.queries.id[query], objects)
        super().pause(positions)

    def _take_circles(self, positions: Array) -> tuple[Array, Array]:
        """Remove the circles of queries, and return what the queries have offered: positions and objects."""
        tracker = CircleTracker(self._context(), self._members, np.full(len(self.queries), -1))
        offered = tracker.offered_before(positions)
        self._members.replace(positions, np.zeros(len(positions) + 1, np.int64), np.empty(0, np.int32))
        return offered

    def alter(self, positions: Array, new: NewQueries) -> None:
        """Replace the places, k and conditions of queries, and keep what active queries have offered."""
        active = positions[self.queries.mode[positions] == ACTIVE]
        if len(active):
            query, objects = self._take_circles(active)
            frozen, theirs = self._frozen
            self._frozen = np.append(frozen, query), np.append(theirs, objects)
        exchange_neighbours(self, self._conditions, positions, new)
        self.queries.radius[positions] = 0

    def resume(self, positions: Array) -> None:
        """Load what queries had offered before they paused."""
        self.queries.radius[positions] = 0
        ids, objects = self._sent.pop_queries(self.queries.id[positions])
        self._frozen = np.searchsorted(self.queries.id, ids), objects

    def on_events(self, begun: Array) -> None:
        """Offer the changes of each query's k nearest objects on this slot."""
        queries, first = self.queries, self.batch.timing.first
        if not len(queries):
            release_cells(self.batch, self.prefix)
            release_keywords(self.batch, self.prefix)
            return
        index = keywords_of(self.batch, self.prefix)
        if index is not None:
            record_texts(self.batch, index)
        self._result.begin(begun, first)
        begin = np.full(len(queries), -1, np.int64)
        begin[begun] = first
        context = self._context()
        living = np.flatnonzero((queries.mode == ACTIVE) & (queries.until > first))
        changes = CircleTracker(context, self._members, begin).track(living)
        for some in changes:
            self._offer(some)
            queries.sent[:] += np.bincount(some.query, minlength=len(queries))
        self._take_back(context, changes)
        self._result.end_batch()

    def chunks(self) -> list[Chunk]:
        """Return the candidates and the marks of the batch, and what the result adds."""
        return [*super().chunks(), *self._result.chunks()]

    def _take_back(self, context: QueryContext, changes: list[CandidateChanges]) -> None:
        """Withdraw what resumed queries had offered and do not offer again."""
        query, objects = self._frozen
        if not len(query):
            return
        size, first = len(self.batch.objects.table), self.batch.timing.first
        now = concatenated(changes)
        begun = now.step == first
        again = np.isin(query * size + objects, now.query[begun] * size + now.obj[begun])
        self._offer(no_longer_candidates(context, query[~again], objects[~again], first))

    def _context(self) -> QueryContext:
        return context_of(self.batch, self.queries, self._conditions, self.prefix, staying=True)

    def _offer(self, changes: CandidateChanges) -> None:
        ids = self.queries.id[changes.query]
        self.partials.offer(
            CandidateOffers(
                changes.step,
                ids,
                changes.op,
                changes.why,
                changes.show,
                changes.distance,
                self._result.keys(changes),
            )
        )


def exchange_neighbours(
    logic: MergingLogic, conditions: QueryConditions, positions: Array, new: NewQueries
) -> None:
    """Replace the places, k and conditions of a kind's queries by those of `new`, in the same order."""
    queries, batch = logic.queries, logic.batch
    before = queries.k[positions].copy()
    queries.relocate(positions, new, batch.focal.table)
    conditions.exchange(positions, new)
    exchange_keywords(batch, logic.prefix, new)
    logic.resize(positions[queries.k[positions] != before])


def _nearest_extents(selection: SnapshotSelection, wanted: int) -> Array:
    """Return what `NearestKind.select_members` does, of objects with an extent."""
    objects = selection.everything()

    def holds(rows: Array) -> Array:
        kept: Array = np.isin(objects[rows], selection.satisfying(objects[rows]))
        return kept

    rows, _ = within_kth(
        selection.least_distances(objects), wanted, holds, lambda rows: selection.distances(objects[rows])
    )
    found: Array = np.sort(objects[rows])
    return found


class NearestKind(MergingKind):
    """The first k present objects that satisfy a condition, by (distance, key), followed step by step.

    Each slot offers the k nearest of its own objects.

    Args:
        name: The name of queries for these members and this result.
        result: What the queries show of them.
    """

    logic = NearestLogic

    def __init__(self, name: str, result: type[NeighbourResult]) -> None:
        self.name, self.result = name, result
        self.table, self.holds_back = result.table, result.holds_back

    def merge(self, batch: MergeInput) -> MergedUpdates:
        """Merge the slots' candidates as the result requires."""
        return self.result.merge(batch, keep=True)

    def select_members(self, selection: SnapshotSelection) -> Array:
        """Return the k nearest that satisfy the condition, and all others at the distance of the k-th.

        With a condition the search widens until k objects satisfy it. The k-th distance then bounds the
        search, as the radius r does in SSTD section 6.2.
        """
        present, wanted = selection.present, _neighbours(selection.spec)
        if present.table.spec.extent is not None:
            return _nearest_extents(selection, wanted)
        everybody = len(present.stored.known)
        limit, centre = wanted + 1, Point(*selection.centre)  # one more for the focal object
        while True:
            found = nearest(present.stored, present.since, centre, limit, present.resolver.planar)
            objects = selection.satisfying(found)
            if len(objects) >= wanted or limit >= everybody:
                break
            limit = limit * _GROWTH if limit * _GROWTH * _GROWTH < everybody else everybody
        if len(objects) > wanted:
            far = selection.distances(objects)
            objects = objects[far <= np.partition(far, wanted - 1)[wanted - 1]]
        return objects

    def rank(self, selection: SnapshotSelection, objects: Array) -> Array:
        """Return the distances of objects from the centre."""
        return selection.distances(objects)

    def member_circles(self, batch: StreamBatch) -> MemberCircles:
        """Return the circles around the k nearest objects of this slot."""
        queries = self.queries(batch.state, batch.spec.id)
        at = np.flatnonzero(queries.mode == ACTIVE)
        start, obj = MemberTable(batch.state, queries.prefix).of(at)
        owner = np.repeat(np.arange(len(at)), np.diff(start))
        x, y = _centres(queries, at, batch)
        stored = batch.objects.stored
        far = distances_between(x[owner], y[owner], stored.x[obj], stored.y[obj], batch.spec.planar)
        radius = kth_distances(start, far, queries.k[at])
        mine = far <= radius[owner]
        ids = queries.id[at]
        return MemberCircles(ids, radius, ids[owner[mine]], obj[mine])

    def explain(self, given: ExplainInput) -> KindExplanation:
        """Return what EXPLAIN shows of a kNN query."""
        spec, present = given.spec, given.measure.objects
        conditional = spec.condition is not None
        members = (*given.operators[:-1], "filter", "k nearest") if conditional else ("k nearest",)
        return KindExplanation(
            index="keyword index" if keyword_mode(spec, given.stream) else "moving cells",
            access=f"scan of {present} objects within a box that shrinks to the k-th distance so far",
            chance=min(1.0, (_neighbours(spec) + 1) / present) if present else 0.0,
            operators=(*members, *self.result.operators(spec)),
            reason="the k nearest that satisfy it: ever more of the nearest are looked at until k do"
            if conditional
            else None,
        )
