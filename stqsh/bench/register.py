"""Registering and dropping very many queries: from the text of the statements to every slot having them.

One session on a stream of objects that stand about; squares of 1 % side, uniform. The parts: what it takes
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
from stqsh.bench.cpu import Meter
from stqsh.bench.drive import Say, execute, run
from stqsh.bench.figures import LESS, Better
from stqsh.bench.workload import CREATE, Motion, rectangles
from stqsh.session.client import Session

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
    objects: int = field(default=10_000, metadata={"help": "Objects that the first answers are about."})


QUICK = Options((10_000, 100_000))


def measure(options: Options, say: Say) -> list[dict[str, Any]]:
    """Run the benchmark; `say` is told what goes on. A row for each number of queries, come and gone."""
    return [row for count in options.queries for row in _come_and_go(count, options.objects, say)]


def registrations(count: int) -> str:
    """The text that registers so many squares."""
    return "\n".join(
        f"REGISTER QUERY q{number} AS SELECT oid FROM m INSIDE ({x1!r}, {y1!r}, {x2!r}, {y2!r});"
        for number, (x1, y1, x2, y2) in enumerate(rectangles(count).tolist())
    )


def _come_and_go(count: int, objects: int, say: Say) -> Iterator[dict[str, Any]]:
    come = registrations(count)
    go = "\n".join(f"DROP QUERY q{number};" for number in range(count))
    with (
        tempfile.TemporaryDirectory(prefix="stqsh-bench-") as folder,
        stqsh.connect(temporary=True, autoplay=False) as session,
    ):
        reports = Path(folder) / "reports.parquet"
        Motion(objects, objects, ticks=8).write(reports)
        execute(session, CREATE.format(file=reports))
        run(session, 2)
        say(f"registering {count:,} queries")
        yield _row("register", count, session, come)
        run(session, 1)
        say(f"dropping {count:,} queries")
        yield _row("drop", count, session, go)


def _row(what: str, count: int, session: Session, text: str) -> dict[str, Any]:
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
    meter, own, begun = Meter(session), time.process_time(), time.perf_counter()
    work()
    seconds, spent = time.perf_counter() - begun, meter.spent()
    cpu_s = None if spent is None else time.process_time() - own + spent.java + spent.python
    return seconds, cpu_s
