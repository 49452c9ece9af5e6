"""Continuous aggregates: one row for each group of a query's members (language.md section 7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from stqsh.arrays import Array
from stqsh.core.aggregates.states import States
from stqsh.core.base.clock import NEVER
from stqsh.core.contract.merging_kind import MergingKind
from stqsh.core.contract.query_kind import (
    ExplainInput,
    KindExplanation,
    QueryLogic,
    StreamBatch,
)
from stqsh.core.groups.group_deltas import GroupDeltas, MemberChanges, is_count
from stqsh.core.groups.group_merge import merge_groups
from stqsh.core.groups.query_forms import FormedQueries, QueryForms, SlotGroups, changed_groups
from stqsh.core.groups.refresh_schedule import DueQueries, RefreshSchedule, timings_of_groups
from stqsh.core.groups.refreshed_members import RefreshedMembers, member_changes
from stqsh.core.groups.region_tallies import RegionTallies, adds_up
from stqsh.core.groups.shared_queries import SharedQueries, taken_back
from stqsh.core.groups.window_intervals import WindowIntervals
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.events.updates import ENDED, count_pairs
from stqsh.core.kernels.index.static_rects import CandidatePairs, QueryLifetimes
from stqsh.core.kinds.ranges import RangeKind
from stqsh.core.matching.keyword_queries import keywords_of
from stqsh.core.matching.match import match
from stqsh.core.matching.query_context import QueryContext
from stqsh.core.matching.query_regions import QueryRegions
from stqsh.core.output.batch_output import BatchOutput
from stqsh.core.output.merge import MergedUpdates, MergeInput
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.state.table import ArraySpec
from stqsh.spec.aggregate import AggregateSpec
from stqsh.spec.chunk import Chunk
from stqsh.spec.expression import NowExpr, has_node
from stqsh.spec.query import AGGREGATE, GroupForm

_BY_PLACE = (
    "records are put in order of place once for all queries, and each region adds up those of its cells;"
    " with a condition only if many queries share it"
)
_BY_INTERVALS = (
    "results of intervals are kept, and the fewest that make up the window are added up (MT-index)"
)
_BY_LIST = "the members of the region are listed one by one, and then added up"

_QUERIES_A_REFRESH = 4
"""Up to this many queries per refresh, changes of members are computed instead of all members."""


class AggregateQueries(FormedQueries):
    """Aggregate queries."""

    stays = ArraySpec(np.bool_)  # whether a member that stays may change the groups


class AggregateLogic(QueryLogic):
    """One batch of a stream's aggregate queries."""

    queries: AggregateQueries

    finds_crossings = True

    def __init__(self, kind: AggregateKind, batch: StreamBatch, output: BatchOutput) -> None:
        super().__init__(kind, batch, output)
        self._regions = QueryRegions(batch, self.prefix, self.queries)
        self._groups = SlotGroups(batch, kind.name, self.queries)
        self._forms = self._groups.forms
        self._intervals = WindowIntervals(batch, self.queries, self._regions.conditions, self._forms)

    def register(self, positions: Array, new: NewQueries) -> None:
        """Store what new queries compute, and announce them to Aggregate."""
        self._regions.add(positions, new)
        self._groups.add(positions, new)
        counts = [is_count(pattern.aggregates or AggregateSpec()) for pattern in new.patterns]
        self.queries.stays[positions] = ~new.spread(counts, np.bool_)

    def retire(self, positions: Array, steps: Array, why: int) -> None:
        """Remove queries; Aggregate retracts their rows."""
        self._groups.retire(positions, steps, why)
        super().retire(positions, steps, why)
        self._regions.note_removal(why, self.queries.stays, _following(self._forms))

    def pause(self, positions: Array) -> None:
        """Send nothing more for queries, so that Aggregate keeps their answers."""
        del positions
        self._regions.note_change()

    def alter(self, positions: Array, new: NewQueries) -> None:
        """Replace regions and conditions; Aggregate computes the groups of active queries anew."""
        self._regions.relocate(positions, new)
        self._intervals.release()

    def rescale(self) -> Array:
        """Scale regions to the share of their area that load shedding leaves."""
        at, active = self._regions.changing()
        self._regions.rescale(at)
        self._intervals.release()
        return active

    def on_events(self, begun: Array) -> None:
        """Compute how members change, and the members of queries that begin."""
        queries, follows = self.queries, _following(self._forms)
        if not self._regions.prepare(begun, queries.stays, follows):
            self._intervals.release()
            return
        timings = timings_of_groups(self._forms)
        schedule = RefreshSchedule(self.batch, queries, self._regions.conditions, timings)
        if follows.any():
            self._follow(follows, begun[follows[begun]])
        else:
            self._regions.skip_events()
        self._groups.found(self._refreshed(schedule))
        self._intervals.follow()
        self._groups.wake()

    def chunks(self) -> list[Chunk]:
        """Return the marks and the differences of groups."""
        return self._groups.chunks()

    def _follow(self, follows: Array, begun: Array) -> None:
        """Compute the member changes of queries that follow every step, some of which begin."""
        queries, first = self.queries, self.batch.timing.first
        since = np.where(follows, first - 1, NEVER)
        since[begun] = first
        context = self._regions.context(queries.stays)
        pairs, events = match(context, self._regions.index, QueryLifetimes(since, queries.until))
        count_pairs(pairs, queries.tested, queries.matched)
        # DISTANCE is read only from fixed centres here, so any step will do; no record is compared with NOW.
        deltas = GroupDeltas(
            self._regions.conditions,
            self.batch.objects.versions,
            self.batch.timing,
            queries.id,
            partial(context.distances, step=first),
        )
        self._groups.found(_changed(deltas, self._forms.among(pairs.query), pairs, events))
        self._groups.begin(begun, first)
        members = context.members(begun[queries.until[begun] > first], first)
        count = len(members.query)
        signs = np.ones(count, np.int8)
        come = MemberChanges(members.query, np.full(count, first), members.version, signs)
        self._groups.found(changed_groups(self._forms, deltas, come))

    def _refreshed(self, schedule: RefreshSchedule) -> Iterator[States]:
        """Yield the groups of queries at their refreshes, and retract them at the next one."""
        for dues in map(list, schedule.by_duration()):
            for due in dues:
                if due.begin:
                    self._groups.begin(due.positions, due.refresh.step)
            together = self._of_changes(dues)
            changes = None
            if len(together):
                context = self._regions.context(self.queries.stays)
                changes = member_changes(context, dues, together, schedule.windows_us)
            if changes is None:
                yield from self._one_by_one(dues, schedule)
                continue
            yield from self._changes(context, changes, dues[-1].end)
            rest = np.ones(len(self.queries), np.bool_)
            rest[together] = False
            yield from self._one_by_one(
                [due._replace(positions=due.positions[rest[due.positions]]) for due in dues], schedule
            )

    def _of_changes(self, dues: list[DueQueries]) -> Array:
        """Return the queries for which computing member changes from refresh to refresh is fastest.

        These are queries over events with fixed regions. If there are many queries for few refreshes, adding
        up their members region by region is faster. Queries that read NOW do not qualify, because it changes
        values without a record; approximate aggregates do not, because they depend on the order.
        """
        none, spec = np.empty(0, np.int64), self.batch.spec
        if (
            self._intervals.is_chosen
            or len(dues) < 2
            or not spec.is_event
            or spec.keeps_none
            or dues[0].seen == dues[0].refresh.step
        ):
            return none
        others = self._forms.durations(_reads_now_or_is_approximate) > 0
        at = dues[0].positions
        moves = (self.queries.focal[at] >= 0) | self._regions.conditions.move[at]
        at = at[~moves & ~others[at]]
        return at if len(at) <= _QUERIES_A_REFRESH * len(dues) else none

    def _changes(self, context: QueryContext, changes: MemberChanges, after: int) -> Iterator[States]:
        """Return the group changes that member changes cause."""
        timing = self.batch.timing
        if after < NEVER:
            timing = timing._replace(last=after)
        for counter in (self.queries.tested, self.queries.matched):
            np.add.at(counter, changes.query, 1)
        distances = partial(context.distances, step=timing.first)
        versions = self.batch.objects.versions
        deltas = GroupDeltas(self._regions.conditions, versions, timing, self.queries.id, distances)
        return changed_groups(self._forms, deltas, changes)

    def _one_by_one(self, dues: list[DueQueries], schedule: RefreshSchedule) -> Iterator[States]:
        """Yield the groups of queries, computing each refresh separately."""
        for due in dues:
            if not len(due.positions):
                continue
            members = RefreshedMembers(self.batch, self.queries, self.prefix, due)
            shared = SharedQueries(
                self.queries, self._regions.conditions, due.positions, self._keyworded(due.positions)
            )
            lasting = self.queries.until[due.positions] > due.end
            for found in self._members(members, shared.first, due, schedule):
                both = [shared.spread(found)]
                if due.end < NEVER:
                    both.append(shared.spread(taken_back(found, due.end), lasting))
                yield from (one for one in both if one is not None)

    def _members(
        self, members: RefreshedMembers, positions: Array, due: DueQueries, schedule: RefreshSchedule
    ) -> Iterator[States]:
        """Yield the groups of queries at a refresh, from their regions or else from lists of members."""
        windows_us = schedule.windows_us
        if self._intervals.is_chosen:
            fixed = self._forms.durations(_reads_now_or_is_approximate) < 0
            mine = self._intervals.are_suitable(positions, due, schedule, fixed)
            yield from self._intervals.states(members, positions[mine], due, schedule)
            positions = positions[~mine]
        tallies, is_keyworded = RegionTallies(members, windows_us), self._keyworded(positions)
        listed = [positions[is_keyworded]]
        for spec, chosen in self._forms.among(positions[~is_keyworded]):
            left = yield from tallies.of(spec, positions[~is_keyworded][chosen])
            listed.append(left)
        for changes in members.in_portions(np.sort(np.concatenate(listed)), windows_us):
            for counter in (self.queries.tested, self.queries.matched):
                np.add.at(counter, changes.query, 1)
            for spec, chosen in self._forms.among(changes.query):
                found = members.groups(spec, MemberChanges(*(column[chosen] for column in changes)))
                if found is not None:
                    yield found

    def _keyworded(self, positions: Array) -> Array:
        """Return which queries, given by position, are in the index of keywords, bool (n,)."""
        keywords = keywords_of(self.batch, self.prefix)
        if keywords is None:
            return np.zeros(len(positions), np.bool_)
        return np.isin(self.queries.id[positions], keywords.queries.id)


