"""Tornado, Fig. 7: what it costs to find the partitions of points and of ranges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import thread_time_ns
from typing import Any

import numpy as np
import shapely

from stqsh.arrays import Floats
from stqsh.bench.figures import Row
from stqsh.bench.harness.drive import Say
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.maps import squares_around, towns, uniform
from stqsh.bench.papers.routing.trials import RoutingScale
from stqsh.bench.papers.routing.world import SIDE, load_by
from stqsh.core.kernels.index.hashing import hash_integers
from stqsh.routing.strategies import agrid_table, boxes_of_leaves
from stqsh.routing.table import RoutingTable

_SIDES = (0.001, 0.005, 0.01, 0.05)
_RANGES = 2_000
_NS, _FLAT = 20.0, 1.1
_FLAT_RANGES = 1.2
_TURNS = 15

_OURS = "ours"

COLUMNS = {
    "partitions": "partitions",
    "what": "what",
    "touched": "partitions each",
    _OURS: "A-Grid here",
    "a_partition": "a partition",
    "scan": "plain scan of cells",
    "tree": "R-tree",
    "unit": "",
    "paper": "paper",
}


@dataclass
class _Timed:
    """A row of the figure, and what is timed for it.

    Attributes:
        row: what is known of the row without timing.
        touched: the partitions that a point or a range touches, in the mean.
        works: by column, a piece of work, and of how many lookups it is.
        ns: by column, the thread time of a lookup.
    """

    row: Row
    touched: float
    works: dict[str, tuple[Callable[[], Any], int]]
    ns: dict[str, float] = field(default_factory=dict)

    @property
    def whole(self) -> Row:
        """The row with all that was timed."""
        return {**self.row, **self.ns, "touched": self.touched, "a_partition": self.ns[_OURS] / self.touched}


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Time the routing table of A-Grids of several sizes."""
    say("tornado7: routing of points and ranges")
    rng = np.random.default_rng(17)
    load = load_by(towns(rng, 400_000), squares_around(towns(rng, 4_000), 0.005))
    points = towns(rng, scale.count(400_000))
    timed: list[_Timed] = []
    for partitions in scale.partitions:
        table = agrid_table(load, partitions)
        tree = _tree(table)
        timed.append(_point_row(table, tree, points))
        for side in _SIDES:
            boxes = squares_around(uniform(rng, _RANGES), side)
            timed.append(_range_row(table, tree, side, boxes))
    _time_in_turns(timed)
    rows = [one.whole for one in timed]
    notes = [
        f"An A-Grid of {SIDE} x {SIDE} cells; {_RANGES:,} ranges are looked up at once, by Tornado's "
        "neighbour routing, which grows with the touched partitions. The result has a flag for each slot, "
        "1,024 bytes a range at most."
    ]
    return [FigureResult("tornado7", "the cost of routing", COLUMNS, rows, _goals(rows, scale), notes)]


def _point_row(table: RoutingTable, tree: shapely.STRtree, points: Floats) -> _Timed:
    x, y = points.T
    hashes = hash_integers(np.arange(len(points)))
    some = points[: len(points) // 20]
    return _Timed(
        {"partitions": table.slots, "what": "points", "unit": "ns each", "paper": "flat"},
        1.0,
        {
            _OURS: (lambda: table.slots_of(x, y, hashes), len(points)),
            "tree": (lambda: tree.query(shapely.points(some), "intersects"), len(some)),
        },
    )


def _range_row(table: RoutingTable, tree: shapely.STRtree, side: float, boxes: Floats) -> _Timed:
    regions = shapely.box(*boxes.T)
    few = boxes[:200]
    row: Row = {
        "partitions": table.slots,
        "what": f"ranges of {side:.1%} side",
        "unit": "ns each",
        "paper": "A-Grid first, flat",
    }
    return _Timed(
        row,
        float(table.slots_touching(boxes).sum()) / len(boxes),
        {
            _OURS: (lambda: table.slots_touching(boxes), len(boxes)),
            "scan": (lambda: _scanned(table, few), len(few)),
            "tree": (lambda: tree.query(regions, "intersects"), len(boxes)),
        },
    )


def _goals(rows: list[Row], scale: RoutingScale) -> list[Goal]:
    def of(what: str, column: str) -> list[float]:
        return [float(str(row[column])) for row in rows if str(row["what"]).startswith(what)]

    points = of("points", _OURS)
    # A range costs the more the more partitions it touches, so it is the time for one of these that stays.
    by_side = [of(f"ranges of {side:.1%}", "a_partition") for side in _SIDES]
    grown_by_side = max(large / small for small, large in zip(by_side[0], by_side[-1], strict=True))
    grown = max(times[-1] / times[0] for times in by_side)
    sides = f"{_SIDES[-1]:.0%} / {_SIDES[0]:.1%} side"
    found = [
        ("ns a point, the dearest", _NS, max(points)),
        ("points: dearest / cheapest table", _FLAT, max(points) / min(points)),
        (f"ranges, a touched partition: {sides}", _FLAT_RANGES, grown_by_side),
        (
            f"ranges, a touched partition: {scale.partitions[-1]:,} / {scale.partitions[0]} partitions",
            _FLAT_RANGES,
            grown,
        ),
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


def _time_in_turns(timed: list[_Timed]) -> None:
    """Note the thread time of lookups: the least of several turns with all pieces of work."""
    for _ in range(_TURNS):
        for one in timed:
            for column, (work, count) in one.works.items():
                work()  # finds its data in the processor's caches when it is timed
                begun = thread_time_ns()
                work()
                took = (thread_time_ns() - begun) / count
                one.ns[column] = min(took, one.ns.get(column, took))
