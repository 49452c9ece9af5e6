"""The kernels by themselves: one slot of the core in this process, without Spark.

A row a family: what a record costs one core, in processor time, so that others at work on the machine hardly
count. The whole is what Evaluate does with a batch; `kernel` is matching and telling, without taking records
in (`decode`) and storing them (`state`). This process keeps its memory as the engine's workers do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import process_time
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from stqsh.bench.figures import MORE, Better
from stqsh.bench.harness.drive import Say
from stqsh.bench.harness.one_slot import MOVING, SECOND, OneSlot, Spec
from stqsh.bench.harness.posts import made_posts
from stqsh.bench.harness.workload import Motion, rectangles
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.state.interner import Interner
from stqsh.core.state.slot_state import SlotState
from stqsh.engine.spark.worker_daemon import keep_freed_memory
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
class Options:
    """What to measure; see the help of each."""

    families: tuple[str, ...] = field(default=(), metadata={"help": "Families, with commas; all if empty."})
    queries: int = field(default=10_000, metadata={"help": "Queries of a family; ten times the rectangles."})
    objects: int = field(default=1_000_000, metadata={"help": "Moving objects."})
    per_tick: int = field(default=100_000, metadata={"help": "Records a tick."})
    ticks: int = field(default=4, metadata={"help": "Ticks a batch."})
    batches: int = field(default=5, metadata={"help": "Measured batches of each family."})

    def __post_init__(self) -> None:
        unknown = [name for name in self.families if name not in _FAMILIES]
        if unknown:
            raise ValueError(f"no family {unknown[0]!r}; there are {', '.join(_FAMILIES)}")
        if self.queries > self.objects:
            raise ValueError(f"{self.queries:,} queries need as many objects, not {self.objects:,}")


def measure(options: Options, say: Say) -> list[dict[str, Any]]:
    """Run the benchmark, with progress messages to `say`; return one row a family."""
    keep_freed_memory()
    rows = []
    for name in options.families or tuple(_FAMILIES):
        say(f"kernels: {name}")
        rows.append({"family": name, **_FAMILIES[name](options)})
    return rows


def _followed(
    options: Options,
    regions: list[Spec],
    conditions: list[Any] | None = None,
    slot: OneSlot | None = None,
) -> dict[str, Any]:
    """Register queries, take batches in, the first two unmeasured, and tell what a record costs."""
    slot = slot or OneSlot(_motion(options))
    seconds = slot.register(regions, conditions)
    costs = [slot.run(options.ticks) for _ in range(options.batches + 2)][2:]
    return {
        "queries": len(regions),
        "kernel_per_s": [1e6 / cost.parts["kernel"] for cost in costs],
        "records_per_s": [1e6 / cost.total for cost in costs],
        "updates_per_record": sum(c.updates for c in costs) / sum(c.records for c in costs),
        **{f"{part}_us": [cost.parts[part] for cost in costs] for part in ("decode", "kernel", "state")},
        "register_s": seconds,
    }


def _motion(options: Options) -> Motion:
    filling = -(-options.objects // options.per_tick)
    return Motion(options.objects, options.per_tick, filling + options.ticks * (options.batches + 2))


def _rects(count: int, side: float = _SIDE) -> list[Spec]:
    return _regions(rectangles(count, side))


def _regions(boxes: Any) -> list[Spec]:
    """Return the region of each row of boxes, float64 (n, 4)."""
    named = ("x1", "y1", "x2", "y2")
    return [{"type": "rect", **dict(zip(named, box, strict=True))} for box in boxes.tolist()]


def _places(count: int) -> list[list[float]]:
    places: list[list[float]] = np.random.default_rng(5).random((count, 2)).tolist()
    return places


def _focals(options: Options, count: int) -> list[str]:
    return [f"o{number}" for number in np.random.default_rng(5).permutation(options.objects)[:count].tolist()]


def _stationary(options: Options) -> dict[str, Any]:
    return _followed(options, _rects(10 * options.queries))


def _few(options: Options) -> dict[str, Any]:
    return _followed(options, _rects(options.queries))


def _moving(options: Options, side: float = _SIDE, share: float = 1.0) -> dict[str, Any]:
    count = int(share * options.queries)
    around = [
        {"type": "moving_rect", "focal": name, "xdist": side, "ydist": side}
        for name in _focals(options, count)
    ]
    return _followed(options, _rects(options.queries - count, side) + around)


def _wide(options: Options) -> dict[str, Any]:
    return _moving(replace(options, queries=options.queries // 10), 10 * _SIDE)


def _one_focal(options: Options) -> dict[str, Any]:
    """Return regions of many sizes around one and the same object."""
    sides = np.linspace(_SIDE / 10, 2 * _SIDE, options.queries // 10).tolist()
    (name,) = _focals(options, 1)
    around = [{"type": "moving_rect", "focal": name, "xdist": side, "ydist": side} for side in sides]
    return _followed(options, around)


def _mixed(options: Options) -> dict[str, Any]:
    """Very many small rectangles, and a hundredth of them six hundred times as wide."""
    sides = np.where(np.arange(10 * options.queries) % 100 == 0, 30 * _SIDE, _SIDE / 20)
    return _followed(options, _regions(_squares(_uniform(len(sides)), sides)))


def _squares(corners: Any, sides: Any) -> Any:
    """Boxes, float64 (n, 4), from places in the unit square, pushed into it."""
    low = corners * (1 - np.reshape(sides, (-1, 1)))
    return np.hstack([low, low + np.reshape(sides, (-1, 1))])


def _uniform(count: int) -> Any:
    return np.random.default_rng(3).random((count, 2))


def _crowded(options: Options) -> dict[str, Any]:
    """Return all regions in a hundredth of the ground's width, where a ten thousandth of the objects is."""
    corners = 0.495 + 0.01 * _uniform(10 * options.queries)
    return _followed(options, _regions(_squares(corners, np.full(len(corners), _SIDE / 100))))


