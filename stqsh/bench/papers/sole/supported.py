"""Figure 25a: how many queries a memory supports with load shedding, each at least 90 % accurate.

The memory is a number of objects: the one that figure 25b fixes in the paper (what 1,200 queries of various
sizes need), and several shares of all objects, because the gain depends on it. With object load shedding k is
raised as far as the queries' locks permit; with query load shedding caches go first, then a tenth of the
areas. The cost of shadows is given in bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from stqsh.bench.figures import Row
from stqsh.bench.papers.figure import Chart, FigureResult, Goal, Line
from stqsh.bench.papers.sole.arriving import fills_up
from stqsh.bench.papers.sole.curves import kept
from stqsh.bench.papers.sole.figure_run import FigureRun
from stqsh.bench.papers.sole.sharing import FACTOR, parted, shadow_bytes, shared_slot
from stqsh.bench.papers.sole.slot_driver import DrivenSlot, memory
from stqsh.bench.papers.sole.town import TownQueries

_SIZES = (0.001, 0.005, 0.01)
_BUDGETS = (0.8, 0.85, 0.9, 0.95)
"""Shares of all objects that fit into the memory; the paper's comes on top."""

_LEAST = 0.9
_MOVING = 0.0
_DENSITIES = (0.5, 1, 2, 3, 4, 6, 8, 16, 32, 96)
"""The numbers of queries, by how often their areas cover the town."""

_RISING = (0.05, 0.2, 0.5)
"""k is raised so that fewer than k queries want these shares of the objects; then beyond all."""

_ENOUGH = 0.002
"""Object load shedding ends once a time unit drops no more than this share of the objects."""


@dataclass(frozen=True)
class SupportedLoad:
    """What some queries need, as shares of all objects: without, with object, with query load shedding.

    Attributes:
        in_bytes: the share of the bytes of all objects that object shedding leaves, shadows included.
    """

    queries: int
    whole: float
    by_object: float
    by_query: float
    in_bytes: float


@dataclass(frozen=True)
class BudgetSupport:
    """The queries of a size that a budget supports, both in % of the town and of all objects.

    Without load shedding, with object and with query load shedding, and with object load shedding by bytes;
    the ratios are to the first of these. None: not even the least number fits.
    """

    size: float
    budget: float
    shared: int | None
    object: int | None
    object_ratio: float | None
    query: int | None
    query_ratio: float | None
    bytes: int | None
    bytes_ratio: float | None
    tried: int
    paper: str | None


def measure(bench: FigureRun) -> list[FigureResult]:
    """Figure 25a."""
    paper = fills_up(bench) / bench.world.objects
    found = [one for size in bench.scale.some(_SIZES) for one in _supports(bench, size, paper)]
    columns = {
        "size": "size, % of town",
        "budget": "memory, % of objects",
        "shared": "no shedding",
        "object": "object",
        "query": "query",
        "object_ratio": "object, x",
        "query_ratio": "query, x",
        "bytes_ratio": "object, x by bytes",
        "tried": "most tried",
        "paper": "paper, x",
    }
    charts = [
        Chart(
            f"gain in queries, {how} load shedding",
            "size, % of the town",
            "ratio",
            [_line(found, budget, ratio) for budget in (*_BUDGETS, paper)],
        )
        for how, ratio in _RATIOS.items()
    ]
    gains = [one.object_ratio for one in found if one.paper and one.object_ratio]
    goals = [Goal("queries at 90 % accuracy with object shedding, x", "-", 13.0, max(gains, default=None))]
    rows: list[Row] = [asdict(one) for one in found]
    title = "queries supported with load shedding"
    return [FigureResult("25a", title, columns, rows, goals, _notes(paper), charts)]


_RATIOS: dict[str, Callable[[BudgetSupport], float | None]] = {
    "object": lambda one: one.object_ratio,
    "query": lambda one: one.query_ratio,
}


