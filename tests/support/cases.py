"""A case: one stream, what comes in at which step, and which queries live when.

Streams share nothing but the clock: several cases with one clock make a session of several streams.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
Spec = dict[str, Any]
Command = dict[str, Any]
Polygon = list[list[list[float]]]
"""Closed rings, the outer one first."""


@dataclass(frozen=True)
class Clock:
    """Step n covers tick `base_tick + n - 1`; `at(n)` is the start of that tick in microseconds."""

    base_tick: int
    tick_us: int

    def at(self, step: int) -> int:
        return (self.base_tick + step - 1) * self.tick_us

    def step_of(self, t_us: int) -> int:
        return t_us // self.tick_us - self.base_tick + 1


@dataclass(frozen=True)
class Table:
    """A table to join with; keys are unique."""

    spec: Spec
    rows: list[Row]


@dataclass(frozen=True)
class Area:
    """A named region, or a set of them: the polygons of each member (of None: of the region itself)."""

    spec: Spec
    members: dict[str | None, list[Polygon]]


def set_named(stream: str) -> str:
    """The name of the set of regions that belongs to a stream."""
    return f"zones_of_{stream}"


@dataclass(frozen=True)
class Case:
    """Rows are dicts of the declared columns; timestamps are int microseconds; log order is list order.

    Tables and areas are there before the first step. Of an event stream's records, duplicates and those
    without a location are left out (`oracle.accepted`). `repeated` has the duplicates of a live stream, which
    take room where KEEP has a size.
    """

    spec: Spec
    clock: Clock
    steps: int
    records: list[tuple[int, Row]] = field(default_factory=list)
    commands: list[tuple[int, Command]] = field(default_factory=list)
    tables: dict[int, Table] = field(default_factory=dict)
    areas: dict[int, Area] = field(default_factory=dict)
    repeated: list[tuple[int, Row]] = field(default_factory=list)

    @property
    def queries(self) -> list[Spec]:
        return [c["query"] for _, c in self.commands if c["op"] == "register"]


def by_step(items: list[tuple[int, Any]]) -> dict[int, list[Any]]:
    """The items of each step, in log order."""
    grouped: dict[int, list[Any]] = {}
    for step, item in items:
        grouped.setdefault(step, []).append(item)
    return grouped
