"""Figure 25b: the mean accuracy while queries keep arriving and the memory is full.

The engine's own policy decides step by step what is shed; see `stqsh.engine.delivery.shedding_policy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stqsh.bench.figures import Row
from stqsh.bench.harness.one_slot import STREAM
from stqsh.bench.papers.figure import Chart, FigureResult, Line
from stqsh.bench.papers.sole.curves import accuracy, kept
from stqsh.bench.papers.sole.figure_run import FigureRun
from stqsh.bench.papers.sole.sharing import FACTOR
from stqsh.bench.papers.sole.slot_driver import DrivenSlot, memory, registered
from stqsh.bench.papers.sole.town import TownQueries
from stqsh.engine.delivery.shedding_policy import decide, load_of
from stqsh.spec.command import MemoryCommand
from stqsh.spec.query import SlotQuery
from stqsh.spec.shedding import SheddingOrder
from stqsh.storage.shedding_orders import MemorySettings

_FULL = 1_200
"""The number of queries that fill the memory in the paper."""

_LAST = 3_000
_EVERY = 5
"""The number of queries that arrive in each step."""

_SHOWN = 200
"""The table has a row after every 200 queries."""

_MOVING = 0.25
_KEEP = 0.9


@dataclass(frozen=True)
class Arrival:
    """The state after some queries have arrived: accuracy in %, kept objects, k and area in force."""

    queries: int
    accuracy: float
    objects: int
    k: int
    area: float


def _specs(bench: FigureRun) -> list[SlotQuery]:
    return TownQueries(bench.scale.count(_LAST), moving=_MOVING).of(bench.world)


def fills_up(bench: FigureRun) -> int:
    """Return the memory of section 7.8: the objects that "about 1200 queries" of various sizes need."""

    def needed() -> int:
        slot = DrivenSlot(bench.world, "significant")
        slot.units(2, [memory(FACTOR), *registered(_specs(bench)[: bench.scale.count(_FULL)])])
        return kept(slot)

    return bench.once("full memory", needed)


def measure(bench: FigureRun) -> list[FigureResult]:
    """Figure 25b."""
    specs, full, budget = _specs(bench), bench.scale.count(_FULL), fills_up(bench)
    by_object, by_query = (_arriving(bench, specs, mode, budget) for mode in ("object", "query"))
    every = max(1, bench.scale.count(_SHOWN))
    rows: list[Row] = [
        {
            "queries": one.queries,
            "object_accuracy": one.accuracy,
            "object_objects": one.objects,
            "object_k": one.k,
            "query_accuracy": other.accuracy,
            "query_objects": other.objects,
            "query_area": other.area,
            "paper": "shedding begins at 1200" if one.queries == full else None,
        }
        for one, other in zip(by_object, by_query, strict=True)
        if one.queries % every == 0 or one.queries == full
    ]
    note = (
        f"The memory holds {budget:,} objects, what {full:,} queries need; {_KEEP:.0%} is the target. "
        f"{_EVERY} queries of various sizes arrive each second, {_MOVING:.0%} move; cache {FACTOR:.0%}."
    )
    title = "mean accuracy as queries arrive"
    charts = _charts({"object": by_object, "query": by_query}, budget)
    return [FigureResult("25b", title, _COLUMNS, rows, notes=[note], charts=charts)]


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


def _arriving(bench: FigureRun, specs: list[SlotQuery], mode: str, budget: int) -> list[Arrival]:
    """Let the queries arrive; the engine's decisions take effect with the next step."""
    bench.say(f"{len(specs):,} queries arrive, {mode} load shedding")
    settings = MemorySettings(mode, budget, keep=_KEEP, factor=FACTOR)
    slot, order = DrivenSlot(bench.world, "significant"), SheddingOrder(factor=FACTOR)
    slot.units(1, [_command(order)])
    arrivals, in_force = [], order
    for first in range(0, len(specs), _EVERY):
        new = registered(specs[first : first + _EVERY])
        batch = slot.run(1, new if in_force.same_as(order) else [_command(order), *new])
        in_force = order
        stats = batch.stats.memory[STREAM]
        order = decide(settings, load_of([stats], slot.step, bench.world.drive.unit_s), in_force)
        count = min(first + _EVERY, len(specs))
        arrivals.append(Arrival(count, accuracy(slot), stats.objects, in_force.k, in_force.area))
    return arrivals


def _command(order: SheddingOrder) -> MemoryCommand:
    """Return the order without its share of the objects that k - 1 queries need."""
    return memory(order.factor, k=order.k, cache=order.cache, area=order.area)


def _charts(runs: dict[str, list[Arrival]], budget: int) -> list[Chart]:
    counts = [arrival.queries for arrival in next(iter(runs.values()))]
    accuracies = [_line(mode, counts, [one.accuracy for one in run]) for mode, run in runs.items()]
    objects = [_line(mode, counts, [one.objects for one in run]) for mode, run in runs.items()]
    limits = [
        Line("budget", [counts[0], counts[-1]], [budget, budget], paper=True),
        Line("target", [counts[0], counts[-1]], [_KEEP * budget, _KEEP * budget], paper=True),
    ]
    return [
        Chart("accuracy", "queries that have arrived", "mean accuracy, %", accuracies),
        Chart("objects kept", "queries that have arrived", "objects", [*objects, *limits]),
    ]


def _line(mode: str, counts: Sequence[int], values: Sequence[float]) -> Line:
    return Line(f"{mode} load shedding", counts, values)
