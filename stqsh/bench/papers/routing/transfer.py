"""Tornado's Cr > Ct: whether a change must save more in a window than moving its queries costs (section 4.2).

A hot spot goes round, and the routing follows it, with and without that condition. By the model; what counts
is the time of the longest slot and of the moves together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stqsh.arrays import Floats
from stqsh.bench.figures import Row
from stqsh.bench.harness.drive import Say
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.maps import orbiting, squares_around
from stqsh.bench.papers.routing.trials import RoutingScale, modelled_ratio
from stqsh.bench.papers.routing.world import load_by
from stqsh.engine.delivery.balancer import AHEAD
from stqsh.routing.adjusters import ADJUSTERS
from stqsh.routing.adjusters.adjuster_choice import even_out
from stqsh.routing.load import Load, slot_loads
from stqsh.routing.strategies import STRATEGIES
from stqsh.routing.table import RoutingTable

BETA = 11.0
"""The time to move a query, in that of records: 52 ms for 10,000 queries, see the benchmark handover."""
_SLOTS, _CELLS, _LIMIT = 16, 128, 1.3
_QUERIES = (4_000, 100_000)
_WAYS = (("grid", ""), ("agrid", ""), ("agrid", "splitmerge"), ("quadtree", ""))
_WORSE = 1.0

COLUMNS = {
    "strategy": "strategy",
    "by": "by",
    "queries": "queries",
    "beta": "beta",
    "modelled": "max/mean, modelled",
    "changes": "changes",
    "waived": "not worth it",
    "added": "queries added a window",
    "together": "longest slot and moves, records",
}


@dataclass
class _Follower:
    """A routing that follows the spot; `beta` is what a change has to outweigh, 0 for nothing."""

    table: RoutingTable
    adjuster: str
    boxes: Floats
    beta: float
    seen: Load | None = None
    ratio: float = 0.0
    longest: float = 0.0
    changes: int = 0
    waived: int = 0
    added: int = 0

    def look(self, load: Load) -> None:
        """Take a window, and change the routing after it if that is due and pays off."""
        self.longest += float(slot_loads(self.table, load.cost).max())
        ratio = modelled_ratio(self.table, load)
        self.ratio += ratio
        expected, self.seen = (load if self.seen is None else load.ahead(self.seen, AHEAD)), load
        new = None if ratio <= _LIMIT else self._changed(expected)
        if new is None:
            return
        touched, known = new.slots_touching(self.boxes), self.table.slots_touching(self.boxes)
        added = int(np.count_nonzero(touched & ~known))
        loads = (slot_loads(table, expected.cost).max() for table in (self.table, new))
        before, after = map(float, loads)
        if before - after <= self.beta * added:
            self.waived += 1
            return
        self.table, self.changes, self.added = new, self.changes + 1, self.added + added

    def _changed(self, load: Load) -> RoutingTable | None:
        if self.adjuster:
            goal = 1 + (_LIMIT - 1) / 2
            return ADJUSTERS[self.adjuster].propose(self.table, load, goal, self.beta)
        table, used = even_out(self.table, load, _LIMIT, self.beta)
        return table if used else None


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Follow the spot for some windows with and without the condition."""
    rows: list[Row] = []
    for queries in _QUERIES:
        say(f"transfer: {queries:,} queries")
        rows += _rows(scale, queries)
    notes = [
        f"{_SLOTS} slots, {scale.windows} windows. Moving a query costs the time of {BETA:g} records, also "
        "without the condition (beta 0)."
    ]
    return [FigureResult("transfer", "changes that must pay off", COLUMNS, rows, _goals(rows), notes)]


def _rows(scale: RoutingScale, queries: int) -> list[Row]:
    rng = np.random.default_rng(5)
    boxes, count = squares_around(rng.random((queries, 2)), 1 / _CELLS), scale.count(160_000)
    first = load_by(orbiting(rng, count, 0), boxes, _CELLS)
    every = [
        (strategy, _Follower(STRATEGIES[strategy](first, _SLOTS), adjuster, boxes, beta))
        for strategy, adjuster in _WAYS
        for beta in (0.0, BETA)
    ]
    for window in range(scale.windows):
        load = load_by(orbiting(rng, count, window), boxes, _CELLS)
        for _, follower in every:
            follower.look(load)
    return [
        {
            "strategy": strategy,
            "by": one.adjuster or "the ladder",
            "queries": queries,
            "beta": one.beta,
            "modelled": one.ratio / scale.windows,
            "changes": one.changes,
            "waived": one.waived,
            "added": one.added / scale.windows,
            "together": (one.longest + BETA * one.added) / scale.windows,
        }
        for strategy, one in every
    ]


def _goals(rows: list[Row]) -> list[Goal]:
    pairs = zip(rows[::2], rows[1::2], strict=True)
    ratios = [float(str(weighed["together"])) / float(str(free["together"])) for free, weighed in pairs]
    half = len(ratios) // 2
    return [
        Goal(
            f"{queries:,} queries: time with Cr > Ct over time without, worst",
            "-",
            _WORSE,
            max(some),
            least=False,
        )
        for queries, some in zip(_QUERIES, (ratios[:half], ratios[half:]), strict=True)
    ]
