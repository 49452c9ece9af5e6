"""Tornado, Fig. 10: throughput by the number of routing units.

Routing units deal records to slots, each an equal part of a batch, as if each had a processor of its own.
Their time and that of slots is measured; the rate is that of the slower of both.
"""

from __future__ import annotations

from time import thread_time_ns

import numpy as np

from stqsh.bench.figures import Row
from stqsh.bench.harness.drive import Say
from stqsh.bench.harness.posts import made_posts
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.driven_slots import DrivenSlots
from stqsh.bench.papers.routing.maps import hot_spots, squares_around
from stqsh.bench.papers.routing.trials import RoutingScale, Trial, measured
from stqsh.bench.papers.routing.world import load_by
from stqsh.routing.strategies import lay

_SLOTS = (8, 50)
_UNITS = (1, 2, 5, 10, 20)
_RECORDS, _SAMPLED, _QUERIES, _SIDE, _WORDS = 200_000, 200_000, 10_000, 0.005, 3
_TURNS = 5
_SATURATED = 10
"""The routing units after which the paper's throughput no longer rises."""
_FLAT = 1.1
"""A rate that is less than this times another is no more than that."""

COLUMNS = {
    "slots": "slots",
    "units": "routing units",
    "routing_ms": "a unit, ms",
    "makespan_ms": "slowest slot, ms",
    "rate": "records/s",
    "gain": "times one unit",
    "paper": "paper",
}


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Measure routing units and slots, and which of them bound the throughput."""
    rows: list[Row] = []
    goals = []
    for slots in _SLOTS:
        if slots > scale.most_slots:
            continue
        say(f"tornado10: {slots} slots")
        trial = _trial(slots, scale)
        [found] = measured([trial], scale)
        makespan_ms = found["agrid"].makespan_ms
        routing_ms = {units: _routing_ms(trial, units) for units in _UNITS}
        rates = {units: trial.count / max(took, makespan_ms) * 1e3 for units, took in routing_ms.items()}
        rows += [
            {
                "slots": slots,
                "units": units,
                "routing_ms": routing_ms[units],
                "makespan_ms": makespan_ms,
                "rate": rate,
                "gain": rate / rates[1],
                "paper": "rises" if units <= _SATURATED else "flat",
            }
            for units, rate in rates.items()
        ]
        enough = min(units for units, rate in rates.items() if _FLAT * rate >= max(rates.values()))
        what = f"routing units from which records/s no longer rise, {slots} slots"
        goals.append(Goal(what, str(_SATURATED), _SATURATED, enough, least=False))
    notes = [
        f"{trial.count:,} posts a batch at hot spots, {len(trial.boxes):,} queries for {_WORDS} words in "
        f"squares of {_SIDE:.1%} side, agrid. A unit finds the slot of each record and splits its part of "
        f"the batch by slots; the least of {_TURNS} turns. Nothing goes through a network."
    ]
    return [FigureResult("tornado10", "throughput by routing units", COLUMNS, rows, goals, notes)]


def _trial(slots: int, scale: RoutingScale) -> Trial:
    rng, posts = np.random.default_rng(15), made_posts()
    boxes = squares_around(hot_spots(rng, scale.count(_QUERIES)), _SIDE)
    phrases, _ = posts.queries(len(boxes), _WORDS, _SIDE)
    load = load_by(hot_spots(rng, scale.count(_SAMPLED)), boxes)
    tables = {"agrid": lay("agrid", load, slots)}
    return Trial(hot_spots, boxes, tables, scale.count(_RECORDS), posts=posts, phrases=phrases)


def _routing_ms(trial: Trial, units: int) -> float:
    """Return the thread time in which a routing unit deals its part of a batch, ms."""
    [driven] = trial.driven().values()
    return min(_dealing_ms(driven, trial, units) for _ in range(_TURNS))


def _dealing_ms(driven: DrivenSlots, trial: Trial, units: int) -> float:
    drawn = trial.drawn(1, np.random.default_rng(16), -(-trial.count // units))
    begun = thread_time_ns()
    driven.dealt(drawn)
    return (thread_time_ns() - begun) / 1e6
