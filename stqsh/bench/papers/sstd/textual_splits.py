"""SSTD, Fig. 11: range keyword queries under a QT-tree with and without textual splits, and an A-Grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import thread_time_ns
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stqsh.arrays import Floats
from stqsh.bench.figures import Row
from stqsh.bench.harness.drive import Say
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.maps import hot_spots, squares_around
from stqsh.bench.papers.routing.trials import Measured, RoutingScale, Trial, measured
from stqsh.bench.papers.routing.world import POSTS, load_by, range_queries, records
from stqsh.routing.load import Load
from stqsh.routing.slot_terms import sought_terms
from stqsh.routing.strategies import STRATEGIES
from stqsh.routing.table import RoutingTable
from stqsh.routing.text_leaves import TextTerms
from stqsh.routing.text_splits import TextSample

SLOTS, _QUERIES, _SIDES = 8, 4_000, (0.01, 0.1)
_SAMPLE, _TRIED = 50_000, 20_000
_VOCABULARY, _LENGTH, _TOPICS = 50_000, 10, 8

COLUMNS = {
    "texts": "texts",
    "side": "side of queries",
    "routing": "routing",
    "split": "leaves split by texts",
    "copies": "slots a query",
    "measured": "max/mean",
    "makespan_ms": "makespan ms",
    "gain": "times agrid",
    "dealing": "dealing, µs a record",
    "paper": "paper",
}

Words = NDArray[np.int64]
Topics = Callable[[np.random.Generator, Floats], Words]
"""Draws a topic for each place: int64 (n,)."""


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Measure throughput for texts that are alike everywhere, and that have topics by place or anywhere."""
    cases = [(name, side) for name in scale.some(list(TEXTS)) for side in scale.some(_SIDES)]
    say("sstd11: texts and routings")
    trials = [trial_of(TEXTS[name], side, scale) for name, side in cases]
    rows: list[Row] = []
    goals = []
    for (name, side), trial, found in zip(cases, trials, measured(trials, scale), strict=True):
        agrid = found[AGRID].makespan_ms
        rows += [_row(name, side, routing, trial, each, agrid) for routing, each in found.items()]
        gain = agrid / found[SPLIT].makespan_ms
        goals.append(Goal(f"{SPLIT} over agrid, {name}, {side:.0%}", "+15 to 20 %", 1.15, gain))
    notes = [
        f"{len(trials[0].boxes):,} squares where the records are, each for one word; texts have {_LENGTH} "
        f"words by Zipf's law of {_VOCABULARY:,}, or of as many in {_TOPICS} topics. "
        "Dealing is done at the source."
    ]
    return [FigureResult("sstd11", "Textual splits for keyword queries", COLUMNS, rows, goals, notes)]


AGRID, SPLIT = "agrid", "qttree, by texts too"


def _alike(rng: np.random.Generator, places: Floats) -> Words:
    return np.zeros(len(places), np.int64)


def _by_place(rng: np.random.Generator, places: Floats) -> Words:
    """Draw the topic of a block of places, or one of a post in five any topic."""
    topics = (places[:, 0] * 7).astype(np.int64) * 3 + (places[:, 1] * 7).astype(np.int64)
    return np.where(rng.random(len(places)) < 0.8, topics % _TOPICS, rng.integers(0, _TOPICS, len(places)))


def _anywhere(rng: np.random.Generator, places: Floats) -> Words:
    return rng.integers(0, _TOPICS, len(places))


TEXTS: dict[str, Topics] = {
    "alike": _alike,
    "topics by place": _by_place,
    "topics anywhere": _anywhere,
}


def _words(rng: np.random.Generator, topics: Words, length: int) -> Words:
    """Draw words of topics by Zipf's law: int64 (n, length); those of a topic are in its part of all."""
    size = _VOCABULARY if not topics.any() else _VOCABULARY // _TOPICS
    ranks = np.exp(rng.random((len(topics), length)) * np.log(size + 1)).astype(np.int64) - 1
    words: Words = topics[:, None] * size + np.minimum(ranks, size - 1)
    return words


def _texts(topics: Topics) -> Callable[[np.random.Generator, Floats], pa.Array[Any]]:
    """Return what draws texts for places."""
    vocabulary: Any = pa.array([f"w{number}" for number in range(_VOCABULARY)])

    def draw(rng: np.random.Generator, places: Floats) -> pa.Array[Any]:
        drawn: Any = pa.array(_words(rng, topics(rng, places), _LENGTH).ravel())
        starts: Any = pa.array(np.arange(len(places) + 1, dtype=np.int32) * _LENGTH)
        joined: Any = pc.binary_join(pa.ListArray.from_arrays(starts, vocabulary.take(drawn)), " ")
        found: pa.Array[Any] = joined
        return found

    return draw


def phrases_at(rng: np.random.Generator, topics: Topics, places: Floats, words: int) -> list[str]:
    """Draw some words that a post at each place may have."""
    drawn = _words(rng, topics(rng, places), words)
    return [" ".join(f"w{word}" for word in each) for each in drawn.tolist()]


def trial_of(
    topics: Topics, side: float, scale: RoutingScale, count: int = 100_000, queries: int = _QUERIES
) -> Trial:
    """Return texts and queries for a word each in squares of a side, and the routings made for them.

    There are as many records a batch, and queries, as given, of a full run.
    """
    rng = np.random.default_rng(11)
    centres, places = hot_spots(rng, scale.count(queries)), hot_spots(rng, scale.count(_SAMPLE))
    boxes, draw = squares_around(centres, side), _texts(topics)
    phrases = phrases_at(rng, topics, centres, 1)
    load = load_by(places, boxes)
    split = replace(load, texts=_sample(load, places, draw(rng, places), boxes, phrases))
    tables = {name: STRATEGIES[name](load, SLOTS) for name in ("object", AGRID, "quadtree", "qttree")}
    tables[SPLIT] = STRATEGIES["qttree"](split, SLOTS)
    return Trial(hot_spots, boxes, tables, scale.count(count), texts=draw, phrases=phrases)


def _sample(
    load: Load, places: Floats, texts: pa.Array[Any], boxes: Floats, phrases: list[str]
) -> TextSample:
    sought = sought_terms([range_queries(boxes, phrases)], POSTS)
    cells, terms = load.cells, TextTerms.of(texts).among(sought.term)
    return TextSample(cells, cells.of_places(*places.T), terms, cells.of_boxes(boxes), sought)


def _row(name: str, side: float, routing: str, trial: Trial, each: Measured, agrid: float) -> Row:
    table = trial.tables[routing]
    return {
        "texts": name,
        "side": f"{side:.0%}",
        "routing": routing,
        "split": 0 if table.texts is None else len(table.texts),
        "copies": each.copies,
        "measured": each.ratio,
        "makespan_ms": each.makespan_ms,
        "gain": agrid / each.makespan_ms,
        "dealing": _dealing_us(table, trial),
        "paper": "1.15 to 1.2" if routing == SPLIT else "",
    }


def _dealing_us(table: RoutingTable, trial: Trial) -> float:
    """Return the thread time of dealing a record, µs."""
    rng = np.random.default_rng(5)
    places = hot_spots(rng, _TRIED)
    drawn = records(1, places, trial.texts(rng, places) if trial.texts is not None else None)
    spent = []
    for _ in range(5):
        begun = thread_time_ns()
        table.slots_of(places[:, 0], places[:, 1], drawn.hashes, drawn.batch.column("body"))
        spent.append(thread_time_ns() - begun)
    return float(np.median(spent)) / _TRIED / 1000
