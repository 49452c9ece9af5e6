"""Figure 21c: the response of the whole system against the number of queries, through Spark.

The paper's response is the time from a record's arrival to the server's answer. Here a session plays the
town's objects at their own pace, so that a record is due when the wall clock reaches its step; its response
is the time from then until its updates are in the update log, where every reader finds them. Figure 21a is
the core's part of that.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow.parquet as pq

import stqsh
from stqsh.bench.figures import Row
from stqsh.bench.harness import registration
from stqsh.bench.harness.drive import execute, run, temporary_folder
from stqsh.bench.papers.figure import Chart, FigureResult, Goal, Line
from stqsh.bench.papers.sole.figure_run import FigureRun
from stqsh.bench.papers.sole.town import SIDE, TownQueries, TownWorld
from stqsh.client.api import Session
from stqsh.spec.query import QuerySpec, SlotQuery, with_members
from stqsh.storage.rows import Progress

_COUNTS = (5_000, 20_000, 50_000)
_BATCHES = 40
"""The number of batches with each number of queries, of which the first quarter is not counted. The first
number of queries has as many batches before, in which Java still compiles."""

_STEPS_A_BATCH = 3
"""Steps that are written for each batch; if they do not suffice, there are fewer batches."""

_POLL_S = 0.02
_CREATE = (
    "CREATE MOVING STREAM town (oid STRING, kind STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP) KEY oid "
    "LOCATION (lon, lat) TIME ts FROM FILE '{file}' PLANAR BOUNDS (0, 0, {side!r}, {side!r}) TICK 1 s "
    "REPORT EVERY {unit} s;"
)
_PAPER_MS = {(5_000, False): 11, (50_000, False): 22, (50_000, True): 24}


@dataclass(frozen=True)
class ServedLoad:
    """What a number of queries comes to.

    Attributes:
        ms, p90_ms: the response of a step, whatever its batch: median and 90th percentile.
        batch_ms: the time of a batch, median; the next four are parts of it.
        updates: the mean number of updates a step.
        steps, batches: the numbers of samples.
    """

    count: int
    ms: float
    p90_ms: float
    batch_ms: float
    kernel_ms: float
    state_ms: float
    transfer_ms: float
    deliver_ms: float
    updates: float
    steps: int
    batches: int


def measure(bench: FigureRun) -> list[FigureResult]:
    """Figure 21c."""
    counts = [bench.scale.count(count) for count in bench.scale.some(_COUNTS)]
    papers = dict(zip(counts, bench.scale.some(_COUNTS), strict=True))
    loads = {moving: _served(bench, counts, moving=moving) for moving in (False, True)}
    rows: list[Row] = [
        {"kind": _kind(moving), **asdict(load), "paper": _PAPER_MS.get((papers[load.count], moving))}
        for moving, some in loads.items()
        for load in some
    ]
    columns = {
        "kind": "queries",
        "count": "number",
        "ms": "response ms",
        "p90_ms": "p90 ms",
        "batch_ms": "batch ms",
        "kernel_ms": "of it kernel",
        "state_ms": "of it state",
        "transfer_ms": "of it transfer",
        "deliver_ms": "of it deliver",
        "updates": "updates a step",
        "steps": "steps",
        "batches": "batches",
        "paper": "paper ms",
    }
    lines = [
        Line(_kind(moving), [load.count for load in some], [load.ms for load in some])
        for moving, some in loads.items()
    ]
    lines.append(Line("paper, stationary", [5_000, 50_000], [11, 22], paper=True))
    charts = [Chart("queries of various sizes", "queries", "ms from due to delivered", lines)]
    goals = [_goal(some, _kind(moving)) for moving, some in loads.items()]
    title = "response of the system against the number of queries"
    return [FigureResult("21c", title, columns, rows, goals, [_note(bench)], charts)]


def _kind(moving: bool) -> str:
    return "moving" if moving else "stationary"


def _goal(loads: Sequence[ServedLoad], kind: str) -> Goal:
    what = f"10 x queries cost x times the response of the system, {kind}"
    return Goal(what, "-", 2.0, loads[-1].ms / loads[0].ms, least=False)


def _note(bench: FigureRun) -> str:
    records = bench.world.objects // bench.world.drive.unit_s
    return (
        f"Wall-clock time from when a record is due until its updates are in the update log, through Spark, "
        f"{records:,} records a second; RETAIN ALL. Batch: from the begin of its Spark batch on; where it "
        "takes longer than a second, more steps come in one."
    )


def _served(bench: FigureRun, counts: Sequence[int], *, moving: bool) -> list[ServedLoad]:
    """Register more and more queries in one session, and measure each number of them."""
    unit, batches = bench.world.drive.unit_s, min(_BATCHES, 6 * bench.scale.span)
    specs = TownQueries(counts[-1], moving=float(moving)).of(bench.world)
    with temporary_folder() as folder, stqsh.connect(temporary=True, autoplay=False) as session:
        path = folder / "town.parquet"
        _write(bench.world, unit + (len(counts) + 1) * (1 + _STEPS_A_BATCH * batches), path)
        execute(session, _CREATE.format(file=path, side=SIDE, unit=unit))
        run(session, unit)
        loads, done = [], 0
        for count in counts:
            bench.say(f"{count:,} {_kind(moving)} queries through Spark, {batches} batches")
            registration.log(session, _as_registered(session, specs[done:count], moving), done)
            run(session, 1)
            if not done:
                _played(session, batches)
            done = count
            loads.append(_measured(count, _played(session, batches)))
        return loads


def _write(world: TownWorld, steps: int, path: Path) -> None:
    """Write the records of the town's first steps as one Parquet file."""
    first = world.step(1).records.drop_columns(["_step", "_hash"])
    with pq.ParquetWriter(path, first.schema) as writer:
        for number in range(1, steps + 1):
            writer.write_batch(world.step(number).records.drop_columns(["_step", "_hash"]))


