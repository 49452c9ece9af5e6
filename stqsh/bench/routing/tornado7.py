"""Tornado, Fig. 7: what it costs to find the partitions of points and of ranges."""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time_ns
from typing import Any

import numpy as np
import shapely

from stqsh.arrays import Floats
from stqsh.bench.figures import Row
from stqsh.bench.harness.drive import Say
from stqsh.bench.paper_figures import FigureResult, Goal
from stqsh.bench.routing.maps import squares_around, towns, uniform
from stqsh.bench.routing.measuring import RoutingScale
from stqsh.bench.routing.world import SIDE, load_by
from stqsh.core.kernels.index.hashing import hash_integers
from stqsh.routing.strategies import agrid_table, boxes_of_leaves
from stqsh.routing.table import RoutingTable

_SIDES = (0.001, 0.005, 0.01, 0.05)
_RANGES = 2_000
_NS, _FLAT = 20.0, 1.1
_FLAT_RANGES = 1.2

COLUMNS = {
    "partitions": "partitions",
    "what": "what",
    "ours": "A-Grid here",
    "scan": "plain scan of cells",
    "tree": "R-tree",
    "unit": "",
    "paper": "paper",
}


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Time the routing table of A-Grids of several sizes."""
    say("tornado7: routing of points and ranges")
    rng = np.random.default_rng(17)
    load = load_by(towns(rng, 400_000), squares_around(towns(rng, 4_000), 0.005))
    points = towns(rng, scale.count(400_000))
    rows: list[Row] = []
    for partitions in scale.partitions:
        table = agrid_table(load, partitions)
        tree = _tree(table)
        rows.append({"partitions": partitions, **_point_row(table, tree, points)})
        for side in _SIDES:
            boxes = squares_around(uniform(rng, _RANGES), side)
            rows.append({"partitions": partitions, **_range_row(table, tree, side, boxes)})
    notes = [
        f"An A-Grid of {SIDE} x {SIDE} cells; {_RANGES:,} ranges are looked up at once, by Tornado's "
        "neighbour routing, which grows with the touched partitions. The result has a flag for each slot, "
        "1,024 bytes a range at most."
    ]
    return [FigureResult("tornado7", "the cost of routing", COLUMNS, rows, _goals(rows, scale), notes)]


def _point_row(table: RoutingTable, tree: shapely.STRtree, points: Floats) -> Row:
    x, y = points.T
    hashes = hash_integers(np.arange(len(points)))
    some = points[: len(points) // 20]
    return {
        "what": "points",
        "ours": _timed(lambda: table.slots_of(x, y, hashes), len(points)),
        "tree": _timed(lambda: tree.query(shapely.points(some), "intersects"), len(some)),
        "unit": "ns each",
        "paper": "flat",
    }


def _range_row(table: RoutingTable, tree: shapely.STRtree, side: float, boxes: Floats) -> Row:
    regions = shapely.box(*boxes.T)
    few = boxes[:200]
    return {
        "what": f"ranges of {side:.1%} side",
        "ours": _timed(lambda: table.slots_touching(boxes), len(boxes)),
        "scan": _timed(lambda: _scanned(table, few), len(few)),
        "tree": _timed(lambda: tree.query(regions, "intersects"), len(boxes)),
        "unit": "ns each",
        "paper": "A-Grid first, flat",
    }


def _goals(rows: list[Row], scale: RoutingScale) -> list[Goal]:
    def of(what: str) -> list[float]:
        return [float(str(row["ours"])) for row in rows if str(row["what"]).startswith(what)]

    points = of("points")
    by_side = [of(f"ranges of {side:.1%}") for side in _SIDES]
    most = max(max(times) / min(times) for times in zip(*by_side, strict=True))
    grown = max(times[-1] / times[0] for times in by_side)
    found = [
        ("ns a point, the dearest", _NS, max(points)),
        ("points: dearest / cheapest table", _FLAT, max(points) / min(points)),
        ("ranges: dearest / cheapest side", _FLAT_RANGES, most),
        (f"ranges: {scale.partitions[-1]:,} / {scale.partitions[0]} partitions", _FLAT_RANGES, grown),
    ]
    return [Goal(what, "flat", wanted, value, least=False) for what, wanted, value in found]


def _tree(table: RoutingTable) -> shapely.STRtree:
    """Return an R-tree of the leaves."""
    boxes = np.array(boxes_of_leaves(table)) / table.cells.side
    return shapely.STRtree(shapely.box(boxes[:, 2], boxes[:, 0], boxes[:, 3], boxes[:, 1]))


def _scanned(table: RoutingTable, boxes: Floats) -> None:
    """Look at each cell of each box."""
    for low, high, left, right in table.cells.of_boxes(boxes).tolist():
        np.unique(table.owners[low:high, left:right])


def _timed(work: Callable[[], Any], count: int) -> float:
    """Return the thread time of a piece of work, of which there are some, ns: the least of seven."""
    times = []
    for _ in range(7):
        begun = thread_time_ns()
        work()
        times.append((thread_time_ns() - begun) / count)
    return min(times)
