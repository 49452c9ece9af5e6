"""What a record costs a slot with each index that a session may choose (STAR section 5.1)."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.bench.figures import Row
from stqsh.bench.harness.one_slot import Steps, evaluate_batch
from stqsh.bench.papers.figure import FigureResult
from stqsh.bench.papers.star.figure_run import StarRun
from stqsh.bench.papers.star.world import POSTS, TOPICS, Posts
from stqsh.core.indexes.ch_trees import LIMIT
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.aggregate import AggregateSpec, GroupOutput, Measure
from stqsh.spec.chunk import ChunkKind, pack, unpack
from stqsh.spec.command import RegisterCommand
from stqsh.spec.expression import (
    AndExpr,
    BetweenExpr,
    ColumnExpr,
    CompareExpr,
    ContainsExpr,
    Expr,
    LiteralExpr,
)
from stqsh.spec.indexes import IndexChoice
from stqsh.spec.query import AGGREGATE, Members, Result, SlotQuery
from stqsh.spec.region import EVERYWHERE, RectangleSpec, Region

_CHOICES = (
    IndexChoice(queries="forest"),
    IndexChoice(queries="chtree", tree_queries=LIMIT),
    IndexChoice(queries="chtree"),
    IndexChoice(),
)
_MINUTES, _PAIRS = 5, 20_000_000
_SIDE = 0.01
_COLUMNS = {
    "asked": "queries ask for",
    "queries": "queries",
    "index": "index.queries",
    "limit": "index.tree_queries",
    "seconds": "processor s a million records",
    "members": "members a record",
    "register": "registration, ms",
}
Draw = Callable[[np.random.Generator, list[str]], tuple[Region, Expr | None]]


def _likes(draw: np.random.Generator, width: float) -> Expr:
    low = float(draw.integers(0, 1000)) / 10
    return BetweenExpr(ColumnExpr("likes"), LiteralExpr(low, "DOUBLE"), LiteralExpr(low + width, "DOUBLE"))


def _word(draw: np.random.Generator, words: list[str]) -> Expr:
    return ContainsExpr(ColumnExpr("body"), words[int(draw.integers(len(words)))], "all")


def _topic(draw: np.random.Generator) -> Expr:
    return CompareExpr("=", ColumnExpr("topic"), LiteralExpr(int(draw.integers(TOPICS)), "BIGINT"))


def _square(draw: np.random.Generator) -> Region:
    x, y = draw.random(2).tolist()
    return RectangleSpec(x, y, x + _SIDE, y + _SIDE)


ASKED: dict[str, Draw] = {
    "an interval": lambda draw, words: (EVERYWHERE, _likes(draw, 0.0)),
    "an interval and a word": lambda draw, words: (
        EVERYWHERE,
        AndExpr((_likes(draw, 5.0), _word(draw, words))),
    ),
    "a topic and an interval": lambda draw, words: (EVERYWHERE, AndExpr((_topic(draw), _likes(draw, 1.0)))),
    "a square": lambda draw, words: (_square(draw), None),
    "a square and a word": lambda draw, words: (_square(draw), _word(draw, words)),
}
"""What queries ask for; an interval is a tenth to 5 % of all numbers, and a square 1 % of the area's side."""


def measure(run: StarRun) -> list[FigureResult]:
    """Figure `index`: queries that follow every step, with each index; both find the same members.

    Raises:
        ValueError: the indexes find other members.
    """
    rows = list[Row]()
    for asked, draw in ASKED.items():
        for count in run.scale.queries:
            run.say(f"{count:,} queries for {asked}, with each index")
            queries = _queries(draw, run.posts.vocabulary, count)
            minute = int(np.clip(_PAIRS // count, 200, min(5_000, len(run.posts) // _MINUTES)))
            found = [_run(run.posts, queries, minute, choice) for choice in _CHOICES]
            if any(not np.array_equal(found[0][1], members) for _, members in found):
                raise ValueError(f"the indexes find other members of queries for {asked}")
            for choice, (row, members) in zip(_CHOICES, found, strict=True):
                limit = None if choice.queries == "forest" else choice.tree_queries
                more: Row = {"asked": asked, "queries": count, "index": choice.queries, "limit": limit}
                rows.append({**more, **row, "members": float(members.sum()) / minute / _MINUTES})
    note = "A registration is that of all queries together, with the first batch of records."
    return [FigureResult("index", "a slot with each index of queries", _COLUMNS, rows, notes=[note])]


def _queries(draw: Draw, words: list[str], count: int) -> list[SlotQuery]:
    """Return queries that count their members, with ids from 1 on."""
    random = np.random.default_rng(3)
    shown = GroupOutput("n", ColumnExpr("m0"), "BIGINT")
    counting = AggregateSpec(measures=(Measure("count"),), select=(shown,))
    drawn = [draw(random, words) for _ in range(count)]
    return [
        SlotQuery(
            id=number,
            kind=AGGREGATE.name,
            members=Members(region=region, condition=condition),
            result=Result(aggregates=counting),
        )
        for number, (region, condition) in enumerate(drawn, 1)
    ]


def _run(posts: Posts, queries: list[SlotQuery], minute: int, choice: IndexChoice) -> tuple[Row, Array]:
    """Return the costs of records, and how many members the answers of each query got, int64."""
    state, seconds, members = SlotState.fresh(0), list[float](), np.zeros(len(queries) + 1, np.int64)
    commands = [RegisterCommand(query=query) for query in queries]
    for number in range(_MINUTES):
        first, begin = number * minute, 60 * number
        records = posts.records_at(first, first + minute, begin + 1 + np.arange(minute) * 60 // minute)
        given = [(ChunkKind.RECORDS, pack(records))]
        steps = Steps(begin + 1, begin + 60)
        cost, sent = evaluate_batch(
            state, POSTS, steps, commands if number == 0 else (), given, indexes=choice
        )
        seconds.append(cost.seconds)
        for chunk in sent:
            if chunk.kind.startswith("partial/"):
                _note(unpack(chunk.payload), members)
    usual = median(seconds[1:])
    return {"seconds": 1e6 * usual / minute, "register": 1e3 * (seconds[0] - usual)}, members


def _note(heard: pa.RecordBatch, members: Array) -> None:
    if "value" not in heard.schema.names:
        np.add.at(members, heard["query"].to_numpy(), heard["n"].to_numpy().astype(np.int64))
