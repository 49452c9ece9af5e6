"""TEXT leaves: leaves of a routing table that deal records to four children by the terms of their texts.

SSTD (section 4.1.2) splits a leaf by texts if queries for different words are about the same places. Its
routers extend the children's keyword lists as they run, and so have to send each query to all children. Here
a table keeps, for each such leaf, the terms that queries needed when it was made, and which of them are on
the lists of children 1 to 3; lists may overlap.

Only the terms of a record that the table keeps count. The record goes to a child whose list has all of them,
to child 0 if no list does, and to any child if the record has no such term; the hash of its key chooses among
several children. A query that needs one of a set of terms, all kept by the table, goes to child 0 and to the
children with one of them on their lists; any other query goes to all children.

So a query finds its records: a record that satisfies it has one of its terms, and is on a child whose list
has that term, or on child 0. Both routes depend only on the table and the record or query, so no two
processes can differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
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
_NO_TERM = np.uint64(2**64 - 1)
"""The sentinel at the end of all terms, for terms that no leaf keeps; a real term may have this hash, too."""
_CHOICES = 12
"""The number of hash values that choose a child: a multiple of 1, 2, 3 and 4, for an even choice."""
_CHOSEN = np.array(
    [
        [among[choice % len(among)] for choice in range(_CHOICES)]
        for bits in range(1, _EVERY + 1)
        if (among := [child for child in range(CHILDREN) if bits >> child & 1])
    ]
)
"""The child that a hash chooses from a set of children, indexed by the set's bits minus 1."""


class SoughtTerms(NamedTuple):
    """For each of some queries, the terms of which a record needs one to satisfy it.

    Attributes:
        start: int64 (queries + 1,), the start of each query's terms; any record may satisfy a query without
            terms.
        term: the hashes of the terms, uint64, by `hash_keys`.
    """

    start: Integers
    term: Hashes

    def those(self, queries: Integers) -> SoughtTerms:
        """Return the needs of some of the queries."""
        count = np.diff(self.start)[queries]
        ends = np.cumsum(count)
        at = np.arange(count.sum()) + np.repeat(self.start[queries] - ends + count, count)
        return SoughtTerms(np.append(0, ends), self.term[at])


class TextTerms(NamedTuple):
    """The terms of records.

    Attributes:
        row: int64 (n,), the record of each term, ascending.
        code: int64 (n,), the code of the term.
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
        """Return the terms of some of the records, renumbered from 0; rows are ascending."""
        number = np.full(int(max(self.row.max(initial=-1), rows.max(initial=-1))) + 1, -1)
        number[rows] = np.arange(len(rows))
        row = number[self.row]
        return TextTerms(row[row >= 0], self.code[row >= 0], self.term)


@dataclass(frozen=True, eq=False)
class TextLeaves:
    """The lists of TEXT leaves.

    Attributes:
        start: int64 (leaves + 1,), the start of each leaf's terms.
        term: uint64 (terms,), the hashes of terms, ascending within each leaf.
        lists: uint8 (terms,), the lists with each term, as bits 1 .. CHILDREN - 1.
        records: float64 (leaves, CHILDREN), the share of a leaf's records that each child got when it was
            last measured.
        cost: the same for the leaf's cost.
    """

    start: Integers
    term: Hashes
    lists: NDArray[np.uint8]
    records: NDArray[np.float64]
    cost: NDArray[np.float64]

    @staticmethod
    def of(leaves: Sequence[tuple[Hashes, NDArray[np.uint8]]]) -> TextLeaves:
        """Make leaves from the ascending terms of each and their lists; all children get equal shares."""
        start = np.cumsum([0, *(len(term) for term, _ in leaves)])
        term = np.concatenate([np.empty(0, np.uint64), *(term for term, _ in leaves)])
        lists = np.concatenate([np.empty(0, np.uint8), *(some for _, some in leaves)])
        even = np.full((len(leaves), CHILDREN), 1 / CHILDREN)
        return TextLeaves(start, term, lists, even, even)

    def __len__(self) -> int:
        return len(self.start) - 1

    def children_of_records(self, leaf: Integers, hashes: Hashes, terms: TextTerms) -> Integers:
        """Return the child of each record, int64 (n,).

        Args:
            leaf: int64 (n,), the TEXT leaf of each.
            hashes: the hashes of their keys, uint64 (n,).
            terms: their terms.
        """
        bits, found = np.full(len(leaf), _EVERY), self._listed(leaf[terms.row], terms.term, terms.code)
        at = np.flatnonzero(found)
        rows = terms.row[at]
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        if len(starts):
            fitting = np.bitwise_and.reduceat(found[at], starts) & (_EVERY - _FIRST)
            bits[rows[starts]] = np.where(fitting, fitting, _FIRST)
        high = hashes >> np.uint64(32)  # the low bits are for hash tables
        chosen: Integers = _CHOSEN[bits - 1, (high % np.uint64(_CHOICES)).astype(np.int64)]
        return chosen

    def children_of_queries(
        self, leaf: Integers, query: Integers, sought: SoughtTerms | None
    ) -> NDArray[np.bool_]:
        """Return the children of a leaf to which a query goes, bool (n, CHILDREN).

        Args:
            leaf: int64 (n,), the TEXT leaf of each pair.
            query: int64 (n,), the query.
            sought: the terms that queries need; None if any record may satisfy each.
        """
        children = np.full(len(leaf), _EVERY)
        if sought is None:
            return _among(children)
        pairs = np.flatnonzero(np.diff(sought.start)[query] > 0)
        if len(pairs):
            start, term = sought.those(query[pairs])
            found = self._listed(np.repeat(leaf[pairs], np.diff(start)), term, np.arange(len(term)))
            children[pairs] = np.bitwise_or.reduceat(np.where(found, found, _EVERY), start[:-1])
        return _among(children)

    def _listed(self, leaf: Integers, terms: Hashes, code: Integers) -> NDArray[np.uint8]:
        """Return the lists of a leaf with a term, as bits, plus child 0; 0 if the leaf lacks it: (n,).

        Args:
            leaf: int64 (n,).
            terms: the hashes of terms, each at least once.
            code: int64 (n,), the term of each.
        """
        known, lists = self._lists
        at = np.searchsorted(known, terms)
        at[known[at] != terms] = len(known) - 1
        found: NDArray[np.uint8] = lists[leaf, at[code]]
        return found

    @cached_property
    def _lists(self) -> tuple[Hashes, NDArray[np.uint8]]:
        """The terms of all leaves, ascending, and the lists in the form of `_listed`, uint8 (leaves, terms).

        The last term is a sentinel that no leaf keeps.
        """
        known = np.append(np.unique(self.term), _NO_TERM)
        lists = np.zeros((len(self), len(known)), np.uint8)
        leaf = np.repeat(np.arange(len(self)), np.diff(self.start))
        lists[leaf, np.searchsorted(known, self.term)] = self.lists | _FIRST
        return known, lists


def _among(children: Integers) -> NDArray[np.bool_]:
    """Expand each row of bits to a mask of children, bool (n, CHILDREN)."""
    return (children[:, None] >> np.arange(CHILDREN) & 1).astype(np.bool_)
