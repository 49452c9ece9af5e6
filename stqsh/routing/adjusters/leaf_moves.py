"""Leaf moves: whole leaves are dealt again, among two slots or among all of them (SSTD section 5.2)."""

from __future__ import annotations

import numpy as np

from stqsh.routing.load import Load, leaf_costs, slot_loads
from stqsh.routing.partitioning import Integers, karmarkar_karp, least_transfer
from stqsh.routing.table import HASHED, RoutingTable


def adjust_two_slots(table: RoutingTable, load: Load, _: float) -> RoutingTable:
    """Deal the leaves of the most and the least loaded slot again, between the two: SSTD's PM."""
    loads = slot_loads(table, load.cost)
    pair = np.array([loads.argmax(), loads.argmin()])
    return _exchanged(table, load, np.flatnonzero(np.isin(table.slot, pair)), pair)


def adjust_all_slots(table: RoutingTable, load: Load, _: float) -> RoutingTable:
    """Deal all leaves again, with as few queries as possible changing slots: SSTD's FM."""
    return _exchanged(table, load, np.flatnonzero(table.slot != HASHED), np.arange(table.slots))


def _exchanged(table: RoutingTable, load: Load, leaves: Integers, among: Integers) -> RoutingTable:
    """Deal leaves, int64 (n,), among the slots that have them now, int64 (m,)."""
    places = np.zeros(table.slots, np.int16)
    places[among] = np.arange(len(among))
    sets = karmarkar_karp(leaf_costs(table, load.cost)[leaves], len(among))
    weights = leaf_costs(table, load.queries)[leaves]
    slot = table.slot.copy()
    slot[leaves] = among[least_transfer(sets, places[table.slot[leaves]], weights, len(among))]
    return table.with_owners(slot)
