"""The refreshes of a slot's queries in a batch (language.md section 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.base.clock import NEVER
from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.groups.change_instants import change_instants, stored_points, window_points
from stqsh.core.groups.query_forms import QueryForms
from stqsh.core.groups.refresh_times import Refresh, next_refresh, refreshes_since
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.queries.query_table import ACTIVE, QueryTable
from stqsh.spec.aggregate import AggregateSpec
from stqsh.spec.expression import Expr, compared_with_now

_KEPT = 1 << 14
"""The number of forms for which a process caches their comparisons with NOW."""


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
    """

    recomputed: Array
    sync_us: Array
    windows_us: Array
    compared: list[tuple[Expr, int]]


def timings_of_groups(forms: QueryForms, compared: Iterable[tuple[Expr, int]] = ()) -> QueryTimings:
    """Return when aggregates are refreshed; `compared` has comparisons with NOW that are not in forms."""
    return QueryTimings(
        forms.durations(lambda form: 1 if form.timing.each_step else None) > 0,
        forms.durations(lambda form: form.timing.sync_us),
        forms.durations(lambda form: form.timing.window_us),
        [*compared, *(pair for spec in forms.all() for pair in compared_in(spec))],
    )


class RefreshSchedule:
    """The refreshes of a batch, or of a piece of one.

    Queries without SYNC that are recomputed in each step are refreshed at the start of each tick, but over
    the records stored after the step. At the first refresh of a batch all slots send all of their members
    again. After it each slot skips the refreshes at which its own members cannot have changed.
    """

    def __init__(
        self, batch: StreamBatch, queries: QueryTable, conditions: QueryConditions, timings: QueryTimings
    ) -> None:
        self._batch, self._queries, self._conditions = batch, queries, conditions
        self._recomputed, self._compared = timings.recomputed, timings.compared
        self.every_us = np.where(timings.recomputed, batch.timing.tick, timings.sync_us)
        self.windows_us = timings.windows_us

    def by_duration(self) -> Iterator[Iterator[DueQueries]]:
        """Yield the refreshes in order of their steps, for each duration between refreshes."""
        active = (self.every_us > 0) & (self._queries.mode == ACTIVE)
        for recomputed in (False, True):
            some = active & (self._recomputed == recomputed)
            for every_us in np.unique(self.every_us[some]).tolist():
                yield self._due_every(
                    every_us, np.flatnonzero(some & (self.every_us == every_us)), recomputed
                )

    def _due_every(self, every_us: int, mine: Array, recomputed: bool) -> Iterator[DueQueries]:
        timing, clock = self._batch.timing, self._batch.clock
        after = next_refresh(timing, every_us, timing.last + 1, clock.last_step, clock.closing)
        begin = next_refresh(timing, every_us, clock.first_step, clock.last_step, clock.closing)
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
def compared_in(spec: AggregateSpec) -> tuple[tuple[Expr, int], ...]:
    """Return what expressions over records compare with NOW, and the durations added to NOW."""
    return tuple(pair for expr in spec.over_records for pair in compared_with_now(expr))
