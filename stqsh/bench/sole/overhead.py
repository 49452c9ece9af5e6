"""Figures 13 and 14: what the cache costs, against speed, report interval and the size of the region.

Moving squares over all objects after two time units; the overhead is the objects in their cache areas, in per
cent of those in the regions. Beside it equation 1 of the paper, whose cache is V t on each side.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from stqsh.bench.sole import formula
from stqsh.bench.sole.figures import FigureRun
from stqsh.bench.sole.result import Chart, FigureResult, Line
from stqsh.bench.sole.slot_driver import DrivenSlot, memory, registered
from stqsh.bench.sole.town import MILE, SIDE, Drive, TownQueries, TownWorld
from stqsh.core.retention.stream_stats import tallies

_SPEEDS = (1.0, 10.0, 20.0, 40.0, 60.0)
_FACTORS = (0.25, 0.5, 0.75, 1.0)
_INTERVALS = (10, 30, 60, 90)
_MILES = (1, 2, 3, 4, 5, 6)
_SHARE = 0.005
"""The size of the queries of figure 13, of the town."""

_QUERIES = 100
_COLUMNS = {"mph": "mph", "overhead": "overhead, %", "area": "of area, %", "equation": "eq. 1, %"}


def speed(bench: FigureRun) -> list[FigureResult]:
    """Figures 13a and 13b: against speed, for caches and for report intervals."""
    side = _SHARE**0.5 * SIDE
    by_factor, by_interval = [], []
    for mph in bench.scale.some(_SPEEDS):
        world = bench.driving(Drive(mph=mph))
        for factor in bench.scale.some(_FACTORS):
            by_factor.append({"cache": 100 * factor, **_row(bench, world, side, factor)})
        for unit_s in bench.scale.some(_INTERVALS):
            other = bench.driving(Drive(unit_s, mph))
            by_interval.append({"interval": unit_s, **_row(bench, other, side, 0.5)})
    by_factor.sort(key=lambda row: row["cache"])
    by_interval.sort(key=lambda row: row["interval"])
    return [
        FigureResult(
            "13a",
            "cache overhead against speed",
            {"cache": "cache, %", **_COLUMNS, "paper": "paper"},
            [{**row, "paper": "linear in speed"} for row in by_factor],
            [_chart("0.5 % of the town, t = 30 s", by_factor, "cache", "{:g} % cache")],
            notes=[_NOTE],
        ),
        FigureResult(
            "13b",
            "cache overhead against speed and report interval",
            {"interval": "t, s", **_COLUMNS, "paper": "paper"},
            [{**row, "paper": "grows with t"} for row in by_interval],
            [_chart("0.5 % of the town, 50 % cache", by_interval, "interval", "t = {:g} s")],
            notes=[_NOTE],
        ),
    ]


_NOTE = (
    "Our cache is V (2 t + 3 ticks) on each side, twice the paper's V t: read our 50 % as its 100 %. "
    "Regions lie around objects, where there are more than elsewhere: so caches hold fewer than their area."
)


def size(bench: FigureRun) -> list[FigureResult]:
    """Figure 14: against speed and the side of the region."""
    rows = []
    for mph in bench.scale.some(_SPEEDS):
        world = bench.driving(Drive(mph=mph))
        for miles in bench.scale.some(_MILES):
            row = _row(bench, world, miles * MILE, 0.5)
            half = _row(bench, world, miles * MILE, 0.25)["overhead"]
            rows.append({"miles": miles, **row, "half": half, "paper": _said(miles, mph)})
    rows.sort(key=lambda row: row["miles"])
    columns = {"miles": "side, miles", **_COLUMNS, "half": "cache 25 %: %", "paper": "paper"}
    charts = [_chart("t = 30 s, 50 % cache", rows, "miles", "{:g} miles")]
    return [FigureResult("14", "cache overhead against speed and size", columns, rows, charts, notes=[_NOTE])]


def _said(miles: int, mph: float) -> str:
    """Return what the text says of figure 14."""
    if miles == 1 and mph == 60:
        return "may exceed 100"
    if miles > 5:
        return "below 20"
    if mph <= 10:
        return "almost negligible"
    return "below 40" if miles >= 3 else "-"


def _row(bench: FigureRun, world: TownWorld, side: float, factor: float) -> dict[str, Any]:
    drive = world.drive
    bench.say(f"{side / MILE:.2g} miles, {drive.mph:g} mph, t = {drive.unit_s} s, cache {factor:.0%}")
    queries = TownQueries(bench.scale.count(_QUERIES), ((side / SIDE) ** 2,), moving=1.0)
    slot = DrivenSlot(world, "significant")
    slot.units(2, [memory(factor), *registered(queries.of(world))])
    tally = tallies(slot.state, slot.spec)
    return {
        "mph": drive.mph,
        "overhead": 100 * float(tally.cached.sum() / tally.inside.sum()),
        "area": 100 * float(np.nansum(tally.cache_area) / np.nansum(tally.area)),
        "equation": formula.overhead(side, formula.growth(drive, factor)),
    }


def _chart(title: str, rows: Iterable[dict[str, Any]], key: str, label: str) -> Chart:
    rows = list(rows)
    lines = []
    for value in dict.fromkeys(row[key] for row in rows):
        mine = [row for row in rows if row[key] == value]
        lines.append(
            Line(label.format(value), [row["mph"] for row in mine], [row["overhead"] for row in mine])
        )
    return Chart(title, "greatest speed, mph", "overhead, %", lines)
