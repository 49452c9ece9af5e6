"""kNN queries: records a second end to end through Spark, against their number, k, and what they are around.

A session for each k and each of `place` (stationary, drawn uniformly) and `focal` (around objects,
each drawn once at most); one stream of objects that all report in turn. All objects have reported once
before anything is measured. Queries go into the control log in bulk, as bound queries; each portion of them
is taken in by a batch of its own.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import stqsh
from stqsh.bench.figures import LESS, MORE, Better
from stqsh.bench.harness import bulk
from stqsh.bench.harness.cpu import CPU
from stqsh.bench.harness.drive import SPLIT, Say, execute, measured, run
from stqsh.bench.harness.workload import CREATE, Motion

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
FIGURES: dict[str, Better] = {
    "records_per_s": MORE,
    "register_s": LESS,
    "cpu_java_s": LESS,
    "cpu_python_s": LESS,
}

_AROUND = ("place", "focal")
_PORTION = 50_000
"""Queries that go into the log, and into the engine, at once."""


@dataclass(frozen=True)
class Options:
    """What to measure.

    queries, k: numbers of them; around: `place`, `focal` or both; objects: at least as many as queries
    around focal objects; per_tick, ticks: records a tick, measured ticks a row.

    Raises:
        ValueError: not enough objects, or an unknown word in around.
    """

    queries: tuple[int, ...] = field(
        default=(1_000, 10_000, 100_000), metadata={"help": "Numbers of queries, with commas."}
    )
    k: tuple[int, ...] = field(default=(1, 10, 100), metadata={"help": "Numbers of neighbours, with commas."})
    around: tuple[str, ...] = field(default=_AROUND, metadata={"help": "What they are around, with commas."})
    objects: int = field(default=1_000_000, metadata={"help": "Moving objects."})
    per_tick: int = field(default=100_000, metadata={"help": "Records a tick."})
    ticks: int = field(default=12, metadata={"help": "Measured ticks for each row."})

    def __post_init__(self) -> None:
        unknown = [word for word in self.around if word not in _AROUND]
        if unknown:
            raise ValueError(f"no queries around {unknown[0]!r}; there are {' and '.join(_AROUND)}")
        if max(self.queries) > self.objects:
            raise ValueError(f"{max(self.queries):,} queries need as many objects, not {self.objects:,}")

    @property
    def filling(self) -> int:
        """Ticks until every object has reported."""
        return -(-self.objects // self.per_tick)


QUICK = Options((10_000,), (10,))


def measure(options: Options, say: Say) -> list[dict[str, Any]]:
    """Run the benchmark, with progress messages to `say`; return a row for each number, k and place."""
    counts = sorted(options.queries)
    ticks = options.filling + sum(-(-count // _PORTION) + options.ticks for count in counts)
    with tempfile.TemporaryDirectory(prefix="stqsh-bench-") as folder:
        reports = Path(folder) / "reports.parquet"
        say(f"writing {ticks * options.per_tick:,} reports of {options.objects:,} objects")
        Motion(options.objects, options.per_tick, ticks).write(reports)
        return [
            {"k": k, "around": around, **row}
            for around, k in product(options.around, options.k)
            for row in _against_queries(options, reports, (around, k), say)
        ]


def _against_queries(
    options: Options, reports: Path, kind: tuple[str, int], say: Say
) -> Iterator[dict[str, Any]]:
    """Measure one number of queries after the other in one session."""
    around, k = kind
    with stqsh.connect(temporary=True, autoplay=False) as session:
        execute(session, CREATE.format(file=reports))
        say(f"{around}, k = {k}: taking every object in once")
        run(session, options.filling)
        place = "'o0'" if around == "focal" else "(0, 0)"
        bound = bulk.bound(session, f"SELECT oid FROM m NEAREST {k} TO {place}")
        specs = [bound | {"region": region} for region in _regions(options, kind)]
        done = 0
        for count in sorted(options.queries):
            say(f"registering {count - done:,} more queries")
            begun = time.perf_counter()
            for first in range(done, count, _PORTION):
                bulk.register(session, specs[first : min(first + _PORTION, count)], first)
                run(session, 1)
            seconds, done = time.perf_counter() - begun, count
            say(f"{count:,} queries: {options.ticks * options.per_tick:,} records")
            found = measured(session, options.ticks, options.per_tick)
            yield {"queries": count, "register_s": seconds, **found}


def _regions(options: Options, kind: tuple[str, int]) -> list[dict[str, Any]]:
    """Return what the queries are around; seeded."""
    around, k = kind
    draw, count = np.random.default_rng(5), max(options.queries)
    if around == "focal":
        whose = draw.permutation(options.objects)[:count].tolist()
        return [{"type": "nearest", "k": k, "focal": f"o{number}"} for number in whose]
    return [{"type": "nearest", "k": k, "x": x, "y": y} for x, y in draw.random((count, 2)).tolist()]
