"""Measure the kernels in one slot of the core in this process, without Spark.

Each family of queries has a row with the processor time of a record, which other work on the machine hardly
changes. The whole is what Evaluate does with a batch; `kernel` is matching and emitting updates, without
decoding records (`decode`) and storing them (`state`). This process keeps its memory as the engine's workers
do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from time import process_time

import msgspec
import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.bench.figures import MORE, Better, Row
from stqsh.bench.harness.drive import Say
from stqsh.bench.harness.one_slot import MOVING, SECOND, OneSlot
from stqsh.bench.harness.posts import made_posts
from stqsh.bench.harness.workload import Motion, rectangles, ticks_to_fill
from stqsh.bench.options import option
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.state.interner import Interner
from stqsh.core.state.slot_state import SlotState
from stqsh.engine.spark.worker_daemon import keep_freed_memory
from stqsh.spec.expression import (
    ArithmeticExpr,
    ColumnExpr,
    CompareExpr,
    ContainsExpr,
    DurationExpr,
    Expr,
    NowExpr,
)
from stqsh.spec.query import Members, SlotQuery, kind_of_region
from stqsh.spec.region import (
    CircleSpec,
    MovingRectangleSpec,
    NearestSpec,
    PolygonSpec,
    RectangleSpec,
    Region,
)
from stqsh.spec.stream import ColumnSpec

COLUMNS = {
    "family": "family",
    "queries": "queries",
    "kernel_per_s": "kernel records/s a core",
    "records_per_s": "records/s a core",
    "updates_per_record": "updates/record",
    "decode_us": "decode µs/record",
    "kernel_us": "kernel",
    "state_us": "state",
    "register_s": "register s",
}
KEY = ("family", "queries")
FIGURES: dict[str, Better] = {"kernel_per_s": MORE, "records_per_s": MORE}

_SIDE = 0.01
_CORNERS = 1_000


@dataclass(frozen=True)
class KernelsOptions:
    """What to measure; see the help of each option."""

    families: tuple[str, ...] = option((), "Families; all if empty.")
    queries: int = option(10_000, "Queries of a family; ten times the rectangles.")
    objects: int = option(1_000_000, "Moving objects.")
    per_tick: int = option(100_000, "Records a tick.")
    ticks: int = option(4, "Ticks a batch.")
    batches: int = option(5, "Measured batches of each family.")

    def __post_init__(self) -> None:
        unknown = [name for name in self.families if name not in _FAMILIES]
        if unknown:
            raise ValueError(f"no family {unknown[0]!r}; there are {', '.join(_FAMILIES)}")
        if self.queries > self.objects:
            raise ValueError(f"{self.queries:,} queries need as many objects, not {self.objects:,}")


def measure(options: KernelsOptions, say: Say) -> list[Row]:
    """Return a row for each family."""
    keep_freed_memory()
    rows: list[Row] = []
    for name in options.families or tuple(_FAMILIES):
        say(f"kernels: {name}")
        rows.append({"family": name, **_FAMILIES[name](options)})
    return rows


def _followed(options: KernelsOptions, queries: Sequence[SlotQuery], slot: OneSlot | None = None) -> Row:
    """Register queries, take in batches, of which the first two warm up, and return the cost a record."""
    slot = slot or OneSlot(_motion(options))
    seconds = slot.register(queries)
    costs = [slot.run(options.ticks) for _ in range(options.batches + 2)][2:]
    stats = [cost.stats for cost in costs]
    return {
        "queries": len(queries),
        "kernel_per_s": [1e6 / cost.kernel_us for cost in costs],
        "records_per_s": [1e6 / cost.micros for cost in costs],
        "updates_per_record": sum(each.updates for each in stats) / sum(each.records for each in stats),
        "decode_us": [cost.decode_us for cost in costs],
        "kernel_us": [cost.kernel_us for cost in costs],
        "state_us": [cost.state_us for cost in costs],
        "register_s": seconds,
    }


def _motion(options: KernelsOptions) -> Motion:
    filling = ticks_to_fill(options.objects, options.per_tick)
    return Motion(options.objects, options.per_tick, filling + options.ticks * (options.batches + 2))


def _queries(regions: Iterable[Region], conditions: Iterable[Expr] | None = None) -> list[SlotQuery]:
    """Return a query for each region, with its condition."""
    tests: Iterable[Expr | None] = conditions or repeat(None)
    return [
        SlotQuery(id=number, kind=kind_of_region(region).name, members=Members(region=region, condition=test))
        for number, (region, test) in enumerate(zip(regions, tests, strict=False), 1)
    ]


def _squares(count: int, side: float = _SIDE) -> list[Region]:
    return _rectangles(rectangles(count, side))


def _rectangles(boxes: Array) -> list[Region]:
    """Return the region of each row of boxes, float64 (n, 4)."""
    return [RectangleSpec(*box) for box in boxes.tolist()]


def _places(count: int) -> list[list[float]]:
    places: list[list[float]] = np.random.default_rng(5).random((count, 2)).tolist()
    return places


def _focals(options: KernelsOptions, count: int) -> list[str]:
    return [f"o{number}" for number in np.random.default_rng(5).permutation(options.objects)[:count].tolist()]


def _stationary(options: KernelsOptions) -> Row:
    return _followed(options, _queries(_squares(10 * options.queries)))


def _few(options: KernelsOptions) -> Row:
    return _followed(options, _queries(_squares(options.queries)))


def _moving(options: KernelsOptions, side: float = _SIDE, share: float = 1.0) -> Row:
    count = int(share * options.queries)
    around = (MovingRectangleSpec(name, side, side) for name in _focals(options, count))
    return _followed(options, _queries([*_squares(options.queries - count, side), *around]))


def _wide(options: KernelsOptions) -> Row:
    return _moving(replace(options, queries=options.queries // 10), 10 * _SIDE)


def _one_focal(options: KernelsOptions) -> Row:
    """Measure regions of many sizes around the same object."""
    sides = np.linspace(_SIDE / 10, 2 * _SIDE, options.queries // 10).tolist()
    (name,) = _focals(options, 1)
    return _followed(options, _queries(MovingRectangleSpec(name, side, side) for side in sides))


def _mixed(options: KernelsOptions) -> Row:
    """Measure small rectangles, of which a hundredth are six hundred times as wide."""
    sides = np.where(np.arange(10 * options.queries) % 100 == 0, 30 * _SIDE, _SIDE / 20)
    return _followed(options, _queries(_rectangles(_boxes(_uniform(len(sides)), sides))))


def _boxes(corners: Array, sides: Array) -> Array:
    """Return boxes, float64 (n, 4), pushed into the unit square, of their corners and sides."""
    low = corners * (1 - np.reshape(sides, (-1, 1)))
    return np.hstack([low, low + np.reshape(sides, (-1, 1))])


def _uniform(count: int) -> Array:
    return np.random.default_rng(3).random((count, 2))


def _crowded(options: KernelsOptions) -> Row:
    """Measure regions in a hundredth of the area's width, where a ten-thousandth of the objects are."""
    corners = 0.495 + 0.01 * _uniform(10 * options.queries)
    return _followed(options, _queries(_rectangles(_boxes(corners, np.full(len(corners), _SIDE / 100)))))


