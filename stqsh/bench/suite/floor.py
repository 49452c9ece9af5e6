"""Measure the floor: the cost of an empty batch, and of one with 10,000 records.

Each batch is a sample. The first batches of a session load and compile; they are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from stqsh.bench.figures import LESS, Better, Row
from stqsh.bench.harness.cpu import ProcessorMeter
from stqsh.bench.harness.drive import SPLIT, Say, execute, moving_session, run, split
from stqsh.bench.harness.registration import statements
from stqsh.bench.harness.workload import Motion, rectangles
from stqsh.bench.options import option

COLUMNS = {"records": "records", "queries": "queries", "batches": "batches", "cpu_ms": "CPU ms", **SPLIT}
KEY = ("records", "queries")
FIGURES: dict[str, Better] = {"total_ms": LESS, "cpu_ms": LESS}

_RECORDS = 10_000
_QUERIES = 1_000
_WARM_UP = 5
"""The number of first batches that are not counted."""


@dataclass(frozen=True)
class FloorOptions:
    """The number of batches of each kind."""

    batches: int = option(60, "Batches to measure.")


FULL = FloorOptions()
QUICK = FloorOptions(20)


def measure(options: FloorOptions, say: Say) -> list[Row]:
    """Run steps in a batch each: first empty ones, then ones with 10,000 records."""
    batches = options.batches
    total = batches + _WARM_UP
    say(f"{batches} batches with nothing to do")
    rows = [{"records": 0, **_single_steps(Motion(_RECORDS, _RECORDS, ticks=2, every=2 * total), batches)}]
    say(f"{batches} batches with {_RECORDS:,} records")
    return [*rows, {"records": _RECORDS, **_single_steps(Motion(_RECORDS, _RECORDS, ticks=total), batches)}]


def _single_steps(motion: Motion, batches: int) -> Row:
    with moving_session(motion) as session:
        execute(session, statements(rectangles(_QUERIES)))
        for _ in range(_WARM_UP):
            run(session, 1)
        meter = ProcessorMeter(session)
        taken = [progress for _ in range(batches) for progress in run(session, 1)]
        cpu = meter.spent()
        cpu_ms = None if cpu is None else 1000 * (cpu.java + cpu.python) / batches
        return {"queries": _QUERIES, "batches": len(taken), "cpu_ms": cpu_ms, **split(taken)}
