"""Tree adjustment: dear squares are split, cheap ones merged, and all dealt again (SSTD section 5.3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stqsh.routing.adjusters.greedy import best_remedy
from stqsh.routing.cells import z_order
from stqsh.routing.load import Load, leaf_costs, slot_loads
from stqsh.routing.partitioning import (
    CellBlock,
    PrefixSums,
    karmarkar_karp,
    painted,
    slots_of_sets,
)
from stqsh.routing.strategies import boxes_of_leaves, table_of_rectangles
from stqsh.routing.table import HASHED, RoutingTable

Leaves = dict[CellBlock, float]
"""The squares of a quadtree that are dealt to slots, with their costs."""

_REMEDIES_A_SLOT = 4
"""The most times that a slot gives leaves away, for each slot."""

_TIE = 1e-9
"""What all cells cost besides, so that leaves without a cost stay where most of their cells are."""

_GROWTH = 2
"""How many times as many leaves there may be afterwards, see `adjust`."""


def adjust(table: RoutingTable, load: Load, limit: float) -> RoutingTable:
    """Split and merge leaves until they can be dealt evenly, and move as few queries as can be: SSTD's FG.

    SSTD stops where a merge would make a leaf that is dearer than all others. Here splits go on, up to a
    bound. A single cell cannot be split: SSTD's splits by texts do not exist. SSTD then deals all leaves
    again. Here leaves stay where most of their cost is, and the dearest slots give some away. Only where that
    does not suffice all are dealt again.
    """
    hashed = table.owners == HASHED
    sums = PrefixSums.of(np.where(hashed, 0.0, load.cost))
    boxes = zip(boxes_of_leaves(table), table.slot.tolist(), strict=True)
    leaves = {box: sums.total(box) for box, owner in boxes if owner != HASHED}
    enough = (limit * load.cost.sum() - load.cost[hashed].sum()) / table.slots
    most = _GROWTH * max(len(leaves), table.slots)
    while not _can_be_dealt(leaves, table.slots, enough) and len(leaves) + 3 <= most and _split(leaves, sums):
        _merge(leaves)
    largest = limit * float(load.cost.sum()) / table.slots
    kept = _with_gifts(_where_they_are(table, load, leaves, hashed), load, largest)
    if slot_loads(kept, load.cost).max() <= largest:
        return kept
    return _dealt_anew(table, load, leaves, hashed)


def _where_they_are(
    table: RoutingTable, load: Load, leaves: Leaves, hashed: NDArray[np.bool_]
) -> RoutingTable:
    """Return a table in which each leaf is on the slot that has most of its cost."""
    squares = _along_the_curve(leaves, table.cells.side)
    leaf = painted(squares, table.cells.side)[~hashed].astype(np.int64)
    weights = np.bincount(
        leaf * table.slots + table.owners[~hashed],
        load.cost[~hashed] + _TIE / table.cells.side**2,
        len(squares) * table.slots,
    )
    slot = weights.reshape(len(squares), table.slots).argmax(axis=1)
    return table_of_rectangles(table.strategy, table.cells, table.slots, squares, slot, hashed)


def _with_gifts(table: RoutingTable, load: Load, enough: float) -> RoutingTable:
    """Let dear slots give leaves to cheap ones until none costs more than enough, or it does not help."""
    costs = leaf_costs(table, load.cost)
    for _ in range(_REMEDIES_A_SLOT * table.slots):
        loads = slot_loads(table, load.cost)
        remedy = best_remedy(table.slot, costs, loads)
        if loads.max() <= enough or not remedy.leaves:
            break
        slot = table.slot.copy()
        slot[remedy.leaves] = remedy.slot
        table = table.with_owners(slot)
    return table


def _can_be_dealt(leaves: Leaves, slots: int, enough: float) -> bool:
    """Return whether leaves can be dealt such that no slot costs more than enough."""
    costs = np.array(list(leaves.values()))
    if costs.max(initial=0.0) > enough:
        return False
    return bool(np.bincount(karmarkar_karp(costs, slots), costs, slots).max() <= enough)


def _split(leaves: Leaves, sums: PrefixSums) -> bool:
    """Split the dearest leaf; return False if it is a single cell."""
    dearest = max(leaves, key=lambda leaf: (leaves[leaf], leaf))
    if dearest.area == 1:
        return False
    del leaves[dearest]
    leaves.update({quarter: sums.total(quarter) for quarter in dearest.quarters()})
    return True


def _merge(leaves: Leaves) -> None:
    """Merge the four leaves that are cheapest together, unless they cost more than the dearest leaf."""
    parents: dict[CellBlock, list[CellBlock]] = {}
    for leaf in leaves:
        parents.setdefault(_parent(leaf), []).append(leaf)
    costs = {
        parent: sum(leaves[child] for child in children)
        for parent, children in parents.items()
        if len(children) == 4
    }
    if not costs:
        return
    cheapest = min(costs, key=lambda parent: (costs[parent], parent))
    if costs[cheapest] < max(leaves.values()):
        for child in parents[cheapest]:
            del leaves[child]
        leaves[cheapest] = costs[cheapest]


def _parent(leaf: CellBlock) -> CellBlock:
    size = 2 * leaf.height
    low, left = leaf.low // size * size, leaf.left // size * size
    return CellBlock(low, low + size, left, left + size)


def _dealt_anew(table: RoutingTable, load: Load, leaves: Leaves, hashed: NDArray[np.bool_]) -> RoutingTable:
    """Deal leaves to sets of equal cost, and give each set to the slot that has most of its queries."""
    squares = _along_the_curve(leaves, table.cells.side)
    sets = karmarkar_karp(np.array([leaves[square] for square in squares]), table.slots)
    dealt = table_of_rectangles(table.strategy, table.cells, table.slots, squares, sets, hashed)
    placed = ~hashed
    assigned = slots_of_sets(
        dealt.owners[placed].astype(np.int64), table.owners[placed], load.queries[placed], table.slots
    )
    return dealt.with_owners(np.where(dealt.slot == HASHED, HASHED, assigned[dealt.slot]))


def _along_the_curve(leaves: Leaves, side: int) -> list[CellBlock]:
    rank = np.argsort(z_order(side))
    return sorted(leaves, key=lambda box: rank[box.low * side + box.left])
