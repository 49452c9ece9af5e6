"""Measure what a change of the routing costs while records flow: the batch that switches, and lateness.

A stream plays at half of the greatest load, which is measured first; a client follows one query by TAIL, as
in `freshness`. During that its routing changes from one strategy to the next. The batch in which a routing
begins gives slots the queries that they need; if the change has packages, the longest such batch counts.
Stored events stay where they are, and moving objects cross to their new slots with their next records. What
is usual is measured before each change, from the batches since the one before.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import stqsh
from stqsh.bench.figures import LESS, Better, Row
from stqsh.bench.harness.drive import Say, execute, run, temporary_folder
from stqsh.bench.harness.registration import statements
from stqsh.bench.harness.workload import Motion, rectangles
from stqsh.bench.options import option
from stqsh.bench.suite.freshness import (
    PROBE,
    WARM_UP,
    DeliveredBatch,
    Read,
    followed,
    greatest_load,
    latencies,
)
from stqsh.client.api import Session
from stqsh.storage.progress import step_taken
from stqsh.storage.stream_routes import stream_routes

COLUMNS = {
    "change": "change",
    "version": "version",
    "switch_ms": "batch that switches, ms",
    "usual_ms": "usual batch before, ms",
    "longest_ms": "longest of the ten around it, ms",
    "gap_s": "longest gap s",
    "usual_gap_s": "usual gap s",
    "p99_s": "read p99 s",
    "usual_p99_s": "usual p99 s",
    "queries": "queries moved",
}
KEY = ("version", "change")
FIGURES: dict[str, Better] = {"switch_ms": LESS, "longest_ms": LESS, "p99_s": LESS}

_CREATE = (
    "CREATE {kind} STREAM m (oid BIGINT, x DOUBLE, y DOUBLE, ts TIMESTAMP) KEY oid LOCATION (x, y) "
    "TIME ts FROM FILE '{file}' PLANAR BOUNDS (0, 0, 1, 1) TICK 1 s{keep};"
)
_BEFORE, _AFTER = 3, 7
"""The number of batches before and after a change that are looked at."""


@dataclass(frozen=True)
class HandoverOptions:
    """What to play and how often to change the routing; see the help of each option."""

    strategies: tuple[str, ...] = option(("object", "grid", "agrid", "object"), "The routings, in order.")
    queries: int = option(10_000, "Range queries.")
    moving: bool = option(False, "A moving stream instead of events.")
    events: int = option(1_000_000, "Events that are kept, or objects.")
    per_tick: int = option(25_000, "Records a tick.")
    every: int = option(12, "Seconds between two changes.")
    slots: int = option(8, "INTO how many slots.")
    share: float = option(0.5, "The share of the greatest load.")
    greatest: int = option(0, "The greatest load, records/s; 0: measure it.")
    ticks: int = option(90, "Ticks in which the greatest load is measured.")


FULL = HandoverOptions()
QUICK = HandoverOptions(("grid", "agrid"), 1_000, False, 100_000, 5_000, every=8, ticks=60)


def measure(options: HandoverOptions, say: Say) -> list[Row]:
    """Return a row for each change of the routing."""
    seconds = options.every * (len(options.strategies) + 1)
    filling = options.events // options.per_tick
    guess = options.greatest or 1_500_000
    playing = int(options.share * guess * seconds / options.per_tick)
    ticks = filling + 1 + (0 if options.greatest else options.ticks) + playing
    say(f"writing {ticks * options.per_tick:,} records")
    with stream_session(options, ticks) as session:
        run(session, filling)
        execute(session, statements(rectangles(options.queries)))
        execute(session, PROBE)
        run(session, 1)
        greatest = options.greatest or greatest_load(session, options.ticks, options.per_tick, say)
        ticks_per_s = options.share * greatest / options.per_tick
        say(f"playing {options.share * greatest:,.0f} records/s for {seconds} s")
        changes = threading.Thread(target=change_routings, args=(session, options))
        changes.start()
        batches, reads = followed(session, ticks_per_s, seconds)
        changes.join()
        routes = stream_routes(session.connection.db, 1)
        rows: list[Row] = []
        quiet = 0
        for _, packages in groupby(routes, lambda route: route.entry.change):
            *_, route = some = list(packages)
            steps = [step_taken(session.connection.db, package.seq) for package in some]
            at = [
                next((i for i, batch in enumerate(batches) if step is not None and batch.last >= step), -1)
                for step in steps
            ]
            if -1 in at:
                say(f"the change to {route.entry.strategy} came after the last batch: it is left out")
                continue
            before = max(0, at[0] - _BEFORE)
            quiet = max(0, min(quiet or int(before * WARM_UP), before - 2))  # two batches have a gap
            usual = _measured(batches[quiet : max(2, before)], reads, ticks_per_s)
            near = _measured(batches[before : at[-1] + _AFTER], reads, ticks_per_s)
            rows.append(
                {
                    "change": f"to {route.entry.strategy}",
                    "version": route.entry.version,
                    "queries": route.entry.moved,
                    "switch_ms": max(batches[one].total_us for one in at) / 1000,
                    "usual_ms": usual.median_ms,
                    "longest_ms": near.longest_ms,
                    "gap_s": near.gap_s,
                    "usual_gap_s": usual.gap_s,
                    "p99_s": near.p99_s,
                    "usual_p99_s": usual.p99_s,
                }
            )
            quiet = at[-1] + _AFTER
        return rows


@contextmanager
def stream_session(options: HandoverOptions, ticks: int) -> Iterator[Session]:
    """Open a temporary session with a stream `m`, of objects that walk or of events."""
    with temporary_folder() as folder:
        file = folder / "records.parquet"
        write_records(options, ticks, file)
        with stqsh.connect(temporary=True, autoplay=False) as session:
            kind = "MOVING" if options.moving else "EVENT"
            keep = "" if options.moving else f" KEEP {options.events // options.per_tick} s"
            execute(session, _CREATE.format(file=file, kind=kind, keep=keep))
            yield session


def write_records(options: HandoverOptions, ticks: int, file: Path) -> None:
    """Write records as a Parquet file with the columns oid, x, y, ts."""
    objects, kind = (options.events, "walk") if options.moving else (options.per_tick, "jump")
    motion, writer = Motion(objects, options.per_tick, ticks, kind), None
    for tick, (who, places) in enumerate(motion.reports()):
        number = who if options.moving else np.arange(tick * options.per_tick, (tick + 1) * options.per_tick)
        seconds = np.full(len(number), tick * 1_000_000, dtype="datetime64[us]")
        columns: list[Any] = [number, places[:, 0], places[:, 1], seconds]
        table = pa.table(dict(zip(("oid", "x", "y", "ts"), columns, strict=True)))
        writer = writer or pq.ParquetWriter(file, table.schema, compression="none")
        writer.write_table(table)
    assert writer is not None, "there is a tick"
    writer.close()


def change_routings(session: Session, options: HandoverOptions) -> None:
    """Change the routing of a session's stream every few seconds, as another client."""
    home = session.home
    with stqsh.connect(home.name, home=home.path.parent, autoplay=False) as other:
        for strategy in options.strategies:
            time.sleep(options.every)
            execute(other, f"REPARTITION m USING {strategy} INTO {options.slots} SLOTS;")


@dataclass(frozen=True)
class _Measured:
    """What some batches in a row took: their times in ms, the longest gap in s, and the latency in s."""

    median_ms: float
    longest_ms: float
    gap_s: float
    p99_s: float


def _measured(batches: list[DeliveredBatch], reads: list[Read], ticks_per_s: float) -> _Measured:
    times = [batch.total_us / 1000 for batch in batches]
    gaps = [(after.wall_us - before.wall_us) / 1e6 for before, after in pairwise(batches)]
    late = np.concatenate(latencies(batches, reads, ticks_per_s))
    p99 = float(np.percentile(late, 99)) if len(late) else float("nan")
    return _Measured(statistics.median(times), max(times), max(gaps), p99)
