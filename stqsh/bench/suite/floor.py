"""The floor: what a batch costs that has nothing to do, and one with 10,000 records.

Each batch is a sample; the first ones of a session load and compile, and are not counted.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import stqsh
from stqsh.bench.figures import LESS, Better
from stqsh.bench.harness.cpu import ProcessorMeter
from stqsh.bench.harness.drive import SPLIT, Say, execute, run, split
from stqsh.bench.harness.workload import CREATE, Motion, rectangles
from stqsh.bench.suite.range import register

COLUMNS = {"records": "records", "queries": "queries", "batches": "batches", "cpu_ms": "CPU ms", **SPLIT}
KEY = ("records", "queries")
FIGURES: dict[str, Better] = {"total_ms": LESS, "cpu_ms": LESS}

_RECORDS = 10_000
_QUERIES = 1_000
#: The first batches load and compile; they are not counted.
_WARM_UP = 5


@dataclass(frozen=True)
class Options:
    """How many batches of each kind."""

    batches: int = field(default=60, metadata={"help": "Batches to measure."})


QUICK = Options(20)


def measure(options: Options, say: Say) -> list[dict[str, Any]]:
    """Run steps in a batch each: empty ones, then ones with 10,000 records."""
    batches = options.batches
    total = batches + _WARM_UP
    say(f"{batches} batches with nothing to do")
    rows = [{"records": 0, **_single_steps(Motion(_RECORDS, _RECORDS, ticks=2, every=2 * total), batches)}]
    say(f"{batches} batches with {_RECORDS:,} records")
    return [*rows, {"records": _RECORDS, **_single_steps(Motion(_RECORDS, _RECORDS, ticks=total), batches)}]


def _single_steps(motion: Motion, batches: int) -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory(prefix="stqsh-bench-") as folder,
        stqsh.connect(temporary=True, autoplay=False) as session,
    ):
        reports = Path(folder) / "reports.parquet"
        motion.write(reports)
        execute(session, CREATE.format(file=reports))
        register(session, rectangles(_QUERIES), 0)
        for _ in range(_WARM_UP):
            run(session, 1)
        meter = ProcessorMeter(session)
        taken = [progress for _ in range(batches) for progress in run(session, 1)]
        cpu = meter.spent()
        cpu_ms = None if cpu is None else 1000 * (cpu.java + cpu.python) / batches
        return {"queries": _QUERIES, "batches": len(taken), "cpu_ms": cpu_ms, **split(taken)}
