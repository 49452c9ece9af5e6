"""Which figures there are, and the modules that measure them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Any, TypeVar

from stqsh.bench.sole.result import FigureResult
from stqsh.bench.sole.town import Array, Drive, Say, Scale, TownWorld, population

T = TypeVar("T")


@dataclass
class FigureRun:
    """A run: how big it is, whom to tell what goes on, and the town, which all figures share."""

    scale: Scale
    say: Say
    found: dict[str, Array] | None = None
    known: dict[Any, Any] = field(default_factory=dict)

    def once(self, key: Hashable, work: Callable[[], T]) -> T:
        """Return what `work` gives, done once for all figures."""
        if key not in self.known:
            self.known[key] = work()
        found: T = self.known[key]
        return found

    @cached_property
    def world(self) -> TownWorld:
        """The town's objects as they usually drive."""
        return self.driving(Drive())

    def driving(self, drive: Drive) -> TownWorld:
        """Return the same objects from the same places, driving or reporting otherwise."""
        if self.found is None:
            self.say(f"letting the town fill for {self.scale.units:,} time units")
            self.found = population(self.scale, self.say)
        return TownWorld(self.scale, self.found, drive)


Measure = Callable[[FigureRun], list[FigureResult]]

FIGURES = {
    12: "cache:measure",
    13: "overhead:speed",
    14: "overhead:size",
    16: "pipeline:selection",
    17: "pipeline:join",
    18: "grid_size:measure",
    19: "sharing:supported",
    20: "sharing:areas",
    21: "response:measure served:measure",
    22: "curves:load",
    23: "curves:reduced",
    24: "curves:stable",
    25: "supported:measure arriving:measure",
}
"""The functions that measure each figure of the paper: module and name."""


def measure(number: int, bench: FigureRun) -> Iterator[FigureResult]:
    """Measure a figure; one with parts that are unlike each other gives several results, as they come."""
    for each in FIGURES[number].split():
        module, _, name = each.partition(":")
        function: Measure = getattr(import_module(f"stqsh.bench.sole.{module}"), name)
        yield from function(bench)
