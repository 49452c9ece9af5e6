"""Members of regions at refreshes, for rows; `stqsh.core.kinds.refreshed_nearest` has the k nearest.

At a refresh a slot finds the members as of its instant, among the records stored before its step, and offers
the differences from what it has sent. Nothing is tracked between refreshes. Aggregate merges the offers like
those of queries with LIMIT; a query without LIMIT shows all members.

For queries over events with fixed regions, the cost of all refreshes of a batch together is proportional to
the changes in the batch. For other queries, each refresh finds all members again.

Invariant: between batches `SentMembers` holds what the slot has offered and not withdrawn. So a refresh sends
only differences, even after other batches, a pause or a restart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.base.clock import NEVER
from stqsh.core.contract.merging_kind import MergingKind, MergingLogic
from stqsh.core.contract.query_kind import ExplainInput, KindExplanation, QueryKind, StreamBatch
from stqsh.core.groups.group_deltas import MemberChanges
from stqsh.core.groups.refresh_schedule import DueQueries, QueryTimings, RefreshSchedule
from stqsh.core.groups.refreshed_members import EventsAsOf, ObjectsAsOf, context_as_of, member_changes
from stqsh.core.kinds.ranges import RangeKind
from stqsh.core.matching.query_context import QueryContext
from stqsh.core.matching.query_regions import QueryRegions
from stqsh.core.matching.row_changes import RowChanges
from stqsh.core.output.batch_output import BatchOutput
from stqsh.core.output.merge import MergedUpdates, MergeInput
from stqsh.core.output.partials import SUSPEND
from stqsh.core.queries.query_table import ACTIVE
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.top_n.member_ranks import MemberRanks, TopNMembers
from stqsh.core.top_n.merge import merge_first
from stqsh.core.top_n.offers import TopNOffers
from stqsh.core.top_n.orders import QueryOrders, TopNQueries, order_operators, with_distances
from stqsh.core.top_n.sent_members import Sent, SentMembers, is_among, together
from stqsh.core.top_n.stepped_members import (
    SteppedChanges,
    SteppedMembers,
    SteppedTopN,
    changes_between,
    member_codes,
)
from stqsh.spec.query import REFRESHED_ROWS

_BY_REFRESH = "the members are listed at each refresh, and what differs from the one before is sent"
_BY_EVENT = "events come into the answer and leave it at the refreshes that follow from their times"


class RefreshedLogic(MergingLogic):
    """The common part of queries at refreshes, over regions and over the k nearest."""

    queries: TopNQueries

    def __init__(self, kind: QueryKind, batch: StreamBatch, output: BatchOutput) -> None:
        super().__init__(kind, batch, output)
        self._sent = SentMembers(batch.state, self.queries)

    def syncs(self) -> Array:
        """Return the SYNC of each query, 0 for those that are looked at in each step."""
        return np.maximum(self._timings().sync_us, 0)

    def _timings(self) -> QueryTimings:
        """Return when the queries are refreshed."""
        raise NotImplementedError

    def pause(self, positions: Array) -> None:
        """Tell Aggregate that nothing waits for DWELL any more; what was sent is always stored."""
        waiting = positions[self.queries.dwell[positions] > 0]
        if len(waiting):
            self._mark(waiting, self.batch.timing.first, SUSPEND)

    def forget(self, ids: Iterable[int]) -> None:
        """Forget what queries that are evaluated elsewhere from now on have sent."""
        self._sent.forget(ids)

    def retire(self, positions: Array, steps: Array, why: int) -> None:
        """Withdraw what queries have sent, as it was before the step."""
        for step in np.unique(steps).tolist():
            sent = self._sent.pop(positions[steps == step])
            if len(sent.query):
                self._withdraw(sent, step, why)
        super().retire(positions, steps, why)

    def _withdraw(self, sent: Sent, step: int, why: int) -> None:
        """Withdraw members of queries that end at a step."""
        raise NotImplementedError

    def _refresh(self, schedule: RefreshSchedule) -> None:
        """Offer the changes of members from refresh to refresh, and store what was sent."""
        active = np.flatnonzero(self.queries.mode == ACTIVE)
        before = self._sent.pop(active)
        kept = []
        for refreshes in schedule.by_duration():
            held, before, dues = self._at_once(list(refreshes), before, schedule.windows_us)
            kept.append(held)
            for number, due in enumerate(dues):
                mine = np.zeros(len(self.queries), np.bool_)
                mine[due.positions] = True
                if not number:
                    is_due = mine[before.query]
                    held, before = before.where(is_due), before.where(~is_due)
                is_due = mine[held.query]
                kept.append(self._kept(held.where(~is_due), due))
                held = self._offer_changes(held.where(is_due), due, schedule.windows_us)
                if number == len(dues) - 1:
                    kept.append(self._kept(held, due))
        self._sent.add(together([before, *kept]), self.batch.objects.versions_at(self.batch.timing.last))

    def _kept(self, held: Sent, last: DueQueries) -> Sent:
        """Return what to store of the members at the last refresh of their queries; by default, all."""
        del last
        return held

    def _at_once(
        self, dues: list[DueQueries], before: Sent, windows_us: Array
    ) -> tuple[Sent, Sent, list[DueQueries]]:
        """Offer the changes at all refreshes of a batch, for queries where one pass can compute them.

        Returns:
            The members of these queries after the batch, the members of the other queries before it, and the
            refreshes of the other queries.
        """
        return together([]), before, dues

    def _offer_changes(self, before: Sent, due: DueQueries, windows_us: Array) -> Sent:
        """Offer the differences of members at a refresh from those before; return the new members."""
        raise NotImplementedError


class RefreshedRowsLogic(RefreshedLogic):
    """One batch of a stream's refreshed queries over regions."""

    def __init__(self, kind: QueryKind, batch: StreamBatch, output: BatchOutput) -> None:
        super().__init__(kind, batch, output)
        state, prefix = batch.state, self.prefix
        self._regions = QueryRegions(batch, prefix, self.queries)
        conditions = self._regions.conditions
        self._changes = RowChanges(state, f"{prefix}/changes", self.queries, conditions)
        self._orders = QueryOrders(prefix, batch.spec.key, self.queries, conditions)

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
        """Withdraw what queries have sent, as it was before the step."""
        super().retire(positions, steps, why)
        self._regions.note_removal(why, staying=True, matched=self._unmatched())

    def alter(self, positions: Array, new: NewQueries) -> None:
        """Replace the regions and conditions of queries; they count from the next refresh on."""
        self._regions.relocate(positions, new)

    def rescale(self) -> Array:
        """Scale regions to the share of their area that load shedding leaves."""
        at, active = self._regions.changing()
        self._regions.rescale(at)
        return active

    def on_events(self, begun: Array) -> None:
        """Offer the members of queries at their refreshes; queries that begin wait for their next one."""
        if not self._regions.prepare(begun, staying=True, matched=self._unmatched()):
            return
        self._regions.skip_events()
        self._refresh(RefreshSchedule(self.batch, self.queries, self._regions.conditions, self._timings()))

    def _timings(self) -> QueryTimings:
        return self._orders.timings()

    def _unmatched(self) -> Array:
        """Return False for each query, because none is matched with events; bool (queries,)."""
        return np.zeros(len(self.queries), np.bool_)

    def _withdraw(self, sent: Sent, step: int, why: int) -> None:
        offers = TopNOffers(self._regions.context(staying=True), self._changes, self.partials)
        offers.withdraw(self.queries.id[sent.query], sent.obj, step, why)

    def _at_once(
        self, dues: list[DueQueries], before: Sent, windows_us: Array
    ) -> tuple[Sent, Sent, list[DueQueries]]:
        """Offer the changes of queries over events with fixed regions; the cost depends only on the changes.

        Events come, expire and leave windows; `member_changes` returns the refresh of each such change. The
        first n are computed from these as they are from records.
        """
        spec, queries = self.batch.spec, self.queries
        nothing = together([]), before, dues
        if len(dues) < 2 or not spec.is_event or dues[0].seen == dues[0].refresh.step:
            return nothing
        at = dues[0].positions
        moves = (queries.focal[at] >= 0) | self._regions.conditions.move[at]
        at = at[~moves & ~queries.each_step[at]]
        context = self._regions.context(staying=True)
        lasting = [*dues[:-1], dues[-1]._replace(end=NEVER)]
        changes = member_changes(context, lasting, at, windows_us) if len(at) else None
        if changes is None:
            return nothing
        for counter in (queries.tested, queries.matched):
            np.add.at(counter, changes.query, 1)
        is_mine = np.isin(before.query, at)
        held = self._offer_all(dues, changes, before.where(is_mine), windows_us)
        rest = [due._replace(positions=np.setdiff1d(due.positions, at)) for due in dues]
        return held, before.where(~is_mine), [due for due in rest if len(due.positions)]

    def _offer_all(
        self, dues: list[DueQueries], changes: MemberChanges, before: Sent, windows_us: Array
    ) -> Sent:
        """Offer the changes of the first n at all refreshes of a batch; return the first n after it.

        In `changes` all members of the first refresh come at it. Members that were already sent are not
        offered again, and sent members that do not come are withdrawn.
        """
        begin, batch = dues[0].refresh.step, self.batch
        objects = EventsAsOf(batch.objects, dues)
        ranks = MemberRanks(changes, self.queries.form, objects.versions, self._orders.places)
        found = ranks.first(self.queries.limit.astype(np.int64), begin - 1)
        obj = objects.numbers.objects_of(found.version)
        after = Sent(found.query.astype(np.int64), obj, found.version)
        comes_first = (found.step == begin) & (found.op > 0)
        stays = comes_first & is_among(before.where(before.version >= 0), after.query, obj)
        lost = before.where(~is_among(after.where(comes_first), before.query, before.obj))
        new, count = np.flatnonzero(~stays), len(lost.query)
        withdrawn = TopNMembers(
            lost.query.astype(np.int32),
            np.full(count, begin),
            lost.version,
            np.full(count, -1, np.int8),
            np.zeros(count, np.int64),
        )
        offered = TopNMembers(*map(np.concatenate, zip(found.where(new), withdrawn, strict=True)))
        objs = np.concatenate([obj[new], lost.obj])
        codes = member_codes(batch, offered.query, offered.step, objs)
        theirs = objects.numbers.objects_of(changes.version)
        turned = member_codes(batch, changes.query, changes.step, theirs)
        come = turned[changes.sign > 0]
        is_member = np.isin(codes, come) | ~np.isin(codes, turned)
        is_member[len(new) :] = np.isin(codes[len(new) :], come)
        context = replace(self._regions.context(staying=True), batch=replace(batch, objects=objects))
        offered, places = self._placed(context, offered, ranks.places)
        offers = TopNOffers(
            context,
            self._changes,
            self.partials,
            lambda query, versions, steps: objects.are_too_old(versions, windows_us[query], steps),
        )
        offers.offer(SteppedChanges(offered, places, objs, is_member))
        order = np.lexsort((found.op, found.step, obj, found.query))
        query, order_obj = found.query[order], obj[order]
        is_last = np.ones(len(order), np.bool_)
        is_last[:-1] = (query[1:] != query[:-1]) | (order_obj[1:] != order_obj[:-1])
        return after.where(order[is_last & (found.op[order] > 0)])

    def _placed(
        self, context: QueryContext, found: TopNMembers, places: pa.BinaryArray
    ) -> tuple[TopNMembers, pa.BinaryArray]:
        """Return members and the places of those that enter, with the distances that queries show."""
        entering = np.flatnonzero(found.op > 0)
        entered = found.where(entering)
        chosen: Any = pa.array(entered.place)
        far = context.distances(entered.query, entered.version, entered.step)
        shows = self.queries.shows_distance[entered.query] > 0
        place = np.zeros(len(found.op), np.int64)
        place[entering] = np.arange(len(entering))
        return found._replace(place=place), with_distances(places.take(chosen), far, shows)

    def _offer_changes(self, before: Sent, due: DueQueries, windows_us: Array) -> Sent:
        step, objects = due.refresh.step, ObjectsAsOf(self.batch.objects, due)
        context = context_as_of(self.batch, objects, self.queries, self.prefix, due)
        members = SteppedMembers(context, self.queries.form, self._orders.places)
        limits = self.queries.limit.astype(np.int64)
        after = members.after(
            due.positions, limits, step, lambda query, versions: objects.within(versions, windows_us[query])
        )
        for counter in (self.queries.tested, self.queries.matched):
            np.add.at(counter, after.members[0], 1)
        # Places that change with time are offered again.
        known = np.where(self.queries.each_step[before.query], np.int32(-1), before.version)
        was = _as_first(before._replace(version=known), after, len(objects.table))
        offers = TopNOffers(
            context,
            self._changes,
            self.partials,
            lambda query, versions, _: objects.are_too_old(versions, windows_us[query]),
        )
        offers.offer(changes_between(was, after, step, len(objects.table)))
        return Sent(after.query.astype(np.int64), after.obj, after.version)


