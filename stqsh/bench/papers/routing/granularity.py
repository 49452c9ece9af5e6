"""How fine cells must be: hot spots on few and many slots, by the side of the grid (`routing.cells`).

CheetahGIS varies the cell size in its figure 9, and SSTD tries 100 to 1000 cells per side for Tornado's grid.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from stqsh.bench.figures import Row
from stqsh.bench.harness.drive import Say
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.maps import FOUR_MAPS, squares_around
from stqsh.bench.papers.routing.trials import RoutingScale, modelled_ratio
from stqsh.bench.papers.routing.world import load_by
from stqsh.routing.strategies import STRATEGIES
from stqsh.routing.table import HASHED

_MAP, _SLOTS = "hot spots", (8, 64)
_SIDES = (64, 256, 1024)
_STRATEGIES = ("grid", "agrid", "quadtree", "qttree")
_QUERIES, _SIDE = 4_000, 0.01
_WORTH = 3.0

COLUMNS = {
    "strategy": "strategy",
    "slots": "slots",
    "side": "cells per side",
    "modelled": "max/mean, modelled",
    "copies": "copies of a query",
    "hashed": "cells by hash",
    "plan_ms": "plan ms",
}


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Lay out hot spots by grids of different sides."""
    rng = np.random.default_rng(7)
    places, boxes = (
        FOUR_MAPS[_MAP](rng, scale.count(200_000)),
        squares_around(FOUR_MAPS[_MAP](rng, _QUERIES), _SIDE),
    )
    rows: list[Row] = []
    for side in _SIDES:
        say(f"granularity: {side} cells per side")
        load = load_by(places, boxes, side)
        for strategy in _STRATEGIES:
            for slots in _SLOTS:
                begun = perf_counter()
                table = STRATEGIES[strategy](load, slots)
                rows.append(
                    {
                        "strategy": strategy,
                        "slots": slots,
                        "side": side,
                        "modelled": modelled_ratio(table, load),
                        "copies": float(table.slots_touching(boxes).sum() / _QUERIES),
                        "hashed": int(np.count_nonzero(table.slot == HASHED)),
                        "plan_ms": (perf_counter() - begun) * 1e3,
                    }
                )
    notes = [f"{_QUERIES:,} squares of {_SIDE:.0%} side at {_MAP}. Plans include the copies of queries."]
    return [FigureResult("granularity", "the fineness of the grid", COLUMNS, rows, _goals(rows), notes)]


def _goals(rows: list[Row]) -> list[Goal]:
    def copies(side: int) -> float:
        few = [row for row in rows if (row["slots"], row["side"], row["strategy"]) == (64, side, "agrid")]
        return float(str(few[0]["copies"]))

    gained = copies(256) / copies(1024)
    return [Goal("agrid, 64 slots: copies of a query with 256 over 1024 cells per side", "-", _WORTH, gained)]
