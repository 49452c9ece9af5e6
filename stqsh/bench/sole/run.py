"""Making figures: measured, shown, and written to a folder as JSON and PNG."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from stqsh.bench.report import cell, console, save, show
from stqsh.bench.sole.drawing import MISSING, can_draw, draw
from stqsh.bench.sole.figures import FIGURES, FigureRun, measure
from stqsh.bench.sole.result import Bar, FigureResult
from stqsh.bench.sole.town import QUICK, Array, Say, Scale, population

_POPULATION = "town.npz"
"""Where a folder keeps the objects of the town, which take a minute or two to make."""


def run(figures: Sequence[int], out: Path, say: Say, *, quick: bool = False) -> list[FigureResult]:
    """Measure figures, all if none is named, show each as it comes, and write it to the folder `out`.

    Raises:
        ValueError: no such figure.
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
            tell(result)
            write(result, scale, out, drawn=drawn)
            results.append(result)
    tell_bars([bar for result in results for bar in result.bars])
    return results


def _town(scale: Scale, path: Path, say: Say) -> dict[str, Array]:
    """Return the population of the town: what the folder has of this scale, else made and kept there."""
    wanted = np.array([scale.first, scale.coming, scale.units, scale.nodes])
    if path.exists():
        with np.load(path, allow_pickle=False) as kept:
            if np.array_equal(kept["scale"], wanted):
                return {name: kept[name] for name in kept.files if name != "scale"}
    say(f"letting the town fill for {scale.units:,} time units")
    found = population(scale, say)
    np.savez(path, allow_pickle=False, **found, scale=wanted)
    return found


def tell(result: FigureResult) -> None:
    """Show a figure as a table, with its notes and bars."""
    show(f"Fig. {result.number}: {result.title}", result.rows, result.columns)
    for note in result.notes:
        console().print(note, markup=False, style="dim")
    tell_bars(result.bars)


def tell_bars(bars: Sequence[Bar]) -> None:
    """Show which bars hold."""
    rows: list[Mapping[str, Any]] = [
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
    """Write a figure as `figure-N.json`, with the load of the machine then, and `figure-N.png`."""
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
