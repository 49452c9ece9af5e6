"""Figure 25a: how many queries the same memory supports with load shedding, each at least 90 % accurate.

The memory is a number of objects: the one that figure 25b fixes in the paper (what 1,200 queries of various
sizes need), and shares of all objects beside, for the gain hangs on it. With object load shedding k is raised
as far as the queries' locks let it; with query load shedding caches are given up, and areas down to nine
tenths. What shadows cost is told in bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stqsh.bench.sole.arriving import fills_up
from stqsh.bench.sole.curves import kept
from stqsh.bench.sole.figures import FigureRun
from stqsh.bench.sole.result import Bar, Chart, FigureResult, Line
from stqsh.bench.sole.sharing import FACTOR, parted, shadow_bytes, shared_slot
from stqsh.bench.sole.slot_driver import DrivenSlot, memory
from stqsh.bench.sole.town import TownQueries

_SIZES = (0.001, 0.005, 0.01)
_BUDGETS = (0.8, 0.85, 0.9, 0.95)
"""Shares of all objects that fit into the memory, beside the paper's."""

_LEAST = 0.9
_MOVING = 0.0
_DENSITIES = (0.5, 1, 2, 3, 4, 6, 8, 16, 32, 96)
"""Numbers of queries, by how often their areas would cover the town."""

_RISING = (0.05, 0.2, 0.5)
"""k is raised so that these shares of the objects are wanted by fewer than k queries; then beyond all."""

_ENOUGH = 0.002
"""Object load shedding is done once a time unit drops no more than this share of the objects."""


@dataclass(frozen=True)
class SupportedLoad:
    """What some queries need, as shares of all objects: without, with object, with query load shedding.

    in_bytes: of the bytes that all objects take, what is left with object shedding, shadows included.
    """

    queries: int
    whole: float
    by_object: float
    by_query: float
    in_bytes: float


def measure(bench: FigureRun) -> list[FigureResult]:
    """Figure 25a."""
    paper = fills_up(bench) / bench.world.objects
    rows = [row for size in bench.scale.some(_SIZES) for row in _rows(bench, size, paper)]
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
            [_line(rows, budget, f"{how}_ratio") for budget in (*_BUDGETS, paper)],
        )
        for how in ("object", "query")
    ]
    found = [row["object_ratio"] for row in rows if row["paper"] and row["object_ratio"]]
    bars = [Bar("queries at 90 % accuracy with object shedding, x", 13.0, max(found, default=None))]
    title = "queries supported with load shedding"
    return [FigureResult("25a", title, columns, rows, charts, bars, _notes(paper))]


def _notes(paper: float) -> list[str]:
    least = f"{_LEAST:.0%}"
    return [
        f"Stationary queries, cache {FACTOR:.0%}, each at least {least} accurate. The paper's memory is that "
        f"which 1,200 queries of various sizes fill (figure 25b): {paper:.1%} of the objects; the bar is for "
        "that. As many as the most tried: at least so many fit.",
        f"Where regions cover the town, {least} of each query's objects are about {least} of all: with less "
        "memory no shedding gains much, with more only the queries' own memory bounds their number. "
        "By bytes: the memory is that of the objects' arrays, and shadows are in it.",
    ]


def _line(rows: list[dict[str, Any]], budget: float, key: str) -> Line:
    mine = [row for row in rows if row["budget"] == 100 * budget]
    return Line(f"memory {budget:.1%}", [row["size"] for row in mine], [row[key] for row in mine])


def _rows(bench: FigureRun, size: float, paper: float) -> list[dict[str, Any]]:
    """Return for each budget the numbers of queries that it supports."""
    loads: list[SupportedLoad] = []
    for density in bench.scale.some(_DENSITIES):
        loads.append(_load(bench, bench.scale.count(math.ceil(density / size)), size))
        if loads[-1].by_object > paper:
            break
    counts = [load.queries for load in loads]
    rows = []
    for budget in (*_BUDGETS, paper):
        shared = supported(counts, [load.whole for load in loads], budget)
        row: dict[str, Any] = {"size": 100 * size, "budget": 100 * budget, "shared": shared}
        for name in ("object", "query", "bytes"):
            curve = [load.in_bytes if name == "bytes" else getattr(load, f"by_{name}") for load in loads]
            row[name] = supported(counts, curve, budget)
            row[f"{name}_ratio"] = row[name] / shared if row[name] and shared else None
        rows.append(row | {"tried": counts[-1], "paper": "up to 13; 3" if budget == paper else None})
    return rows


def supported(counts: Sequence[int], loads: Sequence[float], budget: float) -> int | None:
    """Return how many queries a budget supports, by the loads of some numbers of them.

    The greatest number where all fit: at least so many. None where not even the least fits.
    """
    rising = np.maximum.accumulate(np.array(loads))
    if budget < rising[0]:
        return None
    return round(float(np.exp(np.interp(budget, rising, np.log(counts)))))


def _load(bench: FigureRun, count: int, size: float) -> SupportedLoad:
    """Return what a number of queries needs."""
    bench.say(f"{count:,} queries of {size:.2%} of the town, at least {_LEAST:.0%} accurate")
    slot = shared_slot(bench, TownQueries(count, (size,), moving=_MOVING, least=_LEAST), FACTOR)
    everything, whole, size_of = bench.world.objects, kept(slot), parted(slot)[0]
    by_object = _fewest(slot, whole)
    in_bytes = (parted(slot)[0] + shadow_bytes(slot)) / size_of
    slot.units(1, [memory(FACTOR)])
    slot.units(1, [memory(FACTOR, cache=0.0, area=_LEAST)])
    share = whole / everything
    return SupportedLoad(count, share, by_object / everything, kept(slot) / everything, in_bytes * share)


def _fewest(slot: DrivenSlot, whole: int) -> int:
    """Raise k until locks keep what is left: those of interest to few queries go first."""
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
