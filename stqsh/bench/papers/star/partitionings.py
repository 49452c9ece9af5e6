"""STAR, Fig. 12: the quadtree against sort-tile-recursive and a k-d tree by pairs of records and queries."""

from __future__ import annotations

import numpy as np

from stqsh.bench.figures import Row
from stqsh.bench.harness.drive import Say
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.baselines import BASELINES
from stqsh.bench.papers.routing.maps import hot_spots, squares_around
from stqsh.bench.papers.routing.trials import RoutingScale, Trial, measured, modelled_ratio
from stqsh.bench.papers.routing.world import load_by
from stqsh.routing.load import Load
from stqsh.routing.strategies import STRATEGIES
from stqsh.routing.table import RoutingTable

_FEW, _MANY = 8, 64
_QUERIES, _SIDE = 4_000, 0.005
_SHARE = 0.8
_PAPER = "-20 %"
_OURS = "quadtree"
_OTHERS = ("str", "k-d by pairs")

COLUMNS = {
    "slots": "slots",
    "routing": "routing",
    "modelled": "max/mean, modelled",
    "measured": "measured",
    "copies": "copies of a query",
    "makespan_ms": "makespan ms",
    "rate": "records/s",
    "share": "quadtree's / its",
    "paper": "paper",
}


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Measure makespans under hot spots."""
    say("star12: quadtree, str, k-d by pairs")
    rng = np.random.default_rng(13)
    boxes = squares_around(hot_spots(rng, _QUERIES), _SIDE)
    load = load_by(hot_spots(rng, 200_000), boxes)
    tables = _tables(load, _FEW)
    [found] = measured([Trial(hot_spots, boxes, tables, scale.count(200_000))], scale)
    ours = found[_OURS].makespan_ms
    rows: list[Row] = [
        {
            "slots": _FEW,
            "routing": name,
            "modelled": modelled_ratio(tables[name], load),
            "measured": each.ratio,
            "copies": each.copies,
            "makespan_ms": each.makespan_ms,
            "rate": each.rate,
            "share": ours / each.makespan_ms,
            "paper": _PAPER if name in _OTHERS else "",
        }
        for name, each in found.items()
    ]
    rows += _modelled(boxes, load)
    notes = [
        f"{len(boxes):,} squares of {_SIDE:.1%} side where the records are. {_MANY} slots are modelled. The "
        "quadtree may deal single cells by hash, the other two cannot."
    ]
    return [FigureResult("star12", "quadtree against STR and AQWA", COLUMNS, rows, _goals(rows), notes)]


def _tables(load: Load, slots: int) -> dict[str, RoutingTable]:
    laid = {_OURS: STRATEGIES[_OURS]} | {name: BASELINES[name] for name in _OTHERS}
    return {name: lay(load, slots) for name, lay in laid.items()}


def _modelled(boxes: np.ndarray[tuple[int, int], np.dtype[np.float64]], load: Load) -> list[Row]:
    tables = _tables(load, _MANY)
    ratios = {name: modelled_ratio(table, load) for name, table in tables.items()}
    return [
        {
            "slots": _MANY,
            "routing": name,
            "modelled": ratio,
            "copies": float(tables[name].slots_touching(boxes).sum() / len(boxes)),
            "share": ratios[_OURS] / ratio,
            "paper": _PAPER if name in _OTHERS else "",
        }
        for name, ratio in ratios.items()
    ]


def _goals(rows: list[Row]) -> list[Goal]:
    return [
        Goal(
            f"{row['slots']} slots, quadtree's makespan / that of {row['routing']}, "
            f"{'measured' if row['slots'] == _FEW else 'modelled'}",
            _PAPER,
            _SHARE,
            float(str(row["share"])),
            least=False,
        )
        for row in rows
        if row["routing"] in _OTHERS
    ]
