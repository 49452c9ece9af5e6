"""Measure records a second end to end against the number of range queries.

One session has a stream of objects that report in turn, and uniform squares of 1 % side as queries. Objects
`walk` by default; `jump` makes each report anywhere, the worst case for updates. All objects have reported
once before the measurement begins, and a batch of its own takes in new queries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stqsh.bench.figures import LESS, MORE, Better, Row
from stqsh.bench.harness.cpu import CPU, CPU_FIGURES
from stqsh.bench.harness.drive import SPLIT, Say, execute, measured, moving_session, run
from stqsh.bench.harness.registration import statements
from stqsh.bench.harness.workload import Motion, rectangles, ticks_to_fill
from stqsh.bench.options import option

COLUMNS = {
    "queries": "queries",
    "records_per_s": "records/s",
    "updates_per_record": "updates/record",
    "batches": "batches",
    **SPLIT,
    **CPU,
}
KEY = ("queries",)
FIGURES: dict[str, Better] = {"records_per_s": MORE, "total_ms": LESS, **CPU_FIGURES}


@dataclass(frozen=True)
class RangeOptions:
    """What to measure; see the help of each option."""

    queries: tuple[int, ...] = option((1_000, 10_000, 100_000), "Numbers of queries.")
    objects: int = option(1_000_000, "Moving objects.")
    per_tick: int = option(100_000, "Records a tick.")
    ticks: int = option(60, "Measured ticks for each number of queries.")
    motion: str = option("walk", "walk: short ways; jump: anywhere.")

    def __post_init__(self) -> None:
        if self.motion not in ("walk", "jump"):
            raise ValueError(f"no motion {self.motion!r}; there are walk and jump")


FULL = RangeOptions()
QUICK = RangeOptions((10_000, 100_000), ticks=24)


def measure(options: RangeOptions, say: Say) -> list[Row]:
    """Return a row for each number of queries."""
    return list(measure_squares(options, say))


def measure_squares(options: RangeOptions, say: Say, select: str = "oid") -> Iterator[Row]:
    """Yield a row for each number of squares from which something is selected."""
    filling = ticks_to_fill(options.objects, options.per_tick)
    ticks = filling + len(options.queries) * (options.ticks + 1)
    say(f"writing {ticks * options.per_tick:,} reports of {options.objects:,} objects")
    with moving_session(Motion(options.objects, options.per_tick, ticks, options.motion)) as session:
        say("taking every object in once")
        run(session, filling)
        squares = rectangles(max(options.queries))
        done = 0
        for count in sorted(options.queries):
            say(f"registering {count - done:,} more queries")
            execute(session, statements(squares[done:count], done, select))
            run(session, 1)
            done = count
            say(f"{count:,} queries: {options.ticks * options.per_tick:,} records")
            yield {"queries": count, **measured(session, options.ticks, options.per_tick)}
