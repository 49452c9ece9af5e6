"""What refreshes of windows cost a slot with each choice of `index.windows` (STAR section 5.2)."""

from __future__ import annotations

from statistics import mean

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from stqsh.bench.figures import Row
from stqsh.bench.harness.one_slot import Steps, evaluate_batch
from stqsh.bench.papers.figure import FigureResult
from stqsh.bench.papers.star.figure_run import StarRun
from stqsh.bench.papers.star.world import POSTS, Posts
from stqsh.core.state.slot_state import SlotState
from stqsh.lang.binder.bind import Catalogue, bind
from stqsh.lang.syntax.parse import parse
from stqsh.spec.chunk import ChunkKind, pack, unpack
from stqsh.spec.command import RegisterCommand
from stqsh.spec.indexes import IndexChoice
from stqsh.spec.query import SlotQuery, slot_query

_WINDOW, _STEADY, _TIMED = 30, 33, 6
"""The minutes of a window, those before times count, and those that count."""

_MINUTE, _MOST, _SIDE = 2_000, 1_000, 0.1
_GROUPINGS = {"none": ("COUNT(*)", ""), "topic": ("topic, COUNT(*)", " GROUP BY topic")}
_COLUMNS = {
    "groups": "groups",
    "queries": "queries",
    "records": "records, µs a record",
    "mtindex": "mtindex, µs a record",
    "times": "mtindex / records",
    "minute": "records a minute",
}


def measure(run: StarRun) -> list[FigureResult]:
    """Figure `windows`: squares with windows of 30 minutes that move on each minute, with each choice.

    Raises:
        ValueError: the choices answer differently.
    """
    minute, rows = min(_MINUTE, len(run.posts) // (_STEADY + _TIMED)), list[Row]()
    counts = sorted({min(count, _MOST) for count in (10, 100, *run.scale.queries)})
    for by in _GROUPINGS:
        for count in counts:
            run.say(f"windows of {count:,} squares, groups: {by}")
            queries = _queries(by, count)
            fast, told = _run(run.posts, queries, minute, IndexChoice())
            slow, same = _run(run.posts, queries, minute, IndexChoice(windows="mtindex"))
            if told != same:
                raise ValueError(f"the choices answer {count} windows differently, groups: {by}")
            costs = {"records": fast, "mtindex": slow, "times": slow / fast, "minute": minute}
            rows.append({"groups": by, "queries": count, **costs})
    title = f"a slot with windows of {_WINDOW} minutes that move on each minute"
    return [FigureResult("windows", title, _COLUMNS, rows)]


def _queries(by: str, count: int) -> list[SlotQuery]:
    """Return queries that count posts in squares, with ids from 1 on."""
    draw, catalogue, found = np.random.default_rng(3), Catalogue({"posts": POSTS}), list[SlotQuery]()
    shown, grouped = _GROUPINGS[by]
    for number, (x, y) in enumerate(draw.uniform(0, 1 - _SIDE, (count, 2)).tolist(), 1):
        [statement] = parse(
            f"REGISTER QUERY q AS SELECT {shown} FROM posts INSIDE ({x}, {y}, {x + _SIDE}, {y + _SIDE})"
            f"{grouped} WINDOW {_WINDOW} min SYNC 1 min;"
        )
        found.append(replace(slot_query(bind(statement, catalogue).spec), id=number))
    return found


def _run(posts: Posts, queries: list[SlotQuery], minute: int, choice: IndexChoice) -> tuple[float, int]:
    """Return the processor time of a record once windows are full, µs, and a digest of all answers."""
    state, seconds, digest = SlotState.fresh(0), list[float](), 0
    for number in range(_STEADY + _TIMED):
        begin = 60 * number
        times = begin + 1 + np.arange(minute) * 58 // minute
        given = [(ChunkKind.RECORDS, pack(posts.records_at(number * minute, (number + 1) * minute, times)))]
        commands = [RegisterCommand(query=query) for query in queries] if number == 0 else []
        cost, sent = evaluate_batch(state, POSTS, Steps(begin + 1, begin + 60), commands, given, choice)
        seconds.append(cost.seconds)
        for chunk in sent:
            if chunk.kind.startswith("partial/"):
                digest += _digest(unpack(chunk.payload))
    return 1e6 * mean(seconds[_STEADY:]) / minute, digest


def _digest(heard: pa.RecordBatch) -> int:
    """Return the sum of the changes of all counts, each times its query and its step."""
    if "value" in heard.schema.names:
        return 0
    count, query, step = (heard[name].to_numpy().astype(np.int64) for name in ("n", "query", "step"))
    return int((count * query * (step + 7)).sum())
