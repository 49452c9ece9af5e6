"""The CH-trees of stqsh (STAR section 5.1), as a slot has them while `index.queries` is chtree."""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.bench.papers.star.continuous.standing import Pairs, Standing, topics_of, with_sought_topics
from stqsh.bench.papers.star.continuous.tables import Posted, Predicates
from stqsh.core.indexes.ch_trees import LIMIT, ChTreeIndex, IndexedRecords, SoughtPredicates, digests
from stqsh.core.kernels.join.keyword_join import AskedTerms, clear_without_terms
from stqsh.core.kernels.text.term_sets import TermSpans
from stqsh.core.state.slot_state import SlotState

ENDLESS = 1 << 40


class ChIndex(Standing):
    """CH-trees of at most `limit` queries each, where topics are values of a column.

    Attributes:
        trees: the trees.
    """

    def __init__(self, sought: Predicates, sample: Posted, terms: int, limit: int = LIMIT) -> None:
        super().__init__(sought, sample, terms)
        self.name = "CH(inf)" if limit == ENDLESS else f"CH({limit:,})"
        self.trees = ChTreeIndex(SlotState.fresh(0), "trees", limit)
        self._every = np.ones(len(sought.topic), np.bool_)
        rows = np.arange(len(sought.topic), dtype=np.int32)
        self._tested = np.where(np.diff(sought.start) > 1, rows, np.int32(-1))

    def drop(self, rows: Array) -> None:
        """Let rows stand no longer; the trees themselves are lazy."""
        self.sought.active[rows] = False
        self.clean()

    def clean(self) -> None:
        """Update the trees to the rows that stand."""
        sought, sample, every = self.sought, self.sample, self._every
        box = np.where(sought.active[:, None], sought.box, np.nan)
        values = np.where(sought.topic < 0, -1, sought.topic + self.terms).astype(np.int32)[:, None]
        row = np.repeat(np.arange(len(every)), np.diff(sought.start))
        digest = digests(len(every), (row, sought.terms), (np.arange(len(every)), values[:, 0]))
        bounds = np.empty((len(every), 0, 2))
        asked = SoughtPredicates(
            np.arange(len(every)), box, sought.start, sought.terms, every, values, bounds, every, digest
        )
        records, spans = self._records(with_sought_topics(sample, sought))
        seen = np.bincount(sample.terms, minlength=self.terms + topics_of(sought) + 1)
        self.trees.fill(asked, records, spans, seen, (0.0, 0.0, 1.0, 1.0))

    def match(self, posts: Posted) -> Pairs:
        """Return the rows that stand and whose predicates records satisfy."""
        records, spans = self._records(posts)
        nowhere = records._replace(x=np.full(len(posts.x), np.nan))
        pairs, every, sought = self.trees.join(nowhere, records, spans), self._every, self.sought
        asked = AskedTerms(sought.start, sought.terms, every, sought.box, every, sought.topic)
        if not (self._tested >= 0).any():
            return Pairs(pairs.event, pairs.query)
        clear_without_terms(pairs, (records.text, records.text), spans, asked, self._tested)
        kept = pairs.flags != 0
        return Pairs(pairs.event[kept], pairs.query[kept])

    def _records(self, posts: Posted) -> tuple[IndexedRecords, TermSpans]:
        """Return records, and the terms of their texts."""
        count = len(posts.x)
        spans = TermSpans(*(one.astype(np.int32) for one in (posts.start[:-1], posts.start[1:], posts.terms)))
        values, text = (posts.topic + self.terms).astype(np.int32)[:, None], np.arange(count, dtype=np.int32)
        return IndexedRecords(posts.x, posts.y, text, values, np.empty((count, 0))), spans

    @property
    def nbytes(self) -> int:
        """The bytes of the trees."""
        return self.trees.nbytes
