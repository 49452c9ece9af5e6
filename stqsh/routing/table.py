"""The routing table of a stream: map cells to leaves, and leaves to slots.

All strategies produce such a table. A leaf is a set of cells: one cell of a grid (CheetahGIS section V-B), a
rectangle (Tornado section 3.1) or a square of a quadtree (STAR section 6, SSTD section 4.1). It belongs to
one slot, or its records are dealt to all slots of the stream by the hashes of their keys. The latter is an
addition to the papers: it splits load that space cannot, such as a single place with most of the records. A
stream routed by object has one such leaf. A leaf of an event stream may also be split by texts into children,
which are leaves without cells (SSTD section 4.1, see `text_leaves`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.routing.cells import Bounds, Cells, maximal_squares, z_order
from stqsh.routing.neighbours import touched_leaves
from stqsh.routing.text_leaves import CHILDREN, SoughtTerms, TextLeaves, TextTerms

HASHED = -1
"""The slot of a leaf whose records are dealt to all slots by the hashes of their keys."""
TEXT = -2
"""The slot value of the first leaf that is split by texts; each further one has the next lower value."""

_FEW_BOXES = 8
"""The most boxes whose cells are checked one box at a time, if leaves are small."""
_EVERYWHERE: Bounds = (0.0, 0.0, 1.0, 1.0)


def slots_of(hashes: NDArray[np.uint64], slots: int) -> NDArray[np.int32]:
    """Return the slot that each key hash selects, 0 .. slots - 1: routing by object.

    Args:
        hashes: uint64 (n,) from `stqsh.core.kernels.index.hashing.hash_keys`.
        slots: the number of slots, at least 1.

    Returns:
        int32 (n,), evenly spread. Only the high 32 bits count: the low ones are for hash tables.
    """
    high = hashes >> np.uint64(32)
    return ((high * np.uint64(slots)) >> np.uint64(32)).astype(np.int32)


@dataclass(frozen=True, eq=False)
class RoutingTable:
    """The mapping of a stream's records and queries to slots.

    Attributes:
        strategy: the strategy that made it, by its name in REPARTITION.
        cells: the cells.
        leaf: int32 (side, side), the leaf of the cell in that row (y) and column (x).
        slot: int16 (leaves,), the slot of each leaf, or HASHED, or, if it is split by texts, TEXT minus its
            number among such leaves. The last leaves are their children, CHILDREN per split leaf.
        slots: the number of the stream's slots, 0 .. slots - 1.
        texts: the term lists of the leaves that are split by texts; None without any.
    """

    strategy: str
    cells: Cells
    leaf: NDArray[np.int32]
    slot: NDArray[np.int16]
    slots: int
    texts: TextLeaves | None = None

    @staticmethod
    def by_object(slots: int) -> RoutingTable:
        """Return the table that deals all records by the hashes of their keys."""
        cells, leaf = Cells(_EVERYWHERE, 1), np.zeros((1, 1), np.int32)
        return RoutingTable("object", cells, leaf, np.array([HASHED], np.int16), slots)

    @cached_property
    def owners(self) -> NDArray[np.int16]:
        """The `slot` value of each cell's leaf: int16 (side, side)."""
        return self.slot[self.leaf]

    @property
    def laid(self) -> int:
        """The number of leaves with cells: all except the children of leaves split by texts."""
        return len(self.slot) - (0 if self.texts is None else CHILDREN * len(self.texts))

    @property
    def split_leaves(self) -> NDArray[np.int64]:
        """The leaves that are split by texts, by their numbers among these."""
        split = np.flatnonzero(self.slot <= TEXT)
        return split[np.argsort(-self.slot[split])]

    @property
    def is_hashed(self) -> bool:
        """Whether all records are dealt by the hashes of their keys, regardless of location."""
        return bool((self.slot == HASHED).all())

    def slots_of(
        self,
        x: NDArray[np.float64],
        y: NDArray[np.float64],
        hashes: NDArray[np.uint64],
        texts: pa.Array[Any] | None = None,
    ) -> NDArray[np.int32]:
        """Return the slot of each record, int32 (n,).

        Args:
            x, y: their places, float64 (n,), not NaN.
            hashes: the hashes of their keys, uint64 (n,).
            texts: their texts, a string array (n,); used only if leaves are split by texts.
        """
        if self.is_hashed:
            return slots_of(hashes, self.slots)
        found = self.owners.ravel()[self.cells.of_places(x, y)].astype(np.int32)
        split = np.flatnonzero(found <= TEXT)
        if len(split):
            assert texts is not None, "only streams of events with texts have such leaves"
            positions: Any = pa.array(split)
            terms, leaf = TextTerms.of(texts.take(positions)), (TEXT - found[split]).astype(np.int64)
            found[split] = self.slot[self.leaves_of_texts(leaf, hashes[split], terms)]
        dealt = found == HASHED
        if dealt.any():
            found[dealt] = slots_of(hashes[dealt], self.slots)
        return found

    def leaves_of_texts(
        self, leaf: NDArray[np.int64], hashes: NDArray[np.uint64], terms: TextTerms
    ) -> NDArray[np.int64]:
        """Return the child, as a leaf of the table, of each record in a leaf that is split by texts: (n,).

        Args:
            leaf: int64 (n,), the number of the leaf among those that are split by texts.
            hashes: the hashes of their keys, uint64 (n,).
            terms: their terms.
        """
        assert self.texts is not None, "there are such leaves"
        return self.laid + CHILDREN * leaf + self.texts.children_of_records(leaf, hashes, terms)

    @cached_property
    def _cover(self) -> _SlotCover:
        return _SlotCover(self)

    def slots_touching(
        self, boxes: NDArray[np.float64], sought: SoughtTerms | None = None
    ) -> NDArray[np.bool_]:
        """Return the slots that queries concern, bool (n, slots).

        They include the slot of each record in a query's box, its border included, if the record may satisfy
        the query.

        Args:
            boxes: the boxes of their regions, float64 (n, 4), see `Cells.of_boxes`.
            sought: the terms of which records need one; None if any record may satisfy each query.
        """
        touched = np.zeros((len(boxes), self.slots), np.bool_)
        if len(boxes):
            self._cover.mark(self.cells.of_boxes(boxes), sought, touched)
        return touched

    def over(self, slots: int) -> RoutingTable:
        """Return the same table over at most `slots` slots; if it has more, several are mapped to one."""
        if self.slots <= slots:
            return self
        return replace(self, slot=np.where(self.slot < 0, self.slot, self.slot % slots), slots=slots)

    def with_owners(self, slot: NDArray[np.int16]) -> RoutingTable:
        """Return the same leaves with other slots."""
        return replace(self, slot=slot.astype(np.int16))

    def packages_to(self, other: RoutingTable) -> int:
        """Count the packages of cells that change owners under another table.

        A package is the cells that one slot hands over to another (CheetahGIS section V-D). Cells that are
        dealt by hash count as those of an extra slot, unless the number of slots changes: then all slots hand
        over. The same applies to cells that are split by texts.
        """
        x, y = other.cells.centres()
        old, new = self.owners.ravel()[self.cells.of_places(x, y)], other.owners.ravel()
        count = max(self.slots, other.slots) - TEXT
        pairs = (np.maximum(old.astype(np.int64), TEXT) - TEXT) * count + (np.maximum(new, TEXT) - TEXT)
        are_there = np.bincount(pairs, minlength=count * count).reshape(count, count) > 0
        dealt_anew = self.slots != other.slots and bool(are_there[HASHED - TEXT, HASHED - TEXT])
        np.fill_diagonal(are_there, False)
        return int(are_there.sum()) + (self.slots if dealt_anew else 0)


