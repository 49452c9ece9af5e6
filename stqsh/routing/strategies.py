"""Strategies: group the cells of a stream into leaves and deal these to slots, by the load of each cell.

A spatial split cannot divide a cell that alone is too expensive for a slot: all strategies deal its records
by hash. A qttree may split it by texts.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from stqsh.arrays import Floats
from stqsh.routing.cells import Cells, z_order
from stqsh.routing.load import Load, balance_of
from stqsh.routing.partitioning import (
    CellBlock,
    PrefixSums,
    cut_in_runs,
    karmarkar_karp,
    painted,
)
from stqsh.routing.table import HASHED, TEXT, RoutingTable
from stqsh.routing.text_leaves import CHILDREN, TextLeaves
from stqsh.routing.text_splits import TextSample, TextSplit, text_leaves_of

Strategy = Callable[[Load, int], RoutingTable]
"""Computes a routing table from the load of cells and the number of slots."""

LIMIT = 1.25
"""The maximum cost of a cell, or of a slot of a quadtree, as a multiple of a slot's fair share."""

_EMPTY_SHARE = 0.1
"""The total weight of all empty cells of a grid, as a share of the cost of the others."""

LEAVES_A_SLOT = 8
"""Leaves of a qttree per slot: SSTD's experiments have 64 for 8 workers."""

_MOST_LEAVES_A_SLOT = 64

_CHILD_SHARE = 1.0
"""The maximum cost of a child of a square that is split by texts, as a share of a slot's fair share."""

_UNEVEN = range(-4, 5)
"""The deviations from half of the slots that are tried for the first part of a cut, in slots."""


def object_table(load: Load, slots: int) -> RoutingTable:
    """Deal all records by the hashes of their keys."""
    leaf = np.zeros((load.cells.side, load.cells.side), np.int32)
    return RoutingTable("object", load.cells, leaf, np.array([HASHED], np.int16), slots)


def grid_table(load: Load, slots: int) -> RoutingTable:
    """Deal single cells along the Z curve in runs of about equal cost (cells: CheetahGIS section V-B)."""
    hot = hot_cells(load.cost, slots)
    along = z_order(load.cells.side)
    cost = _cost_to_deal(load.cost, hot).ravel()[along]
    empty = cost == 0
    cost[empty] = _EMPTY_SHARE * cost.sum() / max(np.count_nonzero(empty), 1)
    slot = np.empty(load.cells.side**2, np.int16)
    slot[along] = cut_in_runs(cost, slots)
    slot[hot.ravel()] = HASHED
    leaf = np.arange(len(slot), dtype=np.int32).reshape(hot.shape)
    return RoutingTable("grid", load.cells, leaf, slot, slots)


def agrid_table(load: Load, slots: int) -> RoutingTable:
    """Cut the plane into a rectangle for each slot, of about equal cost: Tornado's A-Grid (section 4.1).

    Tornado cuts the most expensive rectangle in two until there are enough. The balance then depends on the
    number of slots. Cutting rectangles in proportion to their numbers of slots may be better or worse, so the
    better of the two results is used.
    """
    hot = hot_cells(load.cost, slots)
    sums, side = PrefixSums.of(_cost_to_deal(load.cost, hot)), load.cells.side
    whole = CellBlock(0, side, 0, side)
    tilings = [sorted(_dearest_first(sums, whole, slots)), sorted(_in_proportion(sums, whole, slots))]
    rectangles = min(tilings, key=lambda tiling: max(map(sums.total, tiling)))
    return table_of_rectangles("agrid", load.cells, slots, rectangles, np.arange(len(rectangles)), hot)


def _dearest_first(sums: PrefixSums, whole: CellBlock, count: int) -> list[CellBlock]:
    """Cut the most expensive rectangle in two until there are `count`, or only single cells are left."""
    final: list[CellBlock] = []
    heap = [(0.0, 0, whole)]
    while heap and len(heap) + len(final) < count:
        _, number, dearest = heapq.heappop(heap)
        cut = sums.best_cut(dearest)
        if cut is None:
            final.append(dearest)
            continue
        heapq.heappush(heap, (-sums.total(cut.first), 2 * number + 1, cut.first))
        heapq.heappush(heap, (-sums.total(cut.second), 2 * number + 2, cut.second))
    return final + [rectangle for _, _, rectangle in heap]


