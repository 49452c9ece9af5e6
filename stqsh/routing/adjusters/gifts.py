"""Gifts: expensive slots give away the leaves that move the fewest queries.

Leaves are the squares of a quadtree or rectangles. The giving slot cuts squares into quarters, and rectangles
into halves of equal cost as Tornado does (section 4.1).

A moving hot spot changes the loads of a few leaves between two checks. So most leaves stay. The leaves with
the highest cost per query move first, in pieces no larger than the slot's excess.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stqsh.arrays import Floats
from stqsh.routing.adjusters.tiles import Owners, owners_of, united_where_one_slot_has_both, with_tiles
from stqsh.routing.cells import z_order
from stqsh.routing.load import Load, slot_loads
from stqsh.routing.partitioning import CellBlock, PrefixSums
from stqsh.routing.strategies import LEAVES_A_SLOT, relaid
from stqsh.routing.table import RoutingTable

_MOST_LEAVES_A_SLOT = 64
"""The maximum number of leaves per slot, before squares with one owner are merged."""
_LEAST_SHARE = 1 / 64
"""A leaf that costs at most this share of a slot's limit is not split, however small the excess."""


def give(table: RoutingTable, load: Load, limit: float) -> RoutingTable:
    """Let expensive slots give leaves to cheap ones until none exceeds the limit or nothing helps.

    Args:
        table: a table whose leaves are nodes of a quadtree, or rectangles if it is an `agrid`.
        load: the load.
        limit: the ratio of the largest load to the mean that suffices.
    """
    fixed, has_tiles = table.owners < 0, table.strategy == "agrid"
    loads = slot_loads(table, load.cost)
    cost = PrefixSums.of(np.where(fixed, 0.0, load.cost))
    giving = LeafTransfer(
        cost=cost,
        queries=PrefixSums.of(np.where(fixed, 0.0, load.queries)),
        parts_of=cost.halves if has_tiles else CellBlock.quarters,
        owners=owners_of(table),
        loads=loads,
        enough=limit * float(loads.mean()),
        most=_MOST_LEAVES_A_SLOT * table.slots,
    )
    while loads.max() > giving.enough and giving.give_from(int(loads.argmax())):
        pass
    if has_tiles:
        return with_tiles(table, united_where_one_slot_has_both(giving.owners))
    fair = float(load.cost.sum()) / (LEAVES_A_SLOT * table.slots)
    owners = _united(giving.owners, giving.cost, fair)
    squares = along_the_curve(owners, table.cells.side)
    slots = np.array([owners[square] for square in squares])
    return relaid(table, squares, slots)


@dataclass
class LeafTransfer:
    """The state of a transfer of leaves between slots.

    A heap orders the giver's leaves. The first one goes to the cheapest slot if it fits there and is small
    enough for the giver's excess; otherwise it is split, and its parts return to the heap.

    Attributes:
        cost, queries: the sums of both over cells that have a slot.
        parts_of: cuts a leaf that has several cells.
        owners: the leaves; changes.
        loads: float64 (slots,), the load of each slot; changes.
        enough: the load that suffices.
        most: the maximum number of leaves.
    """

    cost: PrefixSums
    queries: PrefixSums
    parts_of: Callable[[CellBlock], Sequence[CellBlock]]
    owners: Owners
    loads: Floats
    enough: float
    most: int

    def give_from(self, giver: int) -> bool:
        """Give away leaves of a slot until it costs at most `enough`; return whether any moved."""
        loads, gave = self.loads, False
        heap = [self._ranked(leaf) for leaf, owner in self.owners.items() if owner == giver]
        heapq.heapify(heap)
        while heap and loads[giver] > self.enough:
            _, leaf = heapq.heappop(heap)
            cost, taker = self.cost.total(leaf), int(loads.argmin())
            is_small = cost <= max(2 * (loads[giver] - self.enough), _LEAST_SHARE * self.enough)
            is_split = leaf.area > 1 and len(self.owners) + 3 <= self.most
            fits = 0 < cost <= self.enough - loads[taker]
            if fits and (is_small or not is_split):
                self.owners[leaf] = taker
                loads[taker] += cost
                loads[giver] -= cost
                gave = True
            elif cost > 0 and is_split:
                del self.owners[leaf]
                for part in self.parts_of(leaf):
                    self.owners[part] = giver
                    heapq.heappush(heap, self._ranked(part))
        return gave

    def _ranked(self, leaf: CellBlock) -> tuple[float, CellBlock]:
        """Return a leaf with a sort key: the highest cost per query first."""
        return -self.cost.total(leaf) / (1 + self.queries.total(leaf)), leaf


def _united(owners: Owners, cost: PrefixSums, most: float) -> Owners:
    """Merge every four sibling squares with one owner, unless the result costs too much; larger ones last."""
    owners = dict(owners)
    size = 1
    while size <= max((leaf.height for leaf in owners), default=0):
        children: dict[CellBlock, list[CellBlock]] = {}
        for leaf in owners:
            if leaf.height == size:
                children.setdefault(parent_of(leaf), []).append(leaf)
        for parent, four in children.items():
            slots = {owners[child] for child in four}
            if len(four) == 4 and len(slots) == 1 and cost.total(parent) <= most:
                for child in four:
                    del owners[child]
                owners[parent] = slots.pop()
        size *= 2
    return owners


def parent_of(leaf: CellBlock) -> CellBlock:
    """Return the square of which a square is a quarter."""
    size = 2 * leaf.height
    low, left = leaf.low // size * size, leaf.left // size * size
    return CellBlock(low, low + size, left, left + size)


def along_the_curve(leaves: Iterable[CellBlock], side: int) -> list[CellBlock]:
    """Return squares in the order of the Z curve."""
    rank: NDArray[np.int64] = np.argsort(z_order(side))
    return sorted(leaves, key=lambda box: int(rank[box.low * side + box.left]))
