"""Aggregates by topic over squares, each minute: stqsh beside DuckDB and plain PySpark.

All of them get the same posts, a file for each minute, and the same squares, and their answers are compared
before speeds are. A minute of posts counts together with the answers at its end. The first minute is not
measured: Java and the kernels warm up in it.

DuckDB is asked again for each refresh, as a user does who has a database and no stream processor. It runs in
the Python that `DUCKDB_PYTHON` names, else in this one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

import stqsh
from stqsh.bench.figures import Row
from stqsh.bench.harness import registration
from stqsh.bench.harness.drive import Say, execute, run
from stqsh.bench.harness.topics import CREATE, write_posts
from stqsh.bench.harness.workload import rectangles
from stqsh.bench.peers import plainspark
from stqsh.bench.peers.peer import PeerFailedError, last_words
from stqsh.client.api import Session
from stqsh.client.read.projection import project
from stqsh.client.read.subscription import UpdateReader
from stqsh.engine.spark.java import find_java
from stqsh.spec.region import RectangleSpec

SELECT = (
    "SELECT topic, COUNT(*) AS n, AVG(len) AS mean FROM m INSIDE (0, 0, 1, 1) GROUP BY topic SYNC 1 minute"
)
_MINUTE = 60
_HERE = Path(__file__).parent
_CLOSE = 1e-9
"""By how much Spark's averages may differ, relatively: it adds numbers in the order in which they come."""


@dataclass(frozen=True)
class GroupCase:
    """The sizes of the case.

    Attributes:
        per_tick: posts a second.
        minutes: the measured minutes.
    """

    queries: int
    per_tick: int
    minutes: int = 3
    topics: int = 10
    side: float = 0.01

    @property
    def names(self) -> list[str]:
        """The minutes: the first one, and those that are measured."""
        return [f"minute-{number}" for number in range(self.minutes + 1)]

    def write(self, folder: Path) -> None:
        """Write all posts as one file and by the minute, and the squares."""
        ticks = (self.minutes + 1) * _MINUTE
        write_posts(folder / "posts.parquet", ticks, self.per_tick, self.topics, said=False)
        posts = pq.read_table(folder / "posts.parquet").drop_columns(["body"])
        size = _MINUTE * self.per_tick
        for number, name in enumerate(self.names):
            pq.write_table(posts.slice(number * size, size), folder / f"{name}.parquet")
        boxes = rectangles(self.queries, self.side)
        numbers: dict[str, Any] = {"query": np.arange(self.queries, dtype=np.int32)}
        numbers |= {name: boxes[:, i] for i, name in enumerate(("x1", "y1", "x2", "y2"))}
        pq.write_table(pa.table(numbers), folder / "squares.parquet")


@dataclass(frozen=True)
class GroupOutcome:
    """The seconds of each measured minute, and the answer at the end of the last one that a system sends."""

    seconds: list[float]
    answer: pd.DataFrame


def compare(case: GroupCase, folder: Path, say: Say) -> list[Row]:
    """Run all systems that are there; return what a minute of posts with its answers costs each of them.

    Raises:
        ValueError: answers differ.
    """
    case.write(folder)
    found = {"stqsh": _ours(case, folder, say)}
    for name, missing, job in _PEERS:
        if why := missing():
            say(f"{name} is left out: {why}")
            continue
        say(f"{name}: {case.minutes} minutes of {_MINUTE * case.per_tick:,} posts")
        found[name] = job(case, folder)
    for name, outcome in found.items():
        check(name, found["stqsh"].answer, outcome.answer)
    posts = _MINUTE * case.per_tick
    return [
        {
            "what": f"minutes of {name}",
            "queries": case.queries,
            "records_per_s": [posts / seconds for seconds in outcome.seconds],
        }
        for name, outcome in found.items()
    ]


def _ours(case: GroupCase, folder: Path, say: Say) -> GroupOutcome:
    with stqsh.connect(temporary=True, autoplay=False) as session, UpdateReader(session.link, -1) as reader:
        execute(session, CREATE.format(file=folder / "posts.parquet", keep=_MINUTE))
        bound = registration.bind(session, SELECT)
        boxes = rectangles(case.queries, case.side).tolist()
        registration.log(session, [replace(bound, region=RectangleSpec(*box)) for box in boxes])
        say(f"stqsh: {case.minutes} minutes of {_MINUTE * case.per_tick:,} posts")
        run(session, _MINUTE)
        seconds = []
        for number in range(case.minutes):
            begun = time.perf_counter()
            run(session, _MINUTE + (number == case.minutes - 1))  # the refresh at the end is a step later
            seconds.append(time.perf_counter() - begun)
        return GroupOutcome(seconds, _answer(session, reader))


