"""Measure freshness: the time from when a record is due until a client has read its update.

A stream plays at a pace that asks for a share of the greatest load, which is measured first; a client follows
one query by TAIL. A record is due when the wall clock, at that pace, reaches its tick. Latency is the time
from then until the client has the update as columns. All objects have reported once before; the first part of
the play, in which Java still compiles what small batches need, is not counted.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stqsh.bench.figures import LESS, Better, Row
from stqsh.bench.harness.cpu import CPU, ProcessorMeter
from stqsh.bench.harness.drive import REPETITIONS, Say, execute, moving_session, paced, run, tailed
from stqsh.bench.harness.registration import statements
from stqsh.bench.harness.workload import Motion, rectangles, ticks_to_fill
from stqsh.bench.options import option
from stqsh.client.api import Session
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
"""The query that the client follows; it covers a hundredth of the area."""

WARM_UP = 0.25
"""The share of the play that is not counted."""


@dataclass(frozen=True)
class FreshnessOptions:
    """What to play; see the help of each option."""

    shares: tuple[float, ...] = option((0.25, 0.5, 0.75), "Shares of the greatest load.")
    queries: int = option(10_000, "Range queries.")
    objects: int = option(1_000_000, "Moving objects.")
    per_tick: int = option(25_000, "Records a tick.")
    seconds: int = option(30, "How long each share is played.")
    greatest: int = option(0, "The greatest load, records/s; 0: measure it.")
    ticks: int = option(120, "Ticks in which the greatest load is measured.")

    def __post_init__(self) -> None:
        if not all(0 < share <= 2 for share in self.shares):
            raise ValueError("shares go from 0, which is not one, to 2")


FULL = FreshnessOptions()
QUICK = FreshnessOptions((0.5,), seconds=12, ticks=90)


@dataclass(frozen=True, slots=True)
class DeliveredBatch:
    """A batch as it was delivered.

    Attributes:
        last: its last step.
        due_us, wall_us: when that step was due, and when the batch was delivered, µs of the wall clock.
        total_us: how long the batch took.
    """

    last: int
    due_us: int
    wall_us: int
    records: int
    total_us: int


@dataclass(frozen=True, slots=True)
class Read:
    """The steps of some updates, int64 (n,), and when the client had them, µs of the wall clock."""

    steps: NDArray[np.int64]
    wall_us: int


class PlayOverError(Exception):
    """Ends the reading of updates once enough has been played."""


def measure(options: FreshnessOptions, say: Say) -> list[Row]:
    """Return a row for each share of the greatest load."""
    filling = ticks_to_fill(options.objects, options.per_tick)
    guess = options.greatest or 600_000
    playing = [int(share * guess * options.seconds / options.per_tick) for share in options.shares]
    ticks = filling + 1 + (0 if options.greatest else options.ticks) + sum(playing)
    say(f"writing {ticks * options.per_tick:,} reports of {options.objects:,} objects")
    with moving_session(Motion(options.objects, options.per_tick, ticks)) as session:
        run(session, filling)
        execute(session, statements(rectangles(options.queries)))
        execute(session, PROBE)
        run(session, 1)
        greatest = options.greatest or greatest_load(session, options.ticks, options.per_tick, say)
        rows: list[Row] = []
        for share in options.shares:
            say(f"playing {share * greatest:,.0f} records/s for {options.seconds} s")
            rows.append({"share": share, **played(session, options, share * greatest)})
        return rows


def greatest_load(session: Session, ticks: int, per_tick: int, say: Say) -> int:
    """Measure how many records a second the engine takes of a backlog."""
    _, rates = paced(session, ticks, per_tick)
    greatest = int(statistics.median(rates))
    say(f"the greatest load is {greatest:,} records/s")
    return greatest


def played(session: Session, options: FreshnessOptions, asked: float) -> Row:
    """Play the stream at a number of records a second; return the latency of its updates."""
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
    """Play the stream at a number of ticks a second while a client follows the probe by TAIL."""
    batches: dict[int, DeliveredBatch] = {}
    reads: list[Read] = []
    end = time.monotonic() + seconds

    def look(progress: Progress) -> None:
        if (batch := _delivered(progress)) is not None:
            batches[progress.batch] = batch
        if time.monotonic() > end or progress.ended:
            raise PlayOverError

    first = session.progress().step + 1
    execute(session, f"PLAY m AT {ticks_per_s:.3f}x;")
    try:
        for some in tailed(session, "probe", look):
            steps = some.table.column("step").to_numpy()
            reads.append(Read(steps[steps >= first], time.time_ns() // 1000))
    except PlayOverError:
        execute(session, "PAUSE m;")
    return list(batches.values()), reads


def _delivered(progress: Progress) -> DeliveredBatch | None:
    """Return what is known of the last batch; None where it was empty or not due at a certain time."""
    stats = progress.stats
    if not (stats.due_us and stats.records and stats.time):
        return None
    total_us = stats.time.total_us
    return DeliveredBatch(progress.step, stats.due_us, progress.wall_us, stats.records, total_us)


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