def _as_registered(session: Session, specs: Sequence[SlotQuery], moving: bool) -> list[QuerySpec]:
    """Return queries as the session binds them."""
    region = "RECT(1, 1) AROUND 'nobody'" if moving else "(0, 0, 1, 1)"
    pattern = registration.bind(session, f"SELECT oid FROM town INSIDE {region}")
    return [with_members(pattern, region=spec.region) for spec in specs]


def _played(session: Session, wanted: int) -> list[Progress]:
    """Play the town at its own pace until there are enough batches with records, and return these."""
    batches: dict[int, Progress] = {}
    last = session.progress().step + _STEPS_A_BATCH * wanted
    execute(session, "PLAY town AT 1x;")
    while len(batches) < wanted and (progress := session.progress()).step < last:
        if progress.stats.due_us and progress.stats.records:
            batches[progress.batch] = progress
        time.sleep(_POLL_S)
    execute(session, "PAUSE town;")
    return [batches[number] for number in sorted(batches)]


def _measured(count: int, batches: Sequence[Progress]) -> ServedLoad:
    """Return what the batches with a number of queries come to.

    Raises:
        ValueError: there are too few batches, because the session did not keep up with the play.
    """
    counted = range(max(1, len(batches) // 4), len(batches))
    if len(counted) < 3:
        raise ValueError(f"only {len(batches)} batches came of what was played: the session cannot keep up")
    response, updates = [], 0
    for number in counted:
        batch, before = batches[number], batches[number - 1]
        waited = (batch.wall_us - (batch.stats.due_us or 0)) / 1000
        response += [waited + 1000 * late for late in range(batch.step - before.step)]
        updates += batch.stats.updates
    times = [time for number in counted if (time := batches[number].stats.time)]
    return ServedLoad(
        count=count,
        ms=statistics.median(response),
        p90_ms=statistics.quantiles(response, n=10)[-1],
        batch_ms=statistics.median(each.total_us / 1000 for each in times),
        kernel_ms=statistics.median(each.kernel_us / 1000 for each in times),
        state_ms=statistics.median(each.state_us / 1000 for each in times),
        transfer_ms=statistics.median(each.transfer_us / 1000 for each in times),
        deliver_ms=statistics.median(each.deliver_us / 1000 for each in times),
        updates=updates / len(response),
        steps=len(response),
        batches=len(times),
    )
