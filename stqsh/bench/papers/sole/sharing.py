"""Figures 19 and 20: one shared memory for all queries, against a buffer of its own for each query.

Without sharing, each query keeps its own copy of every object in its region and cache area. These copies are
counted, and the size of a copy is measured on queries that have a stream of their own each. 60,000 such
queries cannot be run, but as they share nothing, their sizes add up. The size of a query, with sharing or
without, is measured on the shared slot with two numbers of queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

from stqsh.bench.figures import Row
from stqsh.bench.harness.one_slot import STREAM
from stqsh.bench.papers.figure import Chart, FigureResult, Goal, Line
from stqsh.bench.papers.sole.figure_run import FigureRun
from stqsh.bench.papers.sole.slot_driver import DrivenSlot, memory, registered
from stqsh.bench.papers.sole.town import TownQueries
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.join.static_join import join
from stqsh.core.objects.object_table import ObjectTable
from stqsh.core.regions.grid_layout import rect_lists
from stqsh.core.retention.stream_stats import tallies
from stqsh.spec.query import SlotQuery
from stqsh.spec.region import MovingRectangleSpec

_SIZES = (0.0001, 0.0005, 0.001, 0.005, 0.01)
_CALIBRATED = 60_000
"""The paper supports "more than 60K" of the smallest queries; their memory is the budget."""

_MEASURED = (1_000, 4_000)
"""Numbers of queries from which the bytes of an object and of a query follow, and that they are linear."""

_OWN = 12
"""The number of queries, each in a stream of its own, that show the size of a copy."""

FACTOR = 0.25
"""The cache that the paper uses from section 7.2 on."""

_PAPER = {0.0001: "almost 8; 60K", 0.01: "20"}
_WANTED = {0.0001: 8.0, 0.01: 20.0}


@dataclass(frozen=True)
class HeldBytes:
    """What a shared slot holds with some queries.

    Attributes:
        objects: kept objects.
        copies: the sum over all objects of the queries that keep them.
        object_bytes, query_bytes: the size of an object and of a query.
        copy_bytes: the size of an object in a stream with a single query.
    """

    queries: int
    objects: int
    copies: int
    object_bytes: float
    query_bytes: float
    copy_bytes: float

    @property
    def shared(self) -> float:
        """All bytes."""
        return self.objects * self.object_bytes + self.queries * self.query_bytes

    @property
    def alone(self) -> float:
        """The bytes of a query that shares nothing."""
        return self.copies / self.queries * self.copy_bytes + self.query_bytes

    def fitting(self, everything: int, budget: float) -> float:
        """Return how many shared queries fit into a budget in bytes beside `everything`, all objects."""
        return (budget - everything * self.object_bytes) / self.query_bytes


@dataclass(frozen=True)
class SupportedQueries:
    """The queries of a size, % of the town, that fit into the memory, and what they take.

    Attributes:
        objects_ratio: copies of an object. copies: objects of a query.
        fewer_bytes: the bytes of a query with the lesser of two numbers of queries, None if not measured.
    """

    size: float
    shared: int
    alone: int
    ratio: float
    paper: str | None
    objects_ratio: float
    object_bytes: float
    copy_bytes: float
    query_bytes: float
    copies: float
    fewer_bytes: float | None


@dataclass(frozen=True)
class CoveredObjects:
    """The objects in regions and in cache areas of queries of a size, % of the town."""

    size: float
    alone: int
    shared: int
    ratio: float
    paper: str | None
    alone_cache: int
    shared_cache: int
    paper_cache: str | None


def supported(bench: FigureRun) -> list[FigureResult]:
    """Figure 19: how many queries fit into the same memory, with sharing and without."""
    sizes = bench.scale.some(_SIZES)
    full = _held(bench, sizes[0], bench.scale.count(_CALIBRATED))
    found = [_supported(bench, full, full, sizes[0], None)]
    for size in sizes[1:]:
        fewer, held = (_held(bench, size, bench.scale.count(count)) for count in _MEASURED)
        found.append(_supported(bench, full, held, size, fewer.query_bytes))
    gains = dict(zip(sizes, (one.ratio for one in found), strict=True))
    goals = [
        Goal(f"gain of sharing at {100 * size:g} %", "-", wanted, gains[size])
        for size, wanted in _WANTED.items()
    ]
    note = (
        f"The budget is what {full.queries:,} shared queries of 0.01 % take: {full.shared / 1e6:,.1f} MB of "
        "arrays in use, for objects and queries. The numbers of other sizes leave room for all objects, "
        f"and follow from the bytes of {_MEASURED[1]:,} queries. Copies, x: how many copies of an object the "
        f"measured queries would keep. All queries move; cache {FACTOR:.0%}."
    )
    title, rows = "queries supported with and without sharing", [asdict(one) for one in found]
    return [FigureResult("19", title, _SUPPORTED, rows, goals, [note], _gain_charts(found))]


_SUPPORTED = {
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


def _gain_charts(found: Sequence[SupportedQueries]) -> list[Chart]:
    def line(label: str, value: Callable[[SupportedQueries], float]) -> Line:
        return Line(label, [one.size for one in found], [value(one) for one in found])

    queries = [line("shared", lambda one: one.shared), line("not shared", lambda one: one.alone)]
    gain = [line("measured", lambda one: one.ratio), Line("paper", [0.01, 1.0], [8, 20], paper=True)]
    x = "size, % of the town"
    return [
        Chart("queries in the same memory", x, "queries", queries, log="xy"),
        Chart("a: gain of sharing", x, "ratio", gain, log="xy"),
    ]


def _supported(
    bench: FigureRun, full: HeldBytes, held: HeldBytes, size: float, fewer_bytes: float | None
) -> SupportedQueries:
    """Return how many queries of a size the budget supports, which is what `full` holds."""
    shared = full.queries if held is full else held.fitting(bench.world.objects, full.shared)
    alone = full.shared / held.alone
    return SupportedQueries(
        size=100 * size,
        shared=round(shared),
        alone=round(alone),
        ratio=shared / alone,
        paper=_PAPER.get(size),
        objects_ratio=held.copies / held.objects,
        object_bytes=held.object_bytes,
        copy_bytes=held.copy_bytes,
        query_bytes=held.query_bytes,
        copies=held.copies / held.queries,
        fewer_bytes=fewer_bytes,
    )


def _held(bench: FigureRun, size: float, count: int) -> HeldBytes:
    bench.say(f"{count:,} queries of {size:.2%} of the town")
    queries = TownQueries(count, (size,), moving=1.0)
    slot = shared_slot(bench, queries)
    tally = tallies(slot.state, slot.spec)
    object_bytes, query_bytes = parted(slot)
    objects = int(slot.array("objects/known").sum())
    copies = int(tally.inside.sum() + tally.cached.sum())
    own = bench.once(("own", size), lambda: _own_bytes(bench, queries.of(bench.world)[:_OWN]))
    return HeldBytes(count, objects, copies, object_bytes / objects, query_bytes / count, own)


def _own_bytes(bench: FigureRun, queries: list[SlotQuery]) -> float:
    """Return the size of an object in streams that have one of these queries each."""
    size = rows = 0
    for query in queries:
        slot = DrivenSlot(bench.world, "significant")
        slot.units(2, [memory(FACTOR), *registered([query])])
        size += parted(slot)[0]
        rows += len(slot.array("objects/known"))
    return size / max(1, rows)


def shared_slot(bench: FigureRun, queries: TownQueries) -> DrivenSlot:
    """Return a slot of a RETAIN SIGNIFICANT stream after two time units with these queries."""
    slot = DrivenSlot(bench.world, "significant")
    slot.units(2, [memory(FACTOR), *registered(queries.of(bench.world))])
    return slot


def parted(slot: DrivenSlot) -> tuple[int, int]:
    """Return the bytes that grow with the objects, and all other bytes in use."""
    sizes = _sizes(slot)
    objects = sum(
        size for name, size in sizes.items() if "/objects/" in name or "/cells/" in name or "/pool" in name
    )
    return objects, sum(sizes.values()) - objects


def shadow_bytes(slot: DrivenSlot) -> int:
    """Return the bytes of the shadow table."""
    return sum(size for name, size in _sizes(slot).items() if "/shadow/" in name)


def _sizes(slot: DrivenSlot) -> dict[str, int]:
    """Return the bytes in use of each array."""
    return {name: slot.state.array(name).nbytes for name in slot.state.header["lengths"]}


def areas(bench: FigureRun) -> list[FigureResult]:
    """Figure 20: objects in the regions and in the cache areas of 1 K queries."""
    count = bench.scale.count(1_000)
    found = []
    for size in bench.scale.some(_SIZES):
        bench.say(f"{count:,} queries of {size:.2%} of the town")
        specs = TownQueries(count, (size,), moving=1.0)
        slot = shared_slot(bench, specs)
        tally = tallies(slot.state, slot.spec)
        wanted = int(np.count_nonzero(slot.array("objects/refs") > 0))
        inside = covered(slot, specs.of(bench.world))
        found.append(
            CoveredObjects(
                size=100 * size,
                alone=int(tally.inside.sum()),
                shared=inside,
                ratio=float(tally.inside.sum() / max(1, inside)),
                paper="1M; 100K at most" if size == _SIZES[-1] else None,
                alone_cache=int(tally.cached.sum()),
                shared_cache=wanted - inside,
                paper_cache="falls when shared" if size == _SIZES[-1] else None,
            )
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
    percent = [one.size for one in found]
    charts = [
        _memory_chart("a: regions", percent, [one.alone for one in found], [one.shared for one in found]),
        _memory_chart(
            "b: cache areas",
            percent,
            [one.alone_cache for one in found],
            [one.shared_cache for one in found],
        ),
    ]
    note = (
        f"{count:,} moving queries over {bench.world.objects:,} objects, cache {FACTOR:.0%}. Shared caches: "
        "objects that are in no region, but in the cache area of some query."
    )
    rows: list[Row] = [asdict(one) for one in found]
    return [
        FigureResult("20", "objects in regions and cache areas", columns, rows, notes=[note], charts=charts)
    ]


def _memory_chart(title: str, sizes: Sequence[float], alone: Sequence[int], shared: Sequence[int]) -> Chart:
    lines = [Line("not shared", sizes, alone), Line("shared", sizes, shared)]
    return Chart(title, "size, % of the town", "objects", lines, log="xy")


def covered(slot: DrivenSlot, queries: Sequence[SlotQuery]) -> int:
    """Return how many kept objects are in a region of these moving queries, focal objects excluded."""
    regions = [query.region for query in queries if isinstance(query.region, MovingRectangleSpec)]
    objects = ObjectTable(slot.state, f"s{STREAM}/objects", slot.spec)
    focals = ObjectTable(slot.state, f"s{STREAM}/focal", slot.spec, columns=False)
    names = pa.array([str(region.focal) for region in regions])
    own, at = objects.keys.find(names), focals.keys.find(names)
    sides = np.array([region.xdist for region in regions])
    x, y, half = focals.stored.x[at], focals.stored.y[at], sides / 2
    boxes = np.column_stack([x - half, y - half, x + half, y + half])
    there = np.flatnonzero(objects.stored.known).astype(np.int32)
    nowhere = np.full(len(there), np.nan)
    places = objects.stored.x[there], objects.stored.y[there]
    arrivals = Transitions(there.astype(np.int64), there, there, there, nowhere, nowhere, *places)
    pairs = join(arrivals, *rect_lists(boxes, 2 * np.arange(len(regions), dtype=np.int32)))
    found = there[pairs.event]
    return len(np.unique(found[found != own[pairs.query]]))