def _in_proportion(sums: PrefixSums, within: CellBlock, count: int) -> list[CellBlock]:
    """Cut a rectangle into `count` recursively; the cost of each part is in proportion to its count.

    The result is shorter if the rectangle has fewer cells.
    """
    firsts = {min(max(count // 2 + more, 1), count - 1) for more in _UNEVEN} if count > 1 else set()
    cuts = [(cut, first) for first in sorted(firsts) if (cut := sums.best_cut(within, first / count))]
    if not cuts:
        return [within]
    cut, first = min(cuts, key=lambda one: one[0].cost)
    return [*_in_proportion(sums, cut.first, first), *_in_proportion(sums, cut.second, count - first)]


def quadtree_table(load: Load, slots: int) -> RoutingTable:
    """Split the costliest square and deal squares in depth-first runs until slots balance (STAR sec. 6)."""
    hot = hot_cells(load.cost, slots)
    sums, wanted = PrefixSums.of(_cost_to_deal(load.cost, hot)), slots
    dealt_by_hash = load.cost[hot].sum() / slots
    while True:
        squares = _split_squares(sums, hot, wanted)
        weights = np.array([sums.total(square) for square in squares])
        runs = cut_in_runs(weights, slots)
        loads: Floats = np.bincount(runs, weights, slots) + dealt_by_hash
        wanted += wanted // 2 + 3
        if balance_of(loads).ratio <= LIMIT or wanted > min(_MOST_LEAVES_A_SLOT * slots, load.cells.side**2):
            return table_of_rectangles("quadtree", load.cells, slots, squares, runs, hot)


def qttree_table(load: Load, slots: int, leaves: int = LEAVES_A_SLOT) -> RoutingTable:
    """Split the most expensive square repeatedly, and deal squares to sets of equal cost (SSTD section 4.1).

    Squares are split until there are `leaves` per slot, SSTD's theta.

    If the load has texts, squares are split by these where that costs less, and so are single cells that
    would be dealt by hash. Unlike in SSTD children are not split again, so none of them may be too expensive.
    """
    hot = hot_cells(load.cost, slots)
    splits = {} if load.texts is None else _splits_of_hot_cells(load, load.texts, hot, slots)
    hashed = hot.copy()
    for cell in splits:
        hashed[cell.low, cell.left] = False
    sums = PrefixSums.of(_cost_to_deal(load.cost, hashed))
    most = _CHILD_SHARE * float(load.cost.sum()) / slots

    def is_by_texts(square: CellBlock) -> bool:
        found = None if load.texts is None else load.texts.split(square)
        if found is None or float(found.cost.max()) * sums.total(square) > most:
            return False
        splits[square] = found
        return True

    squares = _split_squares(sums, hot, leaves * slots, is_by_texts)
    plain, split = ([one for one in squares if (one in splits) == by_texts] for by_texts in (False, True))
    costs = [np.array([sums.total(one) for one in plain])]
    costs += [sums.total(one) * splits[one].cost for one in split]
    sets = karmarkar_karp(np.concatenate(costs), slots)
    owners = np.append(sets[: len(plain)], TEXT - np.arange(len(split)))
    table = table_of_rectangles("qttree", load.cells, slots, plain + split, owners, hashed)
    return _with_children(table, text_leaves_of([splits[one] for one in split]), sets[len(plain) :])


def _splits_of_hot_cells(
    load: Load, texts: TextSample, hot: NDArray[np.bool_], slots: int
) -> dict[CellBlock, TextSplit]:
    """Split hot cells by texts, if each child costs no more than a slot may."""
    found: dict[CellBlock, TextSplit] = {}
    most = LIMIT * float(load.cost.sum()) / slots
    for row, column in np.argwhere(hot).tolist():
        cell = CellBlock(row, row + 1, column, column + 1)
        split = texts.split(cell)
        if split is not None and float(split.cost.max()) * load.cost[row, column] <= most:
            found[cell] = split
    return found


STRATEGIES: dict[str, Strategy] = {
    "object": object_table,
    "grid": grid_table,
    "agrid": agrid_table,
    "quadtree": quadtree_table,
    "qttree": qttree_table,
}
"""Strategies by name, which is also the name in their tables."""


def lay(strategy: str, load: Load, slots: int, leaves: int = LEAVES_A_SLOT) -> RoutingTable:
    """Return a new table of a strategy; `leaves` are those of a qttree, per slot."""
    if strategy == "qttree":
        return qttree_table(load, slots, leaves)
    return STRATEGIES[strategy](load, slots)


def hot_cells(cost: Floats, slots: int) -> NDArray[np.bool_]:
    """Return the cells whose cost alone makes a slot too expensive: bool (side, side).

    A cell that is dealt by hash loads all slots evenly, and so reduces the room for the next hot cell.

    Args:
        cost: float64 (side, side). If all are 0, each cell counts the same.
        slots: the number of slots.
    """
    costs = cost.ravel() if cost.any() else np.ones(cost.size)
    dearest_first = np.argsort(-costs, kind="stable")
    falling = costs[dearest_first]
    dearer = falling.cumsum() - falling
    fits = falling * slots <= LIMIT * costs.sum() - dearer
    count = int(np.argmax(fits)) if fits.any() else len(fits)
    hot = np.zeros(cost.size, np.bool_)
    hot[dearest_first[:count]] = True
    return hot.reshape(cost.shape)


def table_of_rectangles(
    strategy: str,
    cells: Cells,
    slots: int,
    rectangles: Sequence[CellBlock],
    slot: NDArray[np.integer],
    hashed: NDArray[np.bool_],
) -> RoutingTable:
    """Return a table whose leaves are rectangles, without the cells that are dealt by hash.

    Args:
        strategy: its strategy.
        cells: its cells.
        slots: the number of slots.
        rectangles: the leaves, which tile the cells. A leaf with only cells dealt by hash is left out.
        slot: the slot of each rectangle.
        hashed: bool (side, side), the cells that are leaves of their own, dealt by hash.
    """
    leaf = painted(rectangles, cells.side)
    leaf[hashed] = len(rectangles) + np.arange(np.count_nonzero(hashed))
    used, numbered = np.unique(leaf, return_inverse=True)
    owners = np.append(slot, np.full(np.count_nonzero(hashed), HASHED))[used].astype(np.int16)
    return RoutingTable(strategy, cells, numbered.reshape(leaf.shape).astype(np.int32), owners, slots)


def relaid(table: RoutingTable, rectangles: Sequence[CellBlock], slot: NDArray[np.integer]) -> RoutingTable:
    """Return a table with new leaves in place of those that have a slot; other leaves stay.

    Args:
        table: the table.
        rectangles: the new leaves, which tile the cells together with the others.
        slot: the slot of each.
    """
    split, boxes = table.split_leaves, boxes_of_leaves(table)
    every = [*rectangles, *(boxes[leaf] for leaf in split.tolist())]
    owners, hashed = np.append(slot, table.slot[split]), table.owners == HASHED
    found = table_of_rectangles(table.strategy, table.cells, table.slots, every, owners, hashed)
    return _with_children(found, table.texts, table.slot[table.laid :])


def _with_children(table: RoutingTable, texts: TextLeaves | None, slot: NDArray[np.integer]) -> RoutingTable:
    """Return a table with the children of its leaves that are split by texts; `slot` holds their slots."""
    return replace(table, slot=np.append(table.slot, slot.astype(np.int16)), texts=texts)


def boxes_of_leaves(table: RoutingTable) -> list[CellBlock]:
    """Return the bounding rectangle of each leaf with cells: all leaves except children."""
    leaves, side = table.leaf.ravel(), table.cells.side
    rows, columns = np.divmod(np.arange(side * side), side)
    low, left = np.full((2, table.laid), side)
    high, right = np.zeros((2, table.laid), np.int64)
    for least, places in ((low, rows), (left, columns)):
        np.minimum.at(least, leaves, places)
    for past, places in ((high, rows), (right, columns)):
        np.maximum.at(past, leaves, places + 1)
    return [CellBlock(*box) for box in np.column_stack([low, high, left, right]).tolist()]


def _cost_to_deal(cost: Floats, hot: NDArray[np.bool_]) -> Floats:
    """Return the cost of the cells that are not hot, float64 (side, side); if all are 0, they count 1."""
    left: Floats = np.where(hot, 0.0, cost)
    return left if left.any() else np.where(hot, 0.0, 1.0)


def _split_squares(
    sums: PrefixSums,
    hot: NDArray[np.bool_],
    wanted: int,
    is_by_texts: Callable[[CellBlock], bool] = lambda _: False,
) -> list[CellBlock]:
    """Return the given number of squares, or up to two more, along the Z curve.

    Squares around hot cells are split first, down to the hot cells, and then always the most expensive one. A
    square that is split by texts instead counts as its children.
    """
    side, children = len(hot), 0
    hot_sums = PrefixSums.of(hot.astype(np.float64))
    final: list[CellBlock] = []
    heap = [(-np.inf if side > 1 and hot.any() else 0.0, 0, CellBlock(0, side, 0, side))]
    while heap and (heap[0][0] == -np.inf or len(heap) + len(final) + children < wanted):
        negated, number, dearest = heapq.heappop(heap)
        if dearest.area == 1:
            final.append(dearest)
            continue
        if negated != -np.inf and is_by_texts(dearest):
            final.append(dearest)
            children += CHILDREN - 1
            continue
        for at, square in enumerate(dearest.quarters(), 4 * number + 1):
            is_hot = square.area > 1 and hot_sums.total(square) > 0
            heapq.heappush(heap, (-np.inf if is_hot else -sums.total(square), at, square))
    rank = np.argsort(z_order(side))
    return sorted(final + [found for _, _, found in heap], key=lambda box: rank[box.low * side + box.left])