class RefreshedRowsKind(MergingKind):
    """The first n members of a region by (ORDER BY, key), or all members, at refreshes."""

    name = REFRESHED_ROWS.name
    logic = RefreshedRowsLogic
    table = TopNQueries

    def merge(self, batch: MergeInput) -> MergedUpdates:
        """Merge the slots' candidates, and return the changes of the first n of all slots."""
        return merge_first(batch)

    def explain(self, given: ExplainInput) -> KindExplanation:
        """Return what EXPLAIN shows: each refresh lists the members."""
        found = RangeKind().explain(given)
        operators = order_operators(given.spec)
        is_still = given.stream.is_event and given.spec.region.focal_key is None
        refreshes = _BY_EVENT if is_still else _BY_REFRESH
        return replace(found, operators=(*found.operators, *operators), refreshes=refreshes)


def _as_first(before: Sent, after: SteppedTopN, objects: int) -> SteppedTopN:
    """Return what was sent as the first n of the step before, with the places in `after`, null for none."""
    was, now = before.query * objects + before.obj, after.codes(objects)
    place = np.full(len(was), -1)
    if len(now):
        order = np.argsort(now)
        at = order[np.minimum(np.searchsorted(now[order], was), len(now) - 1)]
        place = np.where(now[at] == was, at, -1)
    known: Any = pa.array(place, mask=place < 0)
    none = np.empty(0, np.int32), np.empty(0, np.int32)
    return SteppedTopN(before.query, before.obj, before.version, after.place.take(known), none)
