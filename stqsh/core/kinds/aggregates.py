"""Continuous aggregates: one row for each group of a query's members (language.md section 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

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
from stqsh.core.groups.marks import BEGIN, DROP, END, SpokenMarks
from stqsh.core.groups.payloads import group_payloads
from stqsh.core.groups.refresh_times import Refresh, next_refresh, refreshes_since
from stqsh.core.groups.refreshed_members import RefreshedMembers
from stqsh.core.groups.turning_points import turning_points, window_points
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.events.updates import DROPPED, ENDED, count_pairs
from stqsh.core.kernels.index.static_rects import CandidatePairs, QueryLifetimes
from stqsh.core.kinds.ranges import RangeKind
from stqsh.core.matching.match import match
from stqsh.core.matching.moving_index import ObjectCellStore
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.matching.query_context import QueryContext, context_of
from stqsh.core.matching.region_scaling import scale, will_scale
from stqsh.core.matching.static_index import StaticRegionIndex
from stqsh.core.output.batch_output import BatchOutput
from stqsh.core.output.merge import MergedUpdates, MergeInput
from stqsh.core.queries.query_table import ACTIVE, QueryTable
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.state.retention_mode import memory_of
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import ArraySpec
from stqsh.spec.aggregate import AggregateSpec
from stqsh.spec.chunk import Chunk, ChunkOrder, Phase, pack
from stqsh.spec.query import AGGREGATE

Array = npt.NDArray[Any]


class AggregateQueries(QueryTable):
    """Aggregate queries."""

    form = ArraySpec(np.int32)  # what it computes, a position in the header's list
    stays = ArraySpec(np.bool_)  # whether a member that stays may change its groups


class AggregateKind(MergingKind):
    """What the members of a region add up to, by group.

    Slots say by how much each group changes in each step; Aggregate adds that up and shows the groups.
    """

    name = AGGREGATE.name

    def build(self, batch: StreamBatch, output: BatchOutput) -> AggregateLogic:
        """Load the queries of a slot for one batch."""
        return AggregateLogic(self, batch, output)

    def queries(self, state: SlotState, stream: int) -> AggregateQueries:
        """Return the kind's queries over a stream."""
        return AggregateQueries(state, self.prefix(stream))

    def merge(self, batch: MergeInput) -> MergedUpdates:
        """Add up what the slots say, and return the changes of the answers."""
        return merge_groups(batch)

    def explain(self, given: ExplainInput) -> KindExplanation:
        """Return what EXPLAIN shows of an aggregate: its members are found as a range query's are."""
        found = RangeKind().explain(given)
        return replace(found, operators=(*found.operators, "groups"))


