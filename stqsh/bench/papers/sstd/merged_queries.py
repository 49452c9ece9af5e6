"""SSTD, section 7.4, Fig. 12: continuous queries whose slots' partials are merged, under routings.

These are the nearest posts that have some words (CKQ), by the number of the words, and the commonest terms in
a square, in a window (CTQ), by the area of the square. Where a post has to be for a CKQ is known only when
all slots' candidates are together: such queries are on all slots, as in SSTD, under any routing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stqsh.bench.figures import Row
from stqsh.bench.harness.drive import Say
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.trials import Measured, RoutingScale, Trial, measured
from stqsh.bench.papers.routing.world import RANGE_QUERY, SECOND
from stqsh.bench.papers.sstd.textual_splits import AGRID, SLOTS, SPLIT, TEXTS, phrases_at, trial_of
from stqsh.spec.aggregate import AggregateSpec, GroupOutput, Measure, measure_column
from stqsh.spec.expression import ColumnExpr
from stqsh.spec.query import Members, Result, SlotQuery, Timing
from stqsh.spec.region import NearestSpec

_TEXTS, _K, _WORDS, _SIDES = "topics anywhere", 10, (1, 3), (0.01, 0.1)
_NEAREST, _TERMS = "nearest", "terms"
_POSTS, _QUERIES = {_NEAREST: 20_000, _TERMS: 10_000}, {_NEAREST: 500, _TERMS: 50}

COLUMNS = {
    "queries": "queries",
    "words": "words",
    "area": "area",
    "routing": "routing",
    "copies": "slots a query",
    "measured": "max/mean",
    "makespan_ms": "makespan ms",
    "gain": "times agrid",
    "merging_ms": "merging ms",
    "both": "with merging, times agrid",
    "paper": "paper",
}


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Measure the throughput of both kinds of queries, and what merging takes."""
    say("sstd12: texts and routings")
    nearest = _trial(_NEAREST, _SIDES[0], scale)
    cases: list[tuple[Row, Trial]] = [
        ({"queries": _NEAREST, "words": words}, _nearest(nearest, words)) for words in scale.some(_WORDS)
    ]
    cases += [
        ({"queries": _TERMS, "area": f"{side * side:.2%}"}, _terms(side, scale))
        for side in scale.some(_SIDES)
    ]
    rows: list[Row] = []
    goals = []
    for (about, _), found in zip(cases, measured([trial for _, trial in cases], scale), strict=True):
        rows += [_row(about, routing, found) for routing in found]
        what = ", ".join(f"{key} {value}" for key, value in about.items())
        gain = found[AGRID].makespan_ms / found[SPLIT].makespan_ms
        goals.append(Goal(f"{SPLIT} over agrid, {what}", "first", 1.15, gain))
    return [FigureResult("sstd12", "Continuous neighbours and terms", COLUMNS, rows, goals, [_note(scale)])]


def _trial(kind: str, side: float, scale: RoutingScale) -> Trial:
    trial = trial_of(TEXTS[_TEXTS], side, scale, _POSTS[kind])
    return replace(trial, boxes=trial.boxes[: scale.count(_QUERIES[kind], 5)])


def _nearest(trial: Trial, words: int) -> Trial:
    places = trial.boxes[:, :2] + _SIDES[0] / 2
    phrases = phrases_at(np.random.default_rng(12), TEXTS[_TEXTS], places, words)
    pattern = SlotQuery(kind="nearest", members=Members(region=NearestSpec(_K, 0.0, 0.0)))
    return replace(trial, phrases=phrases, pattern=pattern)


def terms_query(k: int) -> SlotQuery:
    """Return a query for the k commonest terms of the last second, told each second."""
    aggregates = AggregateSpec(
        measures=(Measure("topk", ColumnExpr("body"), "STRING", k),),
        select=(GroupOutput("topk", measure_column(0), "TOPK"),),
    )
    timing = Timing(sync_us=SECOND, window_us=SECOND)
    result = Result(aggregates=aggregates)
    return SlotQuery(kind="aggregate", members=RANGE_QUERY.members, result=result, timing=timing)


def _terms(side: float, scale: RoutingScale) -> Trial:
    return replace(_trial(_TERMS, side, scale), phrases=None, pattern=terms_query(_K))


def _row(about: Row, routing: str, found: dict[str, Measured]) -> Row:
    each, agrid = found[routing], found[AGRID]
    return {
        **about,
        "routing": routing,
        "copies": each.copies,
        "measured": each.ratio,
        "makespan_ms": each.makespan_ms,
        "gain": agrid.makespan_ms / each.makespan_ms,
        "merging_ms": each.merging_ms,
        "both": (agrid.makespan_ms + agrid.merging_ms) / (each.makespan_ms + each.merging_ms),
        "paper": "first" if routing == SPLIT else "",
    }


def _note(scale: RoutingScale) -> str:
    posts, queries = (
        [f"{scale.count(of[kind], least):,}" for kind in (_NEAREST, _TERMS)]
        for of, least in ((_POSTS, 100), (_QUERIES, 5))
    )
    return (
        f"{SLOTS} slots; {posts[0]} posts a batch and {queries[0]} queries for the {_K} nearest, {posts[1]} "
        f"and {queries[1]} for the {_K} commonest terms of the last batch, told after each. The routings are "
        "made for keyword queries in squares of that area, or of 0.01 %. Neighbours may be on any slot: "
        "each has all such queries. Aggregate merges in one piece here; the engine deals queries to as many "
        "slots. The updates that it gave are equal."
    )
