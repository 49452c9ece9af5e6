"""SSTD, Fig. 7: snapshots and continuous queries of posts with words, by how posts are distributed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stqsh.bench.figures import Row
from stqsh.bench.harness.drive import Say
from stqsh.bench.harness.posts import made_posts
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.maps import FOUR_MAPS, Places, squares_around
from stqsh.bench.papers.routing.trials import RoutingScale, Trial, measured
from stqsh.bench.papers.routing.world import load_by
from stqsh.bench.papers.sstd.snapshots import asked, in_squares
from stqsh.routing.strategies import lay

_SLOTS, _ROUTING = 8, "quadtree"
_POSTS, _SAMPLED, _QUERIES, _ASKED = 50_000, 200_000, 4_000, 20
_SIDES, _SIDE = (0.001, 0.01, 0.1), 0.01
_EVEN, _SKEWED = "uniform", "hot spots"

COLUMNS = {
    "map": "posts are",
    **{f"ms{side}": f"snapshot, {side * side:.4%}, ms" for side in _SIDES},
    "rate": "records/s",
    "measured": "max/mean",
    "paper": "paper",
}


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Measure snapshots and continuous queries under each distribution."""
    say("sstd7: distributions of posts")
    trials = {name: _trial(places, scale) for name, places in FOUR_MAPS.items()}
    rates = dict(zip(trials, measured([*trials.values()], scale), strict=True))
    rows: list[Row] = []
    for name, trial in trials.items():
        count = scale.count(_ASKED, 4)
        groups = [in_squares(_with_side(trial, side), count) for side in _SIDES]
        took = [each[_ROUTING].longest for each in asked(trial, groups, scale)]
        rows.append(
            {
                "map": name,
                **{f"ms{side}": longest for side, longest in zip(_SIDES, took, strict=True)},
                "rate": rates[name][_ROUTING].rate,
                "measured": rates[name][_ROUTING].ratio,
                "paper": {_EVEN: "fastest", _SKEWED: "slowest"}.get(name, ""),
            }
        )
    rate = {name: found[_ROUTING].rate for name, found in rates.items()}
    goals = [Goal("records/s, hot spots over uniform", "less than 1", 0.5, rate[_SKEWED] / rate[_EVEN])]
    notes = [
        f"{scale.count(_POSTS):,} posts a batch over {_SLOTS} slots, dealt by a {_ROUTING}; "
        f"{scale.count(_QUERIES):,} continuous queries for words in squares of {_SIDE:.0%} side where the "
        "posts are. Times of snapshots are those of the slot that takes longest. The paper has two years of "
        "tweets, and made ones."
    ]
    return [FigureResult("sstd7", "distributions of posts", COLUMNS, rows, goals, notes)]


def _trial(places: Places, scale: RoutingScale) -> Trial:
    rng, posts = np.random.default_rng(17), made_posts()
    boxes = squares_around(places(rng, scale.count(_QUERIES)), _SIDE)
    phrases, _ = posts.queries(len(boxes), 1, _SIDE)
    load = load_by(places(rng, scale.count(_SAMPLED)), boxes)
    tables = {_ROUTING: lay(_ROUTING, load, _SLOTS)}
    return Trial(places, boxes, tables, scale.count(_POSTS), posts=posts, phrases=phrases)


def _with_side(trial: Trial, side: float) -> Trial:
    """Return a trial with squares of another side around the same places."""
    centres = trial.boxes.reshape(-1, 2, 2).mean(axis=1)
    return replace(trial, boxes=squares_around(centres, side))
