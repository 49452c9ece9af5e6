"""Textual splits: build the lists of TEXT leaves from recent records, and estimate the gain (SSTD, 4.1.2).

SSTD assigns each object to the child whose workload grows least, and puts its keywords on the list of that
child. Here half of the records grow the lists. The other half measures the cost of the split, because records
whose terms are not on one common list go to child 0, which gets all queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stqsh.arrays import Floats
from stqsh.routing.cells import Cells
from stqsh.routing.load import PAIR, RECORD
from stqsh.routing.partitioning import CellBlock
from stqsh.routing.table import TEXT, RoutingTable
from stqsh.routing.text_leaves import CHILDREN, Hashes, Integers, SoughtTerms, TextLeaves, TextTerms

SIMILAR = 0.5
"""The quarters of a square have alike queries if each has at least this share of them: SSTD's epsilon."""

_MOST_TERMS = 1 << 14
"""The maximum number of terms of a leaf, the most queried ones; queries for others go to all children."""
_LEAST_RECORDS = 400
"""A leaf with fewer recent records is not split, because their terms predict too little."""
_WORTH_IT = 0.75
"""The maximum cost of a split, as a share of the quarters' cost: splitting texts into terms costs, too."""


class TextSplit(NamedTuple):
    """A leaf split by texts.

    Attributes:
        term: the terms that it keeps, uint64 (terms,), ascending.
        lists: the lists that each is on, uint8 (terms,).
        records: the share of the records that each child gets, float64 (CHILDREN,).
        cost: the same for the cost.
    """

    term: Hashes
    lists: NDArray[np.uint8]
    records: Floats
    cost: Floats


def text_leaves_of(splits: Sequence[TextSplit]) -> TextLeaves | None:
    """Return the TEXT leaves for splits; None without any."""
    if not splits:
        return None
    shares = (np.array([split.records for split in splits]), np.array([split.cost for split in splits]))
    made = TextLeaves.of([(split.term, split.lists) for split in splits])
    return replace(made, records=shares[0], cost=shares[1])


class _Part(NamedTuple):
    """The part of a sample in some cells: terms of records, their keys' hashes, and the needs of queries."""

    hashes: Hashes
    terms: TextTerms
    sought: SoughtTerms

    @property
    def everyone(self) -> int:
        """The number of queries."""
        return len(self.sought.start) - 1

    def kept(self) -> tuple[Hashes, Floats]:
        """Return the terms that queries need, ascending, and the number of queries that need each."""
        term, asked = np.unique(self.sought.term, return_counts=True)
        if len(term) > _MOST_TERMS:
            most = np.sort(np.argsort(-asked, kind="stable")[:_MOST_TERMS])
            term, asked = term[most], asked[most]
        return term, asked.astype(np.float64)

    def weights(self, term: Hashes, asked: Floats) -> Floats:
        """Return each record's cost for a slot, by the queries that need its terms, float64 (records,)."""
        at = np.minimum(np.searchsorted(term, self.terms.term), max(len(term) - 1, 0))
        matching = np.where(term[at] == self.terms.term, asked[at], 0.0) if len(term) else np.zeros(len(at))
        free = np.count_nonzero(np.diff(self.sought.start) == 0)
        met = np.bincount(self.terms.row, matching[self.terms.code], len(self.hashes))
        weights = RECORD + PAIR * (free + met)
        return weights.astype(np.float64)


