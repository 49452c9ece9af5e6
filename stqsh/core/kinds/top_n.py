"""Continuous queries with LIMIT: the first n members of a region, by (ORDER BY, key)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stqsh.arrays import Array
from stqsh.core.contract.merging_kind import MergingKind, MergingLogic
from stqsh.core.contract.query_kind import ExplainInput, KindExplanation, QueryKind, StreamBatch
from stqsh.core.kinds.ranges import RangeKind
from stqsh.core.matching.query_context import QueryContext
from stqsh.core.matching.query_regions import QueryRegions
from stqsh.core.matching.row_changes import RowChanges
from stqsh.core.output.batch_output import BatchOutput
from stqsh.core.output.merge import MergedUpdates, MergeInput
from stqsh.core.output.sent_answers import SentAnswers
from stqsh.core.queries.query_table import ACTIVE, PAUSED
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.top_n.merge import merge_first
from stqsh.core.top_n.offers import TopNOffers
from stqsh.core.top_n.orders import QueryOrders, TopNQueries, order_operators
from stqsh.core.top_n.tracking import TopNTracker
from stqsh.spec.query import TOP_N


class TopNLogic(MergingLogic):
    """One batch of a stream's queries with LIMIT."""

    queries: TopNQueries

    def __init__(self, kind: QueryKind, batch: StreamBatch, output: BatchOutput) -> None:
        super().__init__(kind, batch, output)
        state, prefix = batch.state, self.prefix
        self._sent = SentAnswers(state, prefix)
        self._regions = QueryRegions(batch, prefix, self.queries)
        conditions = self._regions.conditions
        self._changes = RowChanges(state, f"{prefix}/changes", self.queries, conditions)
        self._orders = QueryOrders(prefix, batch.spec.key, self.queries, conditions)
        self._offered: tuple[Array, Array] = np.empty(0, np.int64), np.empty(0, np.int32)

    def limits(self, positions: Array) -> Array:
        """Return the LIMIT of queries."""
        limits: Array = self.queries.limit[positions]
        return limits

    def register(self, positions: Array, new: NewQueries) -> None:
        """Store the conditions and the order of new queries, and announce them to Aggregate."""
        self._regions.add(positions, new)
        self._changes.add(positions, new)
        self._orders.add(positions, new)
        super().register(positions, new)

    def retire(self, positions: Array, steps: Array, why: int) -> None:
        """Withdraw what paused queries have offered; Aggregate itself retracts the answers of the others."""
        for step in np.unique(steps).tolist():
            at = positions[(steps == step) & (self.queries.mode[positions] == PAUSED)]
            ids, objects = self._sent.pop_queries(self.queries.id[at])
            if len(ids):
                self._offers(self._context()).withdraw(ids, objects, step, why)
        super().retire(positions, steps, why)
        self._regions.note_removal(why, staying=True)

    def pause(self, positions: Array) -> None:
        """Store what queries have offered."""
        self._sent.add(*self._tracker(self._context()).before(positions))
        self._regions.note_change()
        super().pause(positions)

    def remember(self, positions: Array) -> None:
        """Store all members, because other slots may have offered any of them."""
        members = self._context().members(positions, self.batch.timing.first - 1)
        self._sent.add(self.queries.id[members.query], members.obj)
        self._regions.note_change()
        super().pause(positions)

    def resume(self, positions: Array) -> None:
        """Load what queries had offered before they paused."""
        ids, objects = self._sent.pop_queries(self.queries.id[positions])
        self._offered = np.append(self._offered[0], ids), np.append(self._offered[1], objects)

    def alter(self, positions: Array, new: NewQueries) -> None:
        """Replace the regions and conditions of queries, and keep what active queries have offered."""
        active = positions[self.queries.mode[positions] == ACTIVE]
        ids, objects = self._tracker(self._context()).before(active)
        self._offered = np.append(self._offered[0], ids), np.append(self._offered[1], objects)
        self._regions.relocate(positions, new)

    def rescale(self) -> Array:
        """Scale regions to the share of their area that load shedding leaves."""
        at, active = self._regions.changing()
        self._offered = self._tracker(self._context()).before(active)
        self._regions.rescale(at)
        return active

    def on_events(self, begun: Array) -> None:
        """Offer the changes of each query's first n objects on this slot."""
        if not self._regions.prepare(begun, staying=True):
            return
        context = self._context()
        offers, members = self._offers(context), []
        for changes, come in self._tracker(context).follow(self._regions.index, begun):
            offers.offer(changes)
            members.append(come)
        offers.withdraw_rest(*self._offered, np.concatenate(members))

    def _tracker(self, context: QueryContext) -> TopNTracker:
        return TopNTracker(context, self.queries, self._orders)

    def _offers(self, context: QueryContext) -> TopNOffers:
        return TopNOffers(context, self._changes, self.partials)

    def _context(self) -> QueryContext:
        return self._regions.context(staying=True)


class TopNKind(MergingKind):
    """The first n present objects inside a region that satisfy a condition, by (ORDER BY, key).

    Each slot offers the first n of its own objects, with their places in the order.
    """

    name, logic, table = TOP_N.name, TopNLogic, TopNQueries

    def merge(self, batch: MergeInput) -> MergedUpdates:
        """Merge the slots' candidates, and return the changes of the first n of all slots."""
        return merge_first(batch)

    def explain(self, given: ExplainInput) -> KindExplanation:
        """Return what EXPLAIN shows: members are found as for a range query, and ordered."""
        found = RangeKind().explain(given)
        return replace(found, operators=(*found.operators, *order_operators(given.spec)))
