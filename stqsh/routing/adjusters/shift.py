"""Shift: move a strip of a rectangle of the most expensive slot to a neighbour (Tornado sections 4.2, 4.3).

A change is made only if it gains more than it costs: if Cr, by how much it lowers the largest load (equation
4), is greater than Ct, the number of queries that move times the time to move one, beta (equation 5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stqsh.arrays import Floats
from stqsh.routing.adjusters.tiles import Owners, owners_of, united, with_tiles
from stqsh.routing.load import Load, slot_loads
from stqsh.routing.partitioning import CellBlock, PrefixSums
from stqsh.routing.query_counts import BlockTotals
from stqsh.routing.table import HASHED, RoutingTable

_STEPS_A_SLOT = 4
"""The maximum number of steps of an adjustment, per slot."""

_LEAST_GAIN = 1e-9
"""The minimum share by which a step has to lower the largest load; less may be a rounding error."""


class Change(NamedTuple):
    """A replacement of tiles.

    Attributes:
        gone: the old tiles.
        come: the new tiles in their place, with their slots.
    """

    gone: Sequence[CellBlock]
    come: Owners


@dataclass(frozen=True, eq=False)
class Tiling:
    """Tiles, with their costs and loads.

    Attributes:
        owners: the tiles; changes.
        loads: float64 (slots,), the load of each slot; changes.
        cost: the cost of cells, without cells that are dealt by hash.
        queries: how many queries touch blocks of cells.
        transfer: the time to move a query to another slot, in the unit of costs: Tornado's beta.
    """

    owners: Owners
    loads: Floats
    cost: PrefixSums
    queries: BlockTotals
    transfer: float = 0.0

    def of_slot(self, slot: int) -> list[CellBlock]:
        """Return the tiles of a slot, in order."""
        return sorted(tile for tile, owner in self.owners.items() if owner == slot)

    def loads_after(self, change: Change) -> dict[int, float]:
        """Return the loads after a change of the slots that it concerns."""
        found: dict[int, float] = {}
        taken = [(self.owners[tile], -self.cost.total(tile)) for tile in change.gone]
        for slot, cost in taken + [(slot, self.cost.total(tile)) for tile, slot in change.come.items()]:
            found[slot] = found.get(slot, float(self.loads[slot])) + cost
        return found

    def dearest_after(self, change: Change) -> float:
        """Return the largest load after a change of the slots that it concerns."""
        return max(self.loads_after(change).values())

    def moved_queries(self, change: Change) -> float:
        """Return the number of queries of the cells that change their slot (Tornado equation 5)."""
        pairs = ((gone, come, slot) for gone in change.gone for come, slot in change.come.items())
        moved = (gone.common(come) for gone, come, slot in pairs if slot != self.owners[gone])
        return sum(self.queries.total(block) for block in moved if block is not None)

    def pays_off(self, change: Change) -> bool:
        """Return whether a change lowers the largest load by more than moving queries costs: Cr > Ct.

        A minimum gain is required without such a cost, too.
        """
        dearest = float(self.loads.max())
        gain = dearest - self.dearest_after(change)
        return gain > _LEAST_GAIN * dearest and gain > self.transfer * self.moved_queries(change)

    def best(self, changes: Iterable[Change]) -> Change | None:
        """Return the change with the smallest largest load of its slots that pays off; None without any."""
        worthwhile = (change for change in changes if not self.transfer or self.pays_off(change))
        return min(worthwhile, key=self.dearest_after, default=None)

    def apply(self, change: Change) -> None:
        """Replace the tiles."""
        for slot, load in self.loads_after(change).items():
            self.loads[slot] = load
        for tile in change.gone:
            del self.owners[tile]
        self.owners.update(change.come)


Step = Callable[[Tiling], Change | None]
"""Returns a change of the most expensive slot; None if there is none."""


def adjust(table: RoutingTable, load: Load, limit: float, transfer: float = 0.0) -> RoutingTable:
    """Shift borders of the most expensive slot's tiles until it is within the limit, or no shift pays off."""
    return repeated(_best_shift, table, load, limit, transfer)


