"""Measure records a second end to end against the number of kNN queries, k, and their centres.

Each k has a session for each kind of centre: `place` (uniformly drawn places) and `focal` (objects, each
drawn at most once). All objects of the stream have reported once before the measurement begins. Bound queries
are written straight into the control log, and a batch of its own takes in each portion of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from stqsh.bench.figures import LESS, MORE, Better, Row
from stqsh.bench.harness import registration
from stqsh.bench.harness.cpu import CPU, CPU_FIGURES
from stqsh.bench.harness.drive import SPLIT, Say, measured, run, stream_session, temporary_folder
from stqsh.bench.harness.workload import Motion, ticks_to_fill
from stqsh.bench.options import option
from stqsh.spec.query import with_members
from stqsh.spec.region import NearestSpec

COLUMNS = {
    "queries": "queries",
    "k": "k",
    "around": "around",
    "records_per_s": "records a second",
    "updates_per_record": "updates a record",
    "register_s": "register s",
    **SPLIT,
    **CPU,
}
KEY = ("queries", "k", "around")
FIGURES: dict[str, Better] = {"records_per_s": MORE, "register_s": LESS, **CPU_FIGURES}

_AROUND = ("place", "focal")


@dataclass(frozen=True)
class NearestOptions:
    """What to measure; see the help of each option.

    Raises:
        ValueError: there are fewer objects than queries, or a word in `around` is unknown.
    """

    queries: tuple[int, ...] = option((1_000, 10_000, 100_000), "Numbers of queries.")
    k: tuple[int, ...] = option((1, 10, 100), "Numbers of neighbours.")
    around: tuple[str, ...] = option(_AROUND, "What they are around.")
    objects: int = option(1_000_000, "Moving objects.")
    per_tick: int = option(100_000, "Records a tick.")
    ticks: int = option(12, "Measured ticks for each row.")

    def __post_init__(self) -> None:
        unknown = [word for word in self.around if word not in _AROUND]
        if unknown:
            raise ValueError(f"no queries around {unknown[0]!r}; there are {' and '.join(_AROUND)}")
        if max(self.queries) > self.objects:
            raise ValueError(f"{max(self.queries):,} queries need as many objects, not {self.objects:,}")


FULL = NearestOptions()
QUICK = NearestOptions((10_000,), (10,))


def measure(options: NearestOptions, say: Say) -> list[Row]:
    """Return a row for each number of queries, k and kind of centre."""
    ticks = ticks_to_fill(options.objects, options.per_tick)
    ticks += sum(registration.portions(count) + options.ticks for count in options.queries)
    with temporary_folder() as folder:
        reports = folder / "reports.parquet"
        say(f"writing {ticks * options.per_tick:,} reports of {options.objects:,} objects")
        Motion(options.objects, options.per_tick, ticks).write(reports)
        return [
            {"k": k, "around": around, **row}
            for around, k in product(options.around, options.k)
            for row in _against_queries(options, reports, (around, k), say)
        ]


def _against_queries(
    options: NearestOptions, reports: Path, kind: tuple[str, int], say: Say
) -> Iterator[Row]:
    """Yield a row for each number of queries, all in one session."""
    around, k = kind
    with stream_session(reports) as session:
        say(f"{around}, k = {k}: taking every object in once")
        run(session, ticks_to_fill(options.objects, options.per_tick))
        place = "'o0'" if around == "focal" else "(0, 0)"
        bound = registration.bind(session, f"SELECT oid FROM m NEAREST {k} TO {place}")
        specs = [with_members(bound, region=region) for region in _regions(options, kind)]
        done = 0
        for count in sorted(options.queries):
            say(f"registering {count - done:,} more queries")
            seconds = registration.log_in_portions(session, specs[:count], done)
            done = count
            say(f"{count:,} queries: {options.ticks * options.per_tick:,} records")
            found = measured(session, options.ticks, options.per_tick)
            yield {"queries": count, "register_s": seconds, **found}


def _regions(options: NearestOptions, kind: tuple[str, int]) -> list[NearestSpec]:
    """Return the regions of the queries."""
    around, k = kind
    draw, count = np.random.default_rng(5), max(options.queries)
    if around == "focal":
        whose = draw.permutation(options.objects)[:count].tolist()
        return [NearestSpec(k, focal=f"o{number}") for number in whose]
    return [NearestSpec(k, x, y) for x, y in draw.random((count, 2)).tolist()]
