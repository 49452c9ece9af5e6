"""The indexes of stqsh, from the core: trees of terms, and the grid of rectangles.

`Forest` files a query under its rarest term, where a topic counts as one more term, or in the grid if it has
a rectangle only, as a slot of stqsh does. `Fast` is what Tornado's index does: topics are tested afterwards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.bench.papers.star.continuous.probes import satisfy, terms_and_topics
from stqsh.bench.papers.star.continuous.standing import (
    Pairs,
    Standing,
    is_placed,
    topics_of,
    with_sought_topics,
)
from stqsh.bench.papers.star.continuous.tables import Posted, Predicates
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.jit import frozen
from stqsh.core.kernels.join.keyword_join import KeywordTrees, join
from stqsh.core.kernels.text.term_sets import CodedTexts, TermSpans
from stqsh.core.regions.grid_layout import StaticRectIndex
from stqsh.core.state.slot_state import SlotState
from stqsh.core.texts.query_terms import QueryTerms, offsets
from stqsh.core.texts.term_table import TermTable
from stqsh.core.texts.term_tree import TermTree

_SQUARE = (0.0, 0.0, 1.0, 1.0)
_NOTHING = np.zeros(1, np.int32)

_FEW = 1_000
"""A box that one record in so many lies in suits the grid in any case: a walk down a tree is dearer."""


class _Built(NamedTuple):
    """An index: its trees and the rows in them, its grid, and the rows that every record is tested for."""

    trees: KeywordTrees
    filed: Array
    grid: StaticRectIndex
    rest: Array
    state: SlotState


class Forest(Standing):
    """Trees of terms, and of topics as further terms, and a grid."""

    name = "forest"
    with_topics = True

    def built(self, rows: Array) -> _Built:
        """Return the index of rows."""
        sought, placed = self.sought, is_placed(self.sought)
        asks = self._filed()
        filed = rows[asks[rows]]
        state = SlotState.fresh(0)
        tree = self._tree(state, filed)
        boxes = np.full((len(placed), 4), np.nan)
        gridded = rows[~asks[rows] & placed[rows]]
        boxes[gridded] = sought.box[gridded]
        grid = StaticRectIndex(state, "grid")
        grid.fill(boxes, 2 * np.arange(len(placed), dtype=np.int32), _SQUARE)
        spans = TermSpans(*np.empty((3, 0), np.int32))
        trees = KeywordTrees(tree.forest, QueryTerms(state, "forest/asked").rows, spans, tree.frame)
        return _Built(trees, filed, grid, rows[~asks[rows] & ~placed[rows]], state)

    def _filed(self) -> Array:
        """Return which rows belong in trees rather than in the grid, bool (rows,)."""
        sought = self.sought
        asks: Array = (np.diff(sought.start) > 0) | ((sought.topic >= 0) & self.with_topics)
        return asks

    def _tree(self, state: SlotState, filed: Array) -> TermTree:
        """Build the trees of some rows, whose numbers in them are their ids."""
        topics = topics_of(self.sought) + 1
        terms = TermTable(state, 1)
        terms.words.intern(pa.array([str(number) for number in range(self.terms + topics)]))
        said = self._spans(self.sample)
        terms.frequencies.seen[:] = np.bincount(said.codes, minlength=self.terms + topics)
        asked = QueryTerms(state, "forest/asked")
        sought = self.sought
        coded = _together(sought, filed, self.terms if self.with_topics else -1)
        asked.put(np.arange(len(filed)), coded, np.ones(len(filed), np.bool_))
        box = np.clip(sought.box[filed], -1.0, 2.0)
        asked.rows.box[:] = box
        tree = TermTree(state, "forest", asked, terms)
        tree.rebuild(_SQUARE)
        tree.add_terms()
        return tree

    def _spans(self, posts: Posted) -> TermSpans:
        """Return the terms of records, and their topics as further ones; the last range is that of none."""
        if self.with_topics:
            end, codes = terms_and_topics(with_sought_topics(posts, self.sought), self.terms)
            begin = np.concatenate([_NOTHING, end])
            return TermSpans(begin, np.append(end, begin[-1:]), codes)
        bounds = posts.start.astype(np.int32)
        return TermSpans(bounds, np.append(bounds[1:], bounds[-1:]), posts.terms)

    def match(self, posts: Posted) -> Pairs:
        """Return the rows that stand and whose predicates records satisfy."""
        count, index, events = len(posts.x), self.index, _events(posts)
        number = np.arange(count, dtype=np.int32)
        found = [self._with_topic(posts, np.repeat(number, len(index.rest)), np.tile(index.rest, count))]
        if len(index.filed):
            trees = index.trees._replace(spans=self._spans(posts))
            pairs = join(events, frozen(events.old), frozen(events.new), trees)
            found.append(self._with_topic(posts, pairs.event, index.filed[pairs.query]))
        order, ordered = index.grid.ordered(events)
        pairs = index.grid.join(ordered)
        event = pairs.event if order is None else order[pairs.event]
        found.append(self._from_grid(posts, self._with_topic(posts, event, pairs.query)))
        return Pairs(*(np.concatenate(columns) for columns in zip(*found, strict=True)))

    def _with_topic(self, posts: Posted, record: Array, row: Array) -> Pairs:
        """Return the pairs of rows that stand, and whose topic is that of the record."""
        kept = self.sought.active[row]
        if not self.with_topics:
            topic = self.sought.topic[row]
            kept &= (topic < 0) | (topic == posts.topic[record])
        return Pairs(record, row) if kept.all() else Pairs(record[kept], row[kept])

    def _from_grid(self, posts: Posted, pairs: Pairs) -> Pairs:
        """Return the pairs of the grid that satisfy all that its rows ask for."""
        del posts
        return pairs

    @property
    def nbytes(self) -> int:
        """The bytes of the index, without those of the rows themselves."""
        return sum(
            buffer.nbytes for buffer in (self.index.state.array(name) for name in self.index.state.buffers)
        )


class Fast(Forest):
    """Trees of terms, and a grid, without an index of topics."""

    name = "FAST"
    with_topics = False


class RarestFirst(Forest):
    """The same, but a query is in the grid if few records lie in its box, or no more than have its terms."""

    name = "rarest first"

    def _filed(self) -> Array:
        """Return which rows belong in trees rather than in the grid, bool (rows,)."""
        sought, sample, placed = self.sought, self.sample, is_placed(self.sought)
        seen = np.bincount(
            self._spans(sample).codes, minlength=self.terms + 1 + int(sought.topic.max(initial=0))
        )
        coded = _together(sought, np.arange(len(placed)), self.terms)
        asks, rarest = np.diff(coded.start) > 0, np.zeros(len(placed), np.int64)
        rarest[asks] = np.minimum.reduceat(seen[coded.codes], coded.start[:-1][asks]) if asks.any() else 0
        grid = StaticRectIndex(SlotState.fresh(0), "grid")
        boxes = np.where(placed[:, None], sought.box, np.nan)
        grid.fill(boxes, 2 * np.arange(len(placed), dtype=np.int32), _SQUARE)
        inside = np.bincount(grid.join(_events(sample)).query, minlength=len(placed))
        chosen: Array = asks & ~(placed & (inside <= rarest + len(sample.x) // _FEW))
        return chosen

    def _from_grid(self, posts: Posted, pairs: Pairs) -> Pairs:
        """Return the pairs of the grid that satisfy all that its rows ask for."""
        record, row = pairs
        kept = satisfy(self.sought, posts, record, row)
        return Pairs(record[kept], row[kept])


def _events(posts: Posted) -> Transitions:
    """Return the coming of records."""
    count = len(posts.x)
    number, nowhere = np.arange(count, dtype=np.int32), np.full(count, np.nan)
    absent = np.full(count, -1, np.int32)
    return Transitions(number.astype(np.int64), number, absent, number, nowhere, nowhere, posts.x, posts.y)


def _together(sought: Predicates, rows: Array, first: int) -> CodedTexts:
    """Return the terms of rows, ascending, with the topic as the last one, from `first` on (-1: without)."""
    counts = np.diff(sought.start)[rows]
    about = (sought.topic[rows] >= 0) & (first >= 0)
    start = offsets(counts + about)
    codes = np.empty(int(start[-1]), np.int32)
    codes[(start[1:] - 1)[about]] = first + sought.topic[rows[about]]
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    codes[np.repeat(start[:-1], counts) + within] = sought.terms[
        np.repeat(sought.start[rows], counts) + within
    ]
    return CodedTexts(start, codes)
