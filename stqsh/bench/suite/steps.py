"""Measure many small steps: a few reports an hour, hour by hour, with queries of every result and timing.

The reports are made up; `--data` names the folder of the real data sets, of which a year of reports to a city
is played as well. All updates are written as JSON lines, to nowhere. The engine's start is not counted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import stqsh
from stqsh.bench.figures import LESS, MORE, Better, Row
from stqsh.bench.harness.drive import Say, execute, temporary_folder
from stqsh.bench.options import option
from stqsh.client.api import Session
from stqsh.client.run import RunHandle
from stqsh.shell.writers.opening import open_writer
from stqsh.shell.writers.writer import Target

COLUMNS = {
    "what": "what is played",
    "steps": "steps",
    "seconds": "s",
    "steps_per_s": "steps/s",
    "updates": "updates",
    "client_us": "client µs/update",
}
KEY = ("what",)
FIGURES: dict[str, Better] = {"seconds": LESS, "steps_per_s": MORE, "client_us": LESS}

_HOUR_US = 3_600_000_000
_STREAM = (
    "CREATE EVENT STREAM r (id BIGINT, ts TIMESTAMP, x DOUBLE, y DOUBLE, area STRING, kind STRING,"
    " title STRING) KEY id LOCATION (x, y) TIME ts TEXT title FROM FILE '{file}' PLANAR BOUNDS (0, 0, 1, 1)"
    " TICK 1 hour KEEP {keep};"
)
_NAMES = {"id": "id", "ts": "ts", "x": "x", "y": "y", "area": "area", "kind": "kind", "title": "title"}
_YEAR = (
    "CREATE EVENT STREAM r (CASE_ENQUIRY_ID BIGINT, OPEN_DT TIMESTAMP, CLOSURE_REASON STRING, TYPE STRING,"
    " neighborhood STRING, LATITUDE DOUBLE, LONGITUDE DOUBLE) KEY CASE_ENQUIRY_ID"
    " LOCATION (LONGITUDE, LATITUDE) TIME OPEN_DT TEXT CLOSURE_REASON"
    " FROM FILE '{file}' FORMAT CSV (timestamp => '%m/%d/%Y %I:%M:%S %p',"
    " zone => 'America/New_York') TICK 1 hour KEEP 36 hours;"
)
_YEAR_NAMES = {
    "id": "CASE_ENQUIRY_ID",
    "ts": "OPEN_DT",
    "x": "LONGITUDE",
    "y": "LATITUDE",
    "area": "neighborhood",
    "kind": "TYPE",
    "title": "CLOSURE_REASON",
}
QUERIES = (
    "SELECT {kind}, COUNT(*) AS n FROM r GROUP BY {kind}",
    "SELECT {area}, {kind}, COUNT(*) AS n, MIN({ts}) AS first, MAX({id}) AS top FROM r"
    " GROUP BY {area}, {kind} HAVING COUNT(*) > 2",
    "SELECT TOPK({title}, 5) AS w FROM r",
    "SELECT {area}, TOPK({title}, 5) AS w, COUNT(DISTINCT {kind}) AS t FROM r GROUP BY {area} SYNC 1 hour",
    "SELECT TOPK({title}, 5) AS w, COUNT(*) AS n FROM r WHERE {title} CONTAINS ANY 'snow graffiti'"
    " SYNC 3 hours",
    "SELECT {kind}, COUNT(*) AS n FROM r GROUP BY {kind} ORDER BY COUNT(*) DESC LIMIT 5",
    "SELECT {area}, AVG({x}) AS z, SUM({y}) AS s FROM r GROUP BY {area} HAVING COUNT(*) >= 5"
    " ORDER BY AVG({x}) LIMIT 6 SYNC 30 min",
    "SELECT {kind}, COUNT(*) AS n, AVG({y}) AS la FROM r GROUP BY {kind} WINDOW 6 hours SLIDE 1 hour",
    "SELECT HOUR({ts}) AS h, COUNT(*) AS n FROM r GROUP BY HOUR({ts}) WINDOW 1 day",
    "SELECT COUNT(*) AS n FROM r WHERE {ts} > NOW - 5 hours SYNC 1 hour",
    "SELECT {kind}, COUNT(*) AS n FROM r NEAREST 25 TO ({middle}) GROUP BY {kind} SYNC 1 hour",
    "SELECT {id}, {kind} FROM r WHERE {kind} LIKE '%a%' NEAREST 7 TO ({middle})",
    "SELECT {id}, {kind} FROM r ORDER BY {ts} DESC, {id} DESC LIMIT 3",
    "SELECT {id}, {kind} FROM r WHERE {title} CONTAINS 'graffiti removed'",
)
"""The queries, with the names of columns, and a place in the middle, to fill in."""

_GROUPED = 3
"""The query of which refreshes are counted."""

_WORDS = ("graffiti", "removed", "snow", "street", "light", "pothole", "repaired", "tree", "noted", "sign")


@dataclass(frozen=True)
class StepsOptions:
    """What to measure; see the help of each option."""

    steps: int = option(8_760, "Steps of an hour.")
    per_step: int = option(14, "Reports a step.")
    kept: int = option(20_000, "Events of which the grouped query is refreshed.")
    data: str = option("", "The folder of the real data sets, with boston_311.")


FULL = StepsOptions()
QUICK = StepsOptions(1_000, kept=5_000)


def measure(options: StepsOptions, say: Say) -> list[Row]:
    """Return a row for all queries, one for a grouped query over many events, and one for the real year."""
    rows = []
    queries = [query.format(**_NAMES, middle="0.5, 0.5") for query in QUERIES]
    with _reports(options.steps, options.per_step, "36 hours") as session:
        say(f"playing {options.steps:,} steps with {len(queries)} queries")
        rows.append(_played(session, "queries of every kind", queries, options.steps))
    filling = options.kept // options.per_step
    with _reports(options.steps + filling, options.per_step, f"{filling} hours") as session:
        say(f"refreshing a grouped query over {options.kept:,} events {options.steps:,} times")
        execute(session, f"RUN {filling} STEPS;")
        what = f"a grouped query over {options.kept:,} events"
        rows.append(_played(session, what, [queries[_GROUPED]], options.steps))
    if options.data:
        say("playing a year of real reports")
        with stqsh.connect(temporary=True, autoplay=False) as session:
            execute(session, _YEAR.format(file=f"{options.data}/boston_311/*.csv.gz"))
            queries = [query.format(**_YEAR_NAMES, middle="-71.06, 42.355") for query in QUERIES]
            rows.append(_played(session, "a year of real reports", queries, 8_760))
    return rows


@contextmanager
def _reports(steps: int, per_step: int, keep: str) -> Iterator[Session]:
    """Open a temporary session with a stream of reports that are made up."""
    with temporary_folder() as folder, stqsh.connect(temporary=True, autoplay=False) as session:
        _write(folder / "reports.parquet", steps, per_step)
        execute(session, _STREAM.format(file=folder / "reports.parquet", keep=keep))
        yield session


def _write(file: Path, steps: int, per_step: int) -> None:
    """Write reports that come evenly; the same numbers give the same ones."""
    random, count = np.random.default_rng(1), steps * per_step
    words = np.array(_WORDS)[random.integers(0, len(_WORDS), (count, 4))]
    columns: dict[str, Any] = {
        "id": np.arange(count),
        "ts": pa.array(np.arange(count) * _HOUR_US // per_step, pa.timestamp("us", "UTC")),
        "x": random.random(count),
        "y": random.random(count),
        "area": np.char.add("area ", random.integers(0, 25, count).astype(str)),
        "kind": np.char.add("kind ", random.zipf(1.5, count).clip(max=150).astype(str)),
        "title": [" ".join(row) for row in words],
    }
    pq.write_table(pa.table(columns), file)


def _played(session: Session, what: str, queries: Sequence[str], steps: int) -> Row:
    """Register queries, run some steps and write all updates; return what that took."""
    session.start_engine()
    for number, query in enumerate(queries):
        execute(session, f"REGISTER QUERY q{number} AS {query};")
    writer, updates = open_writer("jsonl", Target(_Nowhere(), one_query=False)), 0
    begun, used = time.perf_counter(), time.process_time()
    for outcome in session.outcomes(f"RUN {steps} STEPS;"):
        assert isinstance(outcome, RunHandle)
        for some in session.updates(until=outcome):
            writer.updates(some)
            updates += some.table.num_rows
    seconds, client = time.perf_counter() - begun, time.process_time() - used
    return {
        "what": what,
        "steps": steps,
        "seconds": [seconds],
        "steps_per_s": [steps / seconds],
        "updates": updates,
        "client_us": [client / max(updates, 1) * 1e6],
    }


class _Nowhere:
    """Takes what is written, and forgets it."""

    def write(self, data: bytes) -> None:
        """Take data."""

    def flush(self) -> None:
        """Do nothing."""
