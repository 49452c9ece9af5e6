"""Figure 25b: the mean accuracy while queries keep arriving and the memory is full.

The engine's own rule decides, step by step, what is shed: see `stqsh.engine.delivery.shedding_policy`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stqsh.bench.sole.curves import accuracy, kept
from stqsh.bench.sole.figures import FigureRun
from stqsh.bench.sole.result import Chart, FigureResult, Line
from stqsh.bench.sole.sharing import FACTOR
from stqsh.bench.sole.slot_driver import STREAM, DrivenSlot, memory, registered
from stqsh.bench.sole.town import Spec, TownQueries
from stqsh.engine.delivery.shedding_policy import decide, load_of
from stqsh.spec.shedding import SheddingOrder
from stqsh.spec.stats import StreamMemory
from stqsh.storage.shedding_orders import MemorySettings

_FULL = 1_200
"""The number of queries that fill the memory in the paper."""

_LAST = 3_000
_EVERY = 5
"""Queries that arrive in each step."""

_TOLD = 200
_MOVING = 0.25
_KEEP = 0.9


def _specs(bench: FigureRun) -> list[Spec]:
    return TownQueries(bench.scale.count(_LAST), moving=_MOVING).of(bench.world)


def fills_up(bench: FigureRun) -> int:
    """Return the memory of section 7.8: as many objects as "about 1200 queries" of various sizes need."""

    def needed() -> int:
        slot = DrivenSlot(bench.world, "significant")
        slot.units(2, [memory(FACTOR), *registered(_specs(bench)[: bench.scale.count(_FULL)])])
        return kept(slot)

    return bench.once("full memory", needed)


def measure(bench: FigureRun) -> list[FigureResult]:
    """Figure 25b."""
    specs, full, budget = _specs(bench), bench.scale.count(_FULL), fills_up(bench)
    runs = {mode: _arriving(bench, specs, mode, budget) for mode in ("object", "query")}
    rows = [
        {
            "queries": ours["queries"],
            **{f"object_{name}": ours[name] for name in ("accuracy", "objects", "k")},
            **{f"query_{name}": theirs[name] for name in ("accuracy", "objects", "area")},
            "paper": "shedding begins at 1200" if ours["queries"] == full else None,
        }
        for ours, theirs in zip(runs["object"], runs["query"], strict=True)
    ]
    told = max(1, bench.scale.count(_TOLD))
    shown = [row for row in rows if row["queries"] % told == 0 or row["queries"] == full]
    note = (
        f"The memory holds {budget:,} objects, what {full:,} queries need; {_KEEP:.0%} is the target. "
        f"{_EVERY} queries of various sizes arrive each second, {_MOVING:.0%} move; cache {FACTOR:.0%}."
    )
    title = "mean accuracy as queries arrive"
    return [FigureResult("25b", title, _COLUMNS, shown, _charts(rows, budget), notes=[note])]


_COLUMNS = {
    "queries": "queries",
    "object_accuracy": "object: accuracy, %",
    "object_objects": "objects",
    "object_k": "k",
    "query_accuracy": "query: accuracy, %",
    "query_objects": "objects",
    "query_area": "area",
    "paper": "paper",
}


def _arriving(bench: FigureRun, specs: list[Spec], mode: str, budget: int) -> list[dict[str, Any]]:
    """Let the queries come, and what the engine decides take effect with the next step."""
    bench.say(f"{len(specs):,} queries arrive, {mode} load shedding")
    settings = MemorySettings(mode, budget, keep=_KEEP, factor=FACTOR)
    slot, order = DrivenSlot(bench.world, "significant"), SheddingOrder(factor=FACTOR)
    slot.units(1, [_command(order)])
    rows, told = [], order
    for first in range(0, len(specs), _EVERY):
        new = registered(specs[first : first + _EVERY])
        batch = slot.run(1, new if told.same_as(order) else [_command(order), *new])
        told = order
        stats = msgspec.convert(batch.stats["memory"][str(STREAM)], StreamMemory)
        order = decide(settings, load_of([stats], slot.step, bench.world.drive.unit_s), told)
        rows.append(
            {
                "queries": min(first + _EVERY, len(specs)),
                "accuracy": accuracy(slot),
                "objects": stats.objects,
                "k": told.k,
                "area": told.area,
            }
        )
    return rows


def _command(order: SheddingOrder) -> Spec:
    return memory(order.factor, k=order.k, cache=order.cache, area=order.area)


def _charts(rows: list[dict[str, Any]], budget: int) -> list[Chart]:
    counts = [row["queries"] for row in rows]
    accuracies = [
        Line(f"{mode} load shedding", counts, [row[f"{mode}_accuracy"] for row in rows])
        for mode in ("object", "query")
    ]
    objects = [
        Line(f"{mode} load shedding", counts, [row[f"{mode}_objects"] for row in rows])
        for mode in ("object", "query")
    ]
    limits = [
        Line("budget", [counts[0], counts[-1]], [budget, budget], paper=True),
        Line("target", [counts[0], counts[-1]], [_KEEP * budget, _KEEP * budget], paper=True),
    ]
    return [
        Chart("accuracy", "queries that have arrived", "mean accuracy, %", accuracies),
        Chart("objects kept", "queries that have arrived", "objects", [*objects, *limits]),
    ]
