"""Tornado, Fig. 9b: how many bytes of statistics evaluators send in a window while a load condenses.

A central unit gets the cost and the queries of each cell. Tornado's evaluators keep sums over the rows and
columns of their rectangles instead, and send the totals. Here slots send none: plans are made by what the
source read, and the queries are known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.arrays import Floats
from stqsh.bench.figures import Row, numbers_of
from stqsh.bench.harness.drive import Say
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.maps import UNIT, condensed_to, squares_around, towns
from stqsh.bench.papers.routing.trials import RoutingScale
from stqsh.bench.papers.routing.world import SIDE, load_by
from stqsh.routing.adjusters.tiles import owners_of
from stqsh.routing.load import Load
from stqsh.routing.partitioning import CellBlock
from stqsh.routing.strategies import agrid_table
from stqsh.routing.table import RoutingTable
from stqsh.sources.recent_input import RecentInput
from stqsh.sources.routing_plans import plan_rebalance
from stqsh.spec.chunk import pack

_SLOTS, _SIDES = (8, 64), (SIDE, 1024)
_FACTORS = (0.7, 0.6, 0.5, 0.4)
_RECORDS, _QUERIES, _SQUARE = 200_000, 8_000, 0.01
_CORNER_SHIFTS = 8
_MUCH_LESS, _EVEN = 0.1, 1.3

COLUMNS = {
    "side": "cells a side",
    "slots": "slots",
    "factor": "condensed to",
    "cells": "all cells, bytes",
    "loaded": "cells with records",
    "sums": "row and column sums",
    "share": "over cells",
    "totals": "totals and corner shifts",
    "totals_share": "over cells",
    "ours": "ours",
    "planned": "ours, max/mean before",
    "after": "after",
    "paper": "paper",
}


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Count the bytes of each kind of statistics, for a table laid before the load condensed."""
    rng = np.random.default_rng(37)
    count = scale.count(_RECORDS)
    boxes = squares_around(towns(rng, _QUERIES), _SQUARE)
    rows: list[Row] = []
    for side in _SIDES if scale.share >= 1 else _SIDES[:1]:
        before = load_by(towns(rng, count), boxes, side)
        for slots in _SLOTS:
            say(f"tornado9b: {side} cells a side, {slots} slots")
            table = agrid_table(before, slots)
            rows += [_row(table, condensed_to(rng, count, factor), factor, boxes) for factor in _FACTORS]
    goals = [
        *(
            Goal(
                f"{name} over cells with records, worst row",
                "much less",
                _MUCH_LESS,
                max(numbers_of(rows, key)),
                least=False,
            )
            for key, name in (("totals_share", "totals"), ("share", "row and column sums"))
        ),
        Goal(
            "max/mean after a plan without messages, worst row",
            "-",
            _EVEN,
            max(numbers_of(rows, "after")),
            least=False,
        ),
    ]
    notes = [
        f"{count:,} records in a window, {_QUERIES:,} squares. Bytes are those of a message of the engine's "
        "format for each slot: with cost and queries of each cell, or of the cells with records and which "
        "these are, or of each row and column. Shares are over the lesser of the former two. "
        f"Totals are what Tornado's evaluators send, with up to {_CORNER_SHIFTS} costs of corner shifts. "
        "Ours: slots send nothing, as REBALANCE plans by what the source read, by cell; max/mean is what "
        "that plan expects. Of live streams it reads the slots' memory."
    ]
    title = "bytes of statistics in a window"
    return [FigureResult("tornado9b", title, COLUMNS, rows, goals, notes)]


def _row(table: RoutingTable, places: Floats, factor: float, boxes: Floats) -> Row:
    there = 0.5 + factor * (boxes - 0.5)
    recent = RecentInput(UNIT, places[:, 0], places[:, 1], there)
    load = recent.load(table.cells)
    tiles = list(owners_of(table))
    plan = plan_rebalance(recent, table, None)
    cells, loaded, sums = (
        sum(map(size, [load] * len(tiles), tiles)) for size in (_of_cells, _of_loaded_cells, _of_sums)
    )
    totals = len(tiles) * _bytes([np.zeros(2 + _CORNER_SHIFTS)])
    return {
        "side": table.cells.side,
        "slots": table.slots,
        "factor": factor,
        "cells": cells,
        "loaded": loaded,
        "sums": sums,
        "share": sums / min(cells, loaded),
        "totals": totals,
        "totals_share": totals / min(cells, loaded),
        "ours": 0,
        "planned": None if plan is None else plan.before,
        "after": None if plan is None else plan.after,
        "paper": "much less",
    }


def _of_cells(load: Load, tile: CellBlock) -> int:
    """Return the bytes of the cost and the queries of all cells of a rectangle."""
    return _bytes([values[_cells(tile)].ravel() for values in (load.cost, load.queries)])


def _of_loaded_cells(load: Load, tile: CellBlock) -> int:
    """Return the bytes of the same for cells with records, and of which these are."""
    cells = np.flatnonzero(load.records[_cells(tile)])
    columns = [values[_cells(tile)].ravel()[cells] for values in (load.cost, load.queries)]
    return _bytes([cells.astype(np.int32), *columns])


def _of_sums(load: Load, tile: CellBlock) -> int:
    """Return the bytes of the sums over rows and columns."""
    inside = [values[_cells(tile)] for values in (load.cost, load.queries)]
    return _bytes([np.concatenate([values.sum(axis=0), values.sum(axis=1)]) for values in inside])


def _cells(tile: CellBlock) -> tuple[slice, slice]:
    return slice(tile.low, tile.high), slice(tile.left, tile.right)


def _bytes(columns: Sequence[NDArray[np.generic]]) -> int:
    """Return the bytes of a message with columns."""
    return len(
        pack(pa.RecordBatch.from_arrays([pa.array(one) for one in columns], [*map(str, range(len(columns)))]))
    )