def _notes(paper: float) -> list[str]:
    least = f"{_LEAST:.0%}"
    return [
        f"Stationary queries, cache {FACTOR:.0%}, each at least {least} accurate. The paper's memory is what "
        f"1,200 queries of various sizes fill (figure 25b): {paper:.1%} of the objects; the bar is for that "
        "memory. A number that equals the most tried is a lower bound.",
        f"Where regions cover the town, {least} of each query's objects are about {least} of all objects: "
        "with less memory no shedding gains much; with more, only the queries' own memory limits their "
        "number. By bytes: the memory of the objects' arrays, including shadows.",
    ]


def _line(
    found: Sequence[BudgetSupport], budget: float, ratio: Callable[[BudgetSupport], float | None]
) -> Line:
    mine = [one for one in found if one.budget == 100 * budget]
    return Line(f"memory {budget:.1%}", [one.size for one in mine], [ratio(one) for one in mine])


def _supports(bench: FigureRun, size: float, paper: float) -> list[BudgetSupport]:
    """Return the numbers of queries of a size that each budget supports."""
    loads: list[SupportedLoad] = []
    for density in bench.scale.some(_DENSITIES):
        loads.append(_load(bench, bench.scale.count(math.ceil(density / size)), size))
        if loads[-1].by_object > paper:
            break
    return [_support(loads, size, budget, is_paper=budget == paper) for budget in (*_BUDGETS, paper)]


def _support(loads: Sequence[SupportedLoad], size: float, budget: float, *, is_paper: bool) -> BudgetSupport:
    counts = [load.queries for load in loads]
    shared, by_object, by_query, by_bytes = (
        supported(counts, curve, budget)
        for curve in (
            [load.whole for load in loads],
            [load.by_object for load in loads],
            [load.by_query for load in loads],
            [load.in_bytes for load in loads],
        )
    )

    def ratio(count: int | None) -> float | None:
        return count / shared if count and shared else None

    return BudgetSupport(
        size=100 * size,
        budget=100 * budget,
        shared=shared,
        object=by_object,
        object_ratio=ratio(by_object),
        query=by_query,
        query_ratio=ratio(by_query),
        bytes=by_bytes,
        bytes_ratio=ratio(by_bytes),
        tried=counts[-1],
        paper="up to 13; 3" if is_paper else None,
    )


def supported(counts: Sequence[int], loads: Sequence[float], budget: float) -> int | None:
    """Return how many queries a budget supports, interpolated between the loads of some numbers of them.

    If all numbers fit, return the greatest; None if not even the least fits.
    """
    rising = np.maximum.accumulate(np.array(loads))
    if budget < rising[0]:
        return None
    return round(float(np.exp(np.interp(budget, rising, np.log(counts)))))


def _load(bench: FigureRun, count: int, size: float) -> SupportedLoad:
    """Return what a number of queries needs."""
    bench.say(f"{count:,} queries of {size:.2%} of the town, at least {_LEAST:.0%} accurate")
    slot = shared_slot(bench, TownQueries(count, (size,), moving=_MOVING, least=_LEAST))
    everything, whole, size_of = bench.world.objects, kept(slot), parted(slot)[0]
    by_object = _fewest(slot, whole)
    in_bytes = (parted(slot)[0] + shadow_bytes(slot)) / size_of
    slot.units(1, [memory(FACTOR)])
    slot.units(1, [memory(FACTOR, cache=0.0, area=_LEAST)])
    share = whole / everything
    return SupportedLoad(count, share, by_object / everything, kept(slot) / everything, in_bytes * share)


def _fewest(slot: DrivenSlot, whole: int) -> int:
    """Raise k until locks keep the remaining objects; return their number."""
    refs = slot.array("objects/refs")[slot.array("objects/known")]
    for k in np.unique(np.quantile(refs, _RISING, method="lower").astype(int) + 1).tolist():
        slot.units(1, [memory(FACTOR, k=k)])
    now = kept(slot)
    while True:
        before, k = now, int(slot.array("objects/refs").max()) + 1
        slot.units(1, [memory(FACTOR, k=k)])
        now = kept(slot)
        if before - now <= _ENOUGH * whole:
            return now
