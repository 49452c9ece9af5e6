"""Hold what the figures of a run share: its size, its progress, and the town, which is kept in a file."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from stqsh.bench.harness.drive import Say
from stqsh.bench.papers.sole.town import Drive, TownScale, TownWorld, population
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

    @property
    def population(self) -> GeneratorState:
        """The objects of the town when the measurement begins."""
        if self.found is None:
            self.say(f"letting the town fill for {self.scale.units:,} time units")
            self.found = population(self.scale, self.say)
        return self.found

    def driving(self, drive: Drive) -> TownWorld:
        """Return the same objects in the same places that drive or report in another way."""
        return TownWorld(self.scale, self.population, drive)


_POPULATION = "town.npz"
"""The file with the objects of the town, which take a minute or two to generate."""


def prepare(scale: TownScale, say: Say, out: Path | None) -> tuple[FigureRun]:
    """Return a run, with the population of the town from the folder if that has one of this scale."""
    if out is None:
        return (FigureRun(scale, say),)
    path, wanted = out / _POPULATION, np.array([scale.first, scale.coming, scale.units, scale.nodes])
    if path.exists():
        with np.load(path, allow_pickle=False) as kept:
            arrays = dict(kept)
        if np.array_equal(arrays.pop("scale"), wanted):
            return (FigureRun(scale, say, GeneratorState.of(**arrays)),)
    run = FigureRun(scale, say)
    np.savez(path, allow_pickle=False, **run.population.arrays(), scale=wanted)
    return (run,)
