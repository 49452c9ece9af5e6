"""Aggregate queries with SYNC and WINDOW: language.md section 7, by brute force."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from support.cases import Case, Clock, Row, Spec, by_step
from support.oracle.fold import world_of
from support.oracle.groups import GroupOracle, GroupUpdate, LiveGroups, group_order
from support.oracle.whole import instants_of, moments


@dataclass(frozen=True)
class Instant(Clock):
    """A clock that stands at an instant, whatever the step."""

    at_us: int = 0

    def at(self, step: int) -> int:
        return self.at_us


@dataclass
class RefreshOracle(GroupOracle):
    """A stream's state, and its aggregate queries, of which some are refreshed now and then."""

    closing: int = 0

    def step(self, n: int, commands: list[Any], records: list[Row]) -> list[GroupUpdate]:  # type: ignore[override]
        """Take a step; refreshes see what was stored before its records."""
        self._before = dict(self.stored)
        return super().step(n, commands, records)

    def _changed(self, n: int, id_: int, query: LiveGroups) -> list[GroupUpdate]:
        spec = query.spec["aggregates"]
        if spec.get("sync_us") is None:
            return super()._changed(n, id_, query)
        instant = self._instant(n, spec["sync_us"])
        if instant is None:
            return []
        clock, stored = self.clock, self.stored
        self.clock = Instant(clock.base_tick, clock.tick_us, instant)
        self.stored = self._before
        try:
            self._window = instant, spec.get("window_us")
            return super()._changed(n, id_, query)
        finally:
            self.clock, self.stored, self._window = clock, stored, None

    _window: Any = None

    def satisfies(self, name: Any, query: Spec, n: int) -> bool:
        if self._window is not None and self._window[1] is not None:
            end, length = self._window
            if not end - length <= self.stored[name][self.spec["time"]] < end:
                return False
        return super().satisfies(name, query, n)

    def _instant(self, n: int, every: int) -> int | None:
        if n == self.closing:
            return self.clock.at(n)
        last = (self.clock.at(n + 1) - 1) // every * every
        return last if last >= self.clock.at(n) else None


def run_refreshes(case: Case, closing: int = 0, every_step: bool = False) -> list[GroupUpdate]:
    """All updates of a case in log order; `closing` is the step after the end, if there is one.

    `every_step` visits the steps too in which nothing can happen (the same, but slower).
    """
    oracle = RefreshOracle(case.spec, case.clock, world_of(case), closing=closing)
    records, commands = by_step(case.records), by_step(case.commands)
    told: list[GroupUpdate] = []
    last = max(case.steps, closing)
    for n in range(1, last + 1) if every_step else sorted({*refresh_moments(case), last}):
        told += oracle.step(n, commands.get(n, []), records.get(n, []))
    return group_order(told)


def refresh_moments(case: Case) -> list[int]:
    """The steps at which anything can happen: those of the case, and the refreshes that follow a change."""
    clock, steps = case.clock, set(moments(case))
    instants = {clock.at(n + d) for n in steps for d in (0, 1)} | set(instants_of(case))
    for form in (query["aggregates"] for query in case.queries):
        every, window = form.get("sync_us"), form.get("window_us")
        if every is None:
            continue
        turning = set(instants)
        if window is not None:
            turning |= {row[case.spec["time"]] + later for _, row in case.records for later in (0, window)}
        for t in turning:
            steps |= {clock.step_of((t // every + k) * every) for k in (-1, 0, 1, 2)}
    return [n for n in sorted(steps) if 1 <= n <= case.steps]
