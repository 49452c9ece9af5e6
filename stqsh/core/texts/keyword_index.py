"""The index of keyword queries: static regions, and terms that the stream's text must contain.

Tornado section 3.2 (FAST), which SSTD section 6.1 uses for its CRQ, too: a query is indexed in the cells of
its box and under its rarest term, so an event meets few of the queries whose terms it lacks. See
`stqsh.core.kernels.index.term_quadtrees` for the trees, and `stqsh.core.texts.term_table` for frequencies.

Costs of an event: one access for each term that no query asks for, and for each other term a walk down its
tree, of at most ten nodes with lists of boxes that were too large, or of fewer than eight boxes, for a
further level; a matching box is verified by one access for each further term. Costs of a query: 44 bytes per
entry, of which it has one to four (under each of its terms if any is enough), most often one or two, as only
long lists are split; some 16 bytes for nodes; 54 bytes and four per term for itself; and 1.6 µs for
insertion.

Measured on one core with real posts of 15 terms, and queries of one to three terms drawn as they occur, in
events a second; in brackets a grid of the boxes whose pairs are tested one by one:

| side of boxes | 10 thousand queries | 100 thousand | 1 million |
|---|---|---|---|
| 1 % | 950 000 (710 000) | 530 000 (260 000) | 180 000, 7.9 pairs an event |
| 10 % | 550 000 (22 000) | 115 000 (2 200), 78 pairs an event | |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.index.static_rects import CandidatePairs
from stqsh.core.kernels.jit import frozen
from stqsh.core.kernels.join.keyword_join import (
    AskedTerms,
    KeywordTrees,
    clear_without_terms,
    index_drift,
    join,
)
from stqsh.core.kernels.text.term_sets import CodedTexts, TermSpans, add_terms
from stqsh.core.state.slot_state import SlotState
from stqsh.core.texts.query_terms import QueryTerms
from stqsh.core.texts.term_table import TermTable
from stqsh.core.texts.term_tree import TermTree
from stqsh.core.texts.value_terms import RequiredValue, ValueColumn
from stqsh.spec.stream import Bounds

Array = npt.NDArray[Any]

_FIRST_LOOK, _LAST_LOOK = 1 << 12, 1 << 20
"""Records between checks that queries are indexed under their rarest terms: at first, and at most."""

_TOO_COMMON = 1.5
"""The index is rebuilt once events meet this many times as many queries as necessary."""

_PAIRS, _MOST = 24, 0.75
"""The grid suits queries if a record is in no more of their boxes than this, and if they are at least this
share of all: both ways together cost more than one. A look at a box is cheaper than a walk down a tree,
but trees are divided by place, too, and meet fewer of many large boxes."""


class EventTerms(NamedTuple):
    """The terms of records before and after events: rows of the spans, int32 (n,) each; -1 for none."""

    spans: TermSpans
    old: Array
    new: Array


class KeywordIndex:
    """Keyword queries of a stream on a slot, kept in arrays below `prefix`.

    For asked/… see `QueryTerms`, for forest/… and lattice see `TermTree`. looks, int64 (2,), holds the number
    of records since the last check of frequencies, and when to check again.
    """

    def __init__(self, state: SlotState, prefix: str, terms: TermTable) -> None:
        self._state, self._prefix, self.terms = state, prefix, terms
        self._asked = QueryTerms(state, f"{prefix}/asked")
        self._tree = TermTree(state, prefix, self._asked, terms)
        if f"{prefix}/looks" not in state:
            state.create(f"{prefix}/looks", np.int64, 2)[:] = 0, _FIRST_LOOK

    def __len__(self) -> int:
        return len(self._asked)

    @property
    def ids(self) -> Array:
        """The indexed queries, ascending; int64 (n,)."""
        return self._asked.id

    @property
    def positions(self) -> Array:
        """The positions of these queries among those of the kind, after `refresh`; int32 (n,)."""
        return self._asked.position

    @property
    def asked(self) -> AskedTerms:
        """The terms that queries ask for, one row each in the order of `ids`."""
        return self._asked.rows

    @property
    def _in_trees(self) -> Array:
        """Which queries are in the trees, bool (n,)."""
        return ~np.isnan(self.asked.box[:, 0])

    @property
    def _by_terms(self) -> Array:
        """Which queries ask for words, or are in the trees, bool (n,)."""
        return self._asked.with_words | self._in_trees

    @property
    def found_by_terms(self) -> Array:
        """The queries that ask for words, or are in the trees, ascending; int64 (n,)."""
        return self.ids[self._by_terms]

    @property
    def has_words(self) -> bool:
        """Whether a query asks for words."""
        return bool(self._asked.with_words.any())

    def value_columns(self, *, needed: bool) -> list[ValueColumn]:
        """Return the columns whose values queries require, all or those `needed` to find queries."""
        values = self._asked.values
        bits = int(np.bitwise_or.reduce(values[self._by_terms] if needed else values, initial=0))
        known = self.terms.value_columns if bits else []
        return [column for number, column in enumerate(known) if bits >> number & 1]

    def add(
        self,
        ids: Array,
        phrases: list[str],
        every: list[bool],
        values: Sequence[tuple[RequiredValue, ...]] = (),
    ) -> None:
        """Add new queries; `refresh` indexes them.

        Args:
            ids: Their ids.
            phrases: The terms that each asks for; at least one, or a value.
            every: Whether all of a query's terms are required.
            values: The values of columns that each requires, for those of which all terms are required.
        """
        coded, bits = self.terms.of(phrases), np.zeros(len(ids), np.int64)
        if any(values):
            required = {one: self.terms.require(one) for one in dict.fromkeys(values)}
            more = np.full((max(len(terms) for terms, _ in required.values()), len(ids)), -1, np.int32)
            for i, one in enumerate(values):
                terms, bits[i] = required[one]
                more[: len(terms), i] = terms
            own = TermSpans(coded.start[:-1], coded.start[1:], coded.codes)
            spans = add_terms(own, np.arange(len(ids), dtype=np.int32), more)
            coded = CodedTexts(spans.begin, spans.codes)
        self._tree.renumber(self._asked.put(ids, coded, every, bits))

    def refresh(self, ids: Array, boxes: Array, checked: Array, bounds: Bounds | None) -> None:
        """Follow the queries of the kind: remove those that are gone, and index what changed.

        Args:
            ids: All queries of the kind, ascending, with or without keywords; int64 (q,).
            boxes: The box to index for each, NaN for none; float64 (q, 4).
            checked: Whether pairs that stay are wanted too; bool (q,).
            bounds: The extent of the stream, if known.
        """
        at = np.searchsorted(ids, self.ids)
        there = ids[np.minimum(at, len(ids) - 1)] == self.ids if len(ids) else np.zeros(len(self), np.bool_)
        at = at[there]
        was, box = self.asked.box[there], boxes[at]
        same = ((was == box) | (np.isnan(was) & np.isnan(box))).all(axis=1)
        same &= self.asked.checked[there] == checked[at]
        row = np.full(len(there), -1, np.int64)
        row[np.flatnonzero(there)[same]] = np.flatnonzero(same)
        left = self._tree.renumber(row)
        self._asked.keep(there)
        self.asked.box[:], self.asked.checked[:] = box, checked[at]
        self.positions[:] = at
        self._tree.insert(np.flatnonzero(~np.isnan(box[:, 0]) & ~same), left, bounds)
        if self.is_due:
            self._looks[:] = 0, min(4 * self._looks[1], _LAST_LOOK)
            self.rebuild_if_worn(bounds)

    def in_grid(self, ids: Array, boxes: Array) -> Array:
        """Return which queries a grid of boxes suits better; call it before `refresh`.

        These are most queries, if a record lies in few of their boxes: not more records than have the rarest
        term of the query. Queries in the trees stay there until terms are compared again.

        Args:
            ids: All queries of the kind, ascending, with or without keywords; int64 (q,).
            boxes: The box of each, NaN for none; float64 (q, 4).

        Returns:
            bool (q,).
        """
        chosen = np.zeros(len(ids), np.bool_)
        if not (self.terms.total and len(ids) and len(self)):
            return chosen
        at = np.minimum(np.searchsorted(ids, self.ids), len(ids) - 1)
        placed = (ids[at] == self.ids) & ~np.isnan(boxes[at, 0])
        seen, start = self.terms.seen[self.asked.terms], self.asked.start[:-1]
        common = np.where(self.asked.every, np.minimum.reduceat(seen, start), np.add.reduceat(seen, start))
        inside = self.terms.places.expected(boxes[at])
        order = np.argsort(inside, kind="stable")
        few = np.zeros(len(self), np.bool_)
        few[order] = np.cumsum(inside[order]) <= _PAIRS * self.terms.total
        suits = placed & few & (inside <= common)
        if suits.sum() >= _MOST * placed.sum():
            chosen[at[suits & (~self._in_trees | self.is_due)]] = True
        return chosen

    def terms_of(self, old: Array, new: Array, values: Array | None = None) -> EventTerms:
        """Return the terms of records before and after events.

        Args:
            old: The codes of the texts before, int32 (n,), -1 for NULL.
            new: The codes of the texts after, like `old`.
            values: The terms of values, int32 (columns, 2 * n), before and after; -1 for none.
        """
        terms, count = self.terms, len(old)
        terms.learn(old)
        terms.learn(new)
        if values is None:
            return EventTerms(terms.spans, old, new)
        rows = np.arange(2 * count, dtype=np.int32)
        spans = add_terms(terms.spans, np.concatenate([old, new]), values)
        return EventTerms(spans, rows[:count], rows[count:])

    def join(self, events: Transitions, said: EventTerms) -> CandidatePairs:
        """Find the pairs of events and queries, by position, where box and terms begin or cease to match.

        For checked queries, they include pairs that continue to match. Queries in the grid are in none.
        """
        self._tree.add_terms()
        trees = KeywordTrees(self._tree.forest, self.asked, said.spans, self._tree.lattice)
        found = join(events, frozen(said.old), frozen(said.new), trees)
        return CandidatePairs(found.event, self.positions[found.query], found.flags)

    def clear(self, pairs: CandidatePairs, said: EventTerms) -> None:
        """Clear WAS and IS of pairs from the grid, by position, where the words of a query are missing."""
        rows = np.flatnonzero(self._asked.with_words & ~self._in_trees)
        if not (len(rows) and len(pairs.query)):
            return
        positions = self.positions[rows]
        row = np.full(1 + max(positions.max(), pairs.query.max()), -1, np.int32)
        row[positions] = rows
        sides = frozen(said.old), frozen(said.new)
        clear_without_terms(pairs, sides, said.spans, self.asked, row)

    def alone(self, ids: Array, boxes: Array) -> KeywordIndex:
        """Return a temporary index of some of the queries, with other boxes.

        Args:
            ids: Queries indexed here, ascending, int64 (n,).
            boxes: float64 (n, 4).
        """
        some = KeywordIndex(SlotState.fresh(0), "", self.terms)
        some._asked.put(ids, *self._asked.chosen(ids))
        some.refresh(ids, boxes, np.zeros(len(ids), np.bool_), None)
        return some

    def count(self, records: int, texts: Array | None = None) -> None:
        """Count new records, and the terms of their texts; the next `refresh` may compare terms again."""
        if texts is not None:
            self.terms.learn(texts)
            self.terms.count(texts)
        self.terms.count_records(records)
        self._looks[0] += records

    @property
    def _looks(self) -> Array:
        return self._state.array(f"{self._prefix}/looks")

    @property
    def is_due(self) -> bool:
        """Whether enough records came for the next `refresh` to compare terms again."""
        return bool(self._looks[0] >= self._looks[1])

    def rebuild_if_worn(self, bounds: Bounds | None) -> None:
        """Rebuild the index if too many queries are under terms that are no longer rare."""
        have, best = index_drift(self.asked, frozen(self.terms.seen))
        if have > _TOO_COMMON * best:
            self._tree.rebuild(bounds)
