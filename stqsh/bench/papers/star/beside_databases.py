"""Figure 8: the response of snapshots beside systems over static data, by constraints and by ranges.

The paper compares with Simba and GeoSpark, which do not run here. DuckDB and PostGIS take their place: they
have the same posts, and answer the same questions in SQL on one thread, as a slot does.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import process_time_ns
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.bench.figures import Row
from stqsh.bench.harness.drive import temporary_folder
from stqsh.bench.papers.figure import Chart, FigureResult, Goal, Line
from stqsh.bench.papers.star.asking import ask
from stqsh.bench.papers.star.contenders import scan, with_words
from stqsh.bench.papers.star.figure_run import StarRun
from stqsh.bench.papers.star.workload import Workload, bound
from stqsh.bench.papers.star.world import POSTS, Posts
from stqsh.bench.peers.peer import write_csv
from stqsh.bench.peers.postgis import Database, cluster, missing
from stqsh.core.contract.snapshot_selection import PresentObjects
from stqsh.core.state.slot_state import SlotState

_CONSTRAINTS, _SIDES = (1, 2, 3, 4), (0.0005, 0.002, 0.01, 0.2)
_OURS = "with words"
_PAPER, _WANTED = "about 3 x", 3.0
_LARGEST, _LARGEST_PAPER, _LARGEST_WANTED = 0.002, "2.5 x", 2.5
"""The side of the paper's largest ranges, and how much faster STAR is there."""

_COLUMNS = {
    "set": "questions",
    "varied": "",
    "name": "way",
    "mean_ms": "mean ms",
    "p50_ms": "p50 ms",
    "times": "of the time of ours",
    "paper": "paper",
}

_QUESTION = re.compile(
    r"(?P<select>SELECT .*) FROM posts(?: WHERE (?P<where>.*?))?(?: INSIDE \((?P<box>.*)\))?"
    r" (?P<by>GROUP BY .*);"
)
_WORDS = re.compile(r"body CONTAINS '([^']*)'")
_BACK = re.compile(r"NOW - (\d+) min")
_MINUTE_US = 60_000_000

_NEXT = "--"
_TIME = re.compile(r"^Time: ([0-9.]+) ms", re.MULTILINE)
_LOAD = """
CREATE EXTENSION postgis;
CREATE FUNCTION hour(timestamp) RETURNS int IMMUTABLE RETURN extract(hour FROM $1)::int;
CREATE FUNCTION minute(timestamp) RETURNS int IMMUTABLE RETURN extract(minute FROM $1)::int;
CREATE FUNCTION contains(text, text) RETURNS bool IMMUTABLE RETURN position($2 IN $1) > 0;
CREATE TEMP TABLE raw (id bigint, x float8, y float8, ts timestamp, body text, topic int, city text);
\\copy raw FROM '{file}' CSV
CREATE UNLOGGED TABLE posts AS SELECT *, ' ' || body || ' ' AS padded, ST_Point(x, y) AS place FROM raw;
CREATE INDEX ON posts USING gist (place);
VACUUM ANALYZE posts;
"""

Answer = list[tuple[str, ...]]
"""The rows of an answer as texts, in any order."""

Ask = Callable[[Sequence[str]], tuple[list[Answer], list[float]]]
"""Answers questions; returns the answers and the milliseconds of each."""


def measure(bench: StarRun) -> list[FigureResult]:
    """Measure figure 8, a and b by constraints, d by the side of ranges."""
    with ExitStack() as stack:
        databases = _databases(bench, stack)
        if not databases:
            return []
        found = []
        for number, kind in {"8a": "S1", "8b": "S2"}.items():
            by_count = {
                f"constraints {count}": Workload(kind, "COUNT(*)", count, is_ranged=True)
                for count in _CONSTRAINTS
            }
            found.append(_compared(bench, databases, number, "constraints", by_count))
        by_side = {f"side {side:.4g}": Workload("S2", "COUNT(*)", 0, side) for side in _SIDES}
        return [*found, _compared(bench, databases, "8d", "the side of ranges", by_side)]