def _answer(session: Session, reader: UpdateReader) -> pd.DataFrame:
    """Return the rows of all queries after the last step."""
    names = session.link.book.names
    parts = []
    for sent in reader.poll(session.progress().batch):
        select = next(iter(sent.queries.values())).spec.select  # all of them have the same
        columns: dict[str, Any] = {name: sent.table[name] for name in ("query", "op")}
        columns |= {one.name: found for one, found in zip(select, project(sent, select), strict=True)}
        parts.append(pa.table(columns).to_pandas())
    rows = pd.concat(parts, ignore_index=True).drop_duplicates(["query", "topic"], keep="last")
    rows = rows[rows["op"] > 0].drop(columns="op")
    numbers = {id_: int(name[1:]) for id_, name in names.items() if name != registration.PROBE}
    return rows.assign(query=rows["query"].map(numbers))


def _duckdb_python() -> str:
    return os.environ.get("DUCKDB_PYTHON", sys.executable)


def _without_duckdb() -> str:
    remedy = "pip install duckdb, or name a Python that has it in DUCKDB_PYTHON"
    try:
        tried = subprocess.run([_duckdb_python(), "-c", "import duckdb"], capture_output=True, check=False)
    except OSError as error:
        return f"{error}; {remedy}"
    return "" if tried.returncode == 0 else remedy


def _duckdb(case: GroupCase, folder: Path) -> GroupOutcome:
    command = [_duckdb_python(), str(_HERE / "group_duckdb_job.py"), str(folder), *case.names]
    seconds = _timed(command, folder)
    answer = pq.read_table(folder / f"{case.names[-1]}-answer.parquet").to_pandas()
    return GroupOutcome(seconds, answer)


def _spark(case: GroupCase, folder: Path) -> GroupOutcome:
    """Run the job; the posts of one second more let it send the last minute."""
    own = folder / "spark"
    own.mkdir()
    for name in ("squares", *case.names):
        shutil.copy(folder / f"{name}.parquet", own)
    last = pq.read_table(own / f"{case.names[-1]}.parquet")
    ts: Any = pa.array([(case.minutes + 1) * _MINUTE * 1_000_000], pa.int64()).cast(pa.timestamp("us"))
    end = last.slice(0, 1).set_column(3, "ts", ts.cast(last.schema.field("ts").type))
    pq.write_table(end, own / "end.parquet")
    command = [sys.executable, str(_HERE / "group_spark_job.py"), str(own), *case.names, "end"]
    seconds = _timed(command, own)[:-1]
    rows = pq.read_table(own / "out").to_pandas()
    return GroupOutcome(seconds, rows[rows["minute"] == rows["minute"].max()].drop(columns="minute"))


def _timed(command: list[str], folder: Path) -> list[float]:
    """Run a job, and return the seconds of its minutes but the first."""
    environment = {**os.environ, "JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)
    if done.returncode:
        raise PeerFailedError(f"the job ended with {done.returncode}: {last_words(done.stderr)}")
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("done ")]
    return [float(seconds) for _, _, seconds in lines[1:]]


def check(name: str, wanted: pd.DataFrame, found: pd.DataFrame) -> None:
    """Raise `ValueError` if the rows of a system are others than ours."""
    keys = ["query", "topic"]
    ours, theirs = (one.sort_values(keys).reset_index(drop=True) for one in (wanted, found))
    same = len(ours) == len(theirs) and all(
        (ours[column].to_numpy() == theirs[column].to_numpy()).all() for column in (*keys, "n")
    )
    if not same or not np.allclose(ours["mean"], theirs["mean"], rtol=_CLOSE, atol=0):
        raise ValueError(f"{name} answers otherwise: {len(theirs)} rows, and stqsh {len(ours)}")


_PEERS: list[tuple[str, Callable[[], str], Callable[[GroupCase, Path], GroupOutcome]]] = [
    ("DuckDB", _without_duckdb, _duckdb),
    ("PySpark", plainspark.missing, _spark),
]
