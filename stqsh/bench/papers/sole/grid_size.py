"""Figure 18: how fine the grid of moving queries should be.

In the paper one grid holds the objects and lists the queries that touch each cell. In the core each moving
region has one entry in a grid of its size, and only the objects' cells have a side that can be chosen. This
figure sets that side, and also measures the core's own choice by the number of objects. Redundancy is that of
the paper's lists: the mean number of cells that a query touches.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from unittest.mock import patch

import numpy as np

from stqsh.bench.figures import Row
from stqsh.bench.papers.figure import Chart, FigureResult, Line
from stqsh.bench.papers.sole.figure_run import FigureRun
from stqsh.bench.papers.sole.slot_driver import DrivenSlot, registered
from stqsh.bench.papers.sole.town import SIDE, TownQueries
from stqsh.core.matching import moving_index
from stqsh.spec.query import SlotQuery
from stqsh.spec.region import MovingRectangleSpec

_SIDES = (16, 20, 30, 40, 50, 70, 100, 140, 200, 256)
_QUERIES = 50_000
_ROUNDS, _STEPS = 2, 3
"""Each side is measured this often, in turn with the others, so that other work on the machine hits all."""

_CELLS = "s1/range/cells"
_OWN = 0
"""Stands for the side that the core chooses by itself."""


@dataclass(frozen=True)
class GridTimes:
    """The processor time of a step with a side of the grid, ms; no side: the core's own choice."""

    side: int | None
    cells: int | None
    redundancy: float | None
    ms: float
    least_ms: float
    paper: str | None


def measure(bench: FigureRun) -> list[FigureResult]:
    """Figure 18: response time and redundancy against the cells in each direction."""
    count = bench.scale.count(_QUERIES)
    specs = TownQueries(count, moving=1.0).of(bench.world)
    slot = DrivenSlot(bench.world)
    bench.say(f"{count:,} moving queries")
    slot.units(1, registered(specs))
    slot.run(1)
    own, *rest = [
        GridTimes(
            side=side or None,
            cells=side * side or None,
            redundancy=redundancy(specs, side) if side else None,
            ms=statistics.median(times),
            least_ms=min(times),
            paper=_PAPER.get(side),
        )
        for side, times in _timed(slot, [_OWN, *bench.scale.some(_SIDES)]).items()
    ]
    columns = {
        "side": "cells in a row",
        "cells": "cells",
        "redundancy": "cells a query",
        "ms": "CPU ms a step",
        "least_ms": "least CPU ms",
        "paper": "paper",
    }
    note = (
        f"{count:,} moving queries of various sizes, RETAIN ALL; a step is the records of one second of "
        f"{bench.world.objects:,} objects, its time that of the processor. Lists of queries are rebuilt in "
        "each batch."
    )
    rows: list[Row] = [asdict(one) for one in (own, *rest)]
    return [
        FigureResult("18", "the side of the grid", columns, rows, notes=[note], charts=_charts(own, rest))
    ]


def _timed(slot: DrivenSlot, sides: Sequence[int]) -> dict[int, list[float]]:
    """Return the processor times of steps with each side, ms."""
    times: dict[int, list[float]] = {side: [] for side in sides}
    for _ in range(_ROUNDS):
        for side in sides:
            with laid(slot, side):
                slot.run(1)
                times[side] += [slot.run(1).ms for _ in range(_STEPS)]
    return times


def _charts(own: GridTimes, rest: Sequence[GridTimes]) -> list[Chart]:
    sides = [one.side or 0 for one in rest]
    lines = [
        Line("objects' cells of one side", sides, [one.ms for one in rest]),
        Line("the core's own choice", [sides[0], sides[-1]], [own.ms, own.ms], paper=True),
    ]
    cells = [Line("cells a query", sides, [one.redundancy for one in rest])]
    x = "cells in each direction"
    return [
        Chart("response time", x, "CPU ms a step", lines, log="x"),
        Chart("redundancy", x, "cells that a query touches", cells, log="xy"),
    ]


_PAPER = {_OWN: "(the core's own choice)", 30: "chosen", 100: "the quickest; slower beyond"}


@contextmanager
def laid(slot: DrivenSlot, side: int) -> Iterator[None]:
    """Use `side` cells in each direction for the objects, from the next batch on."""
    if f"{_CELLS}/lattice" in slot.state:
        slot.state.release(f"{_CELLS}/")
    if side == _OWN:
        yield
        return
    objects_a_cell = len(slot.array("objects/known")) / (side + 0.5) ** 2
    with patch.object(moving_index, "_OBJECTS_A_CELL", objects_a_cell):
        yield


def redundancy(specs: Sequence[SlotQuery], side: int) -> float:
    """Return the mean number of cells that a moving query touches: (width in cells + 1) squared."""
    regions = [spec.region for spec in specs if isinstance(spec.region, MovingRectangleSpec)]
    width = np.array([region.xdist for region in regions]) * side / SIDE
    return float(np.mean(np.minimum(width + 1, side) ** 2))
