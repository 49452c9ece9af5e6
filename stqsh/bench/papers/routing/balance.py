"""How evenly each strategy spreads four maps, and how many copies of queries it needs."""

from __future__ import annotations

import numpy as np

from stqsh.bench.figures import Row
from stqsh.bench.harness.drive import Say
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.baselines import uniform_blocks
from stqsh.bench.papers.routing.maps import FOUR_MAPS, Places, squares_around
from stqsh.bench.papers.routing.trials import Measured, RoutingScale, Trial, measured, modelled_ratio
from stqsh.bench.papers.routing.world import load_by
from stqsh.routing.strategies import STRATEGIES

_STRATEGIES = {**STRATEGIES, "uniform blocks": uniform_blocks}
_SPATIAL = ("grid", "agrid", "quadtree", "qttree")
_QUERIES, _SIDE = 4_000, 0.005
_FEW, _MANY = 8, 64
_MEASURED_ON_MANY = ("hot spots",)
_LIMIT = 1.3
_JUDGED = ((_FEW, "no_floor", "measured without floor"), (_MANY, "modelled", "modelled"))

COLUMNS = {
    "map": "map",
    "slots": "slots",
    "strategy": "strategy",
    "modelled": "max/mean, modelled",
    "measured": "measured",
    "no_floor": "without floor",
    "copies": "copies of a query",
    "makespan_ms": "makespan ms",
    "rate": "records/s",
}


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Measure the balance of all strategies on all maps."""
    rows: list[Row] = []
    for name, places in FOUR_MAPS.items():
        for slots in (_FEW, _MANY):
            is_measured = slots <= scale.most_slots and (slots == _FEW or name in _MEASURED_ON_MANY)
            say(f"balance: {name}, {slots} slots{'' if is_measured else ', modelled'}")
            rows += _rows(scale, name, places, slots, is_measured=is_measured)
    notes = [
        f"{_QUERIES:,} squares of {_SIDE:.1%} side, where the records are. Tables are made by a sample of "
        "records. Without floor: what an empty batch costs is subtracted, because it hides imbalance. Rows "
        "without measured figures are modelled."
    ]
    return [FigureResult("balance", "how evenly strategies spread load", COLUMNS, rows, _goals(rows), notes)]


def _rows(scale: RoutingScale, name: str, places: Places, slots: int, *, is_measured: bool) -> list[Row]:
    rng = np.random.default_rng(7)
    boxes = squares_around(places(rng, _QUERIES), _SIDE)
    load = load_by(places(rng, 200_000), boxes)
    tables = {strategy: lay(load, slots) for strategy, lay in _STRATEGIES.items()}
    found: dict[str, Measured] = {}
    if is_measured:
        count = scale.count(200_000)
        [found] = measured([Trial(places, boxes, tables, count)], scale)
    return [
        {
            "map": name,
            "slots": slots,
            "strategy": strategy,
            "modelled": modelled_ratio(table, load),
            "copies": float(table.slots_touching(boxes).sum() / len(boxes)),
            **_measured_row(found.get(strategy)),
        }
        for strategy, table in tables.items()
    ]


def _measured_row(found: Measured | None) -> Row:
    if found is None:
        return dict.fromkeys(("measured", "no_floor", "makespan_ms", "rate"))
    return {
        "measured": found.ratio,
        "no_floor": found.ratio_without_floor,
        "makespan_ms": found.makespan_ms,
        "rate": found.rate,
    }


def _goals(rows: list[Row]) -> list[Goal]:
    """Return goals for each strategy, by its worst map."""
    goals = []
    for strategy in _SPATIAL:
        for slots, key, how in _JUDGED:
            found = [
                float(str(row[key])) for row in rows if (row["strategy"], row["slots"]) == (strategy, slots)
            ]
            what = f"{strategy}, {slots} slots, worst map, {how}"
            goals.append(Goal(what, "-", _LIMIT, max(found), least=False))
    return goals