class AggregateLogic(QueryLogic):
    """One batch of a stream's aggregate queries."""

    queries: AggregateQueries

    def __init__(self, kind: AggregateKind, batch: StreamBatch, output: BatchOutput) -> None:
        super().__init__(kind, batch, output)
        state, prefix = batch.state, self.prefix
        self.queries = kind.queries(state, batch.spec.id)
        self._index = StaticRegionIndex(batch, prefix)
        self._conditions = QueryConditions(state, prefix, self.queries, batch.objects)
        self._area = memory_of(state, batch.spec.id).area
        self._forms: list[str] = state.entry("forms").setdefault(prefix, [])
        self._marks = SpokenMarks()
        self._found: list[States] = []
        self._is_outdated = False
        self._turning: Array | None = None

    def register(self, positions: Array, new: NewQueries) -> None:
        """Store what new queries compute, and announce them to Aggregate."""
        self._conditions.add(positions, self._index.add_keywords(new))
        scale(self.queries, self._area, positions)
        specs = [pattern.aggregates or AggregateSpec() for pattern in new.patterns]  # some of other kinds
        texts = [msgspec.json.encode(spec).decode() for spec in specs]
        used = dict.fromkeys(texts[which] for which in np.unique(new.which).tolist())
        self._forms += [text for text in used if text not in self._forms]
        number = {text: i for i, text in enumerate(self._forms)}
        forms = new.spread([number.get(text, -1) for text in texts], np.int32)
        self.queries.form[positions] = forms
        self.queries.stays[positions] = new.spread([not is_count(spec) for spec in specs], np.bool_)
        self._marks.register(self.queries.id[positions], self.batch.timing.first, self._forms, forms)
        self._is_outdated = True

    def retire(self, positions: Array, steps: Array, why: int) -> None:
        """Remove queries; Aggregate takes back their rows."""
        for step in np.unique(steps).tolist():
            mine = positions[steps == step]
            self._marks.add(self.queries.id[mine], step, DROP if why == DROPPED else END)
        super().retire(positions, steps, why)
        if why == ENDED:
            self._index.fill(self._context())
        else:
            self._is_outdated = True

    def pause(self, positions: Array) -> None:
        """Say nothing more of queries, so that Aggregate keeps what was sent."""
        del positions
        self._is_outdated = True

    def rescale(self) -> Array:
        """Scale regions to the share of their area that load shedding leaves."""
        queries = self.queries
        at = will_scale(queries, self._area, np.flatnonzero(queries.until > self.batch.timing.first))
        active: Array = at[queries.mode[at] == ACTIVE]
        scale(queries, self._area, at)
        return active

    def on_events(self, begun: Array) -> None:
        """Find out how members change, and the members of queries that begin."""
        queries, first = self.queries, self.batch.timing.first
        if self._is_outdated or len(begun):
            self._index.fill(self._context())
        if not len(queries):
            ObjectCellStore(self.batch, self.prefix).release()
            return
        follows = self._every_us() < 0
        since = np.where(follows, first - 1, NEVER)
        begun = begun[follows[begun]]
        since[begun] = first
        context = self._context()
        pairs, events = match(context, self._index, QueryLifetimes(since, queries.until))
        count_pairs(pairs, queries.tested, queries.matched)
        deltas = GroupDeltas(self._conditions, self.batch.objects.versions, self.batch.timing, queries.id)
        self._found += _changed(deltas, self._by_form(pairs.query), pairs, events)
        starting = begun[queries.until[begun] > first]
        self._marks.add(queries.id[starting], first, BEGIN)
        self._found += self._begun(deltas, context, starting)
        self._found += self._refreshed()

    def chunks(self) -> list[Chunk]:
        """Return the marks and the differences of groups."""
        marks = self._marks.batch()
        chunks = [] if marks is None else [self._chunk("marks", 0, marks)]
        chunks += [
            self._chunk("partial", number, batch) for number, batch in enumerate(group_payloads(self._found))
        ]
        return chunks

    def _begun(self, deltas: GroupDeltas, context: QueryContext, starting: Array) -> Iterator[States]:
        """Yield the groups of all members of queries that begin."""
        first = self.batch.timing.first
        members = context.members(starting, first)
        for spec, mine in self._by_form(members.query):
            count = len(members.query[mine])
            steps, signs = np.full(count, first), np.ones(count, np.int8)
            changes = MemberChanges(members.query[mine], steps, members.version[mine], signs)
            found = deltas.of_members(spec, changes)
            if found is not None:
                yield found

    def _every_us(self) -> Array:
        """Return the time between refreshes of each query, int64; -1 for those that follow every step."""
        return self._durations(lambda spec: spec.sync_us)

    def _durations(self, of: Callable[[AggregateSpec], int | None]) -> Array:
        """Return a duration of each query's spec, int64 µs; -1 for none."""
        specs = [msgspec.json.decode(form, type=AggregateSpec) for form in self._forms]
        each = [-1 if (us := of(spec)) is None else us for spec in specs]
        durations: Array = np.array([*each, -1], np.int64)[self.queries.form]
        return durations

    def _refreshed(self) -> Iterator[States]:
        """Yield what refreshes change, by how often each is."""
        every = self._every_us()
        active = (every > 0) & (self.queries.mode == ACTIVE)
        for every_us in np.unique(every[active]).tolist():
            yield from self._refreshed_every(every_us, np.flatnonzero(active & (every == every_us)))

    def _refreshed_every(self, every_us: int, mine: Array) -> Iterator[States]:
        """Yield the groups of queries at their refreshes, and take them back at the next one.

        All slots begin again at the first refresh of a batch. After it each skips those at which its own
        members cannot have changed.
        """
        queries, timing, clock = self.queries, self.batch.timing, self.batch.clock
        windows = self._durations(lambda spec: spec.window_us)
        after = next_refresh(timing, every_us, timing.last + 1, clock.last_step, clock.closing)
        begin = next_refresh(timing, every_us, clock.first_step, clock.last_step, clock.closing)
        refreshes = self._refreshes(every_us, windows[mine])
        ends = [*(refresh.step for refresh in refreshes), after][1:]
        for refresh, end in zip(refreshes, ends, strict=True):
            due = mine[queries.until[mine] > refresh.step]
            if refresh.step == begin:
                self._marks.add(queries.id[due], begin, BEGIN)
            members = RefreshedMembers(self.batch, queries, self.prefix, refresh)
            changes = members.of(due, windows)
            for spec, chosen in self._by_form(changes.query):
                some = MemberChanges(*(column[chosen] for column in changes))
                yield from members.groups(spec, some)
                lasting = queries.until[some.query] > end
                if end < NEVER and lasting.any():
                    leaving = MemberChanges(*(column[lasting] for column in some))
                    yield from members.groups(spec, leaving, ending=end)

    def _refreshes(self, every_us: int, windows_us: Array) -> list[Refresh]:
        """Return the refreshes at which members on this slot may have changed."""
        timing, closing = self.batch.timing, self.batch.clock.closing
        if self._turning is None:
            self._turning = turning_points(self.batch, self._conditions)
        lengths = np.unique(windows_us[windows_us >= 0])
        points = [self._turning] + ([window_points(self.batch, lengths)] if len(lengths) else [])
        return refreshes_since(timing, every_us, np.concatenate(points), closing)

    def _by_form(self, queries: Array) -> Iterator[tuple[AggregateSpec, Array | slice]]:
        """Yield what queries compute, and which of them compute it."""
        form = self.queries.form[queries]
        present = np.flatnonzero(np.bincount(form, minlength=1))
        for number in present.tolist():
            spec = msgspec.json.decode(self._forms[number], type=AggregateSpec)
            yield spec, slice(None) if len(present) == 1 else form == number

    def _context(self) -> QueryContext:
        return context_of(self.batch, self.queries, self._conditions, self.prefix, staying=self.queries.stays)

    def _chunk(self, what: str, number: int, batch: pa.RecordBatch) -> Chunk:
        timing, order = self.batch.timing, ChunkOrder(Phase.EVALUATED, number=number)
        kind, slot = f"{what}/{AGGREGATE.name}", self.batch.state.slot
        return Chunk(
            slot, self.batch.spec.id, kind, order, timing.first, timing.last, batch.num_rows, pack(batch)
        )


def _changed(
    deltas: GroupDeltas,
    forms: Iterator[tuple[AggregateSpec, Array | slice]],
    pairs: CandidatePairs,
    events: Transitions,
) -> Iterator[States]:
    """Yield how pairs of events and queries change groups."""
    if not len(pairs.query):
        return
    for spec, mine in forms:
        found = deltas.of_pairs(spec, CandidatePairs(*(column[mine] for column in pairs)), events)
        if found is not None:
            yield found
