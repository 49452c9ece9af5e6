"""Greedy: move leaves of one slot to the slots with the least load (CheetahGIS section V-D, algorithm 1).

CheetahGIS considers only loads, and would scatter cells until each query is on many slots. Here that is
bounded.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stqsh.arrays import Floats
from stqsh.routing.cells import z_order
from stqsh.routing.load import Load, leaf_costs, slot_loads
from stqsh.routing.partitioning import Integers
from stqsh.routing.strategies import STRATEGIES
from stqsh.routing.table import TEXT, RoutingTable
from stqsh.routing.text_leaves import CHILDREN

_BLOCKS = 32
"""The number of blocks per side, for `query_copies`."""

GROWTH = 2.0
"""The maximum number of copies of queries, as a multiple of that in a new table."""

_REMEDIES_A_SLOT = 4
"""The maximum number of remedies of an adjustment, per slot: CheetahGIS applies one at a time."""


class Remedy(NamedTuple):
    """Leaves to move.

    Attributes:
        leaves: the leaves, the most expensive first.
        slot: the target slot of each leaf.
        loads: float64 (slots,), the loads of slots afterwards.
    """

    leaves: list[int]
    slot: list[int]
    loads: Floats


def adjust(table: RoutingTable, load: Load, limit: float, growth: float = GROWTH) -> RoutingTable:
    """Apply CheetahGIS's remedy until the largest load is within the limit or nothing helps.

    If a remedy would scatter leaves too much, the most expensive slot gives runs of neighbouring leaves
    instead. If that does not help either, only the first moves of the remedy are made, of the most expensive
    leaves. If even the first is too much, the slot gives leaves only to slots that own other cells in their
    blocks.

    Args:
        table: a table with leaves of any shape.
        load: the load.
        limit: the ratio of the largest load to the mean that suffices.
        growth: the maximum number of copies of queries, as a multiple of that in a new table; infinite for
            CheetahGIS's own algorithm.
    """
    costs, loads = leaf_costs(table, load.cost), slot_loads(table, load.cost)
    most, enough = _most_copies(table, load, growth), limit * float(loads.mean())
    for _ in range(_REMEDIES_A_SLOT * table.slots):
        if loads.max() <= enough:
            break
        moved = _next_table(table, costs, loads, load, most)
        if moved is None:
            break
        table, loads = moved, slot_loads(moved, load.cost)
    return table


def _next_table(
    table: RoutingTable, costs: Floats, loads: Floats, load: Load, most: float
) -> RoutingTable | None:
    """Return the table after one remedy that keeps copies of queries within `most`; None if none does."""
    best = best_remedy(table.slot, costs, loads)
    if best.leaves and query_copies(moved := _moved(table, best, len(best.leaves)), load) <= most:
        return moved
    for remedy in (_remedy_in_runs(table, costs, loads), best, _remedy_in_blocks(table, costs, loads)):
        carried_out = _carried_out(table, remedy, load, most)
        if carried_out is not None:
            return carried_out
    return None


def best_remedy(slot: NDArray[np.int16], costs: Floats, loads: Floats) -> Remedy:
    """Return the moves from one slot that lower the variance of loads most.

    Args:
        slot: int16 (n,), the slot of each leaf; leaves without a slot stay.
        costs: float64 (n,), the cost of each leaf.
        loads: float64 (slots,), the load of each slot.
    """
    dear_first = np.argsort(-costs, kind="stable")
    dear_first = dear_first[(costs[dear_first] > 0) & (slot[dear_first] >= 0)]
    remedies = [
        _remedy_from(giver, dear_first[slot[dear_first] == giver], costs, loads)
        for giver in np.argsort(-loads, kind="stable").tolist()
    ]
    return min(remedies, key=lambda remedy: float(remedy.loads.var()))


def _remedy_from(giver: int, leaves: Integers, costs: Floats, loads: Floats) -> Remedy:
    """Give the leaves of a slot, the most expensive first, to the slot with the least load if that helps.

    A move lowers the variance if the leaf costs less than the gap between the two slots. The gap never
    grows, so leaves skipped once need no second check.
    """
    remedy, given, at = Remedy([], [], loads.copy()), float(loads[giver]), 0
    negated = (-costs[leaves]).tolist()
    takers = [(load, slot) for slot, load in enumerate(loads.tolist()) if slot != giver]
    heapq.heapify(takers)
    while takers:
        least, taker = takers[0]
        at = bisect_right(negated, least - given, lo=at)
        if at == len(negated):
            break
        cost = -negated[at]
        heapq.heapreplace(takers, (least + cost, taker))
        given -= cost
        remedy.leaves.append(int(leaves[at]))
        remedy.slot.append(taker)
        at += 1
    remedy.loads[giver] = given
    for load, slot in takers:
        remedy.loads[slot] = load
    return remedy


def _remedy_in_runs(table: RoutingTable, costs: Floats, loads: Floats) -> Remedy:
    """Give runs of neighbouring leaves of the most expensive slot to the slots with the least load.

    Along the Z curve, the slot keeps leaves until it has the mean load. Each taker in turn gets the next ones
    until it has the mean load, too, so a query touches few of them.
    """
    giver, mean = int(loads.argmax()), float(loads.mean())
    remedy, left = Remedy([], [], loads.copy()), loads.tolist()
    takers = iter(np.argsort(loads, kind="stable").tolist())
    keeper, had = giver, 0.0
    for leaf in _along_curve(table, np.flatnonzero((table.slot == giver) & (costs > 0))).tolist():
        cost = float(costs[leaf])
        if had + cost / 2 > mean:
            keeper = next(takers, giver)
            had = left[keeper] if keeper != giver else mean
            if had + cost / 2 > mean:
                break
        had += cost
        if keeper != giver:
            left[giver] -= cost
            left[keeper] += cost
            remedy.leaves.append(leaf)
            remedy.slot.append(keeper)
    remedy.loads[:] = left
    return remedy


def _along_curve(table: RoutingTable, leaves: Integers) -> Integers:
    """Return leaves in the order of their first cells along the Z curve."""
    on_curve, first = np.unique(table.leaf.ravel()[z_order(table.cells.side)], return_index=True)
    place = np.full(len(table.slot), len(table.leaf.ravel()))
    place[on_curve] = first
    return leaves[np.argsort(place[leaves], kind="stable")]


def _remedy_in_blocks(table: RoutingTable, costs: Floats, loads: Floats) -> Remedy:
    """Give leaves of the most expensive slot to slots with cells in the blocks of the leaves' first cells."""
    giver = int(loads.argmax())
    blocks, held = slots_of_blocks(table)
    held[:, giver] = False
    takers = [np.flatnonzero(slots).tolist() for slots in held]
    near = np.zeros(len(table.slot), np.int64)
    leaves, first_cells = np.unique(table.leaf, return_index=True)
    near[leaves] = blocks.ravel()[first_cells]
    near[table.laid :] = np.repeat(near[table.split_leaves], CHILDREN)
    has_takers: NDArray[np.bool_] = held.sum(axis=1) > 0
    mine = np.flatnonzero((table.slot == giver) & (costs > 0) & has_takers[near])
    remedy, left = Remedy([], [], loads.copy()), loads.tolist()
    for leaf in mine[np.argsort(-costs[mine], kind="stable")].tolist():
        taker, cost = min(takers[near[leaf]], key=left.__getitem__), float(costs[leaf])
        if cost < left[giver] - left[taker]:
            left[giver] -= cost
            left[taker] += cost
            remedy.leaves.append(leaf)
            remedy.slot.append(taker)
    remedy.loads[:] = left
    return remedy


