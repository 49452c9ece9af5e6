"""List the figures, and the functions that measure them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from stqsh.bench.harness.drive import Say
from stqsh.bench.routing.measuring import Scale
from stqsh.bench.routing.result import FigureResult

Measure = Callable[[Scale, Say], list[FigureResult]]

FIGURES = {
    "balance": "balance:measure",
    "tornado6": "tornado6:measure",
    "tornado7": "tornado7:measure",
    "tornado9": "tornado9:measure",
    "sstd14": "sstd:inserted",
    "sstd15": "sstd:registered",
    "cheetah12": "cheetah12:measure",
    "star12": "star12:measure",
    "orbit": "orbit:measure",
}
"""The function that measures each figure, as module:name."""


def measure(name: str, scale: Scale, say: Say) -> list[FigureResult]:
    """Measure a figure, and return its results."""
    module, _, function = FIGURES[name].partition(":")
    found: Measure = getattr(import_module(f"stqsh.bench.routing.{module}"), function)
    return found(scale, say)
