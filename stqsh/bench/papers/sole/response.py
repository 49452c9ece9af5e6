"""Figure 21: response time against the number of queries, their size, and how many of them move.

A record's response is that of its step: the processor time of Evaluate for the records of one second. Figure
21c has the response of the whole system; see `stqsh.bench.papers.sole.served`.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from stqsh.bench.figures import Row
from stqsh.bench.papers.figure import Chart, FigureResult, Goal, Line
from stqsh.bench.papers.sole.figure_run import FigureRun
from stqsh.bench.papers.sole.slot_driver import DrivenSlot, registered
from stqsh.bench.papers.sole.town import TownQueries

_COUNTS = (5_000, 10_000, 20_000, 35_000, 50_000)
_SIZES = (0.0001, 0.001, 0.01)
_MOVING = (0.0, 0.5, 1.0)
_FIXED = 30_000
_STEPS = 12

_PAPER_MS = {(5_000, 0.0): 11, (50_000, 0.0): 22, (50_000, 1.0): 24}
_PAPER_SIZED = {0.0001: 12, 0.01: 24}


@dataclass(frozen=True)
class StepTimes:
    """The processor time of steps with a number of queries, ms: median and 90th percentile."""

    count: int
    ms: float
    p90_ms: float
    updates: float


def measure(bench: FigureRun) -> list[FigureResult]:
    """Figures 21a and 21b."""
    return [_against_number(bench), _against_size(bench)]


def _against_number(bench: FigureRun) -> FigureResult:
    rows, times = list[Row](), dict[str, list[StepTimes]]()
    for kind, moving in (("stationary", 0.0), ("moving", 1.0)):
        for count in bench.scale.some(_COUNTS):
            found = _timed(bench, TownQueries(bench.scale.count(count), moving=moving))
            times.setdefault(kind, []).append(found)
            rows.append({"kind": kind, **asdict(found), "paper": _PAPER_MS.get((count, moving))})
    columns = {"kind": "queries", "count": "number", **_COLUMNS}
    lines = [_line(kind, [one.count for one in some], some) for kind, some in times.items()]
    lines.append(Line("paper, stationary", [5_000, 50_000], [11, 22], paper=True))
    charts = [Chart("queries of various sizes", "queries", "CPU ms a step", lines)]
    goals = [_goal(some, kind) for kind, some in times.items()]
    title = "response against the number of queries"
    return FigureResult("21a", title, columns, rows, goals, [_note(bench)], charts)


_COLUMNS = {"ms": "CPU ms a step", "p90_ms": "p90 CPU ms", "updates": "updates a step", "paper": "paper ms"}


def _goal(times: Sequence[StepTimes], kind: str) -> Goal:
    what = f"10 x queries cost x times the processor time of the core, {kind}"
    return Goal(what, "-", 2.0, times[-1].ms / times[0].ms, least=False)


def _against_size(bench: FigureRun) -> FigureResult:
    rows, lines = list[Row](), list[Line]()
    shares = bench.scale.some(_MOVING)
    for size in bench.scale.some(_SIZES):
        times = [_timed(bench, TownQueries(bench.scale.count(_FIXED), (size,), share)) for share in shares]
        for share, found in zip(shares, times, strict=True):
            percent = {"size": 100 * size, "moving": 100 * share}
            rows.append({**percent, **asdict(found), "paper": _PAPER_SIZED.get(size)})
        lines.append(_line(f"{100 * size:g} %", [100 * share for share in shares], times))
    columns = {"size": "size, % of town", "moving": "moving, %", **_COLUMNS}
    charts = [Chart(f"{bench.scale.count(_FIXED):,} queries", "moving queries, %", "CPU ms a step", lines)]
    title = "response against size and moving queries"
    return FigureResult("21b", title, columns, rows, notes=[_note(bench)], charts=charts)


def _line(label: str, x: Sequence[float], times: Sequence[StepTimes]) -> Line:
    return Line(label, x, [one.ms for one in times])


def _timed(bench: FigureRun, queries: TownQueries) -> StepTimes:
    """Take in a time unit with these queries, then time single steps."""
    bench.say(f"{queries.count:,} queries, {queries.moving:.0%} of them moving")
    slot = DrivenSlot(bench.world)
    slot.units(1, registered(queries.of(bench.world)))
    slot.run(1)
    batches = [slot.run(1) for _ in range(_STEPS)]
    times = [batch.ms for batch in batches]
    return StepTimes(
        count=queries.count,
        ms=statistics.median(times),
        p90_ms=statistics.quantiles(times, n=10)[-1],
        updates=statistics.mean(batch.stats.updates for batch in batches),
    )


def _note(bench: FigureRun) -> str:
    records = bench.world.objects // bench.world.drive.unit_s
    return (
        f"Processor time of Evaluate for a step of {records:,} records, median of {_STEPS}; RETAIN ALL. The "
        "paper: from an object's arrival to its output, on a machine of 2004; only the ratio compares."
    )
