"""The index of fixed regions: a keyword index for keyword queries, a grid for the others.

CH-trees have the queries that intervals of numbers find better, or all queries if the session chooses them,
see `stqsh.core.matching.tree_index`.
"""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.index.static_rects import CandidatePairs
from stqsh.core.matching.keyword_queries import (
    KeywordPart,
    add_keywords,
    exchange_keywords,
    keywords_of,
    record_terms,
    record_texts,
    release_keywords,
)
from stqsh.core.matching.match import JoinResult, renumbered
from stqsh.core.matching.query_context import QueryContext
from stqsh.core.matching.tree_index import TreeIndex
from stqsh.core.queries.query_table import ACTIVE, RECT
from stqsh.core.queries.registrations import NewQueries
from stqsh.core.regions.grid_layout import StaticRectIndex
from stqsh.core.texts.access_path import choose_grid, clear_without_words
from stqsh.spec.query import with_members


class StaticRegionIndex:
    """The boxes of a kind's static queries, as an index for `stqsh.core.matching.match.match`.

    Arrays below `prefix`: grid/…, and, while there are keyword queries, keywords/…. A keyword query requires
    terms of the stream's TEXT column, or values of other columns, besides the rest of its condition (SSTD's
    CRQ). If fewer records lie in its box than have its rarest term, the grid finds it, not its terms.
    """

    def __init__(self, batch: StreamBatch, prefix: str) -> None:
        self._batch, self._prefix = batch, prefix
        self._grid = StaticRectIndex(batch.state, f"{prefix}/grid")
        self._trees = TreeIndex(batch, prefix)

    def add_keywords(self, new: NewQueries) -> NewQueries:
        """Index the keyword queries among new ones; return all, with the rest of their conditions."""
        return _with_rests(new, add_keywords(self._batch, self._prefix, new, with_values=True))

    def exchange_keywords(self, new: NewQueries) -> NewQueries:
        """Replace the keywords of queries by those of `new`; return all, like `add_keywords`."""
        return _with_rests(new, exchange_keywords(self._batch, self._prefix, new, with_values=True))

    def fill(self, context: QueryContext, matched: Array | None = None) -> None:
        """Rebuild the index from the active queries, after any was added, changed or removed.

        `matched`, bool (queries,), marks the queries that are matched with events, by default all; the others
        get no place in the index. Terms of keyword queries stay, because members are looked up by them.
        """
        queries, bounds = context.queries, self._batch.spec.bounds
        still = np.flatnonzero((queries.focal < 0) & (queries.mode == ACTIVE))
        boxes = np.full((len(queries), 4), np.nan)
        boxes[still] = context.boxes(still, self._batch.timing.first - 1)
        boxes[context.covered] = np.nan
        if matched is not None:
            boxes[~matched] = np.nan
        checked = (queries.template >= 0) | (queries.shape != RECT) | context.staying
        index = keywords_of(self._batch, self._prefix)
        in_trees = self._trees.choose(context, index, boxes)
        tree_boxes = boxes
        if in_trees is not None:
            tree_boxes = np.where(in_trees[:, None], boxes, np.nan)
            boxes[in_trees] = np.nan
        with_words = np.zeros(len(queries), np.bool_)
        if index is not None:
            in_grid = choose_grid(index, queries.id, boxes)
            index.refresh(queries.id, np.where(in_grid[:, None], np.nan, boxes), checked, bounds)
            positions = index.queries.position
            boxes[positions[~in_grid[positions]]] = np.nan
            with_words[positions[index.queries.with_words]] = True
            checked = checked | in_grid  # an object can gain or lose words within a box
            if not len(index):
                release_keywords(self._batch, self._prefix)
        if in_trees is not None:
            self._trees.fill(context, tree_boxes, checked | with_words)
        tag = 2 * np.arange(len(queries), dtype=np.int32) + checked
        self._grid.fill(boxes, tag.astype(np.int32), bounds, self._batch.spec.grid)

    def count_terms(self) -> None:
        """Count the terms of a batch's new records, if there are keyword queries; `join` does so too."""
        index = keywords_of(self._batch, self._prefix)
        if index is not None:
            record_texts(self._batch, index)

    @property
    def is_due(self) -> bool:
        """Whether another `fill` may find better places for queries, or the session chose another index."""
        index = keywords_of(self._batch, self._prefix)
        return self._trees.is_due or (index is not None and index.is_due)

    def join(self, events: Transitions) -> JoinResult:
        """Join events, see `stqsh.core.matching.match.RegionIndex`.

        For keyword queries, WAS and IS include the test of their terms.
        """
        order, ordered = self._grid.ordered(events)
        pairs, index, said = self._grid.join(ordered), keywords_of(self._batch, self._prefix), None
        if index is not None:
            record_texts(self._batch, index)
        if index is not None and index.queries.by_terms.any():
            said = record_terms(self._batch, index, events)
            by_event = pairs if order is None else pairs._replace(event=order[pairs.event])
            clear_without_words(index, by_event, said)
            pairs = _together(pairs, index.join(events, said), order)
        self._trees.count(len(events.step))
        if self._trees.is_built:
            pairs = _together(pairs, self._trees.join(events, said), order)
        return JoinResult(pairs, ordered, order)


def _together(pairs: CandidatePairs, found: CandidatePairs, order: Array | None) -> CandidatePairs:
    """Return pairs, and further ones, whose events are numbered as they were before they were ordered."""
    found = found._replace(event=renumbered(found.event, order))
    return CandidatePairs(*(np.concatenate(both) for both in zip(pairs, found, strict=True)))


def _with_rests(new: NewQueries, parts: dict[int, KeywordPart]) -> NewQueries:
    """Return queries with what is left of their conditions without the words that the index tests."""
    rests = {i: part.rest for i, part in parts.items() if part.phrase}
    return new.with_patterns({i: with_members(new.patterns[i], condition=rest) for i, rest in rests.items()})