def _circles(options: Options) -> dict[str, Any]:
    return _followed(
        options, [{"type": "circle", "x": x, "y": y, "radius": _SIDE} for x, y in _places(options.queries)]
    )


def _polygons(options: Options) -> dict[str, Any]:
    """Stars of a thousand corners, a tenth as many as other queries."""
    draw, angle = np.random.default_rng(6), np.linspace(0, 2 * np.pi, _CORNERS, endpoint=False)
    regions = []
    for x, y in _places(options.queries // 10):
        reach = 2 * _SIDE * draw.uniform(0.6, 1.0, _CORNERS)
        ring = np.column_stack([x + reach * np.cos(angle), y + reach * np.sin(angle)]).tolist()
        regions.append({"type": "polygon", "rings": [[*ring, ring[0]]]})
    return _followed(options, regions)


def _nearest(options: Options, k: int, focal: bool) -> dict[str, Any]:
    if focal:
        around: list[Spec] = [{"focal": name} for name in _focals(options, options.queries)]
    else:
        around = [{"x": x, "y": y} for x, y in _places(options.queries)]
    return _followed(options, [{"type": "nearest", "k": k, **what} for what in around])


def _posting(options: Options) -> OneSlot:
    """Return a slot with a tenth as many posts as others have records, kept for five ticks."""
    columns = (*MOVING.columns, ColumnSpec("body", "STRING"))
    spec = msgspec.structs.replace(MOVING, kind="event", columns=columns, text="body", keep_us=5 * SECOND)
    motion = _motion(replace(options, objects=options.objects // 10, per_tick=options.per_tick // 10))
    return OneSlot(replace(motion, kind="jump"), spec, made_posts().texts)


def _keywords(options: Options) -> dict[str, Any]:
    phrases, boxes = made_posts().queries(options.queries, 0, _SIDE)
    asked = [["contains", ["col", "body"], phrase, "all"] for phrase in phrases]
    return _followed(options, _regions(boxes), asked, _posting(options))


def _windows(options: Options) -> dict[str, Any]:
    """Events of the last two ticks: each comes, and goes by itself."""
    recent = ["cmp", ">", ["col", "ts"], ["arith", "-", ["now"], ["dur", 2 * SECOND]]]
    return _followed(options, _rects(options.queries), [recent] * options.queries, _posting(options))


def _interning(options: Options) -> dict[str, Any]:
    """Keys that are known, as an object's are once it has reported."""
    keys = pa.array([f"o{number}" for number in np.random.default_rng(1).permutation(options.objects)])
    hashes, table = hash_keys(keys), Interner(SlotState.fresh(0), "keys")
    table.intern(keys, hashes)
    rates = []
    for _ in range(options.batches):
        begun = process_time()
        table.intern(keys, hashes)
        rates.append(len(keys) / (process_time() - begun))
    return {"queries": 0, "kernel_per_s": rates, "records_per_s": rates, "updates_per_record": 0.0}


def _telling(options: Options) -> dict[str, Any]:
    """Return objects that go anywhere: a record brings twenty updates at 100 k rectangles."""
    motion = replace(_motion(options), kind="jump")
    return _followed(options, _rects(10 * options.queries), slot=OneSlot(motion))


_FAMILIES: dict[str, Callable[[Options], dict[str, Any]]] = {
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

QUICK = Options(("rectangles", "a tenth moving", "knn 10", "interning"), batches=3)
