"""Run figures of papers: measure each, show it as it comes, and write it to a folder as JSON and PNG."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from stqsh.bench.harness.drive import Say
from stqsh.bench.papers.drawing import MISSING, can_draw, draw
from stqsh.bench.papers.figure import FigureResult, save_figure, show_figure, show_goals
from stqsh.bench.report import console


@dataclass(frozen=True)
class Paper:
    """The figures that a command of `stqsh bench` measures.

    Attributes:
        name: the command's name.
        functions: the functions that measure each figure, as module:name below `stqsh.bench.papers`, one or
            several. Each takes what `prepare` returns and returns a `FigureResult` for each part of the
            figure.
        prepare: the function, as module:name, that returns what the figures of a run share; it takes the
            run's scale, what shows progress, and the folder.
        has_charts: whether figures are drawn, too.
        note: what the reader has to know of all figures.
    """

    name: str
    functions: Mapping[str, str]
    prepare: str
    has_charts: bool = True
    note: str = ""

    def check(self, figures: Sequence[str]) -> None:
        """Check that there are these figures.

        Raises:
            ValueError: there is no such figure; the message lists all.
        """
        unknown = [figure for figure in figures if figure not in self.functions]
        if unknown:
            raise ValueError(f"no figure {unknown[0]!r}; there are {', '.join(self.functions)}")

    def measure(self, figure: str, *shared: Any) -> Iterator[FigureResult]:
        """Measure a figure with what `prepare` returned, and yield a result for each of its parts."""
        for function in self.functions[figure].split():
            yield from _load(function)(*shared)


def run(
    paper: Paper, figures: Sequence[str], say: Say, *, scale: Any, out: Path | None = None
) -> list[FigureResult]:
    """Measure figures, or all of them; show each as it comes, and write it to the folder `out` if given.

    Args:
        paper: the figures that there are.
        figures: those that are wanted; all of them if empty.
        say: shows progress.
        scale: the size of the run, a dataclass.
        out: the folder.

    Raises:
        ValueError: there is no such figure, or ways that are compared gave different answers.
    """
    paper.check(figures)
    drawn = paper.has_charts and can_draw()
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        if paper.has_charts and not drawn:
            say(MISSING)
    shared = _load(paper.prepare)(scale, say, out)
    results = []
    for figure in figures or paper.functions:
        begun = time.perf_counter()
        for result in paper.measure(figure, *shared):
            show_figure(result)
            results.append(result)
            if out is not None:
                write_figure(result, paper.name, scale, out, drawn=drawn)
        say(f"figure {figure}: {time.perf_counter() - begun:.0f} s")
    if paper.note:
        console().print(paper.note, style="dim")
    show_goals(results, "all goals")
    return results


def write_figure(result: FigureResult, paper: str, scale: Any, out: Path, *, drawn: bool) -> None:
    """Write a figure as JSON, with the machine's load, and as PNG if it has charts.

    The files are called as the figure is, `figure-N` where that is a number of a paper.
    """
    stem = f"figure-{result.name}" if result.name[0].isdigit() else result.name
    save_figure(result, paper, scale, out / f"{stem}.json")
    if drawn and result.charts:
        draw(result, out / f"{stem}.png")


def _load(function: str) -> Callable[..., Any]:
    module, _, name = function.partition(":")
    found: Callable[..., Any] = getattr(import_module(f"stqsh.bench.papers.{module}"), name)
    return found
