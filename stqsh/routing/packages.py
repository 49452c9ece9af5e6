"""Divide a change of the routing into packages, each a routing of its own (CheetahGIS section V-D5).

CheetahGIS sends the objects of moving cells in packages of fixed size, e.g. 10,000, and goes on serving. Here
records stay and queries move, so a package is some cells and the queries that slots have to learn for them.
After each package the cells so far have their new owners, and all others their old ones. That is a routing
like any other, so each is exact, and batches continue between packages.

Cells change owners row by row, and in each row by owner. All slots so receive their cells at about the same
rate, and the first package that brings a query to a slot is found by a binary search over rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stqsh.arrays import Floats
from stqsh.routing.table import HASHED, RoutingTable

MOST_PACKAGES = 32
"""The most packages of a change: slots know older routings for as long as they keep records dealt by them."""


class Packages(NamedTuple):
    """The packages of a change.

    Attributes:
        cuts: for each package, the position (see `_positions`) before which cells have changed owners; () if
            the change is not divided.
        learned: for each package, how many queries slots have learned of after it; a query counts once for
            each slot.
        queries: for each package, the queries that slots may learn of with it, int64, ascending. An undivided
            change has one package.
    """

    cuts: tuple[int, ...]
    learned: tuple[int, ...]
    queries: tuple[NDArray[np.int64], ...]


def packages_of(old: RoutingTable, new: RoutingTable, boxes: Floats, size: int) -> Packages | None:
    """Divide a change into packages that bring about `size` queries to slots each.

    Packages are about equal. They are larger if there would be more than `MOST_PACKAGES`, and one is at least
    the cells of one row that one slot receives. A change is not divided if the tables have different bounds,
    or if cells that are dealt by hash are to be dealt to more slots.

    Args:
        old: the table in force.
        new: the table that replaces it.
        boxes: the boxes of the queries, float64 (n, 4).
        size: the number of queries of a package, counted once for each slot that learns of one.

    Returns:
        None if leaves are split by texts: then boxes do not say which queries move.
    """
    if old.texts is not None or new.texts is not None:
        return None
    tables = _over_same_cells(old, new)
    if tables is None:
        slots = max(old.slots, new.slots)
        known, wanted = (
            np.pad(table.slots_touching(boxes), ((0, 0), (0, slots - table.slots))) for table in (old, new)
        )
        return Packages((), (), (np.flatnonzero((wanted & ~known).any(axis=1)),))
    arriving = _arriving(*tables, boxes)
    total = int(arriving.slots.sum())
    if total <= size:
        return Packages((), (), (np.unique(arriving.query),))
    positions = int(_positions(tables[1]).max()) + 1
    so_far = np.bincount(arriving.position, arriving.slots, positions).cumsum()
    count = min(-(-total // size), MOST_PACKAGES)
    cuts = np.unique(np.searchsorted(so_far, total * np.arange(1, count + 1) / count)) + 1
    cuts[-1] = len(so_far)
    package = np.searchsorted(cuts, arriving.position, side="right")
    queries = tuple(np.unique(arriving.query[package == one]) for one in range(len(cuts)))
    if len(cuts) == 1:
        return Packages((), (), queries)
    return Packages(tuple(cuts.tolist()), tuple(int(so_far[cut - 1]) for cut in cuts), queries)


def table_between(old: RoutingTable, new: RoutingTable, cut: int) -> RoutingTable:
    """Return the table in force after a package: new owners for the cells before `cut`, old ones for others.

    Args:
        old: the table in force before, which may be one between the same tables.
        new: the table that is to be in force in the end.
        cut: the position of the first cell that keeps its owner, from `packages_of`.
    """
    tables = _over_same_cells(old, new)
    assert tables is not None, "only such changes are divided"
    old, new = tables
    leaf = np.where(_positions(new) < cut, new.leaf + len(old.slot), old.leaf)
    used, numbered = np.unique(leaf, return_inverse=True)
    slot = np.concatenate([old.slot, new.slot])[used]
    return RoutingTable(
        new.strategy, new.cells, numbered.reshape(leaf.shape).astype(np.int32), slot, new.slots
    )


def _positions(new: RoutingTable) -> NDArray[np.int64]:
    """Return the position of each cell in the order in which cells change owners: int64 (side, side).

    The cells of one row and one new owner have the same position.
    """
    return np.arange(new.cells.side)[:, None] * (new.slots + 1) + new.owners - HASHED


def _over_same_cells(old: RoutingTable, new: RoutingTable) -> tuple[RoutingTable, RoutingTable] | None:
    """Return both tables over the finer one's cells and as many slots; None if that is not possible."""
    if old.slots < new.slots and (old.slot == HASHED).any():
        if old.slots > 1:
            return None  # their cells would be dealt to all slots at once
        old = old.with_owners(np.zeros_like(old.slot))
    if len(np.unique(old.slot)) == 1:
        old = replace(old, cells=new.cells, leaf=np.zeros_like(new.leaf), slot=old.slot[:1])
    elif len(np.unique(new.slot)) == 1:
        new = replace(new, cells=old.cells, leaf=np.zeros_like(old.leaf), slot=new.slot[:1])
    if old.cells.bounds != new.cells.bounds:
        return None
    side, slots = max(old.cells.side, new.cells.side), max(old.slots, new.slots)
    return _refined(old, side, slots), _refined(new, side, slots)