def _databases(bench: StarRun, stack: ExitStack) -> dict[str, Ask]:
    """Return the databases that are installed, with the posts."""
    found = dict[str, Ask]()
    if find_spec("duckdb") is None:
        bench.say("DuckDB is left out: pip install duckdb")
    else:
        found["DuckDB"] = _duckdb(bench.posts)
    if why := missing():
        bench.say(f"PostGIS is left out: {why}")
    else:
        folder = stack.enter_context(temporary_folder())
        found["PostGIS"] = _postgis(bench.posts, stack.enter_context(cluster(folder)), folder)
    return found


def _compared(
    bench: StarRun, databases: Mapping[str, Ask], number: str, varied: str, workloads: Mapping[str, Workload]
) -> FigureResult:
    """Ask all systems each set of questions."""
    rows, goals, curves = list[Row](), list[Goal](), dict[str, list[float]]()
    for value, workload in workloads.items():
        found = ask(bench.world, workload, [scan(), with_words(bench.scale.budget)], bench.scale, bench.say)
        took = {name: (timed.mean_ms, timed.p50_ms) for name, timed in found.items()}
        texts = [*workload.texts(bench.posts, bench.scale.asked, seed=12)]
        for name, asked in databases.items():
            bench.say(f"{workload.name}, {value}: {name}")
            times = timed_alike(name, asked, bench.world.states, texts)
            took[name] = float(np.mean(times)), float(np.median(times))
        is_largest = workload.side == _LARGEST
        paper, wanted = (_LARGEST_PAPER, _LARGEST_WANTED) if is_largest else (_PAPER, _WANTED)
        in_paper = workload.side is None or workload.side <= _LARGEST
        _, ours = took[_OURS]
        for name, (mean, median) in took.items():
            curves.setdefault(name, []).append(median)
            rows.append(
                {
                    "set": workload.name,
                    "varied": value,
                    "name": name,
                    "mean_ms": mean,
                    "p50_ms": median,
                    "times": median / ours,
                    "paper": paper if name in databases and in_paper else "",
                }
            )
            if name in databases and in_paper:
                goals.append(
                    Goal(f"{workload.name}, {value}: {name} over ours", paper, wanted, median / ours)
                )
    notes = [
        f"{len(bench.posts):,} posts, and a range in every question. Processor time on one thread of a scan, "
        "of what a client keeps, which is ours, and of DuckDB, a table in memory without an index; for "
        "PostGIS the time of psql, with an index of places. Parsing is part of theirs, not of ours. "
        "Ratios are those of medians."
    ]
    lines = [Line(name, range(1, len(workloads) + 1), times) for name, times in curves.items()]
    title = f"snapshot response beside databases against {varied}"
    charts = [Chart(title, ", ".join(workloads), "p50 ms", lines, "y")]
    return FigureResult(number, title, _COLUMNS, rows, goals, notes, charts)


def timed_alike(name: str, asked: Ask, states: Sequence[SlotState], texts: Sequence[str]) -> list[float]:
    """Ask a database questions in SQL, and return the milliseconds of each.

    Raises:
        ValueError: an answer is not that of a scan.
    """
    present = PresentObjects.of(states[0], POSTS.id)
    assert present is not None, "the slot has the posts"
    sql = [in_sql(text, present.now) for text in texts]
    answers, times = asked(sql)
    ours = scan()
    for text, question, answer in zip(texts, sql, answers, strict=True):
        wanted, _ = ours.answer(states, bound(text))
        if sorted(answer) != sorted(_rows(column.to_pylist() for column in wanted.columns)):
            raise ValueError(f"{name} answers otherwise: {question}")
    return times