def query_copies(table: RoutingTable, load: Load) -> float:
    """Estimate the number of slots per query: the mean number of slots with cells in a block of 3 % side.

    Blocks are weighted by the queries that touch their cells, or equally if there are none.
    """
    blocks, held = slots_of_blocks(table)
    queries = load.queries if load.queries.any() else np.ones_like(load.queries)
    weights = np.bincount(blocks.ravel(), queries.ravel())
    return float((held.sum(axis=1) * weights).sum() / weights.sum())


def slots_of_blocks(table: RoutingTable) -> tuple[Integers, NDArray[np.bool_]]:
    """Return the block of each cell, int64 (side, side), and a mask of the slots with cells: (blocks, slots).

    Cells dealt by hash count for all slots, and cells of a leaf split by texts for the slots of its children.
    """
    across = min(table.cells.side, _BLOCKS)
    block = np.arange(table.cells.side) * across // table.cells.side
    blocks = block[:, None] * across + block
    held = np.zeros((across * across, table.slots + 1), np.bool_)
    owners = table.owners
    placed = owners > TEXT
    held[blocks[placed], owners[placed]] = True  # HASHED, -1, is the last column
    split = TEXT - owners[~placed].astype(np.int64)
    children = table.slot[table.laid :].reshape(-1, CHILDREN)
    held[blocks[~placed][:, None], children[split]] = True
    return blocks, held[:, :-1] | held[:, -1:]


def _most_copies(table: RoutingTable, load: Load, growth: float) -> float:
    """Return the maximum copies per query: `growth` times those in a new table, or the current number."""
    new = STRATEGIES[table.strategy](load, table.slots)
    return max(growth * query_copies(new, load), query_copies(table, load))


def _carried_out(table: RoutingTable, remedy: Remedy, load: Load, most: float) -> RoutingTable | None:
    """Return a table after the first moves of a remedy that keep copies within a limit; None if none do.

    Moves may also lower the number of copies, so the binary search may find too few moves, but never too
    many.
    """
    moved = _moved(table, remedy, len(remedy.leaves))
    if query_copies(moved, load) <= most:
        return moved if remedy.leaves else None
    few, many = 0, len(remedy.leaves)
    while many - few > 1:
        middle = (few + many) // 2
        if query_copies(_moved(table, remedy, middle), load) <= most:
            few = middle
        else:
            many = middle
    return _moved(table, remedy, few) if few else None


def _moved(table: RoutingTable, remedy: Remedy, moves: int) -> RoutingTable:
    """Return a table after the first moves of a remedy."""
    slot = table.slot.copy()
    slot[remedy.leaves[:moves]] = remedy.slot[:moves]
    return table.with_owners(slot)
