"""Freshness: how long after its record was due an update is in the hands of who reads it.

A stream plays at a pace that asks for a share of the greatest load, which is measured before; a client
follows one query by TAIL. A record is due when the wall clock, at that pace, gets to its tick; latency is the
time from there to when the client has the update as columns. All objects have reported once before, and the
first part of what is played, in which Java still compiles what small batches need, is not counted.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import stqsh
from stqsh.bench.figures import LESS, Better
from stqsh.bench.harness.cpu import CPU, ProcessorMeter
from stqsh.bench.harness.drive import REPETITIONS, Say, execute, paced, run
from stqsh.bench.harness.workload import CREATE, Motion, rectangles
from stqsh.bench.suite.range import register
from stqsh.client.api import Session
from stqsh.client.read.subscription import OnIdle, Subscription
from stqsh.client.results import Updates
from stqsh.storage.rows import Progress

COLUMNS = {
    "share": "share",
    "asked_per_s": "asked/s",
    "records_per_s": "records/s",
    "batches": "batches",
    "batch_s": "batch s",
    "delivered_s": "delivered after s",
    "p50_s": "read p50 s",
    "p99_s": "read p99 s",
    "updates": "updates",
    **CPU,
}
KEY = ("share",)
FIGURES: dict[str, Better] = {"p50_s": LESS, "p99_s": LESS, "batch_s": LESS}

PROBE = "REGISTER QUERY probe AS SELECT oid FROM m INSIDE (0.4, 0.4, 0.5, 0.5);"
"""The query that is followed: one of a hundred records is near it."""
WARM_UP = 0.25
"""The part of what is played that is not counted."""


@dataclass(frozen=True)
class Options:
    """What to play: queries, objects, records a tick, the greatest load (0: measured), shares of it."""

    shares: tuple[float, ...] = field(
        default=(0.25, 0.5, 0.75), metadata={"help": "Shares of the greatest load, with commas."}
    )
    queries: int = field(default=10_000, metadata={"help": "Range queries."})
    objects: int = field(default=1_000_000, metadata={"help": "Moving objects."})
    per_tick: int = field(default=25_000, metadata={"help": "Records a tick."})
    seconds: int = field(default=30, metadata={"help": "How long each share is played."})
    greatest: int = field(default=0, metadata={"help": "The greatest load, records/s; 0: measure it."})
    ticks: int = field(default=120, metadata={"help": "Ticks in which the greatest load is measured."})

    def __post_init__(self) -> None:
        if not all(0 < share <= 2 for share in self.shares):
            raise ValueError("shares go from 0, which is not one, to 2")


QUICK = Options((0.5,), seconds=12, ticks=90)


@dataclass(frozen=True, slots=True)
class DeliveredBatch:
    """One batch as it was delivered: its last step, when that was due and there (µs), records, time."""

    last: int
    due_us: int
    wall_us: int
    records: int
    total_us: int


@dataclass(frozen=True, slots=True)
class Read:
    """Steps of some updates (int64 [n]), and when the client had them (µs)."""

    steps: NDArray[np.int64]
    wall_us: int


class Over(Exception):
    """So much has been played."""


def measure(options: Options, say: Say) -> list[dict[str, Any]]:
    """Run the benchmark; one row a share."""
    filling = -(-options.objects // options.per_tick)
    guess = options.greatest or 600_000
    playing = [int(share * guess * options.seconds / options.per_tick) for share in options.shares]
    ticks = filling + 1 + (0 if options.greatest else options.ticks) + sum(playing)
    with (
        tempfile.TemporaryDirectory(prefix="stqsh-bench-") as folder,
        stqsh.connect(temporary=True, autoplay=False) as session,
    ):
        reports = Path(folder) / "reports.parquet"
        say(f"writing {ticks * options.per_tick:,} reports of {options.objects:,} objects")
        Motion(options.objects, options.per_tick, ticks).write(reports)
        execute(session, CREATE.format(file=reports))
        run(session, filling)
        register(session, rectangles(options.queries), 0)
        execute(session, PROBE)
        run(session, 1)
        greatest = options.greatest or greatest_load(session, options, say)
        rows = []
        for share in options.shares:
            say(f"playing {share * greatest:,.0f} records/s for {options.seconds} s")
            rows.append({"share": share, **played(session, options, share * greatest)})
        return rows


def greatest_load(session: Session, options: Options, say: Say) -> int:
    """Measure how many records a second a backlog of the stream takes."""
    _, rates = paced(session, options.ticks, options.per_tick)
    greatest = int(statistics.median(rates))
    say(f"the greatest load is {greatest:,} records/s")
    return greatest


def played(session: Session, options: Options, asked: float) -> dict[str, Any]:
    """Play the stream at a number of records a second, and return how late updates came."""
    ticks_per_s = asked / options.per_tick
    meter = ProcessorMeter(session)
    batches, reads = followed(session, ticks_per_s, options.seconds)
    used = meter.per_million(sum(batch.records for batch in batches))
    kept = batches[int(len(batches) * WARM_UP) :]
    latency = [part for part in latencies(kept, reads, ticks_per_s) if len(part)]
    took = max(1, kept[-1].wall_us - kept[0].wall_us)
    return {
        "asked_per_s": asked,
        "records_per_s": sum(batch.records for batch in kept[1:]) * 1e6 / took,
        "batches": len(kept),
        "batch_s": [batch.total_us / 1e6 for batch in kept],
        "delivered_s": [(batch.wall_us - batch.due_us) / 1e6 for batch in kept],
        "p50_s": [float(np.percentile(part, 50)) for part in latency],
        "p99_s": [float(np.percentile(part, 99)) for part in latency],
        "updates": sum(map(len, latency)),
        **used,
    }


def followed(session: Session, ticks_per_s: float, seconds: int) -> tuple[list[DeliveredBatch], list[Read]]:
    """Play the stream at a number of ticks a second, and TAIL the probe meanwhile."""
    batches: dict[int, DeliveredBatch] = {}
    reads: list[Read] = []
    end = time.monotonic() + seconds

    def look(progress: Progress) -> None:
        stats = progress.stats
        if stats.due_us and stats.records and stats.time:
            sizes = stats.records, stats.time.total_us
            batches[progress.batch] = DeliveredBatch(progress.step, stats.due_us, progress.wall_us, *sizes)
        if time.monotonic() > end or progress.ended:
            raise Over

    first = session.progress().step + 1
    execute(session, f"PLAY m AT {ticks_per_s:.3f}x;")
    try:
        for steps in _tail(session, look):
            reads.append(Read(steps[steps >= first], time.time_ns() // 1000))
    except Over:
        execute(session, "PAUSE m;")
    return list(batches.values()), reads


def _tail(session: Session, look: OnIdle) -> Iterator[NDArray[np.int64]]:
    for following in session.execute("TAIL probe;"):
        assert isinstance(following, Subscription)
        following.on_idle = look
        for some in following:
            if isinstance(some, Updates):
                yield some.table.column("step").to_numpy()


def latencies(
    batches: list[DeliveredBatch], reads: list[Read], ticks_per_s: float
) -> list[NDArray[np.float64]]:
    """Return the latency in s of each update of these batches, in `REPETITIONS` portions of the time."""
    edges = [batches[0].last, *(batches[len(batches) * n // REPETITIONS - 1].last for n in (1, 2, 3))]
    lasts = np.array([batch.last for batch in batches], np.int64)
    dues = np.array([batch.due_us for batch in batches], np.float64)
    steps = np.concatenate([read.steps for read in reads] or [np.empty(0, np.int64)])
    walls = np.concatenate([np.full(len(read.steps), float(read.wall_us)) for read in reads] or [np.empty(0)])
    batch = np.minimum(np.searchsorted(lasts, steps), len(lasts) - 1)
    due = dues[batch] - (lasts[batch] - steps) / ticks_per_s * 1e6
    return [(walls - due)[(steps > after) & (steps <= up_to)] / 1e6 for after, up_to in pairwise(edges)]
