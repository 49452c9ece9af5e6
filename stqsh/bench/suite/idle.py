"""Measure the processor time of an idle engine, in percent of a core.

The engine is idle in two ways: its stream is paused, as in a script after its RUN, or its stream has been
played to the end, as in a shell that was left open.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from stqsh.bench.figures import LESS, Better, Row
from stqsh.bench.harness.cpu import ProcessorMeter
from stqsh.bench.harness.drive import REPETITIONS, Say, execute, moving_session, run
from stqsh.bench.harness.registration import statements
from stqsh.bench.harness.workload import Motion, rectangles
from stqsh.bench.options import option
from stqsh.client.api import Session

COLUMNS = {"stream": "the stream", "java_percent": "Java %", "python_percent": "Python %"}
KEY = ("stream",)
FIGURES: dict[str, Better] = {"java_percent": LESS, "python_percent": LESS}

_OBJECTS, _QUERIES, _TICKS = 10_000, 100, 5
_SETTLING_S = 10.0


@dataclass(frozen=True)
class IdleOptions:
    """How long to measure."""

    seconds: float = option(60.0, "Seconds of each kind of idleness.")


FULL = IdleOptions()
QUICK = IdleOptions(30.0)


def measure(options: IdleOptions, say: Say) -> list[Row]:
    """Measure an idle engine; return a row for each way to be idle, with thirds of the time as samples."""
    with moving_session(Motion(_OBJECTS, _OBJECTS, _TICKS)) as session:
        execute(session, statements(rectangles(_QUERIES)))
        run(session, _TICKS - 1)
        rows = [_idling(session, "stands still", options.seconds, say)]
        execute(session, "PLAY m AT max;")
        next(progress for progress in session.connection.watch() if progress.ended)
        return [*rows, _idling(session, "has ended", options.seconds, say)]


def _idling(session: Session, stream: str, seconds: float, say: Say) -> Row:
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