@dataclass(frozen=True, eq=False)
class TextSample:
    """The terms of recent records, and those that queries need.

    Attributes:
        cells: the cells.
        cell: int64 (records,), the cell of each record.
        terms: their terms.
        spans: int64 (queries, 4), the cells that each query touches, in the form of `Cells.of_boxes`.
        sought: the terms that the queries need.
        similar: the least share of a square's queries in its quarters for a split, SSTD's epsilon.
    """

    cells: Cells
    cell: Integers
    terms: TextTerms
    spans: Integers
    sought: SoughtTerms
    similar: float = SIMILAR

    def split(self, block: CellBlock) -> TextSplit | None:
        """Split a square by texts if that costs clearly less than its quarters; return None otherwise.

        Costs follow SSTD's equation 2: each query over a leaf is compared with each of its records.
        """
        rows = self._rows(block)
        if len(rows) < _LEAST_RECORDS:
            return None
        whole = self._part(block, rows)
        if not len(whole.sought.term) or not self._is_alike(block, whole.everyone):
            return None
        found, others = _split(self._part(block, rows[::2])), self._part(block, rows[1::2])
        texts = TextLeaves.of([found])
        counts, queries = _dealt(texts, 0, others)
        cost = float((counts * (RECORD + PAIR * queries)).sum())
        if cost > _WORTH_IT * self._cost_of_quarters(block, rows[1::2]):
            return None
        return TextSplit(*found, *_shares(texts, 0, others))

    def measured(self, table: RoutingTable) -> RoutingTable:
        """Return a table of these cells with current shares of the children of its TEXT leaves."""
        if table.texts is None:
            return table
        texts, owners = table.texts, table.owners.ravel()
        records, cost = texts.records.copy(), texts.cost.copy()
        for number in range(len(texts)):
            row, column = np.divmod(np.flatnonzero(owners == TEXT - number), self.cells.side)
            rows = np.flatnonzero(owners[self.cell] == TEXT - number)
            if len(rows):
                box = CellBlock(int(row.min()), int(row.max()) + 1, int(column.min()), int(column.max()) + 1)
                records[number], cost[number] = _shares(texts, number, self._part(box, rows))
        return replace(table, texts=replace(texts, records=records, cost=cost))

    def _rows(self, block: CellBlock) -> Integers:
        """Return the records in a block of cells."""
        row, column = np.divmod(self.cell, self.cells.side)
        low, high, left, right = block
        return np.flatnonzero((row >= low) & (row < high) & (column >= left) & (column < right))

    def _touching(self, block: CellBlock) -> Integers:
        """Return the queries that touch a block of cells."""
        low, high, left, right = self.spans.T
        rows = (low < block.high) & (high > block.low)
        return np.flatnonzero(rows & (left < block.right) & (right > block.left))

    def _part(self, block: CellBlock, rows: Integers) -> _Part:
        from stqsh.core.kernels.index.hashing import hash_integers  # numba: only when needed

        sought = self.sought.those(self._touching(block))
        return _Part(hash_integers(rows), self.terms.those(rows), sought)

    def _is_alike(self, block: CellBlock, everyone: int) -> bool:
        """Return whether the queries over a square and its quarters are alike (SSTD equation 3)."""
        if block.area == 1:
            return True
        in_quarters = sum(len(self._touching(quarter)) for quarter in block.quarters())
        return in_quarters > self.similar * 4 * everyone

    def _cost_of_quarters(self, block: CellBlock, rows: Integers) -> float:
        """Return the cost of some of a square's records if it is cut into quarters; a cell cannot be cut."""
        row, column = np.divmod(self.cell[rows], self.cells.side)
        total = 0.0
        for low, high, left, right in block.quarters() if block.area > 1 else [block]:
            inside = (row >= low) & (row < high) & (column >= left) & (column < right)
            queries = len(self._touching(CellBlock(low, high, left, right)))
            total += float(np.count_nonzero(inside)) * (RECORD + PAIR * queries)
        return total


def _split(part: _Part) -> tuple[Hashes, NDArray[np.uint8]]:
    """Return the terms that a leaf keeps, and their lists."""
    from stqsh.core.kernels.jit import frozen  # numba: only when needed
    from stqsh.core.kernels.text.keyword_lists import grow_lists

    term, asked = part.kept()
    number = np.minimum(np.searchsorted(term, part.terms.term), len(term) - 1)
    is_kept = (term[number] == part.terms.term)[part.terms.code]
    rows, numbers = part.terms.row[is_kept], number[part.terms.code[is_kept]]
    start = np.searchsorted(rows, np.arange(len(part.hashes) + 1))
    lists = grow_lists(frozen(start), frozen(numbers), frozen(asked), part.everyone, CHILDREN, PAIR / RECORD)
    return term, lists


def _dealt(texts: TextLeaves, leaf: int, part: _Part) -> tuple[Floats, Floats]:
    """Count the records and queries of each child of a leaf, float64 (CHILDREN,) each."""
    at = np.full(len(part.hashes), leaf)
    records = np.bincount(texts.children_of_records(at, part.hashes, part.terms), minlength=CHILDREN)
    everyone = np.arange(part.everyone)
    queries = texts.children_of_queries(np.full(len(everyone), leaf), everyone, part.sought).sum(axis=0)
    return records.astype(np.float64), queries.astype(np.float64)


def _shares(texts: TextLeaves, leaf: int, part: _Part) -> tuple[Floats, Floats]:
    """Return the children's shares of a leaf's records and cost; there must be records.

    A slot searches records for the words of queries, so here a query costs only for records with such a word.
    """
    at = np.full(len(part.hashes), leaf)
    child, weights = texts.children_of_records(at, part.hashes, part.terms), part.weights(*part.kept())
    records = np.bincount(child, minlength=CHILDREN) / len(child)
    cost: Floats = np.bincount(child, weights, CHILDREN) / weights.sum()
    return records, cost
