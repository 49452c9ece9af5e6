"""Registering very many queries, until every slot has them: from a file, and by single statements.

One session on a stream of objects that stand about; squares of 1 % side, uniform. Those that move go with one
object after the other, as squares or as kNN queries; they take one more batch, in which these objects are
looked up. `log` is the time until all queries are in the control log, `batch` that of the batch which takes
them in. CPU seconds are those of this process, and of the engine with all that it has started.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.csv import write_csv

import stqsh
from stqsh.bench.figures import LESS, Better
from stqsh.bench.harness.cpu import ProcessorMeter
from stqsh.bench.harness.drive import Say, execute, run
from stqsh.bench.harness.workload import CREATE, Motion, rectangles
from stqsh.client.api import Session

COLUMNS = {
    "what": "what",
    "queries": "queries",
    "seconds": "s",
    "log_s": "log s",
    "batch_s": "batch s",
    "log_cpu_s": "log CPU s",
    "batch_cpu_s": "batch CPU s",
    "queries_per_s": "queries/s",
}


KEY = ("what", "queries")
FIGURES: dict[str, Better] = {"seconds": LESS, "log_cpu_s": LESS, "batch_cpu_s": LESS}


@dataclass(frozen=True)
class Options:
    """What to measure; each number of queries in a session of its own."""

    queries: tuple[int, ...] = field(
        default=(10_000, 100_000, 1_000_000), metadata={"help": "Numbers of queries, with commas."}
    )
    moving: tuple[int, ...] = field(
        default=(10_000,), metadata={"help": "Numbers of queries that go with objects, with commas."}
    )
    single: tuple[int, ...] = field(
        default=(10_000, 100_000), metadata={"help": "Numbers of single statements, with commas."}
    )
    objects: int = field(default=10_000, metadata={"help": "Objects that the first answers are about."})


QUICK = Options((10_000, 100_000), single=(10_000,))
_AROUND = {"moving": "INSIDE RECT(0.01, 0.01) AROUND :id", "nearest": "NEAREST 10 TO :id"}
SQUARE = "INSIDE (:x1, :y1, :x2, :y2)"


def measure(options: Options, say: Say) -> list[dict[str, Any]]:
    """Run the benchmark, with progress messages to `say`; return rows for each way and number of queries."""
    rows: list[dict[str, Any]] = []
    for count in options.queries:
        rows += _from_file("", SQUARE, squares(count), options, say)
    for count in options.moving:
        ids = pa.array([f"o{number % options.objects}" for number in range(count)])
        table = pa.table({"id": ids})
        for word, place in _AROUND.items():
            rows += _from_file(f" {word}", place, table, options, say)
    for count in options.single:
        rows += _one_by_one(count, options, say)
    return rows


def squares(count: int) -> pa.Table:
    """Return the corners of a number of squares."""
    return pa.table(dict(zip(("x1", "y1", "x2", "y2"), rectangles(count).T, strict=True)))


def registrations(count: int) -> list[str]:
    """Return the statements that register a number of squares."""
    return [
        f"REGISTER QUERY q{number} AS SELECT oid FROM m INSIDE ({x1!r}, {y1!r}, {x2!r}, {y2!r});"
        for number, (x1, y1, x2, y2) in enumerate(rectangles(count).tolist())
    ]


def _from_file(
    word: str, place: str, table: pa.Table, options: Options, say: Say
) -> Iterator[dict[str, Any]]:
    """Yield a row for the queries of a CSV file, which `word` tells from others."""
    with _session(options) as (session, folder):
        file = folder / "q.csv"
        write_csv(table, file)
        say(f"registering {table.num_rows:,} queries{word} from a file")
        text = f"REGISTER QUERIES FROM FILE '{file}' AS SELECT oid FROM m {place};"
        yield _row(f"file{word}", session, table.num_rows, text)


def _one_by_one(count: int, options: Options, say: Say) -> Iterator[dict[str, Any]]:
    """Yield a row for queries that come by statements of their own, and one for their going."""
    with _session(options) as (session, _):
        say(f"registering {count:,} queries by single statements")
        yield _row("register", session, count, "\n".join(registrations(count)))
        run(session, 1)
        say(f"dropping {count:,} queries")
        yield _row("drop", session, count, "\n".join(f"DROP QUERY q{number};" for number in range(count)))


@contextmanager
def _session(options: Options) -> Iterator[tuple[Session, Path]]:
    """Open a session in which the objects have reported, and a folder for files."""
    with (
        tempfile.TemporaryDirectory(prefix="stqsh-bench-") as name,
        stqsh.connect(temporary=True, autoplay=False) as session,
    ):
        folder = Path(name)
        Motion(options.objects, options.objects, ticks=8).write(folder / "reports.parquet")
        execute(session, CREATE.format(file=folder / "reports.parquet"))
        run(session, 2)
        yield session, folder


def _row(what: str, session: Session, count: int, text: str) -> dict[str, Any]:
    log_s, log_cpu_s = _timed(session, lambda: execute(session, text))
    batch_s, batch_cpu_s = _timed(session, lambda: run(session, 1))
    return {
        "what": what,
        "queries": count,
        "seconds": log_s + batch_s,
        "log_s": log_s,
        "batch_s": batch_s,
        "log_cpu_s": log_cpu_s,
        "batch_cpu_s": batch_cpu_s,
        "queries_per_s": count / (log_s + batch_s),
    }


def _timed(session: Session, work: Callable[[], object]) -> tuple[float, float | None]:
    """Do some work: seconds by the clock, and of all processors; None where those are not known."""
    meter, own, begun = ProcessorMeter(session), time.process_time(), time.perf_counter()
    work()
    seconds, spent = time.perf_counter() - begun, meter.spent()
    cpu_s = None if spent is None else time.process_time() - own + spent.java + spent.python
    return seconds, cpu_s
