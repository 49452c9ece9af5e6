"""Figure 21: response time against the number of queries, their size, and how many of them move.

A record's response is that of the step it comes with: the processor time of Evaluate for one second's
records. What somebody waits who sent it is figure 21c, see `stqsh.bench.sole.served`.
"""

from __future__ import annotations

import statistics
from typing import Any

from stqsh.bench.sole.figures import FigureRun
from stqsh.bench.sole.result import Bar, Chart, FigureResult, Line
from stqsh.bench.sole.slot_driver import DrivenSlot, registered
from stqsh.bench.sole.town import TownQueries

_COUNTS = (5_000, 10_000, 20_000, 35_000, 50_000)
_SIZES = (0.0001, 0.001, 0.01)
_MOVING = (0.0, 0.5, 1.0)
_FIXED = 30_000
_STEPS = 12

_PAPER_MS = {(5_000, 0.0): 11, (50_000, 0.0): 22, (50_000, 1.0): 24}
_PAPER_SIZED = {0.0001: 12, 0.01: 24}


def measure(bench: FigureRun) -> list[FigureResult]:
    """Figures 21a and 21b."""
    return [_against_number(bench), _against_size(bench)]


def _against_number(bench: FigureRun) -> FigureResult:
    rows = []
    for moving in (0.0, 1.0):
        for count in bench.scale.some(_COUNTS):
            row = _timed(bench, TownQueries(bench.scale.count(count), moving=moving))
            kind = "moving" if moving else "stationary"
            rows.append({"kind": kind, **row, "paper": _PAPER_MS.get((count, moving))})
    columns = {"kind": "queries", "count": "number", **_COLUMNS}
    lines = [_line(rows, "kind", kind, "count") for kind in ("stationary", "moving")]
    lines.append(Line("paper, stationary", [5_000, 50_000], [11, 22], paper=True))
    charts = [Chart("queries of various sizes", "queries", "CPU ms a step", lines)]
    bars = [_bar(rows, kind) for kind in ("stationary", "moving")]
    title = "response against the number of queries"
    return FigureResult("21a", title, columns, rows, charts, bars, [_note(bench)])


_COLUMNS = {"ms": "CPU ms a step", "p90_ms": "p90 CPU ms", "updates": "updates a step", "paper": "paper ms"}


def _bar(rows: list[dict[str, Any]], kind: str) -> Bar:
    mine = [row["ms"] for row in rows if row["kind"] == kind]
    return Bar(
        f"10 x queries cost x times the processor time of the core, {kind}",
        2.0,
        mine[-1] / mine[0],
        least=False,
    )


def _against_size(bench: FigureRun) -> FigureResult:
    rows = []
    for size in bench.scale.some(_SIZES):
        for moving in bench.scale.some(_MOVING):
            row = _timed(bench, TownQueries(bench.scale.count(_FIXED), (size,), moving))
            percent = {"size": 100 * size, "moving": 100 * moving}
            rows.append({**percent, **row, "paper": _PAPER_SIZED.get(size)})
    columns = {"size": "size, % of town", "moving": "moving, %", **_COLUMNS}
    sizes = dict.fromkeys(row["size"] for row in rows)
    lines = [_line(rows, "size", size, "moving") for size in sizes]
    charts = [Chart(f"{bench.scale.count(_FIXED):,} queries", "moving queries, %", "CPU ms a step", lines)]
    title = "response against size and moving queries"
    return FigureResult("21b", title, columns, rows, charts, notes=[_note(bench)])


def _line(rows: list[dict[str, Any]], key: str, value: Any, x: str) -> Line:
    mine = [row for row in rows if row[key] == value]
    label = f"{value:g} %" if isinstance(value, float) else str(value)
    return Line(label, [row[x] for row in mine], [row["ms"] for row in mine])


def _timed(bench: FigureRun, queries: TownQueries) -> dict[str, Any]:
    """Take a time unit in with these queries, then time single steps."""
    bench.say(f"{queries.count:,} queries, {queries.moving:.0%} of them moving")
    slot = DrivenSlot(bench.world)
    slot.units(1, registered(queries.of(bench.world)))
    slot.run(1)
    batches = [slot.run(1) for _ in range(_STEPS)]
    times = [batch.ms for batch in batches]
    return {
        "count": queries.count,
        "ms": statistics.median(times),
        "p90_ms": statistics.quantiles(times, n=10)[-1],
        "updates": statistics.mean(batch.updates for batch in batches),
    }


def _note(bench: FigureRun) -> str:
    records = bench.world.objects // bench.world.drive.unit_s
    return (
        f"Processor time of Evaluate for a step of {records:,} records, median of {_STEPS}; RETAIN ALL. The "
        "paper: from an object's arrival to its output, on a machine of 2004; only the ratio compares."
    )
