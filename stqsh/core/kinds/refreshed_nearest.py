"""The k nearest objects at refreshes (language.md section 7).

Only the members at refreshes matter, so nothing is tracked between them: at each one a slot searches for its
own k nearest, as a snapshot does, and offers the differences from the previous refresh. Queries that read NOW
for their members are refreshed in each step.

If the result is rows, what was offered is stored from batch to batch. If it is groups, all slots offer all of
their candidates again at the first refresh of a batch, so Aggregate keeps groups, but no candidates.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.arrays import Array
from stqsh.core.base.clock import NEVER
from stqsh.core.contract.merging_kind import MergingKind
from stqsh.core.contract.query_kind import ExplainInput, KindExplanation, StreamBatch
from stqsh.core.groups.refresh_schedule import DueQueries, QueryTimings, RefreshSchedule
from stqsh.core.groups.refreshed_members import ObjectsAsOf, context_as_of
from stqsh.core.kernels.events.updates import LEFT
from stqsh.core.kernels.knn.candidate_merge import OVERTAKEN
from stqsh.core.kinds.nearest import NearestKind, exchange_neighbours
from stqsh.core.kinds.neighbour_results import NeighbourResult
from stqsh.core.kinds.refreshed_rows import RefreshedLogic
from stqsh.core.matching.keyword_queries import add_keywords, follow_keywords
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.matching.query_context import context_of
from stqsh.core.nearest.candidate_changes import CandidateChanges, no_longer_candidates, sent_before_pause
from stqsh.core.nearest.refreshed_neighbours import RefreshedNeighbours
from stqsh.core.objects.batch_objects import ObjectPlaces
from stqsh.core.output.batch_output import BatchOutput
from stqsh.core.output.merge import MergedUpdates, MergeInput
from stqsh.core.output.partials import CandidateOffers
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.top_n.sent_members import Sent, is_among, together
from stqsh.spec.chunk import Chunk


class _Offered(NamedTuple):
    """Neighbours that a refresh found, and what the result needs of each; (n,)."""

    changes: CandidateChanges
    keys: pa.BinaryArray | None

    def where(self, which: Array) -> _Offered:
        """Return some of them, bool (n,)."""
        chosen: Any = pa.array(which)
        keys = None if self.keys is None else self.keys.filter(chosen)
        return _Offered(CandidateChanges(*(column[which] for column in self.changes)), keys)

    def is_among(self, before: _Offered | None, objects: int) -> Array:
        """Return which have the same record, distance and keys as at the refresh before, bool (n,)."""
        new = self.changes
        if before is None or not len(before.changes.query):
            return np.zeros(len(new.query), np.bool_)
        old = before.changes
        was, now = old.query * objects + old.obj, new.query * objects + new.obj
        order = np.argsort(was)
        at = order[np.minimum(np.searchsorted(was[order], now), len(was) - 1)]
        same = (was[at] == now) & (old.show[at] == new.show) & (old.distance[at] == new.distance)
        if self.keys is not None and before.keys is not None:
            chosen: Any = pa.array(at)
            pairs: Any = pc.equal(before.keys.take(chosen).fill_null(b""), self.keys.fill_null(b""))
            same &= pairs.to_numpy(zero_copy_only=False)
        found: Array = same
        return found

    def joined(self, more: _Offered) -> _Offered:
        """Return these and more of them."""
        changes = CandidateChanges(*map(np.concatenate, zip(self.changes, more.changes, strict=True)))
        if self.keys is None or more.keys is None:
            return _Offered(changes, None)
        return _Offered(changes, pa.concat_arrays([self.keys, more.keys]))


class _Searched(NamedTuple):
    """The queries of the last refresh, int64 (n,), and the objects and focal objects as it saw them."""

    positions: Array
    seen: tuple[ObjectPlaces, ObjectPlaces]


class RefreshedNearestLogic(RefreshedLogic):
    """One batch of a stream's queries over the k nearest at refreshes."""

    def __init__(self, kind: RefreshedNearestKind, batch: StreamBatch, output: BatchOutput) -> None:
        super().__init__(kind, batch, output)
        self._conditions = QueryConditions(batch.state, self.prefix, self.queries, batch.objects, batch.focal)
        self._result = kind.result(self, self._conditions)
        self._last: _Offered | None = None
        self._searched: _Searched | None = None

    def register(self, positions: Array, new: NewQueries) -> None:
        """Store the conditions of new queries and what they show, and announce them to Aggregate."""
        super().register(positions, new)
        self._conditions.add(positions, new)
        add_keywords(self.batch, self.prefix, new)
        self._result.add(positions, new)

    def retire(self, positions: Array, steps: Array, why: int) -> None:
        """Withdraw what queries have sent, as it was before the step."""
        self._result.retire(positions, steps, why)
        super().retire(positions, steps, why)

    def alter(self, positions: Array, new: NewQueries) -> None:
        """Replace the places, k and conditions of queries; they count from the next refresh on."""
        exchange_neighbours(self, self._conditions, positions, new)

    def on_events(self, begun: Array) -> None:
        """Offer the neighbours of queries at their refreshes; queries that begin wait for their next one."""
        del begun
        follow_keywords(self.batch, self.queries)
        if len(self.queries):
            self._refresh(RefreshSchedule(self.batch, self.queries, self._conditions, self._timings()))
        self._result.end_batch()

    def chunks(self) -> list[Chunk]:
        """Return the candidates and the marks of the batch, and what the result adds."""
        return [*super().chunks(), *self._result.chunks()]

    def _timings(self) -> QueryTimings:
        return self._result.timings()

    def _withdraw(self, sent: Sent, step: int, why: int) -> None:
        context = context_of(self.batch, self.queries, self._conditions, self.prefix)
        self._offer(sent_before_pause(context, sent.query, sent.obj, step, why), None)

    def _offer_changes(self, before: Sent, due: DueQueries, windows_us: Array) -> Sent:
        """Offer the neighbours that differ from those at the refresh before, and withdraw those that left."""
        step = due.refresh.step
        if due.begin:
            self._result.begin(due.positions, step)
        search = RefreshedNeighbours(self.batch, self.queries, self.prefix, due)
        keep = self._keep(due, search)
        kept, before = before.where(keep[before.query]), before.where(~keep[before.query])
        due = due._replace(positions=due.positions[~keep[due.positions]])
        if not len(due.positions):
            return kept
        found = search.of(due.positions, windows_us)
        for counter in (self.queries.tested, self.queries.matched):
            np.add.at(counter, found.query, 1)
        after, count = Sent(found.query, found.obj, found.version), len(found.query)
        steps, ops, none = np.full(count, step), np.ones(count, np.int8), np.zeros(count, np.int8)
        shown = found.version.astype(np.int64)
        come = CandidateChanges(steps, found.query, ops, none, shown, found.distance, found.obj)
        self._withdraw_lost(before.where(~is_among(after, before.query, before.obj)), due, windows_us)
        offered = _Offered(come, self._result.keys(come, due.refresh.instant))
        fresh = offered.where(~offered.is_among(self._last, len(self.batch.objects.table)))
        self._offer(*fresh)
        if self._last is not None and keep.any():
            offered = self._last.where(keep[self._last.changes.query]).joined(offered)
        self._last = offered
        return together([kept, after])

    def _keep(self, due: DueQueries, search: RefreshedNeighbours) -> Array:
        """Return which queries certainly have the neighbours of the refresh before, bool (queries,)."""
        keep, searched = np.zeros(len(self.queries), np.bool_), self._searched
        if self.batch.spec.extent is None:
            return keep
        self._searched = _Searched(due.positions, search.seen)
        if searched is None or self._last is None:
            return keep
        mine = due.positions[self._lasting[due.positions] & np.isin(due.positions, searched.positions)]
        keep[mine] = ~search.may_differ(mine, self._last.changes, searched.seen)
        return keep

    @cached_property
    def _lasting(self) -> Array:
        """Which queries have other neighbours only if records change, bool (queries,)."""
        timings, conditions = self._timings(), self._conditions
        if timings.compared:
            return np.zeros(len(self.queries), np.bool_)
        lasting: Array = (timings.windows_us < 0) & ~timings.change_always
        return lasting & ~conditions.read_now & ~conditions.move

    def _withdraw_lost(self, gone: Sent, due: DueQueries, windows_us: Array) -> None:
        """Withdraw members that are no longer among the nearest at a refresh, with what is shown of them."""
        if not self._result.is_kept:
            self._withdraw_keys(gone, due.refresh.step)
            return
        objects = ObjectsAsOf(self.batch.objects, due)
        context = context_as_of(self.batch, objects, self.queries, self.prefix, due)
        lost = no_longer_candidates(context, gone.query, gone.obj, due.refresh.step)
        late = objects.are_too_old(lost.show, windows_us[lost.query])
        inside = (lost.show >= objects.versions) | objects.within(
            np.where(lost.show < objects.versions, lost.show, 0), windows_us[lost.query]
        )
        why = np.where(inside | (lost.why != OVERTAKEN), lost.why, LEFT)
        why = np.where(late, objects.timing.silent, why).astype(np.int8)
        self._offer(lost._replace(why=why), None)

    def _kept(self, held: Sent, last: DueQueries) -> Sent:
        """Return the members to store; or withdraw them at the next refresh, which offers all again."""
        if self._result.is_kept:
            return held
        if last.end < NEVER:
            self._withdraw_keys(held.where(self.queries.until[held.query] > last.end), last.end)
        return together([])

    def _withdraw_keys(self, some: Sent, step: int) -> None:
        """Withdraw members of which only the keys matter."""
        count, show = len(some.query), np.full(len(some.query), -1)
        show = self.batch.objects.numbers.or_keys(show, some.obj).astype(np.int64)
        steps, ops, none = np.full(count, step), np.full(count, -1, np.int8), np.zeros(count, np.int8)
        far = np.full(count, np.nan)
        self._offer(CandidateChanges(steps, some.query, ops, none, show, far, some.obj), None)

    def _offer(self, changes: CandidateChanges, keys: pa.BinaryArray | None) -> None:
        """Offer or withdraw candidates; `keys` has what the result needs of those that are offered."""
        step, query, op, why, show, distance, _ = changes
        self.queries.sent[:] += np.bincount(query, minlength=len(self.queries))
        self.partials.offer(CandidateOffers(step, self.queries.id[query], op, why, show, distance, keys))


class RefreshedNearestKind(MergingKind):
    """The first k present objects that satisfy a condition, by (distance, key), at refreshes.

    Queries whose order or groups read NOW are of this kind too; they are refreshed in each step.

    Args:
        name: The name of queries for these members and this result.
        result: What the queries show of them.
    """

    logic = RefreshedNearestLogic

    def __init__(self, name: str, result: type[NeighbourResult]) -> None:
        self.name, self.result = name, result
        self.table, self.holds_back = result.table, result.holds_back

    def merge(self, batch: MergeInput) -> MergedUpdates:
        """Merge the slots' candidates as the result requires."""
        return self.result.merge(batch, keep=self.result.is_kept)

    def explain(self, given: ExplainInput) -> KindExplanation:
        """Return what EXPLAIN shows: a refresh finds members as a snapshot does."""
        found = NearestKind(self.name, self.result).explain(given)
        return replace(found, index="none: each refresh searches the objects near", chance=0.0)
