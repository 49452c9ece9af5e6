"""Idleness: the processor time of an engine that has nothing to do, in percent of a core.

Once its stream stands still, as in a script after its RUN; once the stream plays and has come to its end, as
in a shell that somebody left open.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import stqsh
from stqsh.bench.figures import LESS, Better
from stqsh.bench.harness.cpu import ProcessorMeter
from stqsh.bench.harness.drive import REPETITIONS, Say, execute, run
from stqsh.bench.harness.workload import CREATE, Motion, rectangles
from stqsh.bench.suite.range import register
from stqsh.client.api import Session

COLUMNS = {"stream": "the stream", "java_percent": "Java %", "python_percent": "Python %"}
KEY = ("stream",)
FIGURES: dict[str, Better] = {"java_percent": LESS, "python_percent": LESS}

_OBJECTS, _QUERIES, _TICKS = 10_000, 100, 5
_SETTLING_S = 10.0


@dataclass(frozen=True)
class Options:
    """How long to look."""

    seconds: float = field(default=60.0, metadata={"help": "Seconds of each kind of idleness."})


QUICK = Options(30.0)


def measure(options: Options, say: Say) -> list[dict[str, Any]]:
    """Look at an engine that idles; a row for each way to do so, its samples thirds of the time."""
    with (
        tempfile.TemporaryDirectory(prefix="stqsh-bench-") as folder,
        stqsh.connect(temporary=True, autoplay=False) as session,
    ):
        reports = Path(folder) / "reports.parquet"
        Motion(_OBJECTS, _OBJECTS, _TICKS).write(reports)
        execute(session, CREATE.format(file=reports))
        register(session, rectangles(_QUERIES), 0)
        run(session, _TICKS - 1)
        rows = [_idling(session, "stands still", options.seconds, say)]
        execute(session, "PLAY m AT max;")
        next(progress for progress in session.link.watch() if progress.ended)
        return [*rows, _idling(session, "has ended", options.seconds, say)]


def _idling(session: Session, stream: str, seconds: float, say: Say) -> dict[str, Any]:
    say(f"the stream {stream}: looking for {seconds:.0f} s")
    time.sleep(_SETTLING_S)
    java, python = list[float](), list[float]()
    for _ in range(REPETITIONS):
        meter, begun = ProcessorMeter(session), time.perf_counter()
        time.sleep(seconds / REPETITIONS)
        spent, took = meter.spent(), time.perf_counter() - begun
        if spent is not None:
            java.append(100 * spent.java / took)
            python.append(100 * spent.python / took)
    return {"stream": stream, "java_percent": java or None, "python_percent": python or None}
