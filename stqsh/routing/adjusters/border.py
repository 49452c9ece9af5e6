"""Border: move cells at the border of the most expensive slot to adjacent slots (STAR section 6)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stqsh.arrays import Floats
from stqsh.routing.cells import maximal_squares, z_order
from stqsh.routing.load import Load, slot_loads
from stqsh.routing.strategies import LEAVES_A_SLOT
from stqsh.routing.table import HASHED, RoutingTable

_NOWHERE = -2
"""The owner of the frame of cells around the map."""

_NEIGHBOURS = ((0, 1), (2, 1), (1, 0), (1, 2))
"""Offsets of a cell's neighbours in a map with one more cell on each side."""


def adjust(table: RoutingTable, load: Load, limit: float) -> RoutingTable:
    """Move border cells of the most expensive slot, ring by ring, until it is within the limit or stuck."""
    side = table.cells.side
    owners = np.pad(table.owners, 1, constant_values=_NOWHERE)
    loads = slot_loads(table, load.cost)
    enough = limit * float(loads.mean())
    # STAR first moves the cells with most load for their size. Here the size of a cell is the number of its
    # queries, which have to move.
    dense_first = np.argsort(-(load.cost / (1 + load.queries)), axis=None, kind="stable")
    for _ in range(side * table.slots):
        if loads.max() <= enough or not _give(owners, loads, load.cost, dense_first, enough):
            break
    return _with_owners(table, owners[1:-1, 1:-1], load.cost)


def _give(
    owners: NDArray[np.int16], loads: Floats, cost: Floats, dense_first: NDArray[np.int64], enough: float
) -> bool:
    """Move border cells of the most expensive slot until it costs at most `enough`; return whether any moved.

    A cell moves to the cheapest adjacent slot, unless that slot would then cost as much as the giver did.

    Args:
        owners: int16 (side + 2, side + 2), the owner of each cell, with a frame; changes.
        loads: float64 (slots,), the load of each slot; changes.
        cost: float64 (side, side), the cost of each cell.
        dense_first: int64 (cells,), the cells in the order in which to move them.
        enough: the load that suffices.
    """
    side, giver, moved = len(cost), int(loads.argmax()), False
    # One ring: the border is computed once, so cells that the moves expose wait for the next call.
    own = owners[1:-1, 1:-1] == giver
    at_border = np.zeros_like(own)
    for row, column in _NEIGHBOURS:
        beyond = owners[row : row + side, column : column + side]
        at_border |= own & (beyond != giver) & (beyond >= 0)
    for cell in dense_first[at_border.ravel()[dense_first]].tolist():
        if loads[giver] <= enough:
            break
        at, across = divmod(cell, side)
        near = {int(owners[at + row, across + column]) for row, column in _NEIGHBOURS}
        taker = min(near - {giver, HASHED, _NOWHERE}, key=lambda slot: (loads[slot], slot), default=giver)
        if taker != giver and loads[taker] + cost[at, across] < loads[giver]:
            owners[at + 1, across + 1] = taker
            loads[taker] += cost[at, across]
            loads[giver] -= cost[at, across]
            moved = True
    return moved


def _with_owners(table: RoutingTable, owners: NDArray[np.int16], cost: Floats) -> RoutingTable:
    """Return a table with other owners of cells, int16 (side, side).

    For a quadtree, new leaves are computed: the largest squares with one owner that cost no more than leaves
    of SSTD's trees.
    """
    if len(table.slot) == owners.size:
        slot = np.empty_like(table.slot)
        slot[table.leaf] = owners
        return table.with_owners(slot)
    along = z_order(table.cells.side)
    owner, most = owners.ravel()[along], float(cost.sum()) / (LEAVES_A_SLOT * table.slots)
    squares = maximal_squares(owner.astype(np.int64), cost.ravel()[along], most)
    leaf, slot = np.empty(len(along), np.int32), np.empty(int(squares[-1]) + 1, np.int16)
    leaf[along] = squares
    slot[squares] = owner
    return RoutingTable(table.strategy, table.cells, leaf.reshape(owners.shape), slot, table.slots)
