"""Split and merge: cut the most expensive rectangle, and merge two others (Tornado sections 4.2, 4.3)."""

from __future__ import annotations

from collections.abc import Iterator

from stqsh.routing.adjusters.shift import Change, Tiling, repeated
from stqsh.routing.adjusters.tiles import Owners, tiles_in_line
from stqsh.routing.load import Load
from stqsh.routing.partitioning import CellBlock
from stqsh.routing.table import RoutingTable


def adjust(table: RoutingTable, load: Load, limit: float, transfer: float = 0.0) -> RoutingTable:
    """Split a rectangle of the most expensive slot and merge two others until it is within the limit.

    It also stops when that does not pay off, see `shift`. Tornado keeps a spare slot for the part that is
    split off. Here that part goes to the slot that a merge frees at the same time.
    """
    return repeated(_split_and_merge, table, load, limit, transfer)


def _split_and_merge(tiling: Tiling) -> Change | None:
    """Return the best cut of the most expensive tile, with the cheapest other merge if no slot is free."""
    dearest = int(tiling.loads.argmax())
    tile = max(tiling.of_slot(dearest), key=tiling.cost.total, default=None)
    cut = None if tile is None else tiling.cost.best_cut(tile)
    if tile is None or cut is None:
        return None
    less, more = sorted((cut.first, cut.second), key=tiling.queries.total)
    taken = set(tiling.owners.values())
    free = next((slot for slot in range(len(tiling.loads)) if slot not in taken), None)
    if free is not None:
        return Change((tile,), {more: dearest, less: free})
    return tiling.best(_with_merges(tiling, dearest, tile, more, less))


def _with_merges(
    tiling: Tiling, dearest: int, tile: CellBlock, kept: CellBlock, given: CellBlock
) -> Iterator[Change]:
    """Yield the changes that cut a tile in two and move one part to a slot that a merge of others frees.

    The slot with fewer queries is freed, because these have to move.
    """
    for one, other, around in tiles_in_line(sorted(tiling.owners)):
        freed, grown = sorted((one, other), key=tiling.queries.total)
        owners = tiling.owners[freed], tiling.owners[grown]
        if dearest not in owners:
            come: Owners = {around: owners[1], kept: dearest, given: owners[0]}
            yield Change((tile, one, other), come)
