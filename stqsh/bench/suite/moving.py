"""Moving queries: records a second end to end through Spark, where a share of the queries follow objects.

A session for each share; squares of 1 % side, the others stand still; everything else as in the benchmark
`range`. No two queries follow the same object.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import stqsh
from stqsh.bench.figures import LESS, MORE, Better
from stqsh.bench.harness import bulk
from stqsh.bench.harness.cpu import CPU
from stqsh.bench.harness.drive import SPLIT, Say, execute, measured, run
from stqsh.bench.harness.workload import CREATE, Motion, rectangles
from stqsh.client.api import Session

COLUMNS = {
    "moving_percent": "moving %",
    "records_per_s": "records/s",
    "updates_per_record": "updates/record",
    "batches": "batches",
    **SPLIT,
    **CPU,
}
KEY = ("moving_percent",)
FIGURES: dict[str, Better] = {
    "records_per_s": MORE,
    "total_ms": LESS,
    "cpu_java_s": LESS,
    "cpu_python_s": LESS,
}

_SIDE = 0.01
_SELECT = "SELECT oid FROM m INSIDE"


@dataclass(frozen=True)
class Options:
    """What to measure; see the help of each.

    Raises:
        ValueError: a share that is none, or fewer objects than moving queries.
    """

    percents: tuple[int, ...] = field(
        default=(0, 10, 100), metadata={"help": "Shares of queries that move, in %, with commas."}
    )
    queries: int = field(default=10_000, metadata={"help": "Queries."})
    objects: int = field(default=1_000_000, metadata={"help": "Moving objects."})
    per_tick: int = field(default=100_000, metadata={"help": "Records a tick."})
    ticks: int = field(default=24, metadata={"help": "Measured ticks for each share."})

    def __post_init__(self) -> None:
        if not all(0 <= percent <= 100 for percent in self.percents):
            raise ValueError("shares of moving queries are 0 to 100 %")
        if self.queries * max(self.percents) // 100 > self.objects:
            raise ValueError(f"{self.queries:,} queries need as many objects, not {self.objects:,}")

    @property
    def filling(self) -> int:
        """Ticks until every object has reported."""
        return -(-self.objects // self.per_tick)


QUICK = Options((10,), ticks=12)


def measure(options: Options, say: Say) -> list[dict[str, Any]]:
    """Run the benchmark, with progress messages to `say`; return one row a share, times in ms a batch."""
    ticks = options.filling + 1 + options.ticks
    with tempfile.TemporaryDirectory(prefix="stqsh-bench-") as folder:
        reports = Path(folder) / "reports.parquet"
        say(f"writing {ticks * options.per_tick:,} reports of {options.objects:,} objects")
        Motion(options.objects, options.per_tick, ticks).write(reports)
        return [
            {"moving_percent": percent, **_with_share(options, reports, percent, say)}
            for percent in options.percents
        ]


def _with_share(options: Options, reports: Path, percent: int, say: Say) -> dict[str, Any]:
    with stqsh.connect(temporary=True, autoplay=False) as session:
        execute(session, CREATE.format(file=reports))
        say(f"{percent} % moving: taking every object in once")
        run(session, options.filling)
        say(f"registering {options.queries:,} queries")
        bulk.register(session, _specs(session, options, percent), 0)
        run(session, 1)
        say(f"{percent} % of {options.queries:,} queries: {options.ticks * options.per_tick:,} records")
        return measured(session, options.ticks, options.per_tick)


def _specs(session: Session, options: Options, percent: int) -> list[dict[str, Any]]:
    """Return the queries as they are registered, the moving ones first; seeded."""
    moving = options.queries * percent // 100
    whose = np.random.default_rng(5).permutation(options.objects)[:moving].tolist()
    sides = {"xdist": _SIDE, "ydist": _SIDE}
    around = bulk.bound(session, f"{_SELECT} RECT({_SIDE}, {_SIDE}) AROUND 'o0'")
    still = bulk.bound(session, f"{_SELECT} (0, 0, 1, 1)")
    named = ("x1", "y1", "x2", "y2")
    boxes = rectangles(options.queries - moving, _SIDE).tolist()
    return [
        *(around | {"region": {"type": "moving_rect", "focal": f"o{n}", **sides}} for n in whose),
        *(still | {"region": {"type": "rect", **dict(zip(named, box, strict=True))}} for box in boxes),
    ]
