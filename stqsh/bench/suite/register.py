"""Registering and dropping very many queries: from the text of the statements to every slot having them.

One session on a stream of objects that stand about; squares of 1 % side, uniform. Those that move go with one
object after the other, as squares or as kNN queries; they take one more batch, in which these objects are
looked up. The parts: what it takes
until all statements are in the control log (`log`), and the batch that takes them in (`batch`). CPU seconds
are those of this process, and of the engine with all that it has started.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
    objects: int = field(default=10_000, metadata={"help": "Objects that the first answers are about."})


QUICK = Options((10_000, 100_000))
_AROUND = {"moving": "INSIDE RECT(0.01, 0.01) AROUND 'o{}'", "nearest": "NEAREST 10 TO 'o{}'"}


def measure(options: Options, say: Say) -> list[dict[str, Any]]:
    """Run the benchmark, with progress messages to `say`; return rows for each number of queries."""
    rows = [row for count in options.queries for row in _come_and_go("", registrations(count), options, say)]
    for count in options.moving:
        for word in _AROUND:
            rows += _come_and_go(f" {word}", followers(count, word, options.objects), options, say)
    return rows


def registrations(count: int) -> list[str]:
    """Return the statements that register a number of squares."""
    return [
        f"REGISTER QUERY q{number} AS SELECT oid FROM m INSIDE ({x1!r}, {y1!r}, {x2!r}, {y2!r});"
        for number, (x1, y1, x2, y2) in enumerate(rectangles(count).tolist())
    ]


def followers(count: int, word: str, objects: int) -> list[str]:
    """Return the statements that register queries around objects; `word`: see `_AROUND`."""
    place = _AROUND[word].format
    return [
        f"REGISTER QUERY q{number} AS SELECT oid FROM m {place(number % objects)};" for number in range(count)
    ]


def _come_and_go(word: str, come: list[str], options: Options, say: Say) -> Iterator[dict[str, Any]]:
    """Return a row for the queries' coming, and one for their going, which `word` tells from others."""
    count, objects = len(come), options.objects
    go = [f"DROP QUERY q{number};" for number in range(count)]
    with (
        tempfile.TemporaryDirectory(prefix="stqsh-bench-") as folder,
        stqsh.connect(temporary=True, autoplay=False) as session,
    ):
        reports = Path(folder) / "reports.parquet"
        Motion(objects, objects, ticks=8).write(reports)
        execute(session, CREATE.format(file=reports))
        run(session, 2)
        say(f"registering {count:,} queries{word}")
        yield _row(f"register{word}", session, come)
        run(session, 1)
        say(f"dropping {count:,} queries{word}")
        yield _row(f"drop{word}", session, go)


def _row(what: str, session: Session, statements: list[str]) -> dict[str, Any]:
    count, text = len(statements), "\n".join(statements)
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