def _refined(table: RoutingTable, side: int, slots: int) -> RoutingTable:
    """Return a table with the same owners over finer cells and more slots."""
    each = side // table.cells.side
    leaf = table.leaf.repeat(each, axis=0).repeat(each, axis=1)
    return replace(table, cells=replace(table.cells, side=side), leaf=leaf, slots=slots)


class _Arriving(NamedTuple):
    """Queries that slots learn of, int64 (n,) each: the query, the position, and the number of such slots."""

    query: NDArray[np.int64]
    position: NDArray[np.int64]
    slots: NDArray[np.int64]


def _arriving(old: RoutingTable, new: RoutingTable, boxes: Floats) -> _Arriving:
    """Return where slots learn of queries; all slots know those that may concern every one."""
    side, slots = new.cells.side, new.slots
    query = np.flatnonzero(~np.isinf(boxes).all(axis=1))
    boxes = boxes[query]
    known, spans = old.slots_touching(boxes), new.cells.of_boxes(boxes)
    found = [_Arriving(*np.empty((3, 0), np.int64))]
    for owner in np.unique(new.owners).tolist():
        missing = slots - known.sum(axis=1) if owner == HASHED else ~known[:, owner]
        learning = np.flatnonzero(missing)
        rows = _first_rows(new.owners == owner, spans[learning])
        learning, rows = learning[rows < side], rows[rows < side]
        position = rows * (slots + 1) + owner - HASHED
        found.append(_Arriving(query[learning], position, missing[learning].astype(np.int64)))
    return _Arriving(*map(np.concatenate, zip(*found, strict=True)))


def _first_rows(mine: NDArray[np.bool_], spans: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first row with a marked cell in each span: int64 (n,), `side` for a span without one.

    Args:
        mine: bool (side, side), the marked cells.
        spans: rows of `Cells.of_boxes`, int64 (n, 4).
    """
    side = len(mine)
    sums = np.zeros((side + 1, side + 1), np.int32)
    sums[1:, 1:] = mine.cumsum(axis=0, dtype=np.int32).cumsum(axis=1, dtype=np.int32)
    low, high, left, right = spans.T
    below = sums[low, right] - sums[low, left]

    def are_below(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether there is a marked cell in the rows of each span before a row."""
        found: NDArray[np.bool_] = sums[rows, right] - sums[rows, left] > below
        return found

    first, past = low.copy(), np.where(are_below(high), high - 1, side)
    searched = np.minimum(past, high - 1)
    while (first < searched).any():
        middle = (first + searched) // 2
        is_below = are_below(middle + 1)
        searched = np.where(is_below, middle, searched)
        first = np.where(is_below, first, np.minimum(middle + 1, searched))
    return np.where(past == side, side, first)
