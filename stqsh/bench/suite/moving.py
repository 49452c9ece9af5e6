"""Measure records a second end to end where a share of the queries follow objects.

Each share has a session of its own. The queries are squares of 1 % side; no two follow the same object. All
else is as in the benchmark `range`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stqsh.bench.figures import LESS, MORE, Better, Row
from stqsh.bench.harness import registration
from stqsh.bench.harness.cpu import CPU, CPU_FIGURES
from stqsh.bench.harness.drive import SPLIT, Say, measured, run, stream_session, temporary_folder
from stqsh.bench.harness.workload import Motion, rectangles, ticks_to_fill
from stqsh.bench.options import option
from stqsh.client.api import Session
from stqsh.spec.query import QuerySpec, with_members
from stqsh.spec.region import MovingRectangleSpec, RectangleSpec

COLUMNS = {
    "moving_percent": "moving %",
    "records_per_s": "records/s",
    "updates_per_record": "updates/record",
    "batches": "batches",
    **SPLIT,
    **CPU,
}
KEY = ("moving_percent",)
FIGURES: dict[str, Better] = {"records_per_s": MORE, "total_ms": LESS, **CPU_FIGURES}

_SIDE = 0.01
_SELECT = "SELECT oid FROM m INSIDE"


@dataclass(frozen=True)
class MovingOptions:
    """What to measure; see the help of each option.

    Raises:
        ValueError: a share is not one, or there are fewer objects than moving queries.
    """

    percents: tuple[int, ...] = option((0, 10, 100), "Shares of queries that move, in %.")
    queries: int = option(10_000, "Queries.")
    objects: int = option(1_000_000, "Moving objects.")
    per_tick: int = option(100_000, "Records a tick.")
    ticks: int = option(24, "Measured ticks for each share.")

    def __post_init__(self) -> None:
        if not all(0 <= percent <= 100 for percent in self.percents):
            raise ValueError("shares of moving queries are 0 to 100 %")
        if self.queries * max(self.percents) // 100 > self.objects:
            raise ValueError(f"{self.queries:,} queries need as many objects, not {self.objects:,}")


FULL = MovingOptions()
QUICK = MovingOptions((10,), ticks=12)


def measure(options: MovingOptions, say: Say) -> list[Row]:
    """Return a row for each share, with times in ms a batch."""
    ticks = ticks_to_fill(options.objects, options.per_tick) + 1 + options.ticks
    with temporary_folder() as folder:
        reports = folder / "reports.parquet"
        say(f"writing {ticks * options.per_tick:,} reports of {options.objects:,} objects")
        Motion(options.objects, options.per_tick, ticks).write(reports)
        return [
            {"moving_percent": percent, **_with_share(options, reports, percent, say)}
            for percent in options.percents
        ]


def _with_share(options: MovingOptions, reports: Path, percent: int, say: Say) -> Row:
    with stream_session(reports) as session:
        say(f"{percent} % moving: taking every object in once")
        run(session, ticks_to_fill(options.objects, options.per_tick))
        say(f"registering {options.queries:,} queries")
        registration.log(session, _specs(session, options, percent))
        run(session, 1)
        say(f"{percent} % of {options.queries:,} queries: {options.ticks * options.per_tick:,} records")
        return measured(session, options.ticks, options.per_tick)


def _specs(session: Session, options: MovingOptions, percent: int) -> list[QuerySpec]:
    """Return the bound queries, the moving ones first."""
    moving = options.queries * percent // 100
    whose = np.random.default_rng(5).permutation(options.objects)[:moving].tolist()
    around = registration.bind(session, f"{_SELECT} RECT({_SIDE}, {_SIDE}) AROUND 'o0'")
    still = registration.bind(session, f"{_SELECT} (0, 0, 1, 1)")
    boxes = rectangles(options.queries - moving, _SIDE).tolist()
    return [
        *(with_members(around, region=MovingRectangleSpec(f"o{n}", _SIDE, _SIDE)) for n in whose),
        *(with_members(still, region=RectangleSpec(*box)) for box in boxes),
    ]
