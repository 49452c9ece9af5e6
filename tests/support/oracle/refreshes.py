"""Aggregate queries with SYNC and WINDOW: language.md section 7, by brute force."""

from __future__ import annotations

from typing import Any

from support.cases import Case, Row, by_step
from support.oracle.fold import room_of, world_of
from support.oracle.groups import GroupOracle, GroupUpdate, LiveGroups, group_order
from support.oracle.whole import moments


class RefreshOracle(GroupOracle):
    """A stream's state, and its aggregate queries, of which some are refreshed now and then."""

    def step(self, n: int, commands: list[Any], records: list[Row]) -> list[GroupUpdate]:  # type: ignore[override]
        """Take a step; refreshes see what was stored before its records."""
        self._before, self._floor_before = dict(self.stored), self.floor
        return super().step(n, commands, records)

    def _changed(self, n: int, id_: int, query: LiveGroups) -> list[GroupUpdate]:
        spec = query.spec["aggregates"]
        if spec.get("sync_us") is None:
            return super()._changed(n, id_, query)
        instant = self.instant(n, spec["sync_us"])
        if instant is None:
            return []
        with self.as_of(instant, self._before, spec.get("window_us"), self._floor_before):
            return super()._changed(n, id_, query)


def run_refreshes(case: Case, closing: int = 0, every_step: bool = False) -> list[GroupUpdate]:
    """All updates of a case in log order; `closing` is the step after the end, if there is one.

    `every_step` visits the steps too in which nothing can happen (the same, but slower).
    """
    oracle = RefreshOracle(case.spec, case.clock, world_of(case), closing=closing, room=room_of(case))
    records, commands = by_step(case.records), by_step(case.commands)
    told: list[GroupUpdate] = []
    last = max(case.steps, closing)
    for n in range(1, last + 1) if every_step else sorted({*moments(case), last}):
        told += oracle.step(n, commands.get(n, []), records.get(n, []))
    return group_order(told)
