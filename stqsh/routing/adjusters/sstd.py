"""The adjusters of SSTD: deal whole leaves again (section 5.2), or first split and merge them (5.3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stqsh.routing.adjusters.gifts import along_the_curve, give, parent_of
from stqsh.routing.load import Load, leaf_costs, slot_loads
from stqsh.routing.partitioning import (
    CellBlock,
    Integers,
    PrefixSums,
    karmarkar_karp,
    least_transfer,
    slots_of_sets,
)
from stqsh.routing.strategies import boxes_of_leaves, relaid
from stqsh.routing.table import HASHED, RoutingTable

Leaves = dict[CellBlock, float]
"""The squares of a quadtree that are dealt to slots, with their costs."""

_GROWTH = 2
"""The maximum growth factor of the number of leaves, see `adjust`."""


def adjust_two_slots(table: RoutingTable, load: Load, _: float) -> RoutingTable:
    """Deal the leaves of the most and the least loaded slot again between these two: SSTD's PM."""
    loads = slot_loads(table, load.cost)
    pair = np.array([loads.argmax(), loads.argmin()])
    return _exchanged(table, load, np.flatnonzero(np.isin(table.slot, pair)), pair)


def adjust_all_slots(table: RoutingTable, load: Load, _: float) -> RoutingTable:
    """Deal all leaves again, moving as few queries as possible: SSTD's FM."""
    return _exchanged(table, load, np.flatnonzero(table.slot >= 0), np.arange(table.slots))


def _exchanged(table: RoutingTable, load: Load, leaves: Integers, among: Integers) -> RoutingTable:
    """Deal leaves, int64 (n,), among their current slots, int64 (m,)."""
    places = np.zeros(table.slots, np.int16)
    places[among] = np.arange(len(among))
    sets = karmarkar_karp(leaf_costs(table, load.cost)[leaves], len(among))
    weights = leaf_costs(table, load.queries)[leaves]
    slot = table.slot.copy()
    slot[leaves] = among[least_transfer(sets, places[table.slot[leaves]], weights, len(among))]
    return table.with_owners(slot)


def adjust(table: RoutingTable, load: Load, limit: float) -> RoutingTable:
    """Split and merge leaves until they can be dealt evenly, and move as few queries as possible: SSTD's FG.

    SSTD deals all leaves again. Here the most expensive slots give some away first, see `gifts`. Only if that
    does not suffice, all are dealt again, unless they are rectangles instead of squares. SSTD stops if a
    merge would make a leaf more expensive than all others. Here splits continue, up to a bound. A single cell
    cannot be split, and no further leaves are split by texts: existing ones remain, with the same lists.
    """
    given = give(table, load, limit)
    is_enough = slot_loads(given, load.cost).max() <= limit * float(load.cost.sum()) / table.slots
    if is_enough or table.strategy == "agrid":
        return given
    sums = PrefixSums.of(np.where(table.owners < 0, 0.0, load.cost))
    boxes = zip(boxes_of_leaves(table), table.slot[: table.laid].tolist(), strict=True)
    leaves = {box: sums.total(box) for box, owner in boxes if owner >= 0}
    children = leaf_costs(table, load.cost)[table.laid :]
    enough = (limit * load.cost.sum() - load.cost[table.owners == HASHED].sum()) / table.slots
    most = _GROWTH * max(len(leaves), table.slots)
    while not _can_be_dealt([*leaves.values(), *children], table.slots, enough):
        if len(leaves) + 3 > most or not _split(leaves, sums):
            break
        _merge(leaves)
    again = _dealt_again(table, load, leaves)
    return min(given, again, key=lambda found: float(slot_loads(found, load.cost).max()))


def _can_be_dealt(leaves: Sequence[float], slots: int, enough: float) -> bool:
    """Return whether leaves of given costs can be dealt so that no slot costs more than `enough`."""
    costs = np.array(leaves)
    if costs.max(initial=0.0) > enough:
        return False
    return bool(np.bincount(karmarkar_karp(costs, slots), costs, slots).max() <= enough)


def _split(leaves: Leaves, sums: PrefixSums) -> bool:
    """Split the most expensive leaf; return False if it is a single cell, or there is none."""
    if not leaves:
        return False
    dearest = max(leaves, key=lambda leaf: (leaves[leaf], leaf))
    if dearest.area == 1:
        return False
    del leaves[dearest]
    leaves.update({quarter: sums.total(quarter) for quarter in dearest.quarters()})
    return True


def _merge(leaves: Leaves) -> None:
    """Merge the four siblings with the lowest total cost, unless it exceeds that of the costliest leaf."""
    parents: dict[CellBlock, list[CellBlock]] = {}
    for leaf in leaves:
        parents.setdefault(parent_of(leaf), []).append(leaf)
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


def _dealt_again(table: RoutingTable, load: Load, leaves: Leaves) -> RoutingTable:
    """Deal leaves to sets of equal cost, and assign each set to the slot that has most of its queries.

    Children of leaves that are split by texts are also dealt, unless they are dealt by hash.
    """
    squares, laid = along_the_curve(leaves, table.cells.side), table.laid
    costs, queries = (leaf_costs(table, values)[laid:] for values in (load.cost, load.queries))
    sets = karmarkar_karp(np.array([*(leaves[square] for square in squares), *costs]), table.slots)
    dealt = relaid(table, squares, sets[: len(squares)])
    children, placed = sets[len(squares) :], table.owners >= 0
    assigned = slots_of_sets(
        np.append(dealt.owners[placed].astype(np.int64), children),
        np.append(table.owners[placed], table.slot[laid:]),
        np.append(load.queries[placed], queries),
        table.slots,
    )
    slot = dealt.slot.copy()
    slot[dealt.laid :] = np.where(table.slot[laid:] == HASHED, HASHED, children)
    slot[slot >= 0] = assigned[slot[slot >= 0]]
    return dealt.with_owners(slot)
