"""Measure figures, show them, and write them to a folder as JSON and PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stqsh.bench.harness.drive import Say
from stqsh.bench.paper_figures import FigureResult, save_figure, show_figure, show_goals
from stqsh.bench.sole.drawing import MISSING, can_draw, draw
from stqsh.bench.star.asking import StarScale
from stqsh.bench.star.figure_run import FIGURES, StarRun, measure


def run(figures: Sequence[int], out: Path, say: Say, scale: StarScale) -> list[FigureResult]:
    """Measure figures, or all of them; show each as it comes, and write it to the folder `out`.

    Raises:
        ValueError: there is no such figure, or answers differ.
    """
    unknown = [number for number in figures if number not in FIGURES]
    if unknown:
        raise ValueError(f"no figure {unknown[0]}; there are {', '.join(map(str, FIGURES))}")
    out.mkdir(parents=True, exist_ok=True)
    bench = StarRun(scale, say)
    drawn = can_draw()
    if not drawn:
        say(MISSING)
    results = []
    for number in figures or FIGURES:
        for result in measure(number, bench):
            show_figure(result)
            stem = f"figure-{result.name}"
            save_figure(result, "star", bench.scale, out / f"{stem}.json")
            if drawn and result.charts:
                draw(result, out / f"{stem}.png")
            results.append(result)
    show_goals(results, "all goals")
    return results
