"""A figure of a paper as measured here: a table, charts, and goals beside what the paper reports."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stqsh.bench.figures import Row
from stqsh.bench.report import cell, console, save, show


@dataclass(frozen=True)
class Line:
    """A curve; y is None where there is no point. `paper` marks figures or expectations of the paper."""

    label: str
    x: Sequence[float]
    y: Sequence[float | None]
    paper: bool = False


@dataclass(frozen=True)
class Chart:
    """A pair of axes with curves. `log` names the logarithmic axes: x, y or xy."""

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    log: str = ""


@dataclass(frozen=True)
class Goal:
    """A goal: `found` is at least (or at most) `wanted`.

    Attributes:
        paper: what the paper reports, "-" for nothing.
        found: the measurement; None if no measurement came that far.
    """

    what: str
    paper: str
    wanted: float
    found: float | None
    least: bool = True

    @property
    def is_reached(self) -> bool:
        """Whether the goal is reached."""
        if self.found is None:
            return False
        return self.found >= self.wanted if self.least else self.found <= self.wanted


@dataclass(frozen=True)
class FigureResult:
    """A figure as measured.

    Attributes:
        name: its name, as --figure takes it, or its number in the paper, such as 12 or 25a.
        columns: headings by the keys of the rows, in order; the key `paper` holds the paper's figure.
        notes: what the reader has to know.
    """

    name: str
    title: str
    columns: Mapping[str, str]
    rows: Sequence[Row]
    goals: Sequence[Goal] = ()
    notes: Sequence[str] = ()
    charts: Sequence[Chart] = ()


def show_figure(result: FigureResult) -> None:
    """Show a figure as a table, with its notes and goals."""
    show(f"{_label(result)}: {result.title}", result.rows, result.columns)
    for note in result.notes:
        console().print(note, markup=False, style="dim")
    show_goals([result], "goals")


def show_goals(results: Sequence[FigureResult], title: str) -> None:
    """Show which goals of figures are reached, if there are any."""
    rows: list[Row] = [
        {
            "figure": result.name,
            "what": goal.what,
            "paper": goal.paper,
            "wanted": f"{'>=' if goal.least else '<='} {cell(float(goal.wanted))}",
            "found": goal.found,
            "reached": "reached" if goal.is_reached else "MISSED",
        }
        for result in results
        for goal in result.goals
    ]
    columns = {"figure": "figure", "what": "goal", "paper": "paper", "wanted": "wanted", "found": "found"}
    if rows:
        show(title, rows, columns | {"reached": ""})


def save_figure(result: FigureResult, bench: str, scale: Any, path: Path) -> None:
    """Write a figure as JSON, with the machine's load.

    Args:
        result: the figure.
        bench: the benchmark that measured it.
        scale: the size of the run, a dataclass.
        path: the file.
    """
    save(
        path,
        f"{bench} {result.name}",
        result.rows,
        title=result.title,
        columns=result.columns,
        notes=result.notes,
        goals=[asdict(goal) | {"reached": goal.is_reached} for goal in result.goals],
        scale=asdict(scale),
        load=os.getloadavg(),
    )


def _label(result: FigureResult) -> str:
    """Return how a figure is called: with a number, if that is its name."""
    return f"Fig. {result.name}" if result.name[0].isdigit() else result.name
