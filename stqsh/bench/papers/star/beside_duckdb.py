"""Figure 8: the response of snapshots beside a system over static data, by constraints and by ranges.

The paper compares with Simba and GeoSpark, which do not run here. DuckDB takes their place: it has the same
posts in a table in memory, and answers the same questions in SQL on one thread, as a slot does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from time import process_time_ns
from typing import Any

import numpy as np
import pyarrow as pa

from stqsh.bench.figures import Row
from stqsh.bench.papers.figure import Chart, FigureResult, Goal, Line
from stqsh.bench.papers.star.asking import ask
from stqsh.bench.papers.star.contenders import scan, with_words
from stqsh.bench.papers.star.figure_run import StarRun
from stqsh.bench.papers.star.workload import Workload, bound
from stqsh.bench.papers.star.world import POSTS
from stqsh.core.contract.snapshot_selection import PresentObjects

_CONSTRAINTS, _SIDES = (1, 2, 3, 4), (0.0005, 0.002, 0.01, 0.2)
_OURS, _PEER = "with words", "DuckDB"
_PAPER, _WANTED = "about 3 x", 3.0
_LARGEST_PAPER, _LARGEST_WANTED = "2.5 x", 2.5
_LARGEST = 0.002
"""The side of the paper's largest ranges."""

_COLUMNS = {
    "set": "questions",
    "varied": "",
    "name": "way",
    "mean_ms": "mean ms",
    "p50_ms": "p50 ms",
    "times": "times DuckDB",
    "paper": "paper",
}

_QUESTION = re.compile(
    r"SELECT (?P<select>.*) FROM posts(?: WHERE (?P<where>.*?))?(?: INSIDE \((?P<box>.*)\))? GROUP"
)
_WORDS = re.compile(r"body CONTAINS '([^']*)'")
_BACK = re.compile(r"NOW - (\d+) min")


def measure(bench: StarRun) -> list[FigureResult]:
    """Measure figure 8, a and b by constraints, d by the side of ranges."""
    if find_spec("duckdb") is None:
        bench.say("DuckDB is left out of figure 8: pip install duckdb")
        return []
    peer = DuckPosts(bench)
    found = []
    for letter, kind in zip("ab", ("S1", "S2"), strict=True):
        by_count: dict[float, Workload] = {
            count: Workload(kind, "COUNT(*)", count, is_ranged=True) for count in _CONSTRAINTS
        }
        found.append(_compared(bench, peer, f"8{letter}", "constraints", by_count, max(_CONSTRAINTS)))
    by_side = {side * 100: Workload("S2", "COUNT(*)", 0, side) for side in _SIDES}
    return [*found, _compared(bench, peer, "8d", "side, %", by_side, 100 * _LARGEST)]


def _compared(
    bench: StarRun, peer: DuckPosts, number: str, varied: str, workloads: dict[float, Workload], last: float
) -> FigureResult:
    """Ask both systems each set of questions; those up to `last` are in the paper."""
    rows, goals, curves = list[Row](), list[Goal](), dict[str, list[float]]()
    for value, workload in workloads.items():
        found = ask(bench.world, workload, [scan(), with_words(bench.scale.budget)], bench.scale, bench.say)
        bench.say(f"{workload.name}: {_PEER}")
        took = {name: (timed.mean_ms, timed.p50_ms) for name, timed in found.items()}
        took[_PEER] = peer.ask([*workload.texts(bench.posts, bench.scale.asked, seed=12)])
        is_largest = varied != "constraints" and value == last
        paper, wanted = (_LARGEST_PAPER, _LARGEST_WANTED) if is_largest else (_PAPER, _WANTED)
        for name, (mean, median) in took.items():
            curves.setdefault(name, []).append(mean)
            more: Row = {"name": name, "mean_ms": mean, "p50_ms": median, "times": took[_PEER][0] / mean}
            shown = paper if name == _OURS and value <= last else ""
            rows.append({"set": workload.name, "varied": f"{varied} {value:g}", **more, "paper": shown})
        if value <= last:
            what = f"{workload.name}, {varied} {value:g}: {_OURS} over {_PEER}"
            goals.append(Goal(what, paper, wanted, took[_PEER][0] / took[_OURS][0]))
    lines = [Line(name, [*workloads], times) for name, times in curves.items()]
    notes = [
        f"Processor time on one thread, without parsing and binding for ours, with them for {_PEER}, "
        f"which has {len(bench.posts):,} posts in a table in memory, without an index. Every question has a "
        "range."
    ]
    title = f"snapshot response beside {_PEER} against {varied}"
    charts = [Chart(title, varied, "mean ms", lines, "y")]
    return FigureResult(number, title, _COLUMNS, rows, goals, notes, charts)


class DuckPosts:
    """The posts in a table of DuckDB, and the answers that it has to give."""

    def __init__(self, bench: StarRun) -> None:
        self._states = bench.world.states
        present = PresentObjects.of(self._states[0], POSTS.id)
        assert present is not None, "the slot has the posts"
        self._now = present.now
        self._base: Any = import_module("duckdb").connect(config={"threads": 1})
        posts: Any = pa.Table.from_batches([records for _, records in bench.posts.batches()])
        ts = posts.column("ts").cast(pa.timestamp("us"))  # without a zone, which takes an extension
        self._base.register("arrived", posts.set_column(posts.schema.get_field_index("ts"), "ts", ts))
        self._base.execute(
            "CREATE TABLE posts AS SELECT id, x, y, ts, body, ' ' || body || ' ' AS padded, "
            "topic, city FROM arrived"
        )
        self._base.unregister("arrived")

    def ask(self, texts: Sequence[str]) -> tuple[float, float]:
        """Return the mean and the median processor time of an answer, ms.

        Raises:
            ValueError: an answer is not that of a scan.
        """
        times, ours = list[float](), scan()
        for text in texts:
            sql, begun = self.sql(text), process_time_ns()
            answer = self._base.sql(sql).to_arrow_table()
            times.append((process_time_ns() - begun) / 1e6)
            wanted, _ = ours.answer(self._states, bound(text))
            if sorted(_rows(answer)) != sorted(_rows(wanted)):
                raise ValueError(f"{_PEER} answers otherwise: {sql}")
        return float(np.mean(times)), float(np.median(times))

    def sql(self, text: str) -> str:
        """Return a question in SQL."""
        parts = _QUESTION.match(text)
        assert parts is not None, f"questions have one form, unlike {text}"
        conditions = []
        if parts["where"]:
            back = _BACK.sub(
                lambda found: f"make_timestamp({self._now - 60_000_000 * int(found[1])})", parts["where"]
            )
            conditions.append(_WORDS.sub(lambda found: _contains(found[1]), back))
        if parts["box"]:
            x1, y1, x2, y2 = parts["box"].split(", ")
            conditions.append(f"x BETWEEN {x1} AND {x2} AND y BETWEEN {y1} AND {y2}")
        return f"SELECT {parts['select']} FROM posts WHERE {' AND '.join(conditions)} GROUP BY ALL"


def _contains(words: str) -> str:
    return " AND ".join(f"contains(padded, ' {word} ')" for word in words.split())


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)
