"""Measure figures, show them, and write them to a folder as JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from stqsh.bench.harness.drive import Say
from stqsh.bench.paper_figures import FigureResult, save_figure, show_figure, show_goals
from stqsh.bench.paper_run import Paper
from stqsh.bench.report import console
from stqsh.bench.routing.measuring import FULL, QUICK, RoutingScale
from stqsh.engine.spark.worker_daemon import keep_freed_memory

ROUTING = Paper(
    "routing",
    {
        "balance": "balance:measure",
        "tornado6": "tornado6:measure",
        "tornado6c": "tornado6c:measure",
        "tornado7": "tornado7:measure",
        "tornado9": "tornado9:measure",
        "tornado9b": "tornado9b:measure",
        "sstd8": "sstd.asking:keywords",
        "sstd9": "sstd.asking:neighbours",
        "sstd10": "sstd.asking:terms",
        "sstd11": "sstd.sstd11:measure",
        "sstd12": "sstd.sstd12:measure",
        "sstd13": "sstd.sstd13:measure",
        "sstd14": "sstd.adjusting:inserted",
        "sstd15": "sstd.adjusting:registered",
        "cheetah7": "cheetah7:measure",
        "cheetah12": "cheetah12:measure",
        "cheetah12a": "cheetah12a:measure",
        "star12": "star12:measure",
        "orbit": "orbit:measure",
        "defaults": "defaults:measure",
        "dealing": "dealing:measure",
    },
)
"""The figures by their names."""

_HONEST = (
    "Slots run one after the other, so each has the processor's caches to itself. Makespan is the thread "
    "time of the slot that has most to do in a typical batch, records/s what follows if each slot has a "
    "processor of its own; dealing records and delivering updates are not part of it. The updates of a "
    "figure were equal under all its routings."
)

_QUICKLY = "Quick sizes: much of a makespan is the cost of an empty batch, which hides imbalance."


def run(
    figures: Sequence[str],
    out: Path | None,
    say: Say,
    *,
    quick: bool = False,
    scale: RoutingScale | None = None,
    places: str = "",
) -> list[FigureResult]:
    """Measure figures, or all of them; show each as it comes, and write it to the folder `out` if given.

    Args:
        figures: those that are wanted; all of them if empty.
        out: the folder.
        say: shows progress.
        quick: whether sizes are small.
        scale: other sizes.
        places: files with the places of real objects, see `maps.read_places`.

    Raises:
        ValueError: there is no such figure.
    """
    ROUTING.check(figures)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    scale = scale or replace(QUICK if quick else FULL, places=places)
    keep_freed_memory()
    pa.set_cpu_count(1)
    results = []
    for name in figures or ROUTING.functions:
        begun = time.perf_counter()
        for result in ROUTING.measure(name, scale, say):
            show_figure(result)
            results.append(result)
            if out is not None:
                save_figure(result, "routing", scale, out / f"{result.name}.json")
        say(f"{name}: {time.perf_counter() - begun:.0f} s")
    console().print(_HONEST, style="dim")
    if quick:
        console().print(_QUICKLY, style="dim")
    show_goals(results, "all goals")
    return results