def repeated(
    step: Step, table: RoutingTable, load: Load, limit: float, transfer: float = 0.0
) -> RoutingTable:
    """Repeat a step until the most expensive slot is within the limit, or the step does not pay off.

    Args:
        step: the step.
        table: a table whose leaves are rectangles.
        load: the load.
        limit: the ratio of the largest load to the mean that suffices.
        transfer: the cost to move a query.
    """
    cost = PrefixSums.of(np.where(table.owners == HASHED, 0.0, load.cost))
    tiling = Tiling(owners_of(table), slot_loads(table, load.cost), cost, load.query_counts, transfer)
    enough = limit * float(tiling.loads.mean())
    for _ in range(_STEPS_A_SLOT * table.slots):
        change = step(tiling) if tiling.loads.max() > enough else None
        if change is None or not tiling.pays_off(change):
            break
        tiling.apply(change)
    return with_tiles(table, tiling.owners)


def _best_shift(tiling: Tiling) -> Change | None:
    """Return the shift from the most expensive slot to a neighbour that minimizes their larger load."""
    return tiling.best(_shifts_from(tiling, int(tiling.loads.argmax())))


def _shifts_from(tiling: Tiling, giver: int) -> Iterator[Change]:
    """Yield the shifts from the tiles of a slot to tiles of cheaper slots."""
    tiles = sorted(tiling.owners)
    boxes = np.array(tiles).reshape(-1, 4)
    loads = tiling.loads[[tiling.owners[tile] for tile in tiles]]
    cheaper = np.flatnonzero(loads < tiling.loads[giver])
    for given in tiling.of_slot(giver):
        for at in cheaper[_flush(given, boxes[cheaper])].tolist():
            taker = tiling.owners[tiles[at]]
            apart = float(tiling.loads[taker] - tiling.loads[giver])
            for kept, grown in _shifts(tiling.cost, given, tiles[at], apart):
                yield Change((given, tiles[at]), {kept: giver, grown: taker})


def _flush(tile: CellBlock, boxes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask of boxes, (n, 4), with a side that is part of a tile's side and shares an end with it."""
    found = np.zeros(len(boxes), np.bool_)
    for (low, high, left, right), (first, last, near, far) in (
        (tile, boxes.T),
        (_turned(tile), boxes[:, [2, 3, 0, 1]].T),
    ):
        beside = ((near == right) | (far == left)) & (first >= low) & (last <= high)
        found |= beside & ((first == low) | (last == high))
    return found


def _shifts(
    cost: PrefixSums, giver: CellBlock, taker: CellBlock, apart: float
) -> Iterator[tuple[CellBlock, CellBlock]]:
    """Yield the results of shifts between two rectangles: horizontal, vertical, or of a corner.

    If they share an entire side, the taker's slot, which costs `apart` more (less, if negative), gets the
    part of their union that makes both slots equal.
    """
    around = united(giver, taker)
    if around is not None:
        both, given = cost.total(around), cost.total(giver) + apart / 2
        share = (given if giver < taker else both - given) / both if both > 0 else 0.0
        if 0 < share < 1:
            cut = cost.cut_columns(around, share) if giver[:2] == taker[:2] else cost.cut_rows(around, share)
            if cut is not None:
                yield (cut.first, cut.second) if giver < taker else (cut.second, cut.first)
        return
    beside = _corner(giver, taker)
    if beside is not None:
        yield beside
    above = _corner(_turned(giver), _turned(taker))
    if above is not None:
        yield _turned(above[0]), _turned(above[1])


def _corner(giver: CellBlock, taker: CellBlock) -> tuple[CellBlock, CellBlock] | None:
    """Return two adjacent rectangles after the rows of the second move from the first to the second.

    These rows must be part of the first one's, up to its upper or lower end, so that both remain rectangles.
    """
    beside = giver.right == taker.left or taker.right == giver.left
    if not beside or taker.low < giver.low or taker.high > giver.high or taker.height == giver.height:
        return None
    if taker.low == giver.low:
        kept = giver._replace(low=taker.high)
    elif taker.high == giver.high:
        kept = giver._replace(high=taker.low)
    else:
        return None
    return kept, taker._replace(left=min(giver.left, taker.left), right=max(giver.right, taker.right))


def _turned(rectangle: CellBlock) -> CellBlock:
    """Return a rectangle with rows and columns exchanged."""
    return CellBlock(rectangle.left, rectangle.right, rectangle.low, rectangle.high)
