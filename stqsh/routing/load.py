"""The load of a stream by cell, and of slots under a routing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stqsh.arrays import Floats
from stqsh.routing.cells import Cells
from stqsh.routing.partitioning import PrefixSums
from stqsh.routing.query_counts import BlockTotals, QueryCounts, coverage
from stqsh.routing.table import HASHED, RoutingTable

if TYPE_CHECKING:
    from stqsh.routing.text_splits import TextSample

RECORD, PAIR, READ, UPKEEP = 1.0, 0.05, 0.005, 0.07
"""The costs of a record, of a record paired with a query over its cell, of a record that a snapshot over its
cell reads, and of keeping a record sorted for snapshots: c1, c2 and c3 of STAR (section 6), and the upkeep of
its caches. `stqsh bench routing --figure costs` measures them."""


class CostWeights(NamedTuple):
    """The weights of a workload metric.

    Attributes:
        record: the weight of a record: c1 of STAR (section 6).
        pair: the weight of a record and a continuous query over its cell: c2 of STAR.
        read: the weight of a record and a recent snapshot over its cell: c3 of STAR.
        upkeep: the weight of a record in a cell that snapshots touch, if clients keep its stream sorted.
        reaches: whether a continuous query for nearest neighbours counts only in the cells in which they are
            expected; otherwise it counts everywhere, as it is on every slot.
    """

    record: float
    pair: float
    read: float = 0.0
    upkeep: float = 0.0
    reaches: bool = False

    @property
    def a_record(self) -> float:
        """The weight of what a slot does in the time of a record."""
        return self.record or self.pair / PAIR


METRICS = {
    "cost": CostWeights(RECORD, PAIR),
    "records": CostWeights(1.0, 0.0),
    "pairs": CostWeights(0.0, 1.0),
    "star": CostWeights(RECORD, PAIR, READ, UPKEEP),
    "sstd": CostWeights(0.0, 1.0, 1.0, reaches=True),
}
"""Workload metrics by name.

`cost` is the time that slots take, `records` the updates that CheetahGIS counts (section V-D1), and `pairs`
the checks of queries that Tornado counts (equation 1).

`star` is STAR's whole estimate, with snapshots and the upkeep of caches, which section 6 names as a part of
the load, without a term for it. STAR's workers keep caches. Here clients do, slot by slot: they sort the
events of a stream by place within time slots, and fill views from these. So upkeep counts once for each
record of an event stream in a cell that recent snapshots touch, however many views are over it.

`sstd` is SSTD's equation 2: all kinds of queries count alike, the continuous ones for the records that come,
the others for those that they visit; those for nearest neighbours in the cells that they are expected to
reach, see `neighbour_reach`. Its factor for the words of a query is 1 here, because a cell is too small for
statistics of words, and slots index words.
"""
_BLUR = 32
"""Changes of cells are averaged over a square whose side is twice the grid's side divided by this."""


