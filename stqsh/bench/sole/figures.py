"""List the figures and the modules that measure them, and hold what a run shares."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from stqsh.bench.harness.drive import Say
from stqsh.bench.paper_run import Paper
from stqsh.bench.sole.town import Drive, TownScale, TownWorld, population
from stqsh.sources.generator.network import GeneratorState

T = TypeVar("T")


@dataclass
class FigureRun:
    """A run of figures: its size, where its progress goes, and the town that all figures share."""

    scale: TownScale
    say: Say
    found: GeneratorState | None = None
    known: dict[Any, Any] = field(default_factory=dict)

    def once(self, key: Hashable, work: Callable[[], T]) -> T:
        """Return the result of `work`, which is done once for all figures."""
        if key not in self.known:
            self.known[key] = work()
        found: T = self.known[key]
        return found

    @cached_property
    def world(self) -> TownWorld:
        """The town's objects as they usually drive."""
        return self.driving(Drive())

    def driving(self, drive: Drive) -> TownWorld:
        """Return the same objects in the same places that drive or report in another way."""
        if self.found is None:
            self.say(f"letting the town fill for {self.scale.units:,} time units")
            self.found = population(self.scale, self.say)
        return TownWorld(self.scale, self.found, drive)


SOLE = Paper(
    "sole",
    {
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
    },
)
"""The figures of the paper."""
