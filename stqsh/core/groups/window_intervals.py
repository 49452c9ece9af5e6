"""STAR's MT-index (section 5.2): partial results of time intervals, of which few make up a window.

At layer 0 an interval is as long as the greatest common divisor of window and refresh rate; at each further
layer, an interval joins two neighbours. At a refresh, the intervals that ended since the last one are
computed from their records, complete neighbours are joined, and the fewest intervals that make up the window
are added up. So a record is added up once, in its interval, not again at each refresh.

Other than in the paper, intervals begin at multiples of their length since the epoch, so that they need no
shift for a new query; and an interval is computed when it has ended, all of its records at once. Records that
come later remove their interval, and what it is a part of; the next refresh computes the interval again.
"""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.aggregates.states import VALUES, States, add_states
from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.groups.group_deltas import MemberChanges
from stqsh.core.groups.query_forms import FormedQueries, QueryForms
from stqsh.core.groups.refresh_schedule import DueQueries, RefreshSchedule
from stqsh.core.groups.refreshed_members import RefreshedMembers, times_of
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.objects.batch_objects import arrivals_at
from stqsh.core.state.index_choice import chosen_indexes
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.aggregate import AggregateSpec

_LAYERS = 11
_MOST = 1 << (_LAYERS - 1)
"""The most intervals of layer 0 in a window; a window with more is computed from its records."""


_SPARE = 16
"""Intervals may have this many queries that ended, and twice as many as others."""


