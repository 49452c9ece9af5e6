"""Figure 25a: how many queries the same memory supports with load shedding, each at least 90 % accurate.

The memory is a number of objects. With object load shedding k is raised as far as the queries' locks let it;
with query load shedding caches are given up, and areas down to nine tenths.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from stqsh.bench.sole.catalogue import Bench
from stqsh.bench.sole.curves import kept
from stqsh.bench.sole.result import Bar, Chart, Line, Result
from stqsh.bench.sole.sharing import FACTOR, shared_slot
from stqsh.bench.sole.slot import Slot, memory
from stqsh.bench.sole.world import Queries

_SIZES = (0.001, 0.005, 0.01)
_BUDGETS = (0.8, 0.85, 0.9, 0.95, 0.975)
"""Shares of all objects that fit into the memory; the last is about what fills up in figure 25b."""

_LEAST = 0.9
_MOVING = 0.0
_DENSITIES = (0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Numbers of queries, by how often their areas would cover the town."""

_MOST = 16_000
"""Queries at the most."""

_ENOUGH = 0.002
"""Object load shedding is done once a higher k drops no more than this share of the objects."""


def measure(bench: Bench) -> list[Result]:
    """Figure 25a."""
    rows: list[dict[str, Any]] = []
    for size in bench.scale.some(_SIZES):
        rows += _rows(bench, size)
    columns = {
        "size": "size, % of town",
        "budget": "memory, % of objects",
        "shared": "no shedding",
        "object": "object",
        "query": "query",
        "object_ratio": "object, x",
        "query_ratio": "query, x",
        "tried": "most tried",
        "paper": "paper, x",
    }
    charts = [
        Chart(
            f"gain in queries, {how} load shedding",
            "size, % of the town",
            "ratio",
            [_line(rows, budget, f"{how}_ratio") for budget in _BUDGETS],
        )
        for how in ("object", "query")
    ]
    best = max((row["object_ratio"] for row in rows if row["object_ratio"]), default=None)
    bars = [Bar("queries at 90 % accuracy with object shedding, x", 13.0, best)]
    note = (
        f"Stationary queries, each at least {_LEAST:.0%} accurate. The paper does not say how much memory it "
        "had; the gain hangs on it, so there are several. As many as the most tried: at least so many fit."
    )
    return [Result("25a", "queries supported with load shedding", columns, rows, charts, bars, [note])]


def _line(rows: list[dict[str, Any]], budget: float, key: str) -> Line:
    mine = [row for row in rows if row["budget"] == 100 * budget]
    return Line(f"memory {budget:.0%}", [row["size"] for row in mine], [row[key] for row in mine])


def _rows(bench: Bench, size: float) -> list[dict[str, Any]]:
    """For each budget the numbers of queries that it supports."""
    counts: list[int] = []
    loads: list[tuple[float, float, float]] = []
    for density in bench.scale.some([each for each in _DENSITIES if each <= _MOST * size]):
        counts.append(bench.scale.count(math.ceil(density / size)))
        loads.append(_loads(bench, counts[-1], size))
        if loads[-1][1] > _BUDGETS[-1]:
            break
    without, by_object, by_query = (list(curve) for curve in zip(*loads, strict=True))
    rows = []
    for budget in _BUDGETS:
        shared = supported(counts, without, budget)
        row: dict[str, Any] = {"size": 100 * size, "budget": 100 * budget, "shared": shared}
        for name, curve in (("object", by_object), ("query", by_query)):
            row[name] = supported(counts, curve, budget)
            row[f"{name}_ratio"] = row[name] / shared if row[name] and shared else None
        rows.append(row | {"tried": counts[-1], "paper": "up to 13; 3"})
    return rows


def supported(counts: Sequence[int], loads: Sequence[float], budget: float) -> int | None:
    """How many queries a budget supports, by the loads of some numbers of them.

    The greatest number where all fit: at least so many. None where not even the least fits.
    """
    rising = np.maximum.accumulate(np.array(loads))
    if budget < rising[0]:
        return None
    return round(float(np.exp(np.interp(budget, rising, np.log(counts)))))


def _loads(bench: Bench, count: int, size: float) -> tuple[float, float, float]:
    """The share of objects kept: all that queries need, with all object shedding there may be, and query."""
    bench.say(f"{count:,} queries of {size:.2%} of the town, at least {_LEAST:.0%} accurate")
    slot = shared_slot(bench, Queries(count, (size,), moving=_MOVING, least=_LEAST), FACTOR)
    whole = kept(slot)
    by_object = _fewest(slot, whole)
    slot.units(1, [memory(FACTOR)])
    slot.units(1, [memory(FACTOR, cache=0.0, area=_LEAST)])
    everything = bench.world.objects
    return whole / everything, by_object / everything, kept(slot) / everything


def _fewest(slot: Slot, whole: int) -> int:
    """Raise k until locks keep what is left: those of interest to few queries go first."""
    k, before = 2, whole
    while True:
        slot.units(1, [memory(FACTOR, k=k)])
        now = kept(slot)
        if before - now <= _ENOUGH * whole and k > slot.array("objects/refs").max():
            return now
        before, k = now, 2 * k
