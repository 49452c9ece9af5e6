"""Shift: the dearest slot gives a strip of a rectangle to a neighbour (Tornado sections 4.2 and 4.3).

Tornado also weighs what a shift gains against the time that queries take to move. That is left to callers.
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
from stqsh.routing.table import HASHED, RoutingTable

_STEPS_A_SLOT = 4
"""The most steps of an adjustment, for each slot."""

_LEAST_GAIN = 1e-9
"""The share by which a step has to lower the largest load; below are rounding errors."""


class Change(NamedTuple):
    """Tiles that are replaced.

    Attributes:
        gone: the tiles that there were.
        come: those in their place, with their slots.
    """

    gone: Sequence[CellBlock]
    come: Owners


@dataclass(frozen=True, eq=False)
class Tiling:
    """Tiles, and what is known of them.

    Attributes:
        owners: the tiles; changes.
        loads: float64 (slots,), the load of each slot; changes.
        cost: the cost of cells, without those that are dealt by hash.
        queries: how many queries touch each cell.
    """

    owners: Owners
    loads: Floats
    cost: PrefixSums
    queries: PrefixSums

    def of_slot(self, slot: int) -> list[CellBlock]:
        """Return the tiles of a slot, in order."""
        return sorted(tile for tile, owner in self.owners.items() if owner == slot)

    def loads_after(self, change: Change) -> dict[int, float]:
        """Return the loads of the slots that a change concerns."""
        found: dict[int, float] = {}
        taken = [(self.owners[tile], -self.cost.total(tile)) for tile in change.gone]
        for slot, cost in taken + [(slot, self.cost.total(tile)) for tile, slot in change.come.items()]:
            found[slot] = found.get(slot, float(self.loads[slot])) + cost
        return found

    def dearest_after(self, change: Change) -> float:
        """Return the largest load of the slots that a change concerns."""
        return max(self.loads_after(change).values())

    def best(self, changes: Iterable[Change]) -> Change | None:
        """Return the change after which the dearest slot that it concerns costs least; None without any."""
        return min(changes, key=self.dearest_after, default=None)

    def apply(self, change: Change) -> None:
        """Replace the tiles."""
        for slot, load in self.loads_after(change).items():
            self.loads[slot] = load
        for tile in change.gone:
            del self.owners[tile]
        self.owners.update(change.come)


Step = Callable[[Tiling], Change | None]
"""Returns a change that concerns the dearest slot; None if it knows none."""


def adjust(table: RoutingTable, load: Load, limit: float) -> RoutingTable:
    """Shift borders of the dearest slot's tiles until it is within the limit, or no shift helps."""
    return repeated(_best_shift, table, load, limit)


def repeated(step: Step, table: RoutingTable, load: Load, limit: float) -> RoutingTable:
    """Take steps until the dearest slot is within the limit, or a step does not make it cheaper.

    Args:
        step: the step.
        table: has leaves that are rectangles.
        load: the load.
        limit: the ratio of the largest load to the mean that suffices.
    """
    cost = PrefixSums.of(np.where(table.owners == HASHED, 0.0, load.cost))
    tiling = Tiling(owners_of(table), slot_loads(table, load.cost), cost, PrefixSums.of(load.queries))
    enough = limit * float(tiling.loads.mean())
    for _ in range(_STEPS_A_SLOT * table.slots):
        dearest = float(tiling.loads.max())
        change = step(tiling) if dearest > enough else None
        if change is None or tiling.dearest_after(change) >= dearest * (1 - _LEAST_GAIN):
            break
        tiling.apply(change)
    return with_tiles(table, tiling.owners)


def _best_shift(tiling: Tiling) -> Change | None:
    """Return the shift from the dearest slot to a neighbour after which the dearer of them is cheapest."""
    return tiling.best(_shifts_from(tiling, int(tiling.loads.argmax())))


def _shifts_from(tiling: Tiling, giver: int) -> Iterator[Change]:
    """Yield the shifts from the tiles of a slot to those of slots that cost less."""
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
    """Return which boxes, (n, 4), have a side that is part of a side of a tile, up to an end of it."""
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
    """Yield what two rectangles become by shifts: horizontal or vertical, or of a corner.

    Where they have an entire side in common, the taker's slot, which costs `apart` more (less, if negative),
    gets as much of both as evens out the slots.
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
    """Return what two rectangles beside each other become if the rows of the second change hands.

    The rows are part of the first one's, up or down to its end: both remain rectangles.
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
