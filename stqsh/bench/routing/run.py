"""Measure figures, show them, and write them to a folder as JSON."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from stqsh.bench.figures import Row
from stqsh.bench.harness.drive import Say
from stqsh.bench.report import cell, console, save, show
from stqsh.bench.routing.figures import FIGURES, measure
from stqsh.bench.routing.measuring import FULL, QUICK, Scale
from stqsh.bench.routing.result import FigureResult
from stqsh.engine.spark.worker_daemon import keep_freed_memory

_HONEST = (
    "Slots run one after the other, so each has the processor's caches to itself. Makespan is the thread "
    "time of the slot that has most to do in a typical batch, records/s what follows if each slot has a "
    "processor of its own; dealing records and delivering updates are not part of it. The updates of a "
    "figure were equal under all its routings."
)

_QUICKLY = "Quick sizes: much of a makespan is the cost of an empty batch, which hides imbalance."


def run(
    figures: Sequence[str], out: Path | None, say: Say, *, quick: bool = False, scale: Scale | None = None
) -> list[FigureResult]:
    """Measure figures, or all of them; show each as it comes, and write it to the folder `out` if given.

    Raises:
        ValueError: there is no such figure.
    """
    unknown = [name for name in figures if name not in FIGURES]
    if unknown:
        raise ValueError(f"no figure {unknown[0]!r}; there are {', '.join(FIGURES)}")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    scale = scale or (QUICK if quick else FULL)
    keep_freed_memory()
    pa.set_cpu_count(1)
    results = []
    for name in figures or FIGURES:
        begun = time.perf_counter()
        for result in measure(name, scale, say):
            show_figure(result)
            results.append(result)
            if out is not None:
                write(result, scale, out)
        say(f"{name}: {time.perf_counter() - begun:.0f} s")
    console().print(_HONEST, style="dim")
    if quick:
        console().print(_QUICKLY, style="dim")
    show_goals(results, "all goals")
    return results


def show_figure(result: FigureResult) -> None:
    """Show a figure as a table, with its notes and goals."""
    show(f"{result.name}: {result.title}", result.rows, result.columns)
    for note in result.notes:
        console().print(note, markup=False, style="dim")
    show_goals([result], "goals")


def show_goals(results: Sequence[FigureResult], title: str) -> None:
    """Show which goals of figures are reached."""
    rows: list[Row] = [
        {
            "figure": result.name,
            "what": goal.what,
            "paper": goal.paper,
            "wanted": f"{'>=' if goal.least else '<='} {cell(goal.wanted)}",
            "found": goal.found,
            "reached": "reached" if goal.is_reached else "MISSED",
        }
        for result in results
        for goal in result.goals
    ]
    columns = {"figure": "figure", "what": "goal", "paper": "paper", "wanted": "wanted", "found": "found"}
    show(title, rows, columns | {"reached": ""})


def write(result: FigureResult, scale: Scale, out: Path) -> None:
    """Write a figure as `NAME.json`, with the machine's load."""
    save(
        out / f"{result.name}.json",
        f"routing {result.name}",
        result.rows,
        title=result.title,
        columns=result.columns,
        notes=result.notes,
        goals=[asdict(goal) | {"reached": goal.is_reached} for goal in result.goals],
        scale=asdict(scale),
        load=os.getloadavg(),
    )
