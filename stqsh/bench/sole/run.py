"""Run figures of SOLE with a town that is kept in a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from stqsh.bench.harness.drive import Say
from stqsh.bench.paper_figures import FigureResult
from stqsh.bench.paper_run import run_figures
from stqsh.bench.sole.figures import SOLE, FigureRun
from stqsh.bench.sole.town import QUICK, TownScale, population
from stqsh.sources.generator.network import GeneratorState

_POPULATION = "town.npz"
"""The file with the objects of the town, which take a minute or two to generate."""


def run(figures: Sequence[int], out: Path, say: Say, *, quick: bool = False) -> list[FigureResult]:
    """Measure figures, or all of them; show each as it comes, and write it to the folder `out`.

    Raises:
        ValueError: there is no such figure.
    """
    SOLE.check(figures)
    out.mkdir(parents=True, exist_ok=True)
    scale = QUICK if quick else TownScale()
    bench = FigureRun(scale, say, _town(scale, out / _POPULATION, say))
    return run_figures(SOLE, figures, bench, say, scale=scale, out=out)


def _town(scale: TownScale, path: Path, say: Say) -> GeneratorState:
    """Return the population of the town, from the file if it has one of this scale."""
    wanted = np.array([scale.first, scale.coming, scale.units, scale.nodes])
    if path.exists():
        with np.load(path, allow_pickle=False) as kept:
            arrays = dict(kept)
        if np.array_equal(arrays.pop("scale"), wanted):
            return GeneratorState.of(**arrays)
    say(f"letting the town fill for {scale.units:,} time units")
    found = population(scale, say)
    np.savez(path, allow_pickle=False, **found.arrays(), scale=wanted)
    return found
