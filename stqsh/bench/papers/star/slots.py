"""Figures 9 and 11: the response of snapshots, and the throughput of continuous queries, against slots.

Slots run one after the other, and the slowest of them counts: on machines with cores enough they would run
side by side.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from time import process_time
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.bench.figures import Row
from stqsh.bench.papers.figure import Chart, FigureResult, Goal, Line
from stqsh.bench.papers.star.asking import World, ask
from stqsh.bench.papers.star.contenders import baseline_1, q_cache, scan
from stqsh.bench.papers.star.continuous.ch_tree import ENDLESS, ChIndex
from stqsh.bench.papers.star.continuous.forest import Fast, RarestFirst
from stqsh.bench.papers.star.continuous.questions import ContinuousWorkload, Questions, rows_of
from stqsh.bench.papers.star.continuous.standing import taken
from stqsh.bench.papers.star.continuous.timing import Make, Stream
from stqsh.bench.papers.star.figure_run import StarRun
from stqsh.bench.papers.star.workload import Workload
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.routing.cells import Cells
from stqsh.routing.load import Load
from stqsh.routing.strategies import quadtree_table

SLOTS = (1, 2, 4, 8)
_SIDE = 0.002
"""The side of the ranges of snapshots, as a share of the area's: the largest of table 1."""

_CELLS, _RECORDS, _AT_ONCE, _ROUNDS = 256, 1 << 15, 1 << 12, 3
_INDEXES: dict[str, Make] = {
    "FAST": Fast,
    "CH(inf)": partial(ChIndex, limit=ENDLESS),
    "rarest first": RarestFirst,
}


def snapshots(bench: StarRun) -> list[FigureResult]:
    """Figure 9, by our own scan in the place of Simba and GeoSpark; posts are dealt by their keys."""
    rows, lines, goals = list[Row](), dict[str, list[float]](), list[Goal]()
    workload = Workload("S2", "COUNT(*)", 0, _SIDE)
    for count in SLOTS:
        world = World(bench.posts, bench.posts.on_slots(count))
        ways = [scan(), baseline_1(), q_cache(bench.scale.budget)]
        found = ask(world, workload, ways, bench.scale, bench.say)
        for name, timed in found.items():
            lines.setdefault(name, []).append(timed.mean_ms)
            first = lines[name][0] / timed.mean_ms
            ratio = found["scan"].mean_ms / timed.mean_ms
            rows.append({**asdict(timed), "slots": count, "times": ratio, "faster": first})
        ratio = found["scan"].mean_ms / found["Q-cache"].mean_ms
        goals.append(Goal(f"{count} slot{'s' * (count > 1)}: Q-cache over a scan", "2 to 3 x", 2.0, ratio))
    columns = {
        "slots": "slots",
        "name": "way",
        "mean_ms": "mean ms",
        "p50_ms": "p50 ms",
        "p99_ms": "p99 ms",
        "times": "times scan",
        "faster": "times one slot",
    }
    charts = [Chart("Q_S2-Count", "slots", "mean ms", [Line(name, SLOTS, y) for name, y in lines.items()])]
    note = f"Ranges of {_SIDE:.1%} of the side. The time is that of the slowest slot, and of the merge."
    title = "snapshot response against slots"
    return [FigureResult("9", title, columns, rows, goals, [note.replace("%", " %")], charts)]


class _Share(NamedTuple):
    """What one slot has: the rows of its queries, int32, and the numbers of its records, int64."""

    rows: Array
    records: Array


def continuous(bench: StarRun) -> list[FigureResult]:
    """Figure 11: matches, by the index of Tornado and ours; slots have squares of the area (section 6)."""
    stream = Stream(bench.posts.head(_RECORDS))
    count = min(10_000, max(bench.scale.queries))
    questions = stream.draw(ContinuousWorkload("C1", 2, ranged=True), count)
    rows, lines, goals = list[Row](), dict[str, list[float]](), list[Goal]()
    wanted: Array | None = None
    for slots in SLOTS:
        bench.say(f"{count:,} continuous queries on {slots} slots")
        shares = _dealt(stream, questions, slots)
        held = sum(len(share.rows) for share in shares) / count
        per_s = dict[str, float]()
        for name, make in _INDEXES.items():
            seconds, pairs = _matched(stream, questions, shares, make)
            wanted = pairs if wanted is None else wanted
            if not np.array_equal(pairs, wanted):
                raise ValueError(f"{name} matches other records on {slots} slots than FAST on one")
            per_s[name] = len(stream.posts) / seconds
            lines.setdefault(name, []).append(per_s[name])
            first = per_s[name] / lines[name][0]
            rows.append({"slots": slots, "name": name, "per_s": per_s[name], "faster": first, "held": held})
        ratio = per_s["rarest first"] / per_s["FAST"]
        goals.append(
            Goal(f"{slots} slot{'s' * (slots > 1)}: rarest first over FAST", "about 1.5 x", 1.5, ratio)
        )
    columns = {
        "slots": "slots",
        "name": "way",
        "per_s": "records/s",
        "faster": "times one slot",
        "held": "slots a query",
    }
    charts = [Chart("Q_C1", "slots", "records/s", [Line(name, SLOTS, y) for name, y in lines.items()])]
    note = (
        "Matches alone; two constraints, one of them a range. All ways found equal pairs. The time is that"
        " of the slowest slot."
    )
    title = f"throughput against slots, {count:,} continuous queries with ranges"
    return [FigureResult("11", title, columns, rows, goals, [note], charts)]


def _dealt(stream: Stream, questions: Questions, slots: int) -> list[_Share]:
    """Return what each slot has: records by their places, and the queries that touch these."""
    records, boxes = stream.records.posted, questions.predicates.box
    cells = Cells((0.0, 0.0, 1.0, 1.0), _CELLS)
    table = quadtree_table(Load.of(cells, records.x, records.y, boxes), slots)
    owner = table.slots_of(records.x, records.y, hash_keys(pa.array(np.arange(len(records.x)))))
    touched = table.slots_touching(boxes)
    return [
        _Share(np.flatnonzero(touched[:, slot]).astype(np.int32), np.flatnonzero(owner == slot))
        for slot in range(slots)
    ]


def _matched(stream: Stream, questions: Questions, shares: list[_Share], make: Make) -> tuple[float, Array]:
    """Return the processor time of the slowest slot, s, and all pairs as sorted numbers."""
    slowest, found = 0.0, list[Array]()
    for share in shares:
        index = make(rows_of(questions.predicates, share.rows), stream.sample, stream.records.terms)
        index.add(np.arange(len(share.rows), dtype=np.int32))
        parts = [share.records[at : at + _AT_ONCE] for at in range(0, len(share.records), _AT_ONCE)]
        records = [taken(stream.records.posted, part) for part in parts]
        seconds = []
        for _ in range(_ROUNDS):
            begun = process_time()
            for some in records:
                index.match(some)
            seconds.append(process_time() - begun)
        slowest = max(slowest, float(np.median(seconds)))
        for part, some in zip(parts, records, strict=True):
            record, row = index.match(some)
            found.append((part[record] << 32) | share.rows[row])
    return slowest, np.sort(np.concatenate(found))
