"""A hot spot that goes round: strategies that stay as they are, and those that follow it.

They are adjusted as SET balance = auto does once it follows a stream, with a look at each window.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stqsh.arrays import Floats
from stqsh.bench.figures import Row
from stqsh.bench.harness.drive import Say
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.driven_slots import DrivenSlots
from stqsh.bench.papers.routing.maps import ROUND, orbiting, squares_around
from stqsh.bench.papers.routing.trials import RoutingScale, check_answers, modelled_ratio
from stqsh.bench.papers.routing.world import EVENTS, load_by, range_queries, records
from stqsh.engine.delivery.balancer import AHEAD
from stqsh.routing.adjusters.adjuster_choice import even_out, moved_queries
from stqsh.routing.load import Load, balance_of
from stqsh.routing.strategies import STRATEGIES

_SLOTS, _CELLS = 16, 128
_QUERIES = 4_000
_LIMIT = 1.3
_AUTO = "auto"
_EVEN, _MOVED, _COPIES = 1.5, 0.02, 1.5
_ADJUSTED = ("grid", "agrid", "quadtree", "qttree")

COLUMNS = {
    "strategy": "strategy",
    "adjusted": "adjusted",
    "modelled": "max/mean, modelled",
    "worst": "worst",
    "measured": "measured",
    "changes": "changes",
    "by": "by",
    "moved": "queries moved a window",
    "copies": "copies of a query",
    "makespan_ms": "makespan ms",
}


@dataclass
class Follower:
    """Slots under a strategy, and what each window brought.

    Attributes:
        is_adjusted: whether the routing is adjusted.
        modelled: max/mean of the window's load under the routing of the window, by the model.
        spent: thread time of each slot in each window, ns.
        moved: the share of queries that each change moved.
        by: the adjusters that made the changes.
        seen: the load of the window before.
    """

    strategy: str
    slots: DrivenSlots
    is_adjusted: bool
    modelled: list[float] = field(default_factory=list)
    spent: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = field(default_factory=list)
    moved: list[float] = field(default_factory=list)
    by: list[str] = field(default_factory=list)
    seen: Load | None = None

    def look(self, load: Load) -> None:
        """Look at the load of a window, and adjust the routing if it is due."""
        table = self.slots.table
        self.modelled.append(modelled_ratio(table, load))
        if not self.is_adjusted:
            return
        expected = load if self.seen is None else load.ahead(self.seen, AHEAD)
        self.seen = load
        if self.modelled[-1] <= _LIMIT:
            return
        adjusted, used = even_out(table, expected, _LIMIT)
        if used:
            self.moved.append(moved_queries(table, adjusted, load))
            self.by += used
            self.slots.route(adjusted)

    def row(self) -> Row:
        """Sum up all windows but the first, which registers queries."""
        spent = np.array(self.spent[1:])
        ratios = [balance_of(each.astype(np.float64)).ratio for each in spent]
        return {
            "strategy": self.strategy,
            "adjusted": _AUTO if self.is_adjusted else "-",
            "modelled": float(np.mean(self.modelled[1:])),
            "worst": max(self.modelled[1:]),
            "measured": float(np.median(ratios)),
            "changes": len(self.moved),
            "by": ", ".join(f"{self.by.count(name)} {name}" for name in sorted(set(self.by))),
            "moved": sum(self.moved) / len(spent),
            "copies": self.slots.copies,
            "makespan_ms": float(np.median(spent.max(axis=1))) / 1e6,
        }


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Follow the hot spot for some windows."""
    rng = np.random.default_rng(5)
    count = scale.count(160_000)
    boxes = squares_around(rng.random((_QUERIES, 2)), 1 / _CELLS)
    followers = _followers(load_by(orbiting(rng, count, 0), boxes, _CELLS), boxes)
    for window in range(scale.windows):
        if window % 12 == 0:
            say(f"orbit: window {window} of {scale.windows}")
        drawn = records(window + 1, orbiting(rng, count, window))
        load = load_by(drawn.places, boxes, _CELLS)
        for at in rng.permutation(len(followers)).tolist():
            follower = followers[at]
            follower.spent.append(follower.slots.take(drawn, rng))
            follower.look(load)
    check_answers({f"{each.strategy} {each.is_adjusted}": each.slots for each in followers})
    rows = [follower.row() for follower in followers]
    notes = [
        f"{_SLOTS} slots, {scale.windows} windows of one batch, of which {ROUND} are a round. SET balance = "
        "auto looks at the load of each window, and adjusts the routing to the load that is coming if "
        f"max/mean is above {_LIMIT} in the model. Measured: the median "
        "over windows, each a single sample, so that the noise of the machine is part of it; object, which "
        "deals by hash, shows how much."
    ]
    return [FigureResult("orbit", "a hot spot that goes round", COLUMNS, rows, _goals(rows), notes)]


def _followers(load: Load, boxes: Floats) -> list[Follower]:
    queries = range_queries(boxes)
    wanted = [("object", False), *((name, on) for name in _ADJUSTED for on in (False, True))]
    return [
        Follower(name, DrivenSlots(STRATEGIES[name](load, _SLOTS), EVENTS, queries, boxes), on)
        for name, on in wanted
    ]


def _goals(rows: list[Row]) -> list[Goal]:
    judged = (
        ("modelled", _EVEN, "max/mean, modelled"),
        ("measured", _EVEN, "max/mean, measured"),
        ("moved", _MOVED, "share of queries moved a window"),
        ("copies", _COPIES, "copies of a query"),
    )
    return [
        Goal(f"{row['strategy']}: {words}", "-", wanted, float(str(row[key])), least=False)
        for row in rows
        if row["adjusted"] == _AUTO
        for key, wanted, words in judged
    ]
