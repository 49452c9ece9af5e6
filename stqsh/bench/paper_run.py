"""Run figures of a paper: measure each, show it as it comes, and write it to a folder as JSON and PNG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from stqsh.bench.drawing import MISSING, can_draw, draw
from stqsh.bench.harness.drive import Say
from stqsh.bench.paper_figures import FigureResult, save_figure, show_figure, show_goals


@dataclass(frozen=True)
class Paper:
    """The figures of a benchmark.

    Attributes:
        bench: the benchmark's name, which is that of its package within `stqsh.bench`.
        functions: the functions that measure each figure, as module:name, one or several.
    """

    bench: str
    functions: Mapping[Any, str]

    def check(self, figures: Sequence[Any]) -> None:
        """Check that there are these figures.

        Raises:
            ValueError: there is no such figure; the message lists all.
        """
        unknown = [figure for figure in figures if figure not in self.functions]
        if unknown:
            raise ValueError(f"no figure {unknown[0]!r}; there are {', '.join(map(str, self.functions))}")

    def measure(self, figure: Any, *given: Any) -> Iterator[FigureResult]:
        """Measure a figure with what its functions take, and yield a result for each of its parts."""
        for each in self.functions[figure].split():
            module, _, name = each.partition(":")
            yield from getattr(import_module(f"stqsh.bench.{self.bench}.{module}"), name)(*given)


def run_figures(
    paper: Paper, figures: Sequence[int], bench: Any, say: Say, *, scale: Any, out: Path
) -> list[FigureResult]:
    """Measure figures, or all of them; show each as it comes, and write it to the folder `out`.

    Args:
        paper: the figures that there are.
        figures: those that are wanted, which `Paper.check` has passed; all of them if empty.
        bench: what their functions take.
        say: shows progress.
        scale: the size of the run, a dataclass.
        out: the folder.
    """
    drawn = can_draw()
    if not drawn:
        say(MISSING)
    results = []
    for figure in figures or paper.functions:
        for result in paper.measure(figure, bench):
            show_figure(result)
            write_figure(result, paper.bench, scale, out, drawn=drawn)
            results.append(result)
    show_goals(results, "all goals")
    return results


def write_figure(result: FigureResult, bench: str, scale: Any, out: Path, *, drawn: bool) -> None:
    """Write a figure as `figure-N.json`, with the machine's load, and as `figure-N.png`."""
    save_figure(result, bench, scale, out / f"figure-{result.name}.json")
    if drawn and result.charts:
        draw(result, out / f"figure-{result.name}.png")
