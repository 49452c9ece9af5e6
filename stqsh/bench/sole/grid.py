"""Figure 18: how fine the grid of moving queries should be.

The core chooses the side of its grid by the number of objects; here it is laid anew with a side of the
bench's own between two batches. Redundancy is how many cells list a query on average.
"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from stqsh.bench.sole.catalogue import Bench
from stqsh.bench.sole.result import Chart, Line, Result
from stqsh.bench.sole.slot import Slot, registered
from stqsh.bench.sole.world import SIDE, Queries, Spec
from stqsh.core.kernels.cells import ObjectCells, fill_objects
from stqsh.core.regions.grid import lattice_over

_SIDES = (5, 10, 20, 30, 40, 50, 70, 100, 140, 200, 256)
_QUERIES = 50_000
_ROUNDS, _STEPS = 3, 3
"""Each side is measured so many times, the others between: other work on the machine then hits all alike."""

_CELLS = "s1/range/cells"


def measure(bench: Bench) -> list[Result]:
    """Figure 18: response time and redundancy against the cells in each direction."""
    count = bench.scale.count(_QUERIES)
    specs = Queries(count, moving=1.0).of(bench.world)
    slot = Slot(bench.world)
    bench.say(f"{count:,} moving queries")
    slot.units(1, registered(specs))
    slot.run(1)
    own = int(slot.state.array(f"{_CELLS}/lattice")[4])
    sides = sorted({*bench.scale.some(_SIDES), own})
    times: dict[int, list[float]] = {side: [] for side in sides}
    for _ in range(_ROUNDS):
        for side in sides:
            lay(slot, side)
            times[side] += [slot.run(1).ms for _ in range(_STEPS)]
    rows = [
        {
            "side": side,
            "cells": side * side,
            "redundancy": redundancy(specs, side),
            "ms": statistics.median(times[side]),
            "least_ms": min(times[side]),
            "paper": _PAPER.get(side, "") + (" (the core's choice)" if side == own else ""),
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
    lines = [Line("median", sides, [row["ms"] for row in rows])]
    charts = [
        Chart("response time", "cells in each direction", "CPU ms a step", lines, log="x"),
        Chart(
            "redundancy",
            "cells in each direction",
            "cells that list a query",
            [Line("cells a query", sides, [row["redundancy"] for row in rows])],
            log="xy",
        ),
    ]
    note = (
        f"{count:,} moving queries of various sizes, RETAIN ALL; a step is the records of one second of "
        f"{bench.world.objects:,} objects, its time that of the processor. Lists of queries are made anew in "
        "each batch."
    )
    return [Result("18", "the side of the grid", columns, rows, charts, notes=[note])]


_PAPER = {30: "chosen", 100: "the quickest; slower beyond"}


def lay(slot: Slot, side: int) -> None:
    """Lay the cells of the slot's objects anew, `side` of them in each direction; between two batches."""
    state = slot.state
    x, y = (state.array(f"{_CELLS}/{axis}").copy() for axis in "xy")
    lattice = lattice_over(x, y, side, slot.spec["bounds"])
    state.replace(f"{_CELLS}/lattice", np.array([*lattice, len(x)], np.float64))
    state.create(f"{_CELLS}/head", np.int32, side * side)
    for name in ObjectCells._fields[1:]:
        state.array(f"{_CELLS}/{name}")[:] = 0
    cells = ObjectCells(*(state.array(f"{_CELLS}/{name}") for name in ObjectCells._fields))
    cells.x[:], cells.y[:] = np.nan, np.nan
    fill_objects(cells, x, y, lattice)


def redundancy(specs: list[Spec], side: int) -> float:
    """How many cells the query of a usual place touches: the mean of (width in cells + 1) squared."""
    width: Any = np.array([spec["region"]["xdist"] for spec in specs]) * side / SIDE
    return float(np.mean(np.minimum(width + 1, side) ** 2))