class AggregateKind(MergingKind):
    """Aggregates of the members of a region, by group.

    Slots send the difference of each group in each step; Aggregate adds these up and shows the groups.
    """

    name = AGGREGATE.name
    logic = AggregateLogic
    table = AggregateQueries
    holds_back = False

    def release(self, batch: StreamBatch, positions: Array) -> bool:
        """Remove queries in whose regions this slot has no records any more; Aggregate keeps their rows."""
        state, prefix = batch.state, self.prefix(batch.spec.id)
        queries = AggregateQueries(state, prefix)
        queries.remove(positions)
        following = _following(QueryForms(state, prefix, queries))
        QueryRegions(batch, prefix, queries).note_removal(ENDED, queries.stays, following)
        return True

    def merge(self, batch: MergeInput) -> MergedUpdates:
        """Add up the slots' differences, and return the changes of the answers."""
        return merge_groups(batch)

    def explain(self, given: ExplainInput) -> KindExplanation:
        """Return what EXPLAIN shows of an aggregate: its members are found as for a range query."""
        found = RangeKind().explain(given)
        spec, timing = given.spec.aggregates, given.spec.timing
        about = "hash aggregate"
        if spec and spec.error:
            about += f" (TOPK approximate, error {spec.error:g})"
        refreshes = None
        if spec and (timing.sync_us is not None or timing.each_step):
            is_still = given.spec.region.focal_key is None and not found.terms
            refreshes = _BY_PLACE if is_still and adds_up(spec) else _BY_LIST
            is_windowed = given.stream.is_event and is_still and timing.window_us is not None
            if given.indexes.windows == "mtindex" and is_windowed:
                refreshes = _BY_INTERVALS
        return replace(found, operators=(*found.operators, about), refreshes=refreshes)


def _changed(
    deltas: GroupDeltas,
    forms: Iterator[tuple[AggregateSpec, Array | slice]],
    pairs: CandidatePairs,
    events: Transitions,
) -> Iterator[States]:
    """Yield the group changes that pairs of events and queries cause."""
    if not len(pairs.query):
        return
    for spec, mine in forms:
        found = deltas.of_pairs(spec, CandidatePairs(*(column[mine] for column in pairs)), events)
        if found is not None:
            yield found


def _following(forms: QueryForms) -> Array:
    """Return which queries follow every step, so that they are matched with events; bool (queries,)."""
    return forms.durations(lambda form: 1 if form.timing.each_step else form.timing.sync_us) < 0


def _reads_now_or_is_approximate(form: GroupForm) -> int | None:
    reads_now = any(has_node(expr, NowExpr) for expr in form.groups.over_records)
    return 1 if form.groups.error > 0 or reads_now else None
