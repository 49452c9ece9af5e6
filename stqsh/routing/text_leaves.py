"""TEXT leaves: leaves of a routing table that deal records to four children by the terms of their texts.

SSTD (section 4.1.2) splits a leaf by texts where queries for other words are about the same places. Its
routers extend the children's keyword lists as they go, and so have to send each query to all children. Here
a table keeps, for each such leaf, the terms that queries needed when it was made, and which of them are on
the lists of children 1 to 3; the lists may overlap.

Of the terms of a record only those count that the table keeps. The record goes to a child whose list has all
of them, to child 0 if no list does, and to any child if there are none; among several by the hash of its
key. A query of which a record needs one of some terms, all of which the table keeps, goes to child 0 and to
the children that have one of them on their lists; any other query goes to all children.

So a query finds its records: a record that satisfies it has one of its terms, and is on a child whose list
has that term or on child 0. Both follow from the table and the record, or the query, alone: no two processes
can differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
Integers = NDArray[np.int64]

CHILDREN = 4
"""The children of a TEXT leaf."""

_EVERY, _FIRST = (1 << CHILDREN) - 1, 1
"""All children, and child 0, as bits."""
_CHOICES = 12
"""How many values of a hash choose a child: a multiple of 1, 2, 3 and 4, so that they choose evenly."""
_CHOSEN = np.array(
    [
        [among[choice % len(among)] for choice in range(_CHOICES)]
        for bits in range(1, _EVERY + 1)
        if (among := [child for child in range(CHILDREN) if bits >> child & 1])
    ]
)
"""Which of some children, as bits less 1, a hash chooses."""


class SoughtTerms(NamedTuple):
    """The terms of which a record needs one to satisfy each of some queries.

    Attributes:
        start: int64 (queries + 1,), where the terms of each begin; any record may satisfy one without terms.
        term: the hashes of the terms, uint64, by `hash_keys`.
    """

    start: Integers
    term: Hashes

    def those(self, queries: Integers) -> SoughtTerms:
        """Return what some of the queries need."""
        count = np.diff(self.start)[queries]
        ends = np.cumsum(count)
        at = np.arange(count.sum()) + np.repeat(self.start[queries] - ends + count, count)
        return SoughtTerms(np.append(0, ends), self.term[at])


class TextTerms(NamedTuple):
    """The terms of records.

    Attributes:
        row: int64 (n,), the record of each term, ascending.
        code: int64 (n,), which term it is.
        term: uint64 (m,), the hash of each term by its code.
    """

    row: Integers
    code: Integers
    term: Hashes

    @staticmethod
    def of(texts: pa.Array[Any]) -> TextTerms:
        """Split texts into terms."""
        from stqsh.core.kernels.index.hashing import hash_keys  # numba: only when needed
        from stqsh.core.texts.tokenizer import coded_terms

        coded, words = coded_terms(texts)
        row = np.repeat(np.arange(len(texts)), np.diff(coded.start))
        return TextTerms(row, coded.codes.astype(np.int64), hash_keys(words))

    def among(self, terms: Hashes) -> TextTerms:
        """Return only those among some terms."""
        is_there = np.isin(self.term, terms)
        number, chosen = np.cumsum(is_there) - 1, is_there[self.code]
        return TextTerms(self.row[chosen], number[self.code[chosen]], self.term[is_there])

    def those(self, rows: Integers) -> TextTerms:
        """Return the terms of some of the records, which are numbered from 0; rows ascend."""
        number = np.full(int(max(self.row.max(initial=-1), rows.max(initial=-1))) + 1, -1)
        number[rows] = np.arange(len(rows))
        row = number[self.row]
        return TextTerms(row[row >= 0], self.code[row >= 0], self.term)


@dataclass(frozen=True, eq=False)
class TextLeaves:
    """The lists of TEXT leaves.

    Attributes:
        start: int64 (leaves + 1,), where the terms of each leaf begin.
        term: uint64 (terms,), the hashes of terms, ascending within each leaf.
        lists: uint8 (terms,), on which lists each term is, as bits 1 .. CHILDREN - 1.
        records: float64 (leaves, CHILDREN), the share of a leaf's records that each child got when that was
            last measured.
        cost: the same of the leaf's cost.
    """

    start: Integers
    term: Hashes
    lists: NDArray[np.uint8]
    records: NDArray[np.float64]
    cost: NDArray[np.float64]

    @staticmethod
    def of(leaves: Sequence[tuple[Hashes, NDArray[np.uint8]]]) -> TextLeaves:
        """Make leaves of the terms of each, ascending, and their lists; all children have equal shares."""
        start = np.cumsum([0, *(len(term) for term, _ in leaves)])
        term = np.concatenate([np.empty(0, np.uint64), *(term for term, _ in leaves)])
        lists = np.concatenate([np.empty(0, np.uint8), *(some for _, some in leaves)])
        even = np.full((len(leaves), CHILDREN), 1 / CHILDREN)
        return TextLeaves(start, term, lists, even, even)

    def __len__(self) -> int:
        return len(self.start) - 1

    def children_of_records(self, leaf: Integers, hashes: Hashes, terms: TextTerms) -> Integers:
        """Return the child to which each record goes, int64 (n,).

        Args:
            leaf: int64 (n,), the TEXT leaf of each.
            hashes: the hashes of their keys, uint64 (n,).
            terms: their terms.
        """
        bits = np.full(len(leaf), _EVERY)
        for number in np.unique(leaf).tolist():
            is_kept, lists = (some[terms.code] for some in self._listed(number, terms.term))
            at = np.flatnonzero((leaf[terms.row] == number) & is_kept)
            rows = terms.row[at]
            starts = np.flatnonzero(np.diff(rows, prepend=-1))
            if len(starts):
                fitting = np.bitwise_and.reduceat(lists[at], starts) & ~_FIRST
                bits[rows[starts]] = np.where(fitting, fitting, _FIRST)
        high = hashes >> np.uint64(32)  # the low bits are for hash tables
        chosen: Integers = _CHOSEN[bits - 1, (high % np.uint64(_CHOICES)).astype(np.int64)]
        return chosen

    def children_of_queries(
        self, leaf: Integers, query: Integers, sought: SoughtTerms | None
    ) -> NDArray[np.bool_]:
        """Return the children of a leaf that a query goes to, bool (n, CHILDREN).

        Args:
            leaf: int64 (n,), the TEXT leaf of each pair.
            query: int64 (n,), the query.
            sought: what queries need; None if any record may satisfy each.
        """
        children = np.full(len(leaf), _EVERY)
        if sought is None:
            return _among(children)
        count = np.diff(sought.start)[query]
        for number in np.unique(leaf).tolist():
            pairs = np.flatnonzero((leaf == number) & (count > 0))
            if len(pairs):
                start, term = sought.those(query[pairs])
                is_kept, lists = self._listed(number, term)
                bits = np.where(is_kept, lists | _FIRST, _EVERY)
                children[pairs] = np.bitwise_or.reduceat(bits, start[:-1])
        return _among(children)

    def _listed(self, leaf: int, terms: Hashes) -> tuple[NDArray[np.bool_], Integers]:
        """Return whether a leaf keeps each term, and on which lists it is, as bits."""
        mine = slice(self.start[leaf], self.start[leaf + 1])
        known, lists = self.term[mine], self.lists[mine]
        if not len(known):
            return np.zeros(len(terms), np.bool_), np.zeros(len(terms), np.int64)
        at = np.minimum(np.searchsorted(known, terms), len(known) - 1)
        return known[at] == terms, lists[at].astype(np.int64)


def _among(children: Integers) -> NDArray[np.bool_]:
    """Return which children are among those of each row of bits, bool (n, CHILDREN)."""
    return (children[:, None] >> np.arange(CHILDREN) & 1).astype(np.bool_)
