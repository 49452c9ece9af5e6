"""Compare routings: the same records and queries under each, slots one after the other, equal answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from stqsh.arrays import Floats
from stqsh.bench.harness.drive import Say
from stqsh.bench.harness.posts import PostSample
from stqsh.bench.papers.routing.driven_slots import DrivenSlots
from stqsh.bench.papers.routing.maps import Places
from stqsh.bench.papers.routing.world import EVENTS, KEPT, POSTS, RANGE_QUERY, Records, queries_like, records
from stqsh.engine.spark.worker_daemon import keep_freed_memory
from stqsh.routing.load import Load, balance_of, slot_loads
from stqsh.routing.query_routing import EVERYWHERE
from stqsh.routing.slot_terms import sought_terms
from stqsh.routing.table import RoutingTable
from stqsh.spec.query import SlotQuery

_WARMING = KEPT + 2
"""Batches before those that are measured: the first registers all queries, then events begin to expire."""

_EMPTY_BATCHES = 2

_Case = TypeVar("_Case")


@dataclass(frozen=True)
class RoutingScale:
    """How large figures are.

    Attributes:
        share: of the records of a full run.
        batches: measured batches.
        tries: how many random squares are tried.
        windows: windows of the moving hot spot.
        most_slots: with more slots, the balance is only modelled.
        biased_slots: the slots of the biased load.
        partitions: the sizes of the tables whose routing is timed.
        cells: how many cells a side have a slot each in cheetah12a; those of defaults are eight times finer.
        places: files with the places of real objects; none if empty.
        cases: how many sizes and kinds of texts SSTD's figures have, at most.
    """

    share: float = 1.0
    batches: int = 5
    tries: int = 3
    windows: int = 32
    most_slots: int = 64
    biased_slots: int = 120
    partitions: tuple[int, ...] = (16, 64, 256, 1024)
    cells: int = 32
    places: str = ""
    cases: int = 4

    def count(self, full: int, least: int = 100) -> int:
        """Return a number of records or others at this scale."""
        return max(least, round(full * self.share))

    def some(self, cases: Sequence[_Case]) -> Sequence[_Case]:
        """Return the first cases, as many as the scale has."""
        return cases[: self.cases]


FULL = RoutingScale()
QUICK = RoutingScale(0.1, batches=2, tries=1, windows=5, most_slots=32, partitions=(16, 64, 256), cells=16)


def prepare(scale: RoutingScale, say: Say, _out: Path | None) -> tuple[RoutingScale, Say]:
    """Return what figures take; this process works as a worker does, on one core."""
    keep_freed_memory()
    pa.set_cpu_count(1)
    return scale, say


@dataclass(frozen=True, eq=False)
class Measured:
    """What slots spent.

    Attributes:
        spent: the thread time of Evaluate on each slot in each measured batch, ns: int64 (batches, slots).
        records: records a batch.
        copies: on how many slots a query is.
        floor_ms: the thread time of an empty batch on a slot, ms.
        merging_ms: the thread time of Aggregate in a typical batch, over all slots' partials, ms.
    """

    spent: np.ndarray[tuple[int, int], np.dtype[np.int64]]
    records: int
    copies: float
    floor_ms: float
    merging_ms: float = 0.0

    @property
    def slots_ms(self) -> Floats:
        """The thread time of each slot in a typical batch, the median, ms: float64 (slots,)."""
        found: Floats = np.median(self.spent, axis=0) / 1e6
        return found

    @property
    def makespan_ms(self) -> float:
        """The thread time of the slot that has most to do in a typical batch, ms."""
        return float(self.slots_ms.max())

    @property
    def ratio(self) -> float:
        """The largest thread time of a slot divided by the mean."""
        return balance_of(self.slots_ms).ratio

    @property
    def ratio_without_floor(self) -> float:
        """The same without what an empty batch costs, which hides imbalance."""
        return balance_of(np.maximum(self.slots_ms - self.floor_ms, 0)).ratio

    @property
    def rate(self) -> float:
        """Records a second if each slot had a processor of its own."""
        return self.records / self.makespan_ms * 1000


@dataclass(frozen=True, eq=False)
class Trial:
    """Records and queries, and the routings that are to be compared under them.

    Attributes:
        places: draws the places of records.
        boxes: float64 (m, 4), the boxes of queries.
        tables: the routings by name.
        count: records a batch.
        begun: the routing of the first batch, after which all change to their own; None: they have it then.
        posts: the texts of records, if queries have phrases.
        texts: draws texts for places instead.
        phrases: the phrase of each query.
        pattern: what queries are like but for their places and phrases.
    """

    places: Places
    boxes: Floats
    tables: Mapping[str, RoutingTable]
    count: int
    begun: RoutingTable | None = None
    posts: PostSample | None = None
    phrases: Sequence[str] | None = None
    texts: Callable[[np.random.Generator, Floats], pa.Array[Any]] | None = None
    pattern: SlotQuery = RANGE_QUERY

    def driven(self) -> dict[str, DrivenSlots]:
        """Return slots for each routing."""
        stream = POSTS if self.posts or self.texts else EVENTS
        queries = queries_like(self.pattern, self.boxes, self.phrases)
        sought = None if self.phrases is None else sought_terms([queries], stream)
        boxes = np.full_like(self.boxes, EVERYWHERE) if self.pattern.region.is_nearest else self.boxes
        return {
            name: DrivenSlots(self.begun or table, stream, queries, boxes, sought)
            for name, table in self.tables.items()
        }

    def drawn(self, step: int, rng: np.random.Generator, count: int | None = None) -> Records:
        """Draw the records of a step."""
        places = self.places(rng, self.count if count is None else count)
        if self.texts is not None:
            return records(step, places, self.texts(rng, places))
        if self.posts is None:
            return records(step, places)
        which: Any = pa.array(rng.integers(0, len(self.posts.texts), len(places)))
        return records(step, places, self.posts.texts.take(which))


def measured(trials: Sequence[Trial], scale: RoutingScale, seed: int = 1) -> list[dict[str, Measured]]:
    """Measure routings: trials in turn batch by batch, and the routings of each in random order.

    Raises:
        ValueError: two routings of a trial gave other updates.
    """
    rng = np.random.default_rng(seed)
    all_driven = [trial.driven() for trial in trials]
    spent: list[dict[str, list[np.ndarray[tuple[int], np.dtype[np.int64]]]]] = [
        {name: [] for name in driven} for driven in all_driven
    ]
    for step in range(1, _WARMING + scale.batches + 1):
        for trial, driven, costs in zip(trials, all_driven, spent, strict=True):
            drawn = trial.drawn(step, rng)
            for name in rng.permutation(list(driven)).tolist():
                costs[name].append(driven[name].take(drawn, rng))
                if step == 1:
                    driven[name].route(trial.tables[name])
    found = []
    for trial, driven, costs in zip(trials, all_driven, spent, strict=True):
        check_answers(driven)
        merging = {name: float(np.median(slots.merging[_WARMING:])) / 1e6 for name, slots in driven.items()}
        floor = _floor_ms(trial, rng)
        found.append(
            {
                name: Measured(
                    np.array(costs[name][_WARMING:]), trial.count, slots.copies, floor, merging[name]
                )
                for name, slots in driven.items()
            }
        )
    return found


def check_answers(driven: Mapping[str, DrivenSlots]) -> None:
    """Check that slots gave the same updates under all routings.

    Raises:
        ValueError: they did not.
    """
    (first, wanted), *others = driven.items()
    for name, slots in others:
        if slots.answers != wanted.answers:
            raise ValueError(f"{name} gave {slots.answers}, {first} {wanted.answers}")


def modelled_ratio(table: RoutingTable, load: Load) -> float:
    """Return the largest load of a slot divided by the mean, as the cost model has it."""
    return balance_of(slot_loads(table, load.cost)).ratio


def _floor_ms(trial: Trial, rng: np.random.Generator) -> float:
    """Return the thread time of an empty batch on a slot that has all queries and had no records, ms.

    Slots whose records expire are no measure of it: the circles of queries for neighbours run short then, and
    are tried again and again until they hold all records of their slots.
    """
    slots = next(iter(trial.driven().values()))
    spent = [slots.take(trial.drawn(step, rng, 0), rng) for step in range(1, _WARMING + _EMPTY_BATCHES)]
    return float(np.median(spent[-_EMPTY_BATCHES:])) / 1e6
