"""Measure figures, show them, and write them to a folder as JSON and PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from stqsh.bench.harness.drive import Say
from stqsh.bench.paper_figures import FigureResult, save_figure, show_figure, show_goals
from stqsh.bench.sole.drawing import MISSING, can_draw, draw
from stqsh.bench.sole.figures import FIGURES, FigureRun, measure
from stqsh.bench.sole.town import QUICK, TownScale, population
from stqsh.sources.generator.network import GeneratorState

_POPULATION = "town.npz"
"""The file with the objects of the town, which take a minute or two to generate."""


def run(figures: Sequence[int], out: Path, say: Say, *, quick: bool = False) -> list[FigureResult]:
    """Measure figures, or all of them; show each as it comes, and write it to the folder `out`.

    Raises:
        ValueError: there is no such figure.
    """
    unknown = [number for number in figures if number not in FIGURES]
    if unknown:
        raise ValueError(f"no figure {unknown[0]}; there are {', '.join(map(str, FIGURES))}")
    out.mkdir(parents=True, exist_ok=True)
    scale = QUICK if quick else TownScale()
    bench = FigureRun(scale, say, _town(scale, out / _POPULATION, say))
    drawn = can_draw()
    if not drawn:
        say(MISSING)
    results = []
    for number in figures or FIGURES:
        for result in measure(number, bench):
            show_figure(result)
            write(result, scale, out, drawn=drawn)
            results.append(result)
    show_goals(results, "all goals")
    return results


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


def write(result: FigureResult, scale: TownScale, out: Path, *, drawn: bool) -> None:
    """Write a figure as `figure-N.json`, with the machine's load, and as `figure-N.png`."""
    stem = f"figure-{result.name}"
    save_figure(result, "sole", scale, out / f"{stem}.json")
    if drawn and result.charts:
        draw(result, out / f"{stem}.png")