class WindowIntervals:
    """The intervals of one kind's queries with WINDOW over a stream of events, for a batch.

    Arrays `{prefix}/windows/{form}/…`, for the queries of one form, which have one window and refresh rate:
    ids, the queries whose results the intervals have, int64; clock, int64 (3,), the end of the last interval
    in µs, the step up to whose records the intervals are right, and the length of an interval of layer 0 in
    µs; and {layer}/{number}/states, the states of an interval, uint8, empty for none.
    """

    def __init__(
        self, batch: StreamBatch, queries: FormedQueries, conditions: QueryConditions, forms: QueryForms
    ) -> None:
        self._batch, self._state, self._queries = batch, batch.state, queries
        self._conditions, self._forms = conditions, forms
        self._prefix = f"{queries.prefix}/windows"

    @property
    def is_chosen(self) -> bool:
        """Whether the session chooses the MT-index."""
        return chosen_indexes(self._state).windows == "mtindex"

    def release(self) -> None:
        """Remove all intervals."""
        self._state.release(f"{self._prefix}/")

    def are_suitable(
        self, positions: Array, due: DueQueries, schedule: RefreshSchedule, fixed: Array
    ) -> Array:
        """Return which queries intervals can answer at a refresh, bool (n,).

        `fixed`, bool (queries,), marks the queries whose results do not depend on NOW. Regions must not move,
        and events must stay as long as the window.
        """
        spec, timing = self._batch.spec, self._batch.timing
        leaves_early = spec.keeps_none or spec.keep_bytes is not None or self._is_disturbed
        if not spec.is_event or leaves_early or due.seen != due.refresh.step - 1:
            return np.zeros(len(positions), np.bool_)
        windows, every = schedule.windows_us[positions], schedule.every_us[positions]
        base = np.gcd(np.maximum(windows, 1), np.maximum(every, 1))
        suits = fixed[positions] & (windows > 0) & (windows // base <= _MOST)
        suits &= (due.refresh.instant % base == 0) & (self._queries.focal[positions] < 0)
        suits &= ~self._conditions.move[positions] & ~self._conditions.read_now[positions]
        if timing.report >= 0:
            suits &= windows <= timing.report
        found: Array = suits
        return found

    def states(
        self, members: RefreshedMembers, positions: Array, due: DueQueries, schedule: RefreshSchedule
    ) -> list[States]:
        """Return the groups of suitable queries at a refresh."""
        found = []
        for spec, chosen in self._forms.among(positions) if len(positions) else ():
            mine = positions[chosen]
            window, every = int(schedule.windows_us[mine[0]]), int(schedule.every_us[mine[0]])
            group = f"{self._prefix}/{self._queries.form[mine[0]]}"
            base, ids = gcd(window, every), self._queries.id[mine]
            self._open(group, ids, base, due)
            intervals = _Intervals(self._state, group, base, due.refresh.instant, window)
            intervals.compute(members, spec, mine)
            self._state.array(f"{group}/clock")[:2] = due.refresh.instant, due.seen
            some = intervals.states(due.refresh.step, ids)
            found += [] if some is None else [some]
        return found

    def _open(self, group: str, ids: Array, base: int, due: DueQueries) -> None:
        """Prepare a group's intervals for a refresh; they are dropped if they lack one of the queries."""
        if f"{group}/ids" in self._state:
            known = self._state.array(f"{group}/ids")
            if np.isin(ids, known).all() and len(known) <= _SPARE + 2 * len(ids):
                self.forget_late(group, due.seen)
                return
            self._state.release(f"{group}/")
        self._state.replace(f"{group}/ids", ids.astype(np.int64))
        self._state.replace(f"{group}/clock", np.array([0, due.seen, base], np.int64))

    def follow(self) -> None:
        """Remove what the records of the batch make wrong, and everything if it is not to be kept."""
        names = self._state.names(f"{self._prefix}/")
        if names and (self._is_disturbed or not self.is_chosen):
            self.release()
            return
        for name in names:
            if name.endswith("/clock"):
                self.forget_late(name.removesuffix("/clock"), self._batch.timing.last)

    def forget_late(self, group: str, step: int) -> None:
        """Remove the intervals of records up to a step that came after the intervals were computed."""
        clock = self._state.array(f"{group}/clock")
        end, seen, base = clock.tolist()
        rows = self._batch.objects.rows.arrays
        late = (rows.step > seen) & (rows.step <= step) & (rows.ts < end)
        for number in np.unique(rows.ts[late] // base).tolist():
            for layer in range(_LAYERS):
                self._state.release(f"{group}/{layer}/{number >> layer}/")
        clock[1] = max(seen, step)

    @property
    def _is_disturbed(self) -> bool:
        """Whether records are removed, or moved between slots, in this batch."""
        objects = self._batch.objects
        return objects.removals.since is not None or len(objects.rows.roles) > 0


class _Intervals:
    """The intervals of a group of queries at a refresh.

    Args:
        state: The slot's state.
        group: The beginning of the arrays' names.
        base: The length of an interval of layer 0, µs.
        instant: The instant of the refresh, µs.
        window: The length of the window, µs.
    """

    def __init__(self, state: SlotState, group: str, base: int, instant: int, window: int) -> None:
        self._state, self._group, self._base = state, group, base
        self._first, self._end = (instant - window) // base, instant // base

    def compute(self, members: RefreshedMembers, spec: AggregateSpec, positions: Array) -> None:
        """Compute the intervals of layer 0 that the window lacks, and join those that are complete."""
        self._forget()
        missing = [number for layer, number in self._parts() if not self._has(layer, number)]
        arrivals = arrivals_at(members.objects, members.refresh.step)
        numbers = times_of(members.objects, arrivals.new) // self._base
        order = np.argsort(numbers, kind="stable")
        bounds = np.searchsorted(numbers[order], [[number, number + 1] for number in missing])
        for number, (begin, end) in zip(missing, bounds.reshape(-1, 2).tolist(), strict=True):
            some = Transitions(*(column[np.sort(order[begin:end])] for column in arrivals))
            self._store(0, number, self._found(members, spec, positions, some))
            self._join(number + 1)

    def states(self, step: int, ids: Array) -> States | None:
        """Return the sum of the fewest intervals that make up the window, for some queries, at a step."""
        parts = [part for layer, number in self._parts() if (part := self._load(layer, number)) is not None]
        if not parts:
            return None
        return _at_step(parts[0] if len(parts) == 1 else add_states(parts), step, ids)

    def _found(
        self, members: RefreshedMembers, spec: AggregateSpec, positions: Array, arrivals: Transitions
    ) -> States | None:
        """Return the groups of records of an interval."""
        step = members.refresh.step
        pairs = members.context.holders(positions, arrivals, step)
        count = len(pairs.query)
        for counter in (members.context.queries.tested, members.context.queries.matched):
            np.add.at(counter, pairs.query, 1)
        come = MemberChanges(
            pairs.query, np.full(count, step), arrivals.new[pairs.event], np.ones(count, np.int8)
        )
        return members.groups(spec, come)

    def _parts(self) -> list[tuple[int, int]]:
        """Return the intervals that make up the window: from the oldest on, the longest that is there."""
        at, found = self._first, []
        while at < self._end:
            layer = 0
            for higher in range(1, _LAYERS):
                if at % (1 << higher) or at + (1 << higher) > self._end:
                    break
                layer = higher if self._has(higher, at >> higher) else layer
            found.append((layer, at >> layer))
            at += 1 << layer
        return found

    def _join(self, end: int) -> None:
        """Join the two intervals before an end, layer by layer, as long as they are complete neighbours."""
        layer = 0
        while end % 2 == 0 and 2 << layer <= self._end - self._first and layer + 1 < _LAYERS:
            both = (layer, end - 2), (layer, end - 1)
            if not all(self._has(*one) for one in both):
                return
            parts = [part for one in both if (part := self._load(*one)) is not None]
            layer, end = layer + 1, end // 2
            self._store(layer, end - 1, add_states(parts) if len(parts) > 1 else next(iter(parts), None))

    def _forget(self) -> None:
        """Remove the intervals that begin before the window."""
        for name in self._state.names(f"{self._group}/"):
            if name.endswith("/states"):
                layer, number = map(int, name.split("/")[-3:-1])
                if number << layer < self._first:
                    self._state.release(name)

    def _name(self, layer: int, number: int) -> str:
        return f"{self._group}/{layer}/{number}/states"

    def _has(self, layer: int, number: int) -> bool:
        return self._name(layer, number) in self._state

    def _store(self, layer: int, number: int, states: States | None) -> None:
        sink = pa.BufferOutputStream()
        for table in () if states is None else states._replace(by=_timeless(states.by)):
            whole = table.combine_chunks()
            with pa.ipc.new_stream(sink, whole.schema) as writer:
                writer.write_table(whole)
        self._state.replace(self._name(layer, number), np.array(bytearray(sink.getvalue()), np.uint8))

    def _load(self, layer: int, number: int) -> States | None:
        content = self._state.array(self._name(layer, number))
        if not len(content):
            return None
        reader = pa.BufferReader(content.tobytes())
        return States(*(pa.ipc.open_stream(reader).read_all() for _ in States._fields))


def _timeless(by: pa.Table) -> pa.Table:
    """Return the columns that identify groups, without a step and of one type for all intervals."""
    steps = pa.array(np.zeros(by.num_rows, np.int64))
    return by.set_column(1, "step", steps).set_column(2, "key", by["key"].cast(pa.binary()))


def _at_step(states: States, step: int, ids: Array) -> States | None:
    """Return the states of some queries as of a step; None if there are none."""
    kept = np.isin(states.by["query"].to_numpy(), ids)
    if not kept.any():
        return None
    by, totals, values = states
    if not kept.all():
        chosen: Any = pa.array(kept)
        by, totals, row = by.filter(chosen), totals.filter(chosen), values["row"].to_numpy()
        values = values.filter(pa.array(kept[row]))
        place = (np.cumsum(kept) - 1).astype(np.int32)
        values = values.set_column(0, VALUES.field("row"), pa.array(place[values["row"].to_numpy()]))
    coded = by["key"].combine_chunks().dictionary_encode()
    names = ["query", "step", "key"]
    steps = pa.array(np.full(by.num_rows, step, np.int64))
    return States(pa.table([by["query"], steps, coded], names=names), totals, values)
