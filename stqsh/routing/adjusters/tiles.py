"""Tiles: leaves that are rectangles, as in Tornado's A-Grid, and their slots.

REPARTITION makes one tile per slot. After gifts a slot may have several.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from stqsh.routing.partitioning import CellBlock
from stqsh.routing.strategies import boxes_of_leaves, table_of_rectangles
from stqsh.routing.table import HASHED, RoutingTable

Owners = dict[CellBlock, int]
"""The rectangles that are dealt to slots, with their slots."""


def owners_of(table: RoutingTable) -> Owners:
    """Return the leaves of a table that have a slot; all must be rectangles."""
    slots = table.slot[: table.laid].tolist()
    return {box: slot for box, slot in zip(boxes_of_leaves(table), slots, strict=True) if slot >= 0}


def with_tiles(table: RoutingTable, owners: Owners) -> RoutingTable:
    """Return a table with other tiles; cells that are dealt by hash are unchanged."""
    tiles, hashed = sorted(owners), table.owners == HASHED
    slots = np.array([owners[tile] for tile in tiles])
    return table_of_rectangles(table.strategy, table.cells, table.slots, tiles, slots, hashed)


def united(one: CellBlock, other: CellBlock) -> CellBlock | None:
    """Return the union of two rectangles that share an entire side, else None."""
    around = CellBlock(
        min(one.low, other.low),
        max(one.high, other.high),
        min(one.left, other.left),
        max(one.right, other.right),
    )
    in_line = one[:2] == other[:2] or one[2:] == other[2:]
    return around if in_line and around.area == one.area + other.area else None


def tiles_in_line(tiles: Iterable[CellBlock]) -> Iterator[tuple[CellBlock, CellBlock, CellBlock]]:
    """Yield pairs of tiles that share an entire side, each once, and their union."""
    at = {(tile.low, tile.left): tile for tile in tiles}
    for tile in at.values():
        for corner in ((tile.high, tile.left), (tile.low, tile.right)):
            other = at.get(corner)
            if other is not None and (around := united(tile, other)) is not None:
                yield tile, other, around


def united_where_one_slot_has_both(owners: Owners) -> Owners:
    """Merge pairs of tiles of one slot that share an entire side, until there are none."""
    owners, count = dict(owners), 0
    while count != len(owners):
        count = len(owners)
        for one, other, around in list(tiles_in_line(sorted(owners))):
            if one in owners and other in owners and owners[one] == owners[other]:
                owners[around] = owners.pop(one)
                del owners[other]
    return owners
