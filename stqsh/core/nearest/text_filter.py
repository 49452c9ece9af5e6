"""Find objects with the terms that kNN queries require (SSTD's SKQ and CKQ)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.index.inverted_lists import (
    InvertedLists,
    SearchCentres,
    TermSearch,
    build_lists,
    list_lengths,
    search_distances,
    search_within,
)
from stqsh.core.kernels.jit import frozen
from stqsh.core.matching.keyword_queries import keywords_of, texts_of
from stqsh.core.matching.query_context import QueryContext

_USUAL = 8
"""A term that more than one in 8 objects have is not used; objects near the centre are tested instead."""

_AT_ONCE = 1 << 22
"""Objects, summed over queries, that are tested in one portion."""


class TextFilter:
    """Finds present objects by the terms that queries require; `present` has events of their arrival."""

    def __init__(self, context: QueryContext, present: Transitions) -> None:
        self._context, self._present = context, present
        self._index = keywords_of(context.batch, context.prefix)

    @cached_property
    def _postings(self) -> InvertedLists:
        index, present = self._index, self._present
        assert index is not None
        text = texts_of(self._context.batch, present.new)
        index.terms.learn(text)
        wanted = np.zeros(len(index.terms), np.bool_)
        wanted[index.asked.terms] = True
        return build_lists(present.nx, present.ny, frozen(text), index.terms.spans, wanted)

    @property
    def _search(self) -> TermSearch:
        index = self._index
        assert index is not None
        return TermSearch(index.asked, self._postings, index.terms.spans, self._context.planar)

    def rows(self, positions: Array) -> Array:
        """Return queries' rows among keyword queries, int64 (n,); -1 without terms that are rare enough."""
        rows = np.full(len(positions), -1, np.int64)
        if self._index is None or not len(self._index):
            return rows
        own, ids = self._index.queries.id, self._context.queries.id[positions]
        at = np.minimum(np.searchsorted(own, ids), len(own) - 1)
        rows[own[at] == ids] = at[own[at] == ids]
        lengths = list_lengths(self._index.asked, rows, self._postings.start)
        rows[lengths * _USUAL > len(self._present.obj)] = -1
        return rows

    def within(self, centres: SearchCentres, radius: Array) -> tuple[Array, Array]:
        """Return pairs of circles, ascending, and objects inside that have the terms; (n,) each."""
        found = [(np.empty(0, np.int32), np.empty(0, np.int32))]
        for some, room in self._portions(centres):
            near = SearchCentres(*(column[some] for column in centres))
            circle, event = search_within(near, radius[some], self._search, room)
            found.append((some[circle].astype(np.int32), event))
        circles, events = (np.concatenate(column) for column in zip(*found, strict=True))
        return circles, events

    def distances(self, centres: SearchCentres, want: Array) -> Array:
        """Return the distance of the want-th nearest object with the terms; infinite if there are fewer."""
        out = np.zeros(len(want), np.float64)
        for some, room in self._portions(centres):
            near = SearchCentres(*(column[some] for column in centres))
            out[some] = search_distances(near, want[some], self._search, room)
        return out

    def _portions(self, centres: SearchCentres) -> Iterator[tuple[Array, int]]:
        """Yield indices of centres in portions, with the number of objects that they test."""
        if not len(centres.row):
            return
        lengths = list_lengths(self._search.asked, centres.row, self._postings.start)
        portion = np.cumsum(lengths) // _AT_ONCE
        for some in np.split(np.arange(len(lengths)), np.flatnonzero(np.diff(portion)) + 1):
            yield some, int(lengths[some].sum())