def _circles(options: KernelsOptions) -> Row:
    return _followed(options, _queries(CircleSpec(x, y, _SIDE) for x, y in _places(options.queries)))


def _polygons(options: KernelsOptions) -> Row:
    """Measure stars of a thousand corners, a tenth as many as the queries of other families."""
    draw, angle = np.random.default_rng(6), np.linspace(0, 2 * np.pi, _CORNERS, endpoint=False)
    regions = []
    for x, y in _places(options.queries // 10):
        reach = 2 * _SIDE * draw.uniform(0.6, 1.0, _CORNERS)
        corners = np.column_stack([x + reach * np.cos(angle), y + reach * np.sin(angle)]).tolist()
        ring = tuple((east, north) for east, north in corners)
        regions.append(PolygonSpec(((*ring, ring[0]),)))
    return _followed(options, _queries(regions))


def _nearest(options: KernelsOptions, k: int, focal: bool) -> Row:
    if focal:
        regions = [NearestSpec(k, focal=name) for name in _focals(options, options.queries)]
    else:
        regions = [NearestSpec(k, x, y) for x, y in _places(options.queries)]
    return _followed(options, _queries(regions))


def _posting(options: KernelsOptions) -> OneSlot:
    """Return a slot with a tenth as many posts as others have records, kept for five ticks."""
    columns = (*MOVING.columns, ColumnSpec("body", "STRING"))
    spec = msgspec.structs.replace(MOVING, kind="event", columns=columns, text="body", keep_us=5 * SECOND)
    motion = _motion(replace(options, objects=options.objects // 10, per_tick=options.per_tick // 10))
    return OneSlot(replace(motion, kind="jump"), spec, made_posts().texts)


def _keywords(options: KernelsOptions) -> Row:
    phrases, boxes = made_posts().queries(options.queries, 0, _SIDE)
    conditions = [ContainsExpr(ColumnExpr("body"), phrase, "all") for phrase in phrases]
    return _followed(options, _queries(_rectangles(boxes), conditions), _posting(options))


def _windows(options: KernelsOptions) -> Row:
    """Measure queries for the events of the last two ticks, which expire by themselves."""
    begin = ArithmeticExpr("-", NowExpr(), DurationExpr(2 * SECOND))
    recent = CompareExpr(">", ColumnExpr("ts"), begin)
    return _followed(options, _queries(_squares(options.queries), repeat(recent)), _posting(options))


def _interning(options: KernelsOptions) -> Row:
    """Measure the interning of known keys, as those of objects are once they have reported."""
    keys = pa.array([f"o{number}" for number in np.random.default_rng(1).permutation(options.objects)])
    hashes, table = hash_keys(keys), Interner(SlotState.fresh(0), "keys")
    table.intern(keys, hashes)
    rates = []
    for _ in range(options.batches):
        begun = process_time()
        table.intern(keys, hashes)
        rates.append(len(keys) / (process_time() - begun))
    return {"queries": 0, "kernel_per_s": rates, "records_per_s": rates, "updates_per_record": 0.0}


def _telling(options: KernelsOptions) -> Row:
    """Measure objects that jump anywhere: each record causes twenty updates at 100,000 rectangles."""
    motion = replace(_motion(options), kind="jump")
    return _followed(options, _queries(_squares(10 * options.queries)), OneSlot(motion))


_FAMILIES: dict[str, Callable[[KernelsOptions], Row]] = {
    "rectangles": _stationary,
    "few rectangles": _few,
    "a tenth moving": lambda options: _moving(options, share=0.1),
    "moving": _moving,
    "wide moving": _wide,
    "circles": _circles,
    "polygons": _polygons,
    "knn 10": lambda options: _nearest(options, 10, focal=False),
    "knn 10 focal": lambda options: _nearest(options, 10, focal=True),
    "knn 100": lambda options: _nearest(options, 100, focal=False),
    "keywords": _keywords,
    "windows": _windows,
    "interning": _interning,
    "telling": _telling,
    "mixed sizes": _mixed,
    "crowded": _crowded,
    "one focal": _one_focal,
}

FULL = KernelsOptions()
QUICK = KernelsOptions(("rectangles", "a tenth moving", "knn 10", "interning"), batches=3)
