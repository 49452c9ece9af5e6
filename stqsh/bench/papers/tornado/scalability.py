"""Tornado, Fig. 8: throughput by the ranges of queries, by their keywords, and by their number."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.bench.figures import Row, numbers_of
from stqsh.bench.harness.drive import Say
from stqsh.bench.harness.posts import made_posts
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.maps import hot_spots, squares_around
from stqsh.bench.papers.routing.trials import RoutingScale, Trial, measured
from stqsh.bench.papers.routing.world import load_by
from stqsh.routing.strategies import lay

_SLOTS = 8
_RECORDS, _SAMPLED = 50_000, 200_000


class _Queries(NamedTuple):
    """Their number, the side of their squares as a share of the space, and the words of each."""

    queries: int = 10_000
    side: float = 0.005
    words: int = 3


class _Part(NamedTuple):
    """What varies, what the paper reports, and the least rate of the last queries over that of the first."""

    varied: str
    paper: str
    wanted: float
    cases: list[_Queries]


_PARTS = (
    _Part("side", "flat", 0.8, [_Queries(side=side) for side in (0.0001, 0.001, 0.005, 0.015)]),
    _Part("words", "rises", 1.0, [_Queries(words=words) for words in (1, 3, 5, 7)]),
    _Part("queries", "falls slightly", 0.75, [_Queries(count) for count in (5_000, 10_000, 20_000, 40_000)]),
)

COLUMNS = {
    "varied": "varied",
    "queries": "queries",
    "side": "side of a square",
    "words": "words",
    "makespan_ms": "makespan ms",
    "rate": "records/s",
    "paper": "paper",
}


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Measure throughput of spatial-keyword queries on an A-Grid."""
    say("tornado8: ranges, keywords and numbers of queries")
    cases = list(dict.fromkeys(case for part in _PARTS for case in scale.some(part.cases)))
    found = measured([_trial(case, scale) for case in cases], scale)
    by_case = {case: each["agrid"] for case, each in zip(cases, found, strict=True)}
    rows: list[Row] = []
    goals = []
    for part in _PARTS:
        mine: list[Row] = [
            {
                "varied": part.varied,
                "queries": scale.count(case.queries),
                "side": case.side,
                "words": case.words,
                "makespan_ms": by_case[case].makespan_ms,
                "rate": by_case[case].rate,
                "paper": part.paper,
            }
            for case in scale.some(part.cases)
        ]
        rates = numbers_of(mine, "rate")
        what = f"records/s by {part.varied}, last over first"
        goals.append(Goal(what, part.paper, part.wanted, rates[-1] / rates[0]))
        rows += mine
    notes = [
        f"{scale.count(_RECORDS):,} posts a batch at hot spots, {_SLOTS} slots; queries are where the posts "
        "are, for posts with all words of a phrase; words are drawn as they occur. The paper has 5 to 40 "
        "million queries on 50 evaluators."
    ]
    return [FigureResult("tornado8", "scalability", COLUMNS, rows, goals, notes)]


def _trial(case: _Queries, scale: RoutingScale) -> Trial:
    rng, posts = np.random.default_rng(13), made_posts()
    boxes = squares_around(hot_spots(rng, scale.count(case.queries)), case.side)
    phrases, _ = posts.queries(len(boxes), case.words, case.side)
    load = load_by(hot_spots(rng, scale.count(_SAMPLED)), boxes)
    tables = {"agrid": lay("agrid", load, _SLOTS)}
    return Trial(hot_spots, boxes, tables, scale.count(_RECORDS), posts=posts, phrases=phrases)
