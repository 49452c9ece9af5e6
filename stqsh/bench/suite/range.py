"""Range queries: records a second end to end through Spark, against the number of queries.

One session; one stream of objects that all report in turn; squares of 1 % side, uniform (as in architecture
section 7). Objects `walk` by default; `jump` moves each report anywhere, the worst case for updates. All
objects have reported once before anything is measured, and queries are registered in a batch of their own.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import stqsh
from stqsh.bench.figures import LESS, MORE, Better
from stqsh.bench.harness.cpu import CPU
from stqsh.bench.harness.drive import SPLIT, Say, execute, measured, run
from stqsh.bench.harness.workload import CREATE, Motion, rectangles
from stqsh.client.api import Session

COLUMNS = {
    "queries": "queries",
    "records_per_s": "records/s",
    "updates_per_record": "updates/record",
    "batches": "batches",
    **SPLIT,
    **CPU,
}
KEY = ("queries",)
FIGURES: dict[str, Better] = {
    "records_per_s": MORE,
    "total_ms": LESS,
    "cpu_java_s": LESS,
    "cpu_python_s": LESS,
}


@dataclass(frozen=True)
class Options:
    """What to measure: numbers of queries, objects, records a tick, measured ticks for each number."""

    queries: tuple[int, ...] = field(
        default=(1_000, 10_000, 100_000), metadata={"help": "Numbers of queries, with commas."}
    )
    objects: int = field(default=1_000_000, metadata={"help": "Moving objects."})
    per_tick: int = field(default=100_000, metadata={"help": "Records a tick."})
    ticks: int = field(default=60, metadata={"help": "Measured ticks for each number of queries."})
    motion: str = field(default="walk", metadata={"help": "walk: short ways; jump: anywhere."})

    def __post_init__(self) -> None:
        if self.motion not in ("walk", "jump"):
            raise ValueError(f"no motion {self.motion!r}; there are walk and jump")


QUICK = Options((10_000, 100_000), ticks=24)


def measure(options: Options, say: Say) -> list[dict[str, Any]]:
    """Run the benchmark, with progress messages to `say`; return a row for each number of queries."""
    filling = -(-options.objects // options.per_tick)
    ticks = filling + len(options.queries) * (options.ticks + 1)
    with (
        tempfile.TemporaryDirectory(prefix="stqsh-bench-") as folder,
        stqsh.connect(temporary=True, autoplay=False) as session,
    ):
        reports = Path(folder) / "reports.parquet"
        say(f"writing {ticks * options.per_tick:,} reports of {options.objects:,} objects")
        Motion(options.objects, options.per_tick, ticks, options.motion).write(reports)
        execute(session, CREATE.format(file=reports))
        say("taking every object in once")
        run(session, filling)
        squares = rectangles(max(options.queries))
        done = 0
        rows = []
        for count in sorted(options.queries):
            say(f"registering {count - done:,} more queries")
            register(session, squares[done:count], done)
            run(session, 1)
            done = count
            say(f"{count:,} queries: {options.ticks * options.per_tick:,} records")
            rows.append({"queries": count, **measured(session, options.ticks, options.per_tick)})
        return rows


def register(session: Session, squares: Any, first: int) -> None:
    """Register one range query for each row of `squares` (float64 [n, 4])."""
    execute(
        session,
        "\n".join(
            f"REGISTER QUERY q{first + number} AS SELECT oid FROM m INSIDE ({x1!r}, {y1!r}, {x2!r}, {y2!r});"
            for number, (x1, y1, x2, y2) in enumerate(squares.tolist())
        ),
    )
