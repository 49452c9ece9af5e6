"""Measure figures, show them, and write them to a folder as JSON and PNG."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from stqsh.bench.figures import Row
from stqsh.bench.harness.drive import Say
from stqsh.bench.report import cell, console, save, show
from stqsh.bench.sole.drawing import MISSING, can_draw, draw
from stqsh.bench.sole.figures import FIGURES, FigureRun, measure
from stqsh.bench.sole.result import Bar, FigureResult
from stqsh.bench.sole.town import QUICK, Scale, population
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
    scale = QUICK if quick else Scale()
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
    show_bars([bar for result in results for bar in result.bars])
    return results


def _town(scale: Scale, path: Path, say: Say) -> GeneratorState:
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


def show_figure(result: FigureResult) -> None:
    """Show a figure as a table, with its notes and bars."""
    show(f"Fig. {result.number}: {result.title}", result.rows, result.columns)
    for note in result.notes:
        console().print(note, markup=False, style="dim")
    show_bars(result.bars)


def show_bars(bars: Sequence[Bar]) -> None:
    """Show which bars are reached."""
    rows: list[Row] = [
        {
            "what": bar.what,
            "wanted": f"{'>=' if bar.least else '<='} {cell(float(bar.wanted))}",
            "found": bar.found,
            "holds": "holds" if bar.holds else "FAILS",
        }
        for bar in bars
    ]
    if rows:
        columns = {"what": "bar", "wanted": "wanted", "found": "found", "holds": ""}
        show("to be reached", rows, columns)


def write(result: FigureResult, scale: Scale, out: Path, *, drawn: bool) -> None:
    """Write a figure as `figure-N.json`, with the machine's load, and as `figure-N.png`."""
    stem = f"figure-{result.number}"
    save(
        out / f"{stem}.json",
        f"sole {result.number}",
        result.rows,
        title=result.title,
        columns=result.columns,
        notes=result.notes,
        bars=[asdict(bar) | {"holds": bar.holds} for bar in result.bars],
        scale=asdict(scale),
        load=os.getloadavg(),
    )
    if drawn and result.charts:
        draw(result, out / f"{stem}.png")
