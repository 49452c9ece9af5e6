"""Tornado, Fig. 6c: textual summaries of queries whose words are more or less frequent."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from stqsh.arrays import Floats
from stqsh.bench.figures import Row
from stqsh.bench.harness.drive import Say
from stqsh.bench.harness.posts import PostSample, made_posts
from stqsh.bench.papers.figure import FigureResult, Goal
from stqsh.bench.papers.routing.driven_slots import DrivenSlots, Sift
from stqsh.bench.papers.routing.maps import squares_around, towns
from stqsh.bench.papers.routing.trials import Measured, RoutingScale, check_answers
from stqsh.bench.papers.routing.world import POSTS, load_by, range_queries, records
from stqsh.core.texts.tokenizer import coded_terms
from stqsh.engine.ingest.record_sieve import RecordSieve
from stqsh.routing.slot_terms import FOR_EVER, NeededTerms, SlotTerms
from stqsh.routing.strategies import agrid_table
from stqsh.routing.table import RoutingTable
from stqsh.spec.query_rows import QueryRows

_SLOTS, _QUERIES, _SIDE, _WORDS = 8, 4_000, 0.005, 3
_PERCENTILES = (100, 60, 40, 20)
_WARMING = 2
_PASSING = msgspec.structs.replace(POSTS, keep_us=0)

COLUMNS = {
    "percentile": "percentile of words",
    "sent": "records that reach slots",
    "plain_ms": "makespan without, ms",
    "sifted_ms": "with summaries",
    "plain_rate": "records/s without",
    "sifted_rate": "with summaries",
    "gain": "times",
}


def measure(scale: RoutingScale, say: Say) -> list[FigureResult]:
    """Measure throughput with and without summaries, for queries with ever rarer words."""
    say("tornado6c: textual summaries")
    posts, rng = made_posts(), np.random.default_rng(12)
    boxes = squares_around(towns(rng, _QUERIES), _SIDE)
    table = agrid_table(load_by(towns(rng, 200_000), boxes), _SLOTS)
    found = {each: _compared(each, posts, table, boxes, scale, rng) for each in _PERCENTILES}
    rows: list[Row] = [
        {
            "percentile": percentile,
            "sent": each.sent,
            "plain_ms": each.plain.makespan_ms,
            "sifted_ms": each.sifted.makespan_ms,
            "plain_rate": each.plain.rate,
            "sifted_rate": each.sifted.rate,
            "gain": each.gain,
        }
        for percentile, each in found.items()
    ]
    gains = [each.gain for each in found.values()]
    notes = [
        f"{_QUERIES:,} squares of {_SIDE:.1%} side over a stream with KEEP NONE ask for {_WORDS} words. They "
        "are drawn as they occur, among the words that are not more frequent than those at the percentile. "
        "The time of a slot includes the sieve's."
    ]
    goals = [
        Goal("summaries, rarest words: throughput over none", "rises", 2.0, gains[-1]),
        Goal("the same, all words", "-", 0.95, gains[0]),
    ]
    return [FigureResult("tornado6c", "textual summaries by keyword percentile", COLUMNS, rows, goals, notes)]


class _Compared(NamedTuple):
    """Slots without and with summaries, and the share of the records that the latter get."""

    plain: Measured
    sifted: Measured
    sent: float

    @property
    def gain(self) -> float:
        """The throughput with summaries as a multiple of that without."""
        return self.sifted.rate / self.plain.rate


def _compared(
    percentile: int,
    posts: PostSample,
    table: RoutingTable,
    boxes: Floats,
    scale: RoutingScale,
    rng: np.random.Generator,
) -> _Compared:
    queries = range_queries(boxes, _phrases(posts, percentile, rng))
    sift = _sieve(queries, boxes, table)
    driven = {
        name: DrivenSlots(table, _PASSING, queries, boxes, sift=way)
        for name, way in (("plain", None), ("sifted", sift))
    }
    spent: dict[str, list[Any]] = {name: [] for name in driven}
    count = scale.count(150_000)
    for step in range(1, _WARMING + scale.batches + 1):
        which: Any = pa.array(rng.integers(0, len(posts.texts), count))
        drawn = records(step, towns(rng, count), posts.texts.take(which))
        for name in rng.permutation(list(driven)).tolist():
            spent[name].append(driven[name].take(drawn, rng))
    check_answers(driven)
    plain, sifted = (Measured(np.array(some[_WARMING:]), count, 1.0, 0.0) for some in spent.values())
    return _Compared(plain, sifted, driven["sifted"].sent / driven["plain"].sent)


def _phrases(posts: PostSample, percentile: int, rng: np.random.Generator) -> list[str]:
    """Draw phrases of words that are not above a percentile of frequency, as often as they occur."""
    coded, words = coded_terms(posts.texts)
    counts = np.bincount(coded.codes, minlength=len(words))
    rare = counts <= np.percentile(counts[coded.codes], percentile)
    weights = np.where(rare, counts, 0)
    drawn: Any = pa.array(rng.choice(len(words), (_QUERIES * _WORDS), p=weights / weights.sum()))
    spelled = words.take(drawn).to_pylist()
    return [" ".join(map(str, spelled[at : at + _WORDS])) for at in range(0, len(spelled), _WORDS)]


def _sieve(queries: QueryRows, boxes: Floats, table: RoutingTable) -> Sift:
    terms, count = SlotTerms.of_nothing(table.slots), len(boxes)
    terms.add(NeededTerms.of([queries], boxes, np.full(count, FOR_EVER), _PASSING), table)

    def sift(slot: int, part: pa.RecordBatch) -> pa.RecordBatch:
        sent = RecordSieve(_PASSING, terms).sent(slot, part)
        return part if sent is None else part.filter(pa.array(sent))

    return sift