@dataclass(frozen=True, eq=False)
class Load:
    """The recent input of a stream, by cell; float64 (side, side) each.

    Attributes:
        cells: the cells.
        records: the number of records in each cell.
        queries: the number of continuous queries that touch each cell.
        texts: the terms of records and queries, if leaves may be split by texts.
        weights: the workload metric.
        spans: the cells that each query touches, rows of `Cells.of_boxes`, int64 (m, 4); None if unknown.
        asked: the number of recent snapshots that touch each cell; None without any.
        is_sorted: whether clients sort the records for snapshots, as they do for events.
    """

    cells: Cells
    records: Floats
    queries: Floats
    texts: TextSample | None = None
    weights: CostWeights = METRICS["cost"]
    spans: NDArray[np.int64] | None = None
    asked: Floats | None = None
    is_sorted: bool = False

    @staticmethod
    def of(cells: Cells, x: Floats, y: Floats, boxes: Floats) -> Load:
        """Count records by their places, (n,) each, and queries by their boxes, (m, 4)."""
        side = cells.side
        records = np.bincount(cells.of_places(x, y), minlength=side * side).astype(np.float64)
        spans = cells.of_boxes(boxes.reshape(-1, 4))
        return Load(cells, records.reshape(side, side), coverage(spans, side), spans=spans)

    def with_queries(self, boxes: Floats) -> Load:
        """Return the load with other queries, by their boxes, float64 (m, 4)."""
        spans = self.cells.of_boxes(boxes)
        return replace(self, queries=coverage(spans, self.cells.side), spans=spans)

    @property
    def cost(self) -> Floats:
        """The cost of each cell, float64 (side, side): `c1 |O| + c2 |O| |Qc| + c3 |O| |Qs|` (STAR section 6).

        The upkeep of caches is added.

        If the metric counts only pairs and there are none, records count.
        """
        found: Floats = self.records * (self.weights.record + self.weights.pair * self.queries)
        if self.asked is not None and self.weights.read:
            found = found + self.weights.read * self.records * self.asked + self.upkeep
        return found if found.any() else self.records

    @property
    def upkeep(self) -> Floats:
        """What clients spend on the records of each cell to keep them sorted, float64 (side, side)."""
        if self.asked is None or not self.is_sorted:
            return np.zeros_like(self.records)
        found: Floats = self.weights.upkeep * self.records * (self.asked > 0)
        return found

    @cached_property
    def query_counts(self) -> BlockTotals:
        """The number of queries that touch a block of cells; an upper bound if their spans are unknown."""
        if self.spans is None:
            return PrefixSums.of(self.queries)
        return QueryCounts.of(self.spans, self.cells.side)

    def ahead(self, before: Load, share: float) -> Load:
        """Extrapolate the load, assuming that records continue to move as since an earlier load.

        Args:
            before: the earlier load, over the same cells.
            share: the time to extrapolate, as a multiple of the time since then.
        """
        earlier = float(before.records.sum())
        if not earlier:
            return self
        change = self.records - before.records * (self.records.sum() / earlier)
        moved = _averaged(change, max(1, self.cells.side // _BLUR))
        return replace(self, records=np.maximum(self.records + share * moved, 0.0))

    def with_likely_queries(self, cost: float, reach: int) -> Load:
        """Return the load with assumed queries at the places of records, while no query is known.

        The queries of all four papers are there. Records weigh more if many others are near.

        Args:
            cost: the cost of queries, as a multiple of the cost of records.
            reach: the distance around a cell within which records count, in cells.
        """
        around = _averaged(self.records, reach)
        pairs = float((self.records * around).sum())
        if not pairs:
            return self
        return replace(self, records=self.records * (1 + cost * self.records.sum() / pairs * around))


def _averaged(values: Floats, reach: int) -> Floats:
    """Return the mean around each cell, over all cells within `reach` cells, float64 (side, side)."""
    sums = np.pad(values, reach, mode="edge").cumsum(axis=0).cumsum(axis=1)
    sums, across = np.pad(sums, ((1, 0), (1, 0))), 2 * reach + 1
    total = sums[across:, across:] - sums[:-across, across:] - sums[across:, :-across]
    found: Floats = (total + sums[:-across, :-across]) / across**2
    return found


class Balance(NamedTuple):
    """Measures of how evenly load is spread over slots.

    Attributes:
        ratio: the largest load divided by the mean; 1 is even.
        spread: the largest load divided by the smallest (SSTD definition 4); infinite if a slot has none.
        variance: CheetahGIS's imbalance degree (section V-D2), divided by the square of the mean.
    """

    ratio: float
    spread: float
    variance: float


def balance_of(loads: Floats) -> Balance:
    """Return the balance of the loads of slots, float64 (n,)."""
    mean = float(loads.mean()) if len(loads) else 0.0
    if mean <= 0:
        return Balance(1.0, 1.0, 0.0)
    least = float(loads.min())
    spread = float(loads.max()) / least if least > 0 else float("inf")
    return Balance(float(loads.max()) / mean, spread, float(((loads - mean) ** 2).mean()) / mean**2)


def slot_loads(table: RoutingTable, cost: Floats) -> Floats:
    """Return the load of each slot, float64 (slots,); leaves dealt by hash load all slots evenly."""
    return _by_slot(table, leaf_costs(table, cost))


def slot_records(table: RoutingTable, records: Floats) -> Floats:
    """Return the number of records of each slot, float64 (slots,), from the records of cells."""
    shares = None if table.texts is None else table.texts.records
    return _by_slot(table, _by_leaf(table, records, shares))


def leaf_costs(table: RoutingTable, values: Floats) -> Floats:
    """Return the sum of a value of cells over each leaf, float64 (leaves,).

    The sum of a leaf that is split by texts is divided among its children by their shares of the cost.
    """
    return _by_leaf(table, values, None if table.texts is None else table.texts.cost)


def _by_slot(table: RoutingTable, values: Floats) -> Floats:
    placed = table.slot >= 0
    loads = np.bincount(table.slot[placed], values[placed], table.slots)
    found: Floats = loads + values[table.slot == HASHED].sum() / table.slots
    return found


def _by_leaf(table: RoutingTable, values: Floats, shares: Floats | None) -> Floats:
    found: Floats = np.bincount(table.leaf.ravel(), values.ravel(), len(table.slot)).astype(np.float64)
    if shares is not None:
        split = table.split_leaves
        found[table.laid :] = (found[split][:, None] * shares).ravel()
        found[split] = 0.0
    return found
