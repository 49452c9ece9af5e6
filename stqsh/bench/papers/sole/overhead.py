"""Figures 13 and 14: what the cache costs, against speed, report interval and the size of the region.

The queries are moving squares, two time units after they came. The overhead is the number of objects in their
cache areas, in per cent of those in the regions. Equation 1 of the paper stands beside it; its cache is V t
on each side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter

import numpy as np

from stqsh.bench.figures import Row
from stqsh.bench.papers.figure import Chart, FigureResult, Line
from stqsh.bench.papers.sole.figure_run import FigureRun
from stqsh.bench.papers.sole.slot_driver import DrivenSlot, memory, registered
from stqsh.bench.papers.sole.town import MILE, SIDE, Drive, TownQueries, TownWorld
from stqsh.core.retention.stream_stats import tallies

_SPEEDS = (1.0, 10.0, 20.0, 40.0, 60.0)
_FACTORS = (0.25, 0.5, 0.75, 1.0)
_INTERVALS = (10, 30, 60, 90)
_MILES = (1, 2, 3, 4, 5, 6)
_SHARE = 0.005
"""The size of the queries of figure 13, as a share of the town."""

_QUERIES = 100
_COLUMNS = {"mph": "mph", "overhead": "overhead, %", "area": "of area, %", "equation": "eq. 1, %"}


def cache_growth(drive: Drive, factor: float) -> float:
    """Return by how many metres a cache extends a square's side: d = 2 c t v of section 4.5."""
    return 2 * factor * drive.unit_s * drive.metres_a_second


def expected_overhead(side: float, growth: float) -> float:
    """Return the cache's area in per cent of a square with this side in metres, by equation 1."""
    return 100 * ((side + growth) ** 2 - side**2) / side**2


def expected_accuracy(side: float, drive: Drive, factor: float) -> float:
    """Return the accuracy in per cent of a cache with this factor, by equation 4."""
    return 100 * ((side + cache_growth(drive, factor)) / (side + cache_growth(drive, 1.0))) ** 2


@dataclass(frozen=True)
class CacheOverhead:
    """What a cache costs in per cent, by objects, by area and by equation 1, at a greatest speed."""

    mph: float
    overhead: float
    area: float
    equation: float


Labelled = tuple[float, CacheOverhead]
"""The value that a line of the chart stands for, and one of its points."""


def speed(bench: FigureRun) -> list[FigureResult]:
    """Figures 13a and 13b: against speed, for caches and for report intervals."""
    side = _SHARE**0.5 * SIDE
    by_factor, by_interval = list[Labelled](), list[Labelled]()
    for mph in bench.scale.some(_SPEEDS):
        world = bench.driving(Drive(mph=mph))
        for factor in bench.scale.some(_FACTORS):
            by_factor.append((100 * factor, _measured(bench, world, side, factor)))
        for unit_s in bench.scale.some(_INTERVALS):
            other = bench.driving(Drive(unit_s, mph))
            by_interval.append((unit_s, _measured(bench, other, side, 0.5)))
    by_factor.sort(key=itemgetter(0))
    by_interval.sort(key=itemgetter(0))
    return [
        FigureResult(
            "13a",
            "cache overhead against speed",
            {"cache": "cache, %", **_COLUMNS, "paper": "paper"},
            [{"cache": cache, **asdict(one), "paper": "linear in speed"} for cache, one in by_factor],
            notes=[_NOTE],
            charts=[_chart("0.5 % of the town, t = 30 s", by_factor, "{:g} % cache")],
        ),
        FigureResult(
            "13b",
            "cache overhead against speed and report interval",
            {"interval": "t, s", **_COLUMNS, "paper": "paper"},
            [{"interval": t, **asdict(one), "paper": "grows with t"} for t, one in by_interval],
            notes=[_NOTE],
            charts=[_chart("0.5 % of the town, 50 % cache", by_interval, "t = {:g} s")],
        ),
    ]


_NOTE = (
    "Our cache is V (2 t + 3 ticks) on each side, twice the paper's V t: read our 50 % as its 100 %. "
    "Regions lie around objects, where there are more than elsewhere: so caches hold fewer than their area."
)


def size(bench: FigureRun) -> list[FigureResult]:
    """Figure 14: against speed and the side of the region."""
    found: list[tuple[int, CacheOverhead, CacheOverhead]] = []
    for mph in bench.scale.some(_SPEEDS):
        world = bench.driving(Drive(mph=mph))
        for miles in bench.scale.some(_MILES):
            one, half = (_measured(bench, world, miles * MILE, factor) for factor in (0.5, 0.25))
            found.append((miles, one, half))
    found.sort(key=itemgetter(0))
    rows: list[Row] = [
        {"miles": miles, **asdict(one), "half": half.overhead, "paper": _said(miles, one.mph)}
        for miles, one, half in found
    ]
    columns = {"miles": "side, miles", **_COLUMNS, "half": "cache 25 %: %", "paper": "paper"}
    charts = [_chart("t = 30 s, 50 % cache", [(miles, one) for miles, one, _ in found], "{:g} miles")]
    return [
        FigureResult(
            "14", "cache overhead against speed and size", columns, rows, notes=[_NOTE], charts=charts
        )
    ]


def _said(miles: int, mph: float) -> str:
    """Return what the paper's text says of figure 14."""
    if miles == 1 and mph == 60:
        return "may exceed 100"
    if miles > 5:
        return "below 20"
    if mph <= 10:
        return "almost negligible"
    return "below 40" if miles >= 3 else "-"


def _measured(bench: FigureRun, world: TownWorld, side: float, factor: float) -> CacheOverhead:
    drive = world.drive
    bench.say(f"{side / MILE:.2g} miles, {drive.mph:g} mph, t = {drive.unit_s} s, cache {factor:.0%}")
    queries = TownQueries(bench.scale.count(_QUERIES), ((side / SIDE) ** 2,), moving=1.0)
    slot = DrivenSlot(world, "significant")
    slot.units(2, [memory(factor), *registered(queries.of(world))])
    tally = tallies(slot.state, slot.spec)
    return CacheOverhead(
        mph=drive.mph,
        overhead=100 * float(tally.cached.sum() / tally.inside.sum()),
        area=100 * float(np.nansum(tally.cache_area) / np.nansum(tally.area)),
        equation=expected_overhead(side, cache_growth(drive, factor)),
    )


def _chart(title: str, points: Sequence[Labelled], label: str) -> Chart:
    lines = []
    for value in dict.fromkeys(value for value, _ in points):
        mine = [point for other, point in points if other == value]
        lines.append(Line(label.format(value), [one.mph for one in mine], [one.overhead for one in mine]))
    return Chart(title, "greatest speed, mph", "overhead, %", lines)
