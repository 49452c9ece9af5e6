"""Measure snapshot SELECTs over a million objects, straight from the slots and by the control log.

The session is idle and every object has reported once. The time is that of `Session.execute`, from the text
to the rows. Each question has a place or key of its own, drawn from a seed, except where one question is
repeated on purpose.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from stqsh.bench.figures import LESS, Better, Row
from stqsh.bench.harness.drive import Say, moving_session, run
from stqsh.bench.harness.workload import Motion, ticks_to_fill
from stqsh.bench.options import option
from stqsh.client.api import Session

COLUMNS = {
    "what": "snapshot",
    "way": "way",
    "rows": "rows",
    "ms": "p50 ms",
    "p99_ms": "p99 ms",
    "asked": "asked",
}
KEY = ("what", "way")
FIGURES: dict[str, Better] = {"ms": LESS, "p99_ms": LESS}

_SIDE = 0.1
"""The side of a square that covers 1 % of the area."""


@dataclass(frozen=True)
class SnapshotOptions:
    """What to measure; see the help of each option."""

    objects: int = option(1_000_000, "Moving objects.")
    asked: int = option(300, "Questions of each kind, straight from the slots.")
    by_log: int = option(30, "Questions of each kind by way of the control log.")
    per_tick: int = option(100_000, "Objects that report in a tick.")


FULL = SnapshotOptions()
QUICK = SnapshotOptions(asked=100, by_log=5)


def measure(options: SnapshotOptions, say: Say) -> list[Row]:
    """Return a row for each kind of question and each way to the answer."""
    ticks = ticks_to_fill(options.objects, options.per_tick)
    say(f"writing a report of each of {options.objects:,} objects")
    with moving_session(Motion(options.objects, min(options.per_tick, options.objects), ticks)) as session:
        say("taking every object in")
        run(session, ticks)
        rows: list[Row] = []
        for direct, asked in ((True, options.asked), (False, options.by_log)):
            session.snapshots.direct = direct
            for what, questions in _questions(options.objects).items():
                say(f"{what}, {_way(direct)}")
                rows.append({"what": what, "way": _way(direct), **_timed(session, questions, asked)})
        return rows


def _way(direct: bool) -> str:
    return "direct" if direct else "by the log"


def _timed(session: Session, questions: Callable[[], Iterator[str]], asked: int) -> Row:
    """Ask questions in turn; the first two warm up and are not counted."""
    times, counts, text = [], [], questions()
    for number in range(asked + 2):
        question = next(text)
        begun = time.perf_counter()
        [answer] = session.execute(question)
        if number >= 2:
            times.append((time.perf_counter() - begun) * 1000)
            counts.append(answer.table.num_rows)  # type: ignore[union-attr]  # a SELECT gives an Answer
    p99 = float(np.percentile(times, 99))
    return {"rows": round(float(np.mean(counts))), "ms": times, "p99_ms": p99, "asked": asked}


def _questions(objects: int) -> dict[str, Callable[[], Iterator[str]]]:
    """Return functions that yield questions without end, by their kind."""

    def places() -> Iterator[tuple[float, float]]:
        rng = np.random.default_rng(3)
        while True:
            x, y = rng.random(2).tolist()
            yield x * (1 - _SIDE), y * (1 - _SIDE)

    def square(x: float, y: float) -> str:
        return f"({x!r}, {y!r}, {x + _SIDE!r}, {y + _SIDE!r})"

    def keys() -> Iterator[str]:
        for number in np.random.default_rng(4).integers(0, objects, 1 << 16).tolist():
            yield f"SELECT * FROM m WHERE oid = 'o{number}';"

    def one_key() -> Iterator[str]:
        while True:
            yield "SELECT * FROM m WHERE oid = 'o7';"

    return {
        "object by key": keys,
        "the same object by key": one_key,
        "range, 1 % of the area": lambda: (f"SELECT * FROM m INSIDE {square(x, y)};" for x, y in places()),
        "range count, 1 %": lambda: (f"SELECT COUNT(*) FROM m INSIDE {square(x, y)};" for x, y in places()),
        "kNN, k = 10": lambda: (
            f"SELECT oid, distance FROM m NEAREST 10 TO ({x!r}, {y!r});" for x, y in places()
        ),
    }
