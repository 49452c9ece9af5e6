"""Made-up loads: those of the benchmark's maps, and odd ones."""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Floats
from stqsh.bench.papers.routing.maps import FOUR_MAPS, UNIT, Places, orbit, squares_around
from stqsh.routing.cells import Cells
from stqsh.routing.load import Load
from stqsh.routing.partitioning import CellBlock, PrefixSums
from stqsh.routing.strategies import boxes_of_leaves
from stqsh.routing.table import HASHED, RoutingTable

__all__ = [
    "FOUR_MAPS",
    "UNIT",
    "Floats",
    "Places",
    "leaves_are_rectangles",
    "leaves_are_squares",
    "load_of",
    "odd_loads",
    "orbit",
    "squares_around",
]


def load_of(places: Places, side: int = 256, records: int = 200_000, queries: int = 4_000) -> Load:
    """Make a load whose queries, squares of 1 % side, are where the records are."""
    rng = np.random.default_rng(7)
    x, y = places(rng, records).T
    return Load.of(Cells(UNIT, side), x, y, squares_around(places(rng, queries), 0.01))


def odd_loads(side: int) -> dict[str, Load]:
    """Return small loads at the edges of what can come."""
    none = np.zeros((side, side))
    some = np.random.default_rng(1).integers(0, 9, (side, side)).astype(np.float64)
    point, row, column, corner = none.copy(), none.copy(), none.copy(), none.copy()
    point[side // 2, side // 3] = row[side // 2] = column[:, side // 3] = 5.0
    corner[0, 0], corner[-1, -1] = 1e9, 1e-9
    records = {"empty": none, "point": point, "row": row, "column": column, "corner": corner, "some": some}
    loads = {name: Load(Cells(UNIT, side), found, found) for name, found in records.items()}
    return loads | {
        "no queries": Load(Cells(UNIT, side), some, none),
        "even": Load(Cells(UNIT, side), none + 1, none),
    }


def leaves_are_rectangles(table: RoutingTable) -> bool:
    """Return whether each leaf with a slot is a rectangle, but for cells in it that are dealt by hash."""
    hashed = PrefixSums.of((table.owners == HASHED).astype(np.float64))
    sizes = np.bincount(table.leaf.ravel(), minlength=len(table.slot)).tolist()
    boxes = boxes_of_leaves(table)
    return all(
        owner == HASHED or box.area == size + hashed.total(box)
        for owner, box, size in zip(table.slot.tolist(), boxes, sizes, strict=True)
    )


def leaves_are_squares(table: RoutingTable) -> bool:
    """Return whether each leaf with a slot is a node of a quadtree."""
    sizes = np.bincount(table.leaf.ravel(), minlength=len(table.slot)).tolist()
    return all(
        owner == HASHED or (box.area == size and _is_node(box))
        for owner, box, size in zip(table.slot.tolist(), boxes_of_leaves(table), sizes, strict=True)
    )


def _is_node(box: CellBlock) -> bool:
    size = box.height
    return size == box.width and size.bit_count() == 1 and box.low % size == 0 and box.left % size == 0