def in_sql(text: str, now: int) -> str:
    """Return a question in SQL, at an instant, µs."""
    parts = _QUESTION.fullmatch(text)
    assert parts is not None, f"questions have one form, unlike {text}"
    conditions = []
    if parts["where"]:
        since = _BACK.sub(lambda found: _instant(now - int(found[1]) * _MINUTE_US), parts["where"])
        conditions.append(_WORDS.sub(lambda found: _contains(found[1]), since))
    if parts["box"]:
        x1, y1, x2, y2 = parts["box"].split(", ")
        conditions.append(f"x BETWEEN {x1} AND {x2} AND y BETWEEN {y1} AND {y2}")
    return f"{parts['select']} FROM posts WHERE {' AND '.join(conditions)} {parts['by']}"


def _instant(micros: int) -> str:
    return f"TIMESTAMP '{datetime.fromtimestamp(micros / 1e6, UTC):%Y-%m-%d %H:%M:%S}'"


def _contains(words: str) -> str:
    return " AND ".join(f"contains(padded, ' {word} ')" for word in words.split())


def _rows(columns: Iterable[Sequence[Any]]) -> Answer:
    return [tuple(map(str, row)) for row in zip(*columns, strict=True)]


def _table(posts: Posts) -> pa.Table:
    """Return the posts; their times are without a zone, which databases would need extensions for."""
    table: Any = pa.Table.from_batches([records for _, records in posts.batches()])
    chosen = table.select(["id", "x", "y", "ts", "body", "topic", "city"])
    times: Any = chosen.column("ts").cast(pa.timestamp("us"))
    found: pa.Table = chosen.set_column(3, "ts", times)
    return found


def _duckdb(posts: Posts) -> Ask:
    """Put the posts into DuckDB."""
    base: Any = import_module("duckdb").connect(config={"threads": 1})
    base.register("arrived", _table(posts))
    base.execute("CREATE TABLE posts AS SELECT *, ' ' || body || ' ' AS padded FROM arrived")
    base.unregister("arrived")

    def ask(questions: Sequence[str]) -> tuple[list[Answer], list[float]]:
        answers, times = list[Answer](), list[float]()
        for question in questions:
            begun = process_time_ns()
            answer = base.sql(question).to_arrow_table()
            times.append((process_time_ns() - begun) / 1e6)
            answers.append(_rows(column.to_pylist() for column in answer.columns))
        return answers, times

    return ask


def _postgis(posts: Posts, database: Database, folder: Path) -> Ask:
    """Put the posts into PostGIS."""
    table = _table(posts)
    texts: Any = pc.strftime(table.column("ts"), "%Y-%m-%d %H:%M:%S")
    write_csv(table.set_column(3, "ts", texts), folder / "posts.csv")
    script, given = folder / "posts.sql", folder / "answers.csv"
    script.write_text(_LOAD.format(file=folder / "posts.csv"))
    database.run("-f", str(script))
    head = ["SET max_parallel_workers_per_gather = 0;", "\\pset format csv", "\\pset tuples_only on"]

    def ask(questions: Sequence[str]) -> tuple[list[Answer], list[float]]:
        lines = [line for question in questions for line in (_in_index(question) + ";", f"\\qecho {_NEXT}")]
        warm = ["\\o /dev/null", *lines[:1], "\\timing on", f"\\o {given}"]
        script.write_text("\n".join([*head, *warm, *lines]) + "\n")
        times = [float(found) for found in _TIME.findall(database.run("-f", str(script)))]
        blocks = given.read_text().split(f"{_NEXT}\n")[:-1]
        return [[tuple(row) for row in csv.reader(block.splitlines())] for block in blocks], times

    return ask


def _in_index(question: str) -> str:
    """Return a question that says its range as a box, too, which the index of places needs."""
    box = r"x BETWEEN (\S+) AND (\S+) AND y BETWEEN (\S+) AND (\S+)"
    return re.sub(box, r"place && ST_MakeEnvelope(\1, \3, \2, \4) AND \g<0>", question)
