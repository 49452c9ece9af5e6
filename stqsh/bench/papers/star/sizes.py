"""Figure 8: the response of snapshots over static posts against the side of their ranges."""

from __future__ import annotations

from dataclasses import asdict

from stqsh.bench.figures import Row
from stqsh.bench.papers.figure import Chart, FigureResult, Goal, Line
from stqsh.bench.papers.star.asking import ask
from stqsh.bench.papers.star.contenders import baseline_1, q_cache, scan
from stqsh.bench.papers.star.figure_run import StarRun
from stqsh.bench.papers.star.workload import Workload

SIDES = (0.0005, 0.002, 0.01, 0.05, 0.2, 0.5)
_COLUMNS = {
    "side": "side, %",
    "name": "way",
    "mean_ms": "mean ms",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "times": "times scan",
}


def measure(bench: StarRun) -> list[FigureResult]:
    """Figure 8, by our own scan in the place of Simba and GeoSpark; with larger sides than the paper's."""
    rows, lines, goals = list[Row](), dict[str, list[float]](), list[Goal]()
    for side in SIDES:
        workload = Workload("S2", "COUNT(*)", 0, side)
        ways = [scan(), baseline_1(), q_cache(bench.scale.budget)]
        found = ask(bench.world, workload, ways, bench.scale, bench.say)
        for name, timed in found.items():
            lines.setdefault(name, []).append(timed.mean_ms)
            rows.append({**asdict(timed), "side": 100 * side, "times": found["scan"].mean_ms / timed.mean_ms})
        cells = found["Baseline-1"].mean_ms
        goals.append(
            Goal(f"side {100 * side:g} %: cells over a scan", "-", 1.0, found["scan"].mean_ms / cells)
        )
    sides = [100 * side for side in SIDES]
    charts = [
        Chart("Q_S2-Count", "side, %", "mean ms", [Line(name, sides, y) for name, y in lines.items()], "xy")
    ]
    note = (
        "The paper: about 3 times as fast as Simba and GeoSpark, and below 40 % of their time at the largest"
        " side. They do not run here; a scan of our own columns is the measure instead."
    )
    title = "snapshot response against the side of ranges"
    return [FigureResult("8", title, _COLUMNS, rows, goals, [note], charts)]
