"""Split and merge: the dearest rectangle is cut, and two others become one (Tornado sections 4.2, 4.3)."""

from __future__ import annotations

from itertools import combinations

from stqsh.routing.adjusters.shift import Tiling, repeated, united
from stqsh.routing.load import Load
from stqsh.routing.partitioning import CellBlock
from stqsh.routing.table import RoutingTable


def adjust(table: RoutingTable, load: Load, limit: float) -> RoutingTable:
    """Split the dearest rectangle and merge two others until it is within the limit, or that does not help.

    Tornado keeps a spare slot for the part that is split off. Here it goes to the slot that a merge frees at
    the same time.
    """
    return repeated(_split_and_merge, table, load, limit)


def _split_and_merge(tiling: Tiling) -> tuple[float, dict[int, CellBlock]] | None:
    """Return the best cut of the dearest rectangle, with the cheapest merge of others if no slot is free."""
    split, _ = tiling.dearest()
    cut = tiling.cost.best_cut(tiling.rectangles[split])
    if cut is None:
        return None
    by_queries = sorted((cut.first, cut.second), key=tiling.queries.total)
    free = next((slot for slot in range(tiling.slots) if slot not in tiling.rectangles), None)
    if free is not None:
        return cut.cost, {split: by_queries[1], free: by_queries[0]}
    merge = _cheapest_merge(tiling, split)
    if merge is None:
        return None
    cost, freed, grown, around = merge
    return max(cut.cost, cost), {split: by_queries[1], freed: by_queries[0], grown: around}


def _cheapest_merge(tiling: Tiling, without: int) -> tuple[float, int, int, CellBlock] | None:
    """Return the cost of the cheapest merge, the slot that it frees, the other and its new rectangle.

    The slot with fewer queries is freed: they have to move.
    """
    costs = tiling.costs()
    slots = sorted(slot for slot in costs if slot != without)
    best: tuple[float, int, int, CellBlock] | None = None
    for one, other in combinations(slots, 2):
        cost = costs[one] + costs[other]
        if best is not None and cost >= best[0]:
            continue
        around = united(tiling.rectangles[one], tiling.rectangles[other])
        if around is not None:
            freed, grown = sorted(
                (one, other), key=lambda slot: (tiling.queries.total(tiling.rectangles[slot]), slot)
            )
            best = cost, freed, grown, around
    return best