class _Tiling(NamedTuple):
    """Rectangles that tile the cells.

    Attributes:
        leaf: int32 (side, side), the rectangle of each cell.
        boxes: int16 (rectangles, 4), the rows and columns of each, as in `Cells.of_boxes`.
        owners: int16, the owner of each; values after the last rectangle have no meaning.
    """

    leaf: NDArray[np.int32]
    boxes: NDArray[np.int16]
    owners: NDArray[np.int16]


class _SlotCover:
    """Finds the owners of a table's cells in spans, which are rows of `Cells.of_boxes`."""

    def __init__(self, table: RoutingTable) -> None:
        self._table = table

    def mark(self, spans: NDArray[np.int64], sought: SoughtTerms | None, touched: NDArray[np.bool_]) -> None:
        """Mark the slots that have cells in spans: bool (n, slots); see `RoutingTable.slots_touching`."""
        for at, owners in self._touching(spans):
            if self._table.texts is None:
                _mark(touched, at, owners)
                continue
            split = owners <= TEXT
            leaf = TEXT - owners[split].astype(np.int64)
            wanted = self._table.texts.children_of_queries(leaf, at[split], sought)
            pair, child = np.nonzero(wanted)
            owners_of_children = self._table.slot[self._table.laid + CHILDREN * leaf[pair] + child]
            _mark(touched, at[split][pair], owners_of_children)
            _mark(touched, at[~split], owners[~split])

    def _touching(self, spans: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int16]]]:
        """Yield positions of spans and an owner of cells in each, (n,) each."""
        if len(spans) <= _FEW_BOXES and 4 * self._table.laid > self._table.leaf.size:
            for number, span in enumerate(spans.tolist()):
                owners = self._owners_in(span)
                yield np.full(len(owners), number), owners
            return
        tiling = self._tiling
        if tiling is not None:
            for at, found in touched_leaves(tiling.leaf, tiling.boxes, spans):
                yield at, tiling.owners[found]
            return
        for at, owner in self._by_sums(spans):
            yield at, np.full(len(at), owner, np.int16)

    def _owners_in(self, span: Sequence[int]) -> NDArray[np.int16]:
        """Return the owners of the cells in a row of `Cells.of_boxes`, each once."""
        low, high, left, right = span
        owners = self._table.owners[low:high, left:right].ravel()
        least = int(owners.min())
        found: NDArray[np.int16] = (np.flatnonzero(np.bincount(owners - least)) + least).astype(np.int16)
        return found

    def _by_sums(self, spans: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], int]]:
        """Yield for each owner the positions of the spans that touch its cells, and the owner.

        Prefix sums count an owner's cells in a span in O(1): one pass over the spans for each owner.
        """
        low, high, left, right = spans.T
        for owner, sums in self._sums():
            held = sums[high, right] - sums[low, right] - sums[high, left] + sums[low, left] > 0
            yield np.flatnonzero(held), owner

    @cached_property
    def _tiling(self) -> _Tiling | None:
        """Few rectangles with one owner each: the leaves, or else the largest squares of a quadtree.

        A grid deals runs of cells along the Z curve, each of which consists of few squares.
        """
        table, side = self._table, self._table.cells.side
        boxes = _boxes_of(table.leaf, table.laid)
        if len(boxes):
            return _Tiling(table.leaf, boxes, table.slot)
        along = z_order(side)
        owners = table.owners.ravel()[along]
        squares = maximal_squares(owners.astype(np.int64), np.zeros(side * side), 0.0)
        leaf = np.empty(side * side, np.int32)
        leaf[along] = squares
        boxes = _boxes_of(leaf.reshape(side, side), int(squares[-1]) + 1)
        if not len(boxes):
            return None
        return _Tiling(leaf.reshape(side, side), boxes, owners[np.diff(squares, prepend=-1) > 0])

    def _sums(self) -> Iterator[tuple[int, NDArray[np.int32]]]:
        """Yield each owner with the prefix sums of its cells: the number below a row and left of a column.

        The latter is int32 (side + 1, side + 1).
        """
        side = self._table.cells.side
        for owner in np.unique(self._table.owners).tolist():
            sums, mine = np.zeros((side + 1, side + 1), np.int32), self._table.owners == owner
            sums[1:, 1:] = mine.cumsum(axis=0, dtype=np.int32).cumsum(axis=1, dtype=np.int32)
            yield owner, sums


