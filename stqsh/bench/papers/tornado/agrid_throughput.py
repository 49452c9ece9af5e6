"""Tornado, Fig. 6a and b: A-Grid against equal blocks, for range queries and for keyword queries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stqsh.bench.figures import Row
from stqsh.bench.harness.drive import Say
from stqsh.bench.harness.posts import made_posts
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.baselines import uniform_blocks
from stqsh.bench.papers.routing.maps import hot_spots, squares_around
from stqsh.bench.papers.routing.trials import RoutingScale, Trial, measured, modelled_ratio
from stqsh.bench.papers.routing.world import load_by
from stqsh.routing.load import Load
from stqsh.routing.strategies import STRATEGIES
from stqsh.routing.table import RoutingTable

_SLOTS, _MANY = 8, 64
_QUERIES, _SIDE = 4_000, 0.005

COLUMNS = {
    "queries": "queries",
    "slots": "slots",
    "routing": "routing",
    "modelled": "max/mean, modelled",
    "measured": "measured",
    "makespan_ms": "makespan ms",
    "rate": "records/s",
    "gain": "times uniform blocks",
    "paper": "paper",
}


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Measure throughput under hot spots."""
    rng = np.random.default_rng(11)
    posts = made_posts()
    boxes = squares_around(hot_spots(rng, _QUERIES), _SIDE)
    phrases, _ = posts.queries(len(boxes), 0, _SIDE)
    load = load_by(hot_spots(rng, 200_000), boxes)
    ranges = Trial(hot_spots, boxes, _tables(load, _SLOTS), scale.count(200_000))
    keywords = replace(ranges, posts=posts, phrases=phrases, count=scale.count(150_000))
    say("tornado6: range and keyword queries")
    rows: list[Row] = []
    goals = []
    for name, trial, found in zip(
        ("range", "keyword"), (ranges, keywords), measured([ranges, keywords], scale), strict=True
    ):
        slowest = found["uniform blocks"].makespan_ms
        for routing, each in found.items():
            rows.append(
                {
                    "queries": name,
                    "slots": _SLOTS,
                    "routing": routing,
                    "modelled": modelled_ratio(trial.tables[routing], load),
                    "measured": each.ratio,
                    "makespan_ms": each.makespan_ms,
                    "rate": each.rate,
                    "gain": slowest / each.makespan_ms,
                    "paper": "> 2" if routing == "agrid" else "",
                }
            )
        gain = slowest / found["agrid"].makespan_ms
        goals.append(Goal(f"agrid over uniform blocks, {name} queries, measured", "> 2", 2.0, gain))
    rows += _modelled(load)
    notes = [
        f"{_QUERIES:,} squares of {_SIDE:.1%} side where the records are; keyword queries also ask for one "
        f"to three words. {_MANY} slots are modelled, by a model that knows no words. Text routing is not "
        "built."
    ]
    return [FigureResult("tornado6", "A-Grid against equal blocks", COLUMNS, rows, goals, notes)]


def _tables(load: Load, slots: int) -> dict[str, RoutingTable]:
    laid = {"object": STRATEGIES["object"], "uniform blocks": uniform_blocks, "agrid": STRATEGIES["agrid"]}
    return {name: lay(load, slots) for name, lay in laid.items()}


def _modelled(load: Load) -> list[Row]:
    ratios = {name: modelled_ratio(table, load) for name, table in _tables(load, _MANY).items()}
    return [
        {
            "queries": "modelled",
            "slots": _MANY,
            "routing": name,
            "modelled": ratio,
            "gain": ratios["uniform blocks"] / ratio,
            "paper": "> 2" if name == "agrid" else "",
        }
        for name, ratio in ratios.items()
    ]
