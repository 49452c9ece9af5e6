"""Figure 21c: the response of the whole system against the number of queries, through Spark.

The paper's response is what somebody waits who sent a record: from its arrival to what the server sends. Here
a session plays the town's objects at their own pace, so that a record is due when the wall clock gets to its
step; its response is the time from there until its updates are in the update log, where every reader finds
them. Figure 21a is the core's part of that.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from msgspec import convert
from msgspec.structs import replace

import stqsh
from stqsh.bench.harness import bulk
from stqsh.bench.harness.drive import execute, run
from stqsh.bench.sole.figures import FigureRun
from stqsh.bench.sole.result import Bar, Chart, FigureResult, Line
from stqsh.bench.sole.town import SIDE, Spec, TownQueries, TownWorld
from stqsh.client.api import Session
from stqsh.spec.query import QuerySpec
from stqsh.spec.region import Region
from stqsh.storage.rows import Progress

_COUNTS = (5_000, 20_000, 50_000)
_BATCHES = 40
"""So many batches are seen with each number of queries, and before that with the first one, for Java still
compiles then; the first quarter, in which much is new, is not counted."""

_STEPS_A_BATCH = 3
"""Steps that are there for each batch; where they go by before, fewer batches are seen."""

_PARTS = ("kernel", "state", "transfer", "deliver")
"""Where a batch's time goes, see SHOW STATUS."""

_POLL_S = 0.02
_CREATE = (
    "CREATE MOVING STREAM town (oid STRING, kind STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP) KEY oid "
    "LOCATION (lon, lat) TIME ts FROM FILE '{file}' PLANAR BOUNDS (0, 0, {side!r}, {side!r}) TICK 1 s "
    "REPORT EVERY {unit} s;"
)
_PAPER_MS = {(5_000, False): 11, (50_000, False): 22, (50_000, True): 24}


def measure(bench: FigureRun) -> list[FigureResult]:
    """Figure 21c."""
    counts = [bench.scale.count(count) for count in bench.scale.some(_COUNTS)]
    papers = dict(zip(counts, bench.scale.some(_COUNTS), strict=True))
    rows = [
        {"kind": _kind(moving), **row, "paper": _PAPER_MS.get((papers[row["count"]], moving))}
        for moving in (False, True)
        for row in _served(bench, counts, moving=moving)
    ]
    columns = {
        "kind": "queries",
        "count": "number",
        "ms": "response ms",
        "p90_ms": "p90 ms",
        "batch_ms": "batch ms",
        **{f"{part}_ms": f"of it {part}" for part in _PARTS},
        "updates": "updates a step",
        "steps": "steps",
        "batches": "batches",
        "paper": "paper ms",
    }
    lines = [Line(kind, *_curve(rows, kind)) for kind in map(_kind, (False, True))]
    lines.append(Line("paper, stationary", [5_000, 50_000], [11, 22], paper=True))
    charts = [Chart("queries of various sizes", "queries", "ms from due to delivered", lines)]
    bars = [_bar(rows, kind) for kind in map(_kind, (False, True))]
    title = "response of the system against the number of queries"
    return [FigureResult("21c", title, columns, rows, charts, bars, [_note(bench)])]


def _kind(moving: bool) -> str:
    return "moving" if moving else "stationary"


def _curve(rows: Sequence[dict[str, Any]], kind: str) -> tuple[list[int], list[float]]:
    mine = [row for row in rows if row["kind"] == kind]
    return [row["count"] for row in mine], [row["ms"] for row in mine]


def _bar(rows: Sequence[dict[str, Any]], kind: str) -> Bar:
    _, times = _curve(rows, kind)
    what = f"10 x queries cost x times the response of the system, {kind}"
    return Bar(what, 2.0, times[-1] / times[0], least=False)


def _note(bench: FigureRun) -> str:
    records = bench.world.objects // bench.world.drive.unit_s
    return (
        f"Wall-clock time from when a record is due until its updates are in the update log, through Spark, "
        f"{records:,} records a second; RETAIN ALL. Batch: from the begin of its Spark batch on; where it "
        "takes longer than a second, more steps come in one."
    )


def _served(bench: FigureRun, counts: Sequence[int], *, moving: bool) -> list[dict[str, Any]]:
    """One session, in which ever more queries are registered; a row for each number of them."""
    unit, batches = bench.world.drive.unit_s, min(_BATCHES, 6 * bench.scale.span)
    specs = TownQueries(counts[-1], moving=float(moving)).of(bench.world)
    with (
        tempfile.TemporaryDirectory(prefix="stqsh-bench-") as folder,
        stqsh.connect(temporary=True, autoplay=False) as session,
    ):
        path = Path(folder) / "town.parquet"
        _write(bench.world, unit + (len(counts) + 1) * (1 + _STEPS_A_BATCH * batches), path)
        execute(session, _CREATE.format(file=path, side=SIDE, unit=unit))
        run(session, unit)
        rows, done = [], 0
        for count in counts:
            bench.say(f"{count:,} {_kind(moving)} queries through Spark, {batches} batches")
            bulk.register(session, _as_registered(session, specs[done:count], moving), done)
            run(session, 1)
            if not done:
                _played(session, batches)
            done = count
            rows.append({"count": count, **_measured(_played(session, batches))})
        return rows


def _write(world: TownWorld, steps: int, path: Path) -> None:
    """Write the records of the town's first steps as one Parquet file."""
    first = world.step(1).records.drop_columns(["_step", "_hash"])
    with pq.ParquetWriter(path, first.schema) as writer:
        for number in range(1, steps + 1):
            writer.write_batch(world.step(number).records.drop_columns(["_step", "_hash"]))


def _as_registered(session: Session, specs: Sequence[Spec], moving: bool) -> list[QuerySpec]:
    """Return the specs of queries as the session binds them."""
    region = "RECT(1, 1) AROUND 'nobody'" if moving else "(0, 0, 1, 1)"
    pattern = bulk.bound(session, f"SELECT oid FROM town INSIDE {region}")
    return [replace(pattern, region=convert(spec["region"], Region)) for spec in specs]


def _played(session: Session, wanted: int) -> list[Progress]:
    """Play the town at its own pace until enough batches are seen; return them without empty ones."""
    batches: dict[int, Progress] = {}
    last = session.progress().step + _STEPS_A_BATCH * wanted
    execute(session, "PLAY town AT 1x;")
    while len(batches) < wanted and (progress := session.progress()).step < last:
        if progress.stats.due_us and progress.stats.records:
            batches[progress.batch] = progress
        time.sleep(_POLL_S)
    execute(session, "PAUSE town;")
    return [batches[number] for number in sorted(batches)]


def _measured(batches: Sequence[Progress]) -> dict[str, Any]:
    """Return what a number of queries comes to: a sample of the response is a step, whatever batch it is in.

    Raises:
        ValueError: nothing could be measured, for the session did not keep up with what was played.
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
    return {
        "ms": statistics.median(response),
        "p90_ms": statistics.quantiles(response, n=10)[-1],
        "batch_ms": statistics.median(each.total_us / 1000 for each in times),
        **{
            f"{part}_ms": statistics.median(getattr(each, f"{part}_us") / 1000 for each in times)
            for part in _PARTS
        },
        "updates": updates / len(response),
        "steps": len(response),
        "batches": len(times),
    }
