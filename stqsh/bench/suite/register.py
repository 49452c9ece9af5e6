"""Measure how long very many queries take until every slot has them: from a file, and one by one.

The session has a stream of objects that stay where they are. The queries are uniform squares of 1 % side.
Queries that move follow one object after the other, as squares or as kNN queries; the engine looks these
objects up in one batch more. `log s` is the time until all queries are in the control log, `batch s` the time
of the batch that takes them in. CPU seconds are those of this process and of all processes of the engine. A
`script` is a file of REGISTER statements that the shell runs (`stqsh -f`); its time includes the start of the
shell and a RUN to the end of the stream, which is one step.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyarrow.csv import write_csv

from stqsh.bench.figures import LESS, Better, Row
from stqsh.bench.harness.cpu import ProcessorMeter
from stqsh.bench.harness.drive import Say, execute, moving_session, run, temporary_folder
from stqsh.bench.harness.registration import statements
from stqsh.bench.harness.workload import Motion, rectangles
from stqsh.bench.options import option
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
class RegisterOptions:
    """What to measure; each number of queries has a session of its own."""

    queries: tuple[int, ...] = option((10_000, 100_000, 1_000_000), "Numbers of queries in a file.")
    moving: tuple[int, ...] = option((10_000,), "Numbers of queries that follow objects.")
    single: tuple[int, ...] = option((10_000, 100_000), "Numbers of single statements.")
    script: tuple[int, ...] = option((100_000,), "Numbers of statements in a script of the shell.")
    objects: int = option(10_000, "Objects that the first answers are about.")


FULL = RegisterOptions()
QUICK = RegisterOptions((10_000, 100_000), single=(10_000,), script=(10_000,))
SQUARE = "INSIDE (:x1, :y1, :x2, :y2)"
_AROUND = {"moving": "INSIDE RECT(0.01, 0.01) AROUND :id", "nearest": "NEAREST 10 TO :id"}
_FILLING = 2
"""Ticks that run before anything is measured."""

_TICKS = 8


def measure(options: RegisterOptions, say: Say) -> list[Row]:
    """Return a row for each way to register queries and each number of them."""
    rows: list[Row] = [_from_file("", SQUARE, squares(count), options, say) for count in options.queries]
    for count in options.moving:
        table = pa.table({"id": pa.array([f"o{number % options.objects}" for number in range(count)])})
        rows += [_from_file(f" {word}", place, table, options, say) for word, place in _AROUND.items()]
    for count in options.single:
        rows += _one_by_one(count, options, say)
    return rows + [_script(count, options, say) for count in options.script]


def squares(count: int) -> pa.Table:
    """Return the corners of a number of squares as the columns x1, y1, x2 and y2."""
    return pa.table(dict(zip(("x1", "y1", "x2", "y2"), rectangles(count).T, strict=True)))


def _from_file(word: str, place: str, table: pa.Table, options: RegisterOptions, say: Say) -> Row:
    """Register the queries of a CSV file; `word` distinguishes them from others."""
    with _filled(options, _TICKS) as session, temporary_folder() as folder:
        file = folder / "q.csv"
        write_csv(table, file)
        say(f"registering {table.num_rows:,} queries{word} from a file")
        text = f"REGISTER QUERIES FROM FILE '{file}' AS SELECT oid FROM m {place};"
        return _row(f"file{word}", session, table.num_rows, text)


def _one_by_one(count: int, options: RegisterOptions, say: Say) -> Iterator[Row]:
    """Register queries by statements of their own, and drop them again."""
    with _filled(options, _TICKS) as session:
        say(f"registering {count:,} queries by single statements")
        yield _row("register", session, count, statements(rectangles(count)))
        run(session, 1)
        say(f"dropping {count:,} queries")
        yield _row("drop", session, count, "\n".join(f"DROP QUERY q{number};" for number in range(count)))


def _script(count: int, options: RegisterOptions, say: Say) -> Row:
    """Run a script of REGISTER statements by the shell's command line."""
    with _filled(options, _FILLING + 1) as session, temporary_folder() as folder:
        file = folder / "q.sql"
        file.write_text(statements(rectangles(count)) + "\nRUN;")
        say(f"running a script of {count:,} statements")
        command = [sys.executable, "-m", "stqsh", "--quiet", "--no-init", "--session", session.home.name]
        begun = time.perf_counter()
        subprocess.run([*command, "-f", str(file)], check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - begun
    return {**dict.fromkeys(COLUMNS), **_totals("script", count, seconds)}


@contextmanager
def _filled(options: RegisterOptions, ticks: int) -> Iterator[Session]:
    """Open a session in which all objects have reported, with a stream of a number of ticks."""
    with moving_session(Motion(options.objects, options.objects, ticks)) as session:
        run(session, _FILLING)
        yield session


def _row(what: str, session: Session, count: int, text: str) -> Row:
    log_s, log_cpu_s = _timed(session, lambda: execute(session, text))
    batch_s, batch_cpu_s = _timed(session, lambda: run(session, 1))
    return {
        **_totals(what, count, log_s + batch_s),
        "log_s": log_s,
        "batch_s": batch_s,
        "log_cpu_s": log_cpu_s,
        "batch_cpu_s": batch_cpu_s,
    }


def _totals(what: str, count: int, seconds: float) -> Row:
    return {"what": what, "queries": count, "seconds": seconds, "queries_per_s": count / seconds}


def _timed(session: Session, work: Callable[[], object]) -> tuple[float, float | None]:
    """Do some work; return its seconds by the clock and of all processors, None where those are unknown."""
    meter, own, begun = ProcessorMeter(session), time.process_time(), time.perf_counter()
    work()
    seconds, spent = time.perf_counter() - begun, meter.spent()
    cpu_s = None if spent is None else time.process_time() - own + spent.java + spent.python
    return seconds, cpu_s
