"""CheetahGIS, Fig. 12b: nearly all records are in the cells of 3 of 120 slots, with and without greedy."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from stqsh.arrays import Floats
from stqsh.bench.figures import Row
from stqsh.bench.harness.drive import Say
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.maps import UNIT, squares_around
from stqsh.bench.papers.routing.trials import RoutingScale, Trial, measured, modelled_ratio
from stqsh.bench.papers.routing.world import SIDE, load_by
from stqsh.routing.adjusters import greedy
from stqsh.routing.adjusters.adjuster_choice import moved_queries
from stqsh.routing.cells import Cells
from stqsh.routing.load import Load
from stqsh.routing.strategies import grid_table
from stqsh.spec.query import Members, SlotQuery
from stqsh.spec.region import NearestSpec

_HOT, _SHARE = 3, 0.95
_QUERIES, _SQUARE = 4_000, 0.005
_NEAREST, _K = 100, 8
_NEAREST_QUERY = SlotQuery(kind="nearest", members=Members(region=NearestSpec(_K, 0.0, 0.0)))
_LIMIT = 1.15
_WANTED = 8.0

COLUMNS = {
    "queries": "queries",
    "routing": "routing",
    "modelled": "max/mean, modelled",
    "measured": "measured",
    "copies": "copies of a query",
    "moved": "queries moved",
    "cells": "cells moved",
    "makespan_ms": "makespan ms",
    "rate": "records/s",
    "gain": "times off",
    "modelled_gain": "modelled",
    "paper": "paper",
}


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Measure throughput before and after greedy remedies."""
    slots = scale.biased_slots
    say(f"cheetah12: {slots} slots, greedy off and on")
    rng = np.random.default_rng(29)
    none = np.zeros((SIDE, SIDE))
    off = grid_table(Load(Cells(UNIT, SIDE), none, none), slots)
    hot = np.flatnonzero(np.isin(off.owners.ravel(), rng.choice(slots, _HOT, replace=False)))
    places = partial(_places, hot)
    boxes = squares_around(places(rng, _QUERIES), _SQUARE)
    load = load_by(places(rng, scale.count(500_000)), boxes)
    tables = {
        "off": off,
        "greedy": greedy.adjust(off, load, _LIMIT, growth=float("inf")),
        "greedy, bounded": greedy.adjust(off, load, _LIMIT),
    }
    ranges = Trial(places, boxes, tables, scale.count(1_000_000), off)
    neighbours = replace(ranges, boxes=boxes[:_NEAREST], pattern=_NEAREST_QUERY)
    found_by = dict(zip(("range", "nearest"), measured([ranges, neighbours], scale), strict=True))
    worst = modelled_ratio(off, load)
    rows: list[Row] = [
        {
            "queries": queries,
            "routing": name,
            "modelled": modelled_ratio(tables[name], load),
            "measured": each.ratio,
            "copies": each.copies,
            "moved": moved_queries(off, tables[name], load),
            "cells": int(np.count_nonzero(off.owners != tables[name].owners)),
            "makespan_ms": each.makespan_ms,
            "rate": each.rate,
            "gain": found["off"].makespan_ms / each.makespan_ms,
            "modelled_gain": worst / modelled_ratio(tables[name], load),
            "paper": "8 to 10" if name == "greedy" else "",
        }
        for queries, found in found_by.items()
        for name, each in found.items()
    ]
    floor = found_by["range"]["off"].floor_ms
    goals = [
        *(
            Goal(
                f"greedy on over off, {queries} queries, measured",
                "8 to 10",
                _WANTED,
                found["off"].makespan_ms / found["greedy"].makespan_ms,
            )
            for queries, found in found_by.items()
        ),
        Goal("the same, modelled", "8 to 10", _WANTED, worst / modelled_ratio(tables["greedy"], load)),
    ]
    notes = [
        f"{slots} slots with as many cells each; {_SHARE:.0%} of records and queries in the cells of {_HOT} "
        f"of them. {_QUERIES:,} range queries, squares of {_SQUARE:.1%} side, and "
        f"{_NEAREST} for the {_K} nearest of a place, which the paper has. "
        "Greedy: CheetahGIS's remedies, one giver each, with as many copies of queries as it makes; "
        f"bounded: at most {greedy.GROWTH:.0f} times those of a new table. An empty batch takes {floor:.2g} "
        "ms of each slot's makespan."
    ]
    return [FigureResult("cheetah12", "a biased load", COLUMNS, rows, goals, notes)]


def _places(hot: NDArray[np.intp], rng: np.random.Generator, count: int) -> Floats:
    """Draw places, float64 (count, 2), most of which are in the hot cells."""
    found = rng.random((count, 2))
    many = rng.random(count) < _SHARE
    rows, columns = np.divmod(rng.choice(hot, int(many.sum())), SIDE)
    found[many] = (np.column_stack([columns, rows]) + rng.random((len(rows), 2))) / SIDE
    return found
