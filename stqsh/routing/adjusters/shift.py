"""Shift: the dearest rectangle gives a strip to a neighbour (Tornado sections 4.2 and 4.3).

Tornado also weighs what a shift gains against the time that queries take to move. That is left to callers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from stqsh.routing.load import Load
from stqsh.routing.partitioning import CellBlock, PrefixSums
from stqsh.routing.strategies import boxes_of_leaves, table_of_rectangles
from stqsh.routing.table import HASHED, RoutingTable

_STEPS_A_SLOT = 4
"""The most steps of an adjustment, for each slot."""

_LEAST_GAIN = 1e-9
"""The share by which a step has to lower the largest load; below are rounding errors."""


@dataclass(frozen=True, eq=False)
class Tiling:
    """Rectangles that tile the cells, each on a slot of its own.

    Attributes:
        rectangles: the rectangle of each slot that has one.
        slots: the number of slots.
        cost: the cost of cells, without those that are dealt by hash.
        queries: how many queries touch each cell.
    """

    rectangles: dict[int, CellBlock]
    slots: int
    cost: PrefixSums
    queries: PrefixSums

    def dearest(self) -> tuple[int, float]:
        """Return the slot whose rectangle costs most, and its cost; there is at least one."""
        costs = self.costs()
        slot = max(costs, key=lambda one: (costs[one], -one))
        return slot, costs[slot]

    def costs(self) -> dict[int, float]:
        """Return the cost of each slot's rectangle."""
        return {slot: self.cost.total(rectangle) for slot, rectangle in self.rectangles.items()}


Step = Callable[[Tiling], tuple[float, dict[int, CellBlock]] | None]
"""Returns new rectangles of some slots, and the largest cost among these; None if it knows none."""


def adjust(table: RoutingTable, load: Load, limit: float) -> RoutingTable:
    """Shift borders of the dearest rectangle until it is within the limit, or no shift helps."""
    return repeated(_best_shift, table, load, limit)


def repeated(step: Step, table: RoutingTable, load: Load, limit: float) -> RoutingTable:
    """Take steps until the dearest rectangle is within the limit, or a step does not make it cheaper.

    Args:
        step: the step.
        table: has a rectangle a slot, as those of Tornado's A-Grid.
        load: the load.
        limit: the ratio of the largest load to the mean that suffices.
    """
    hashed = table.owners == HASHED
    placed = [at for at, owner in enumerate(table.slot.tolist()) if owner != HASHED]
    if not placed:
        return table
    boxes = boxes_of_leaves(table)
    tiling = Tiling(
        {int(table.slot[at]): boxes[at] for at in placed},
        table.slots,
        PrefixSums.of(np.where(hashed, 0.0, load.cost)),
        PrefixSums.of(load.queries),
    )
    enough = (limit * load.cost.sum() - load.cost[hashed].sum()) / table.slots
    for _ in range(_STEPS_A_SLOT * table.slots):
        _, cost = tiling.dearest()
        found = step(tiling) if cost > enough else None
        if found is None or found[0] >= cost * (1 - _LEAST_GAIN):
            break
        tiling.rectangles.update(found[1])
    owners, rectangles = zip(*sorted(tiling.rectangles.items()), strict=True)
    return table_of_rectangles(table.strategy, table.cells, table.slots, rectangles, np.array(owners), hashed)


def united(one: CellBlock, other: CellBlock) -> CellBlock | None:
    """Return the rectangle of two that have an entire side in common, else None."""
    around = CellBlock(
        min(one.low, other.low),
        max(one.high, other.high),
        min(one.left, other.left),
        max(one.right, other.right),
    )
    in_line = one[:2] == other[:2] or one[2:] == other[2:]
    return around if in_line and around.area == one.area + other.area else None


def _best_shift(tiling: Tiling) -> tuple[float, dict[int, CellBlock]] | None:
    """Return the shift from the dearest slot to a neighbour after which the dearer of them is cheapest."""
    giver, most = tiling.dearest()
    best: tuple[float, dict[int, CellBlock]] | None = None
    for taker, rectangle in sorted(tiling.rectangles.items()):
        if taker == giver or tiling.cost.total(rectangle) >= most:
            continue
        for given, taken in _shifts(tiling.cost, tiling.rectangles[giver], rectangle):
            cost = max(tiling.cost.total(given), tiling.cost.total(taken))
            if best is None or cost < best[0]:
                best = cost, {giver: given, taker: taken}
    return best


def _shifts(cost: PrefixSums, giver: CellBlock, taker: CellBlock) -> Iterator[tuple[CellBlock, CellBlock]]:
    """Yield what two rectangles become by shifts: horizontal or vertical, or of a corner."""
    around = united(giver, taker)
    if around is not None:
        cut = cost.cut_columns(around) if giver[:2] == taker[:2] else cost.cut_rows(around)
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
