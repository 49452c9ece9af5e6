"""Whether the strategy that the cost model chooses by a sample is nearly the best one for what comes then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stqsh.bench.figures import Row, numbers_of
from stqsh.bench.harness.drive import Say
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.maps import FOUR_MAPS, UNIT, Places, squares_around
from stqsh.bench.papers.routing.trials import RoutingScale, Trial, measured
from stqsh.bench.papers.routing.world import load_by
from stqsh.routing.cells import Cells
from stqsh.routing.choice import QUERY_BYTES, AskedQueries, chosen, predict, predictions
from stqsh.routing.initial_routing import SIDE, sampled_grid
from stqsh.routing.table import RoutingTable
from stqsh.sources.replay_store.spatial_extent import SAMPLE
from stqsh.sources.route_settings import RECENT

_QUERIES, _SIDE = 4_000, 0.005
_SLOTS, _MEASURED_ON, _MEASURED = (2, 8, 64), 8, ("uniform", "hot spots")
_ROOMS = {"plenty": float("inf"), "scarce": 1.75 * QUERY_BYTES * _QUERIES}
"""The bytes that copies of queries may take: scarce is 1.75 copies of each."""
_NEAR, _SHARE = 1.1, 0.9
_FINER = 8
_CHOICE, _GRID = "the choice", "the first grid"

COLUMNS = {
    "map": "map",
    "slots": "slots",
    "memory": "memory for queries",
    "best": "best",
    "chosen": "chosen",
    "times": "cost, times the best",
    "early": "chosen early",
    "early_times": "cost",
    "grid": "grid of a new stream, cost",
    "measured": "chosen, makespan over the least, measured",
    "measured_grid": "grid of a new stream",
}


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Choose by some records, and judge by others: by the model, and on few slots by what slots spend."""
    rows: list[Row] = []
    for name, places in FOUR_MAPS.items():
        for slots in _SLOTS:
            if slots <= scale.most_slots:
                say(f"defaults: {name}, {slots} slots")
                rows += _rows(scale, name, places, slots)

    def near(key: str) -> float:
        return float(np.mean([cost <= _NEAR for cost in numbers_of(rows, key)]))

    worst = max(numbers_of(rows, "measured"))
    on = f"on {_MEASURED_ON} slots with plenty of memory, over the least, {' and '.join(_MEASURED)}, measured"
    goals = [
        Goal("cells where the choice is within 10 % of the best, modelled", "-", _SHARE, near("times")),
        Goal("the same, chosen early", "-", _SHARE, near("early_times")),
        Goal("the same, the grid that a new stream gets", "-", _SHARE, near("grid")),
        Goal(f"makespan of the choice {on}", "-", _NEAR, worst, least=False),
    ]
    notes = [
        f"{_QUERIES:,} squares of {_SIDE:.1%} side, where the records are; scarce memory holds 1.75 copies "
        f"of each. The choice is by {scale.count(RECENT):,} records and all queries, the early one by "
        f"{SAMPLE:,} records, as a new stream has; both are judged by as many other records. The grid of a "
        "new stream is laid by early records alone. Engines begin with it unless the early choice is a fifth "
        "cheaper, and with SET balance = auto replace it by the choice of this model."
    ]
    return [FigureResult("defaults", "the automatic choice of a strategy", COLUMNS, rows, goals, notes)]


def _rows(scale: RoutingScale, name: str, places: Places, slots: int) -> list[Row]:
    rng = np.random.default_rng(17)
    asked, count = AskedQueries(squares_around(places(rng, _QUERIES), _SIDE)), scale.count(RECENT)
    first = places(rng, SAMPLE)
    side, drawn = max(_FINER * scale.cells, SIDE), [places(rng, count) for _ in range(2)]
    few, many, later = (load_by(some, asked.boxes, side) for some in (first, *drawn))
    early = predictions(replace(few, records=few.records * (count / SAMPLE)), slots, asked)
    seen, best = predictions(many, slots, asked), predictions(later, slots, asked)
    judged = {one.strategy: predict(one.table, later, asked) for one in seen}
    judged_early = {one.strategy: predict(one.table, later, asked) for one in early}
    grid = predict(_finer(sampled_grid(UNIT, tuple(map(tuple, first.tolist())), slots), side), later, asked)
    rows: list[Row] = []
    for memory, room in _ROOMS.items():
        choice, early_choice = chosen(seen, room).strategy, chosen(early, room).strategy
        costs = {
            "times": judged[choice].cost(room),
            "early_times": judged_early[early_choice].cost(room),
            "grid": grid.cost(room),
        }
        least = min(*costs.values(), *(one.cost(room) for one in best))
        names = {"best": chosen(best, room).strategy, "chosen": choice, "early": early_choice}
        row: Row = {"map": name, "slots": slots, "memory": memory}
        rows.append({**row, **names, **{key: cost / least for key, cost in costs.items()}})
    if slots == _MEASURED_ON and name in _MEASURED[: None if scale.share >= 1 else 1]:
        tables = {one.strategy: one.table for one in best}
        tables |= {_CHOICE: judged[str(rows[0]["chosen"])].table, _GRID: grid.table}
        [found] = measured([Trial(places, asked.boxes, tables, count // 2)], scale)
        shortest = min(each.makespan_ms for each in found.values())
        rows[0] = {
            **rows[0],
            "measured": found[_CHOICE].makespan_ms / shortest,
            "measured_grid": found[_GRID].makespan_ms / shortest,
        }
    return rows


def _finer(table: RoutingTable, side: int) -> RoutingTable:
    """Return the same routing over finer cells, those by which loads are counted."""
    times = np.ones((side // table.cells.side,) * 2, np.int32)
    return replace(table, cells=Cells(table.cells.bounds, side), leaf=np.kron(table.leaf, times))
