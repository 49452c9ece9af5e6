"""Figure 18: how fine the grid of moving queries should be.

In the paper one grid holds the objects and lists the queries that touch each cell. In the core each region
that moves is in one place, in a grid of its size, and only the objects' cells are of a side that can be
chosen: here it is laid, and beside it the core's own choice by the number of objects is measured. Redundancy
is what the paper's lists would have: the cells that a query touches on average.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from stqsh.bench.sole.figures import FigureRun
from stqsh.bench.sole.result import Chart, FigureResult, Line
from stqsh.bench.sole.slot_driver import DrivenSlot, registered
from stqsh.bench.sole.town import SIDE, Spec, TownQueries
from stqsh.core.matching import moving_index

_SIDES = (16, 20, 30, 40, 50, 70, 100, 140, 200, 256)
_QUERIES = 50_000
_ROUNDS, _STEPS = 2, 3
"""How often each side is measured, with the others between: other work on the machine then hits all alike."""

_CELLS = "s1/range/cells"
_OWN = 0
"""Stands for the side that the core chooses."""


def measure(bench: FigureRun) -> list[FigureResult]:
    """Figure 18: response time and redundancy against the cells in each direction."""
    count = bench.scale.count(_QUERIES)
    specs = TownQueries(count, moving=1.0).of(bench.world)
    slot = DrivenSlot(bench.world)
    bench.say(f"{count:,} moving queries")
    slot.units(1, registered(specs))
    slot.run(1)
    sides = [_OWN, *bench.scale.some(_SIDES)]
    times: dict[int, list[float]] = {side: [] for side in sides}
    for _ in range(_ROUNDS):
        for side in sides:
            with laid(slot, side):
                slot.run(1)
                times[side] += [slot.run(1).ms for _ in range(_STEPS)]
    rows: list[dict[str, Any]] = [
        {
            "side": side or None,
            "cells": side * side or None,
            "redundancy": redundancy(specs, side) if side else None,
            "ms": statistics.median(times[side]),
            "least_ms": min(times[side]),
            "paper": _PAPER.get(side),
        }
        for side in sides
    ]
    columns = {
        "side": "cells in a row",
        "cells": "cells",
        "redundancy": "cells a query",
        "ms": "CPU ms a step",
        "least_ms": "least CPU ms",
        "paper": "paper",
    }
    own, *rest = rows
    lines = [Line("objects' cells of one side", sides[1:], [row["ms"] for row in rest])]
    lines.append(Line("the core's own choice", [sides[1], sides[-1]], [own["ms"], own["ms"]], paper=True))
    charts = [
        Chart("response time", "cells in each direction", "CPU ms a step", lines, log="x"),
        Chart(
            "redundancy",
            "cells in each direction",
            "cells that a query touches",
            [Line("cells a query", sides[1:], [row["redundancy"] for row in rest])],
            log="xy",
        ),
    ]
    note = (
        f"{count:,} moving queries of various sizes, RETAIN ALL; a step is the records of one second of "
        f"{bench.world.objects:,} objects, its time that of the processor. Lists of queries are made anew in "
        "each batch."
    )
    return [FigureResult("18", "the side of the grid", columns, rows, charts, notes=[note])]


_PAPER = {_OWN: "(the core's own choice)", 30: "chosen", 100: "the quickest; slower beyond"}


@contextmanager
def laid(slot: DrivenSlot, side: int) -> Iterator[None]:
    """With `side` cells in each direction for the objects, from the next batch on."""
    if f"{_CELLS}/lattice" in slot.state:
        slot.state.release(f"{_CELLS}/")
    if side == _OWN:
        yield
        return
    objects_a_cell = len(slot.array("objects/known")) / (side + 0.5) ** 2
    with patch.object(moving_index, "_OBJECTS_A_CELL", objects_a_cell):
        yield


def redundancy(specs: list[Spec], side: int) -> float:
    """Return how many cells the query of a usual place touches: the mean of (width in cells + 1) squared."""
    width: Any = np.array([spec["region"]["xdist"] for spec in specs]) * side / SIDE
    return float(np.mean(np.minimum(width + 1, side) ** 2))
