"""The terms of keyword queries, one row each, in the order of their ids."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stqsh.arrays import Array
from stqsh.core.kernels.join.keyword_join import AskedTerms
from stqsh.core.kernels.text.term_sets import CodedTexts
from stqsh.core.state.table import ArraySpec, StateTable


class QueryTerms(StateTable):
    """The terms of keyword queries; start, terms and box (flat) are as in `keyword_join.AskedTerms`."""

    id = ArraySpec(np.int64)  # ascending
    every = ArraySpec(np.bool_)
    checked = ArraySpec(np.bool_)
    filed_under = ArraySpec(np.int32, "terms")
    values = ArraySpec(np.int64)  # one bit per column of `TermTable.value_columns` whose value it requires
    position = ArraySpec(np.int32)  # among the queries of the kind
    box = ArraySpec(np.float64, width=4)
    start = ArraySpec(np.int32, length=1)
    terms = ArraySpec(np.int32, "terms", length=0)

    @property
    def rows(self) -> AskedTerms:
        """The terms that each query asks for."""
        box = self.box.reshape(-1, 4)
        return AskedTerms(self.start, self.terms, self.every, box, self.checked, self.filed_under)

    @property
    def with_words(self) -> Array:
        """Which queries ask for terms of the text, not only for values of columns; bool (n,)."""
        return np.diff(self.start) > np.bitwise_count(self.values)

    @property
    def in_trees(self) -> Array:
        """Which queries are in the trees, bool (n,)."""
        return ~np.isnan(self.rows.box[:, 0])

    @property
    def by_terms(self) -> Array:
        """Which queries ask for words or are in the trees, bool (n,)."""
        return self.with_words | self.in_trees

    def put(self, ids: Array, coded: CodedTexts, every: npt.ArrayLike, values: npt.ArrayLike = ()) -> Array:
        """Add new queries with their terms, not yet indexed; return the new row of each older query."""
        count, known, older = len(ids), len(self.terms), len(self)
        self.grow(start=coded.start[1:] + known, terms=coded.codes)
        self.append(id=ids, every=every, box=np.full(4 * count, np.nan), filed_under=np.full(count, -1))
        if np.size(values):
            self.values[older:] = values
        order = np.argsort(self.id, kind="stable")
        row = np.empty(len(order), np.int64)
        row[order] = np.arange(len(order))
        if not (order == np.arange(len(order))).all():
            self._reorder(order)
        return row[:older]

    def _reorder(self, order: Array) -> None:
        """Reorder the rows."""
        counts = np.diff(self.start)[order]
        begin = self.start[:-1][order]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        self.store(terms=self.terms[np.repeat(begin, counts) + within], start=offsets(counts))
        for name in ("id", "every", "checked", "filed_under", "values", "position"):
            self.state.replace(f"{self.prefix}/{name}", self.array(name)[order])
        self.store(box=self.box.reshape(-1, 4)[order].ravel())

    def keep(self, stay: Array) -> None:
        """Keep only the rows marked in `stay`, bool (n,)."""
        if stay.all():
            return
        counts = np.diff(self.start)
        self.store(terms=self.terms[np.repeat(stay, counts)], start=offsets(counts[stay]))
        super().keep(stay)

    def chosen(self, ids: Array) -> tuple[CodedTexts, Array, Array]:
        """Return the terms, `every` and `values` of some queries, by ascending ids."""
        rows, asked = np.searchsorted(self.id, ids), self.rows
        chosen, counts = np.zeros(len(self), np.bool_), np.diff(asked.start)
        chosen[rows] = True
        codes = asked.terms[np.repeat(chosen, counts)]
        return CodedTexts(offsets(counts[rows]), codes), asked.every[rows], self.values[rows]


def offsets(counts: Array) -> Array:
    """Return the starts of pieces with these lengths, then the end of the last piece; int32 (n + 1,)."""
    return np.append(0, np.cumsum(counts)).astype(np.int32)