def _boxes_of(leaf: NDArray[np.int32], count: int) -> NDArray[np.int16]:
    """Return the rows and columns of each leaf as in `Cells.of_boxes`, (leaves, 4).

    It is empty if some leaf is not a rectangle, or there are about as many leaves as cells.
    """
    side = len(leaf)
    none = np.empty((0, 4), np.int16)
    if 4 * count > side * side:
        return none
    leaves = leaf.ravel().astype(np.min_scalar_type(count))
    cells_of, order = np.bincount(leaves, minlength=count), np.argsort(leaves, kind="stable")
    if not cells_of.all():
        return none
    starts = np.cumsum(cells_of) - cells_of
    around: list[NDArray[np.int64]] = []
    for places in np.divmod(order, side):
        around += [np.minimum.reduceat(places, starts), np.maximum.reduceat(places, starts) + 1]
    boxes = np.column_stack(around).astype(np.int16)
    sizes = (boxes[:, 1] - boxes[:, 0]).astype(np.int64) * (boxes[:, 3] - boxes[:, 2])
    return boxes if np.array_equal(sizes, cells_of) else none


def _mark(touched: NDArray[np.bool_], at: NDArray[np.int64], owners: NDArray[np.int16]) -> None:
    """Mark the slots of owners of cells, all of them for HASHED: bool (n, slots)."""
    hashed = owners == HASHED
    if hashed.any():
        touched[at[hashed]] = True
        at, owners = at[~hashed], owners[~hashed]
    touched[at, owners] = True
