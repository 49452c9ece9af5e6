"""Figures 19 and 20: one shared memory for all queries, against a buffer of its own for each.

Without sharing each query keeps its own copy of every object in its region and cache area: the copies of all
queries are counted, one by one, and what a copy takes is measured on queries that have a stream of their own
each. 60 K of these cannot be run, but what they take adds up, for they share nothing. What a query takes,
whoever shares, is measured on the shared slot with two numbers of queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from stqsh.bench.sole.figures import FigureRun
from stqsh.bench.sole.result import Bar, Chart, FigureResult, Line
from stqsh.bench.sole.slot_driver import STREAM, DrivenSlot, memory, registered
from stqsh.bench.sole.town import Spec, TownQueries
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.join.static_join import join
from stqsh.core.objects.object_table import ObjectTable
from stqsh.core.regions.grid_layout import rect_lists
from stqsh.core.retention.stream_stats import tallies

_SIZES = (0.0001, 0.0005, 0.001, 0.005, 0.01)
_CALIBRATED = 60_000
"""The paper supports "more than 60K" of the smallest queries: the memory that takes is the budget."""

_MEASURED = (1_000, 4_000)
"""Numbers of queries that show what an object and a query take; the first shows that it is linear."""

_OWN = 12
"""The number of queries, each in a stream of its own, that shows what a copy takes."""

FACTOR = 0.25
"""The cache that the paper uses from section 7.2 on."""

_PAPER = {0.0001: "almost 8; 60K", 0.01: "20"}
_WANTED = {0.0001: 8.0, 0.01: 20.0}


@dataclass(frozen=True)
class HeldBytes:
    """What a shared slot holds with some queries: bytes an object and a query, objects kept, and copies.

    copies: how many queries keep each object, summed up. copy_bytes: an object in a stream for one query.
    """

    queries: int
    objects: int
    copies: int
    object_bytes: float
    query_bytes: float
    copy_bytes: float

    @property
    def shared(self) -> float:
        """Bytes in all."""
        return self.objects * self.object_bytes + self.queries * self.query_bytes

    @property
    def alone(self) -> float:
        """Bytes for a query that shares nothing."""
        return self.copies / self.queries * self.copy_bytes + self.query_bytes

    def fitting(self, everything: int, budget: float) -> float:
        """Return how many shared queries fit beside `everything`, that is all objects."""
        return (budget - everything * self.object_bytes) / self.query_bytes


def supported(bench: FigureRun) -> list[FigureResult]:
    """Figure 19: how many queries fit into the same memory, with sharing and without."""
    sizes = bench.scale.some(_SIZES)
    full = _held(bench, sizes[0], bench.scale.count(_CALIBRATED))
    rows = [_supported(bench, full, full, sizes[0]) | {"fewer_bytes": None}]
    for size in sizes[1:]:
        fewer, held = (_held(bench, size, bench.scale.count(count)) for count in _MEASURED)
        rows.append(_supported(bench, full, held, size) | {"fewer_bytes": fewer.query_bytes})
    columns = {
        "size": "size, % of town",
        "shared": "shared",
        "alone": "not shared",
        "ratio": "ratio",
        "paper": "paper",
        "objects_ratio": "copies, x",
        "object_bytes": "bytes an object",
        "copy_bytes": "not shared",
        "query_bytes": "bytes a query",
        "fewer_bytes": "with 1 K",
        "copies": "objects a query",
    }
    percent = [row["size"] for row in rows]
    charts = [
        Chart(
            "queries in the same memory",
            "size, % of the town",
            "queries",
            [Line(name, percent, [row[key] for row in rows]) for name, key in _CURVES],
            log="xy",
        ),
        Chart(
            "a: gain of sharing",
            "size, % of the town",
            "ratio",
            [
                Line("measured", percent, [row["ratio"] for row in rows]),
                Line("paper", [0.01, 1.0], [8, 20], paper=True),
            ],
            log="xy",
        ),
    ]
    found = {size: row["ratio"] for size, row in zip(sizes, rows, strict=True)}
    bars = [
        Bar(f"gain of sharing at {100 * size:g} %", wanted, found[size]) for size, wanted in _WANTED.items()
    ]
    note = (
        f"The budget is what {full.queries:,} shared queries of 0.01 % take: {full.shared / 1e6:,.1f} MB of "
        "arrays in use, of objects and queries both. Of other sizes so many fit as leave room for all "
        f"objects, by what {_MEASURED[1]:,} take. Copies, x: how many copies of an object the queries run "
        f"here would keep. All queries move; cache {FACTOR:.0%}."
    )
    return [
        FigureResult("19", "queries supported with and without sharing", columns, rows, charts, bars, [note])
    ]


def _supported(bench: FigureRun, full: HeldBytes, held: HeldBytes, size: float) -> dict[str, Any]:
    """Return how many queries of a size the budget supports, that is what `full` holds."""
    shared = full.queries if held is full else held.fitting(bench.world.objects, full.shared)
    alone = full.shared / held.alone
    return {
        "size": 100 * size,
        "shared": round(shared),
        "alone": round(alone),
        "ratio": shared / alone,
        "paper": _PAPER.get(size),
        "objects_ratio": held.copies / held.objects,
        "object_bytes": held.object_bytes,
        "copy_bytes": held.copy_bytes,
        "query_bytes": held.query_bytes,
        "copies": held.copies / held.queries,
    }


_CURVES = (("shared", "shared"), ("not shared", "alone"))


def _held(bench: FigureRun, size: float, count: int) -> HeldBytes:
    bench.say(f"{count:,} queries of {size:.2%} of the town")
    queries = TownQueries(count, (size,), moving=1.0)
    slot = shared_slot(bench, queries, FACTOR)
    tally = tallies(slot.state, slot.spec)
    object_bytes, query_bytes = parted(slot)
    objects = int(slot.array("objects/known").sum())
    copies = int(tally.inside.sum() + tally.cached.sum())
    own = bench.once(("own", size), lambda: _own_bytes(bench, queries.of(bench.world)[:_OWN]))
    return HeldBytes(count, objects, copies, object_bytes / objects, query_bytes / count, own)


def _own_bytes(bench: FigureRun, queries: list[Spec]) -> float:
    """Return the bytes of a row of the object table in streams with one of these queries each."""
    size = rows = 0
    for query in queries:
        slot = DrivenSlot(bench.world, "significant")
        slot.units(2, [memory(FACTOR), *registered([query])])
        size += parted(slot)[0]
        rows += len(slot.array("objects/known"))
    return size / max(1, rows)


def shared_slot(bench: FigureRun, queries: TownQueries, factor: float) -> DrivenSlot:
    """Return a slot of a RETAIN SIGNIFICANT stream after two time units with these queries."""
    slot = DrivenSlot(bench.world, "significant")
    slot.units(2, [memory(factor), *registered(queries.of(bench.world))])
    return slot


def parted(slot: DrivenSlot) -> tuple[int, int]:
    """Return the bytes in use that grow with the objects, and all others."""
    arrays = slot.state.header["lengths"]
    sizes = {name: slot.state.array(name).nbytes for name in arrays}
    objects = sum(
        size for name, size in sizes.items() if "/objects/" in name or "/cells/" in name or "/pool" in name
    )
    return objects, sum(sizes.values()) - objects


def shadow_bytes(slot: DrivenSlot) -> int:
    """Return the bytes in use of the shadow table."""
    arrays = slot.state.header["lengths"]
    return sum(slot.state.array(name).nbytes for name in arrays if "/shadow/" in name)


def areas(bench: FigureRun) -> list[FigureResult]:
    """Figure 20: objects in the regions and in the cache areas of 1 K queries."""
    count = bench.scale.count(1_000)
    rows = []
    for size in bench.scale.some(_SIZES):
        bench.say(f"{count:,} queries of {size:.2%} of the town")
        specs = TownQueries(count, (size,), moving=1.0)
        slot = shared_slot(bench, specs, FACTOR)
        tally = tallies(slot.state, slot.spec)
        wanted = int(np.count_nonzero(slot.array("objects/refs") > 0))
        inside = covered(slot, specs.of(bench.world))
        rows.append(
            {
                "size": 100 * size,
                "alone": int(tally.inside.sum()),
                "shared": inside,
                "ratio": float(tally.inside.sum() / max(1, inside)),
                "paper": "1M; 100K at most" if size == _SIZES[-1] else None,
                "alone_cache": int(tally.cached.sum()),
                "shared_cache": wanted - inside,
                "paper_cache": "falls when shared" if size == _SIZES[-1] else None,
            }
        )
    columns = {
        "size": "size, % of town",
        "alone": "regions, not shared",
        "shared": "regions, shared",
        "ratio": "ratio",
        "paper": "paper",
        "alone_cache": "caches, not shared",
        "shared_cache": "caches, shared",
        "paper_cache": "paper",
    }
    charts = [
        _memory_chart("a: regions", rows, ""),
        _memory_chart("b: cache areas", rows, "_cache"),
    ]
    note = (
        f"{count:,} moving queries over {bench.world.objects:,} objects, cache {FACTOR:.0%}. Shared caches: "
        "objects that are in no region, but in the cache area of some query."
    )
    return [FigureResult("20", "objects in regions and cache areas", columns, rows, charts, notes=[note])]


def _memory_chart(title: str, rows: list[dict[str, Any]], key: str) -> Chart:
    sizes = [row["size"] for row in rows]
    lines = [
        Line(label, sizes, [row[name + key] for row in rows])
        for label, name in (("not shared", "alone"), ("shared", "shared"))
    ]
    return Chart(title, "size, % of the town", "objects", lines, log="xy")


def covered(slot: DrivenSlot, queries: list[Spec]) -> int:
    """Return how many kept objects are in a region of these moving queries, without focal objects."""
    objects = ObjectTable(slot.state, f"s{STREAM}/objects", slot.spec)
    focals = ObjectTable(slot.state, f"s{STREAM}/focal", slot.spec, columns=False)
    names = pa.array([query["region"]["focal"] for query in queries])
    own, at = objects.keys.find(names), focals.keys.find(names)
    sides = np.array([query["region"]["xdist"] for query in queries])
    x, y, half = focals.stored.x[at], focals.stored.y[at], sides / 2
    boxes = np.column_stack([x - half, y - half, x + half, y + half])
    there = np.flatnonzero(objects.stored.known).astype(np.int32)
    nowhere = np.full(len(there), np.nan)
    places = objects.stored.x[there], objects.stored.y[there]
    arrivals = Transitions(there.astype(np.int64), there, there, there, nowhere, nowhere, *places)
    pairs = join(arrivals, *rect_lists(boxes, 2 * np.arange(len(queries), dtype=np.int32)))
    found = there[pairs.event]
    return len(np.unique(found[found != own[pairs.query]]))
