"""Routings that the papers compare with: equal blocks, sort-tile-recursive, and a k-d tree by pairs."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import ceil

import numpy as np

from stqsh.arrays import Floats
from stqsh.routing.cells import Cells
from stqsh.routing.load import Load
from stqsh.routing.partitioning import CellBlock, PrefixSums
from stqsh.routing.strategies import table_of_rectangles
from stqsh.routing.table import RoutingTable


def uniform_blocks(load: Load, slots: int) -> RoutingTable:
    """Cut the plane in equal blocks, one a slot, whatever the load (the uniform grid of Tornado, Fig. 6)."""
    rows = max(count for count in range(1, int(slots**0.5) + 1) if slots % count == 0)
    side = load.cells.side
    lines, columns = _even(side, rows), _even(side, slots // rows)
    blocks = [
        CellBlock(low, high, left, right)
        for low, high in pairwise(lines)
        for left, right in pairwise(columns)
    ]
    return _table("uniform blocks", load.cells, slots, blocks)


def sort_tile_recursive(load: Load, slots: int) -> RoutingTable:
    """Cut columns, and each of them across, such that all parts have as many records (STR, STAR Fig. 12)."""
    parts = [len(some) for some in np.array_split(np.arange(slots), ceil(slots**0.5))]
    columns = _cut(load.records.sum(axis=0), parts)
    tiles = []
    for (left, right), count in zip(pairwise(columns), parts, strict=True):
        lines = _cut(load.records[:, left:right].sum(axis=1), [1] * count)
        tiles += [CellBlock(low, high, left, right) for low, high in pairwise(lines)]
    return _table("str", load.cells, slots, tiles)


def tree_by_pairs(load: Load, slots: int) -> RoutingTable:
    """Cut the rectangle with most pairs of a record and a query, as AQWA's k-d tree does (STAR Fig. 12)."""
    sums, side = PrefixSums.of(load.records * load.queries), load.cells.side
    heap = [(0.0, CellBlock(0, side, 0, side))]
    final: list[CellBlock] = []
    while heap and len(heap) + len(final) < slots:
        _, dearest = heapq.heappop(heap)
        cut = sums.best_cut(dearest)
        if cut is None:
            final.append(dearest)
            continue
        for half in (cut.first, cut.second):
            heapq.heappush(heap, (-sums.total(half), half))
    rectangles = sorted(final + [rectangle for _, rectangle in heap])
    return _table("k-d by pairs", load.cells, slots, rectangles)


BASELINES: dict[str, Callable[[Load, int], RoutingTable]] = {
    "uniform blocks": uniform_blocks,
    "str": sort_tile_recursive,
    "k-d by pairs": tree_by_pairs,
}
"""The baselines by name, as strategies."""


def _table(name: str, cells: Cells, slots: int, rectangles: Sequence[CellBlock]) -> RoutingTable:
    nothing = np.zeros((cells.side, cells.side), np.bool_)
    return table_of_rectangles(name, cells, slots, rectangles, np.arange(len(rectangles)), nothing)


def _even(side: int, parts: int) -> list[int]:
    """Return where to cut lines in equal parts, with both ends."""
    return [side * part // parts for part in range(parts + 1)]


def _cut(weights: Floats, parts: Sequence[int]) -> list[int]:
    """Return where to cut weights, float64 (n,), in parts of these shares, with both ends."""
    ends = np.append(0.0, weights.cumsum())
    wanted = np.cumsum(parts)[:-1] / sum(parts) * ends[-1]
    return [0, *np.searchsorted(ends, wanted).tolist(), len(weights)]
