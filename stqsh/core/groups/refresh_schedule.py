"""The refreshes of a slot's queries in a batch (language.md section 7).

Queries with SYNC are refreshed at multiples of SYNC since the epoch; of several in one tick only the last
counts. In the closing step, the one after the end of all streams, the refresh is at the step's start.
Refreshes are skipped at which no member can have changed: by a record, by expiry, by a window, or by a
comparison with NOW.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from itertools import chain, product
from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.aggregates.distinct_numbers import sorted_distinct
from stqsh.core.base.clock import NEVER, BatchTiming
from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.groups.query_forms import QueryForms
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.matching.time_events import compared_values, values_compared
from stqsh.core.objects.batch_objects import BatchObjects
from stqsh.core.queries.query_table import ACTIVE, QueryTable
from stqsh.spec.aggregate import AggregateSpec
from stqsh.spec.expression import Expr, changes_always, compared_with_now
from stqsh.spec.query import GroupForm

_KEPT = 1 << 14
"""The number of forms for which a process caches their comparisons with NOW."""


class Refresh(NamedTuple):
    """A refresh in a step, as of an instant in µs."""

    step: int
    instant: int


def refreshes_since(timing: BatchTiming, every_us: int, instants: Array, closing: int = 0) -> list[Refresh]:
    """Return the first refresh at or after each instant, within a batch's steps; distinct and in order.

    Args:
        timing: The steps.
        every_us: SYNC.
        instants: The instants of changes, µs, int64 (n,).
        closing: The closing step, 0 for none; its refresh is always included.
    """
    begin, end = timing.at(timing.first), timing.at(timing.last + 1)
    within = instants[(instants >= begin) & (instants < end)]
    multiples = np.unique(-(-within // every_us) * every_us)
    steps = np.unique(multiples // timing.tick - timing.base + 1)
    steps = steps[(steps <= timing.last) & (steps != closing)]
    last = (timing.at(steps + 1) - 1) // every_us * every_us
    found = [Refresh(*pair) for pair in zip(steps.tolist(), last.tolist(), strict=True)]
    if timing.first <= closing <= timing.last:
        found.append(Refresh(closing, timing.at(closing)))
    return found


def next_refresh(timing: BatchTiming, every_us: int, first: int, last: int, closing: int = 0) -> int:
    """Return the first of the steps `first` .. `last` in which there is a refresh; NEVER if there is none."""
    multiple = -(-timing.at(first) // every_us) * every_us
    step = int(multiple // timing.tick - timing.base + 1)
    if first <= closing <= min(step, last):
        return closing
    return step if step <= last else NEVER


def timing_at(timing: BatchTiming, refresh: Refresh, seen: int) -> BatchTiming:
    """Return a timing of the one step of a refresh, whose time is its instant.

    `seen` is the last step whose records count; so do its floors.
    """
    step, instant = refresh
    return timing.seen_at(seen)._replace(first=step, last=step, base=instant - step + 1, tick=1)


class DueQueries(NamedTuple):
    """Queries that are refreshed together.

    Attributes:
        refresh: The refresh.
        positions: The queries, int64 (n,).
        begin: Whether this is their first refresh in the batch, at which all slots send all of their members.
        end: The step of the next refresh, at which the slot sends all of its members again; NEVER if the
            batch has none.
        seen: The last step whose records count: the step of the refresh for queries that are recomputed in
            each step, else the step before.
    """

    refresh: Refresh
    positions: Array
    begin: bool
    end: int
    seen: int


class QueryTimings(NamedTuple):
    """When each query of a table is refreshed, (queries,) each.

    Attributes:
        recomputed: Whether it is recomputed in each step, bool; such a query has no SYNC.
        sync_us: SYNC, int64; -1 for none.
        windows_us: WINDOW, int64; -1 for none.
        compared: Expressions outside of conditions that are compared with NOW, and the durations added, µs.
        change_always: Whether NOW changes expressions outside of conditions at other instants, bool.
    """

    recomputed: Array
    sync_us: Array
    windows_us: Array
    compared: list[tuple[Expr, int]]
    change_always: Array


def timings_of_groups(
    forms: QueryForms, compared: Iterable[tuple[Expr, int]] = (), change_always: Array | bool = False
) -> QueryTimings:
    """Return when aggregates are refreshed.

    `compared` and `change_always`, bool (queries,), have what depends on NOW and is not in forms.
    """
    return QueryTimings(
        forms.durations(lambda form: 1 if form.timing.each_step else None) > 0,
        forms.durations(lambda form: form.timing.sync_us),
        forms.durations(lambda form: form.timing.window_us),
        [*compared, *(pair for spec in forms.all() for pair in compared_in(spec))],
        (forms.durations(_changes_always) > 0) | change_always,
    )


class RefreshSchedule:
    """The refreshes of a batch, or of a piece of one.

    Queries without SYNC that are recomputed in each step are refreshed at the start of each tick, but over
    the records stored after the step. At the first refresh of a batch all slots send all of their members
    again. After it each slot skips the refreshes at which its own members cannot have changed; there are none
    for queries with values that NOW changes always.
    """

    def __init__(
        self, batch: StreamBatch, queries: QueryTable, conditions: QueryConditions, timings: QueryTimings
    ) -> None:
        self._batch, self._queries, self._conditions = batch, queries, conditions
        self._recomputed, self._compared = timings.recomputed, timings.compared
        self._always = timings.change_always | conditions.change_always
        self.every_us = np.where(timings.recomputed, batch.timing.tick, timings.sync_us)
        self.windows_us = timings.windows_us

    def by_duration(self) -> Iterator[Iterator[DueQueries]]:
        """Yield the refreshes in order of their steps, for each duration between refreshes."""
        active = (self.every_us > 0) & (self._queries.mode == ACTIVE)
        for recomputed, always in product((False, True), repeat=2):
            some = active & (self._recomputed == recomputed) & (self._always == always)
            for every_us in np.unique(self.every_us[some]).tolist():
                mine = np.flatnonzero(some & (self.every_us == every_us))
                yield self._due_every(every_us, mine, recomputed, always)

    def _due_every(self, every_us: int, mine: Array, recomputed: bool, always: bool) -> Iterator[DueQueries]:
        timing, clock = self._batch.timing, self._batch.clock
        after = next_refresh(timing, every_us, timing.last + 1, clock.last_step, clock.closing)
        begin = next_refresh(timing, every_us, clock.first_step, clock.last_step, clock.closing)
        if always:
            refreshes = refreshes_since(timing, every_us, steps_of(timing), clock.closing)
        else:
            refreshes = self._refreshes(every_us, self.windows_us[mine], recomputed)
        ends = [*(refresh.step for refresh in refreshes), after][1:]
        until = self._queries.until[mine]
        soonest = until.min(initial=NEVER)
        for refresh, end in zip(refreshes, ends, strict=True):
            due = mine if soonest > refresh.step else mine[until > refresh.step]
            seen = refresh.step if recomputed else refresh.step - 1
            yield DueQueries(refresh, due, refresh.step == begin, end, seen)

    def _refreshes(self, every_us: int, windows_us: Array, recomputed: bool) -> list[Refresh]:
        """Return the refreshes at which members on this slot, or their aggregates, may have changed.

        The first refresh is always included. If it is the only one, no change instants are computed.
        """
        timing, closing = self._batch.timing, self._batch.clock.closing
        first = next_refresh(timing, every_us, timing.first, timing.last, closing)
        second = min(first, timing.last) + 1
        if next_refresh(timing, every_us, second, timing.last, closing) == NEVER:
            return refreshes_since(timing, every_us, np.array([timing.at(timing.first)]), closing)
        lengths = np.unique(windows_us[windows_us >= 0])
        points = [self._turning, stored_points(self._batch, 0 if recomputed else 1)]
        points += [window_points(self._batch, lengths)] if len(lengths) else []
        return refreshes_since(timing, every_us, np.concatenate(points), closing)

    @cached_property
    def _turning(self) -> Array:
        return change_instants(self._batch, self._conditions, self._compared)


@lru_cache(_KEPT)
def _changes_always(form: GroupForm) -> int | None:
    return 1 if any(map(changes_always, form.groups.over_records)) else None


@lru_cache(_KEPT)
def compared_in(spec: AggregateSpec) -> tuple[tuple[Expr, int], ...]:
    """Return what expressions over records compare with NOW, and the durations added to NOW."""
    return tuple(pair for expr in spec.over_records for pair in compared_with_now(expr))


def change_instants(
    batch: StreamBatch, conditions: QueryConditions, compared: Iterable[tuple[Expr, int]]
) -> Array:
    """Return the instants at which time may change members of queries; µs, int64 (n,).

    The beginning of the batch is one of them, because changes before it are no longer known.

    Args:
        batch: The batch.
        conditions: The conditions of the queries.
        compared: Other expressions that queries compare with NOW, and the durations added to NOW, µs.
    """
    found = [np.array([batch.timing.at(batch.timing.first)], np.int64)]
    found += [_silent_from(objects) for objects in (batch.objects, batch.focal)]
    for values, shifts in chain(
        compared_values(conditions, batch.objects), values_compared(compared, conditions, batch.objects)
    ):
        # A comparison changes when NOW reaches the value, or 1 µs later, depending on the operator.
        found += [values - shift + late for shift in shifts.tolist() for late in (0, 1)]
    return _distinct(np.concatenate(found))


def steps_of(timing: BatchTiming) -> Array:
    """Return the instants at which the steps of a batch begin, µs, int64 (steps,)."""
    instants: Array = timing.at(np.arange(timing.first, timing.last + 1))
    return instants


def stored_points(batch: StreamBatch, later: int) -> Array:
    """Return the instants from which records count, and removed objects and those below a floor do not.

    They are µs, int64 (n,). `later` is the number of steps after its own step at which a record first counts.
    """
    return np.concatenate([_stored_from(objects, later) for objects in (batch.objects, batch.focal)])


def window_points(batch: StreamBatch, windows_us: Array) -> Array:
    """Return the instants at which records enter and leave windows of these lengths; µs, int64 (n,)."""
    times = _times(batch.objects)
    return _distinct(np.concatenate([times + 1, *(times + length + 1 for length in windows_us.tolist())]))


def _stored_from(objects: BatchObjects, later: int) -> Array:
    removed = np.empty(0, np.int64) if objects.removals.since is None else objects.removals.since
    floors = objects.timing.floors.step
    steps = np.concatenate([objects.rows.arrays.step, removed[removed < NEVER], floors])
    instants: Array = objects.timing.at(np.unique(steps) + later)
    return instants


def _silent_from(objects: BatchObjects) -> Array:
    """Return the instants from which records are too old to count, µs."""
    report = objects.timing.report
    return np.empty(0, np.int64) if report < 0 else _times(objects) + report + 1


def _distinct(instants: Array) -> Array:
    """Return the distinct instants in order; adjacent repeats, which are most, are dropped first."""
    is_new = np.ones(len(instants), np.bool_)
    is_new[1:] = instants[1:] != instants[:-1]
    return sorted_distinct(instants[is_new])


def _times(objects: BatchObjects) -> Array:
    """Return the times of all versions."""
    times: Array = np.concatenate([objects.stored.ts[: objects.numbers.objects], objects.rows.arrays.ts])
    return times
