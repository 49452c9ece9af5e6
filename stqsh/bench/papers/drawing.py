"""Draw figures as PNG files, with the charts side by side. Needs matplotlib, the extra `bench`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from stqsh.bench.papers.figure import Chart, FigureResult, Line

MISSING = "plots need matplotlib, which is not installed: pip install 'stqsh[bench]'"

_WIDTH, _HEIGHT = 5.2, 4.0
"""The size of a chart, inches."""

_DPI = 110
_MARKERS = "osD^vP*X"
_MANY = 60
"""The number of points beyond which a curve has no markers."""


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw(result: FigureResult, path: Path) -> None:
    """Write a figure's charts as one PNG.

    Raises:
        ModuleNotFoundError: matplotlib is not installed; see `can_draw`.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH * len(result.charts), _HEIGHT), layout="constrained")
    figure.suptitle(f"Fig. {result.name}: {result.title}", fontsize=11)
    for number, chart in enumerate(result.charts, start=1):
        _chart(figure.add_subplot(1, len(result.charts), number), chart)
    figure.savefig(path, dpi=_DPI)


def _chart(axes: Any, chart: Chart) -> None:
    for number, line in enumerate(chart.lines):
        _line(axes, line, number)
    axes.set_title(chart.title, fontsize=10)
    axes.set_xlabel(chart.x)
    axes.set_ylabel(chart.y)
    if "x" in chart.log:
        axes.set_xscale("log")
    if "y" in chart.log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=8)


def _line(axes: Any, line: Line, number: int) -> None:
    values = [float("nan") if value is None else value for value in line.y]
    if line.paper:
        axes.plot(line.x, values, "--", color="gray", label=line.label)
        return
    marker = _MARKERS[number % len(_MARKERS)] if len(values) <= _MANY else ""
    axes.plot(line.x, values, marker=marker, markersize=4, linewidth=1.2, label=line.label)
