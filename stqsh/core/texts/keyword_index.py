"""The index of keyword queries: static regions, and terms that the stream's text must contain.

Tornado section 3.2 (FAST), which SSTD section 6.1 also uses for its CRQ: a query is indexed in the cells of
its box and under its rarest term, so an event meets few of the queries whose terms it lacks. See
`stqsh.core.kernels.index.term_quadtrees` for the trees, `stqsh.core.texts.term_frequencies` for frequencies,
and `stqsh.core.texts.access_path` for the choice between these trees and a grid.

Cost of an event: one access for each term that no query asks for. For each other term, a walk down its tree
of at most ten nodes; the nodes' lists contain boxes that are too large for a further level, or fewer than
eight boxes. Each matching box is verified by one access for each further term. Cost of a query: 44 bytes per
entry, of which a query has one to four (under each of its terms if any is enough), usually one or two,
because only long lists are split; about 16 bytes for nodes; 54 bytes and four per term for the query; and 1.6
µs for insertion.
insertion.

Events per second, measured on one core with real posts of 15 terms and queries of one to three terms drawn at
their frequencies; in brackets, a grid of boxes whose pairs are tested one by one:

| side of boxes | 10 thousand queries | 100 thousand | 1 million |
|---|---|---|---|
| 1 % | 950 000 (710 000) | 530 000 (260 000) | 180 000, 7.9 pairs an event |
| 10 % | 550 000 (22 000) | 115 000 (2 200), 78 pairs an event | |
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.index.static_rects import CandidatePairs
from stqsh.core.kernels.jit import frozen
from stqsh.core.kernels.join.keyword_join import AskedTerms, KeywordTrees, index_drift, join
from stqsh.core.kernels.text.term_sets import CodedTexts, TermSpans, add_terms
from stqsh.core.state.slot_state import SlotState
from stqsh.core.texts.query_terms import QueryTerms
from stqsh.core.texts.term_table import EventTerms, TermTable
from stqsh.core.texts.term_tree import TermTree
from stqsh.core.texts.value_terms import RequiredValue
from stqsh.spec.stream import Bounds

_FIRST_LOOK, _LAST_LOOK = 1 << 12, 1 << 20
"""The number of records between checks that queries are under their rarest terms: at first, and at most."""

_TOO_COMMON = 1.5
"""The index is rebuilt once events meet this many times as many queries as necessary."""


class KeywordIndex:
    """Keyword queries of a stream on a slot, kept in arrays below `prefix`.

    See `QueryTerms` for asked/…, the `queries`, and `TermTree` for forest/… and lattice. looks, int64 (2,),
    holds the number of records since the last check of frequencies, and the number after which the next check
    is due.
    """

    def __init__(self, state: SlotState, prefix: str, terms: TermTable) -> None:
        self._state, self._prefix, self.terms = state, prefix, terms
        self.queries = QueryTerms(state, f"{prefix}/asked")
        self._tree = TermTree(state, prefix, self.queries, terms)
        if f"{prefix}/looks" not in state:
            state.create(f"{prefix}/looks", np.int64, 2)[:] = 0, _FIRST_LOOK

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def asked(self) -> AskedTerms:
        """The terms that queries ask for; the rows are in the order of `queries`."""
        return self.queries.rows

    def add(
        self,
        ids: Array,
        phrases: list[str],
        every: list[bool],
        values: Sequence[tuple[RequiredValue, ...]] = (),
    ) -> None:
        """Add new queries; `refresh` indexes them.

        Args:
            ids: The ids of the queries.
            phrases: The terms of each query; at least one term, or a required value.
            every: Whether all of a query's terms are required.
            values: The column values that each query requires, for queries that require all of their terms.
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
        self._tree.renumber(self.queries.put(ids, coded, every, bits))

    def remove(self, ids: Array) -> None:
        """Remove queries; ids that are not indexed here are ignored."""
        stay = ~np.isin(self.queries.id, ids)
        self._tree.renumber(np.where(stay, np.cumsum(stay) - 1, -1))
        self.queries.keep(stay)

    def refresh(self, ids: Array, boxes: Array, checked: Array, bounds: Bounds | None) -> None:
        """Update the index to the queries of the kind: remove dropped queries, and index what changed.

        Args:
            ids: All queries of the kind, ascending, with or without keywords; int64 (q,).
            boxes: The box to index for each, NaN for none; float64 (q, 4).
            checked: Whether pairs that stay are wanted, too; bool (q,).
            bounds: The extent of the stream, if known.
        """
        own = self.queries.id
        at = np.searchsorted(ids, own)
        there = ids[np.minimum(at, len(ids) - 1)] == own if len(ids) else np.zeros(len(own), np.bool_)
        at = at[there]
        was, box = self.asked.box[there], boxes[at]
        same = ((was == box) | (np.isnan(was) & np.isnan(box))).all(axis=1)
        same &= self.asked.checked[there] == checked[at]
        row = np.full(len(there), -1, np.int64)
        row[np.flatnonzero(there)[same]] = np.flatnonzero(same)
        left = self._tree.renumber(row)
        self.queries.keep(there)
        self.asked.box[:], self.asked.checked[:] = box, checked[at]
        self.queries.position[:] = at
        self._tree.insert(np.flatnonzero(~np.isnan(box[:, 0]) & ~same), left, bounds)
        if self.is_due:
            self._looks[:] = 0, min(4 * self._looks[1], _LAST_LOOK)
            self.rebuild_if_worn(bounds)

    def join(self, events: Transitions, said: EventTerms) -> CandidatePairs:
        """Find the pairs of events and queries, by position, where box and terms begin or cease to match.

        For checked queries, pairs that continue to match are included. Queries in the grid have no pairs
        here.
        """
        self._tree.add_terms()
        trees = KeywordTrees(self._tree.forest, self.asked, said.spans, self._tree.frame)
        found = join(events, frozen(said.old), frozen(said.new), trees)
        return CandidatePairs(found.event, self.queries.position[found.query], found.flags)

    def alone(self, ids: Array, boxes: Array) -> KeywordIndex:
        """Return a temporary index of some of the queries, with other boxes.

        Args:
            ids: Queries indexed here, ascending, int64 (n,).
            boxes: float64 (n, 4).
        """
        some = KeywordIndex(SlotState.fresh(0), "", self.terms)
        some.queries.put(ids, *self.queries.chosen(ids))
        some.refresh(ids, boxes, np.zeros(len(ids), np.bool_), None)
        return some

    def count(self, records: int, texts: Array | None = None) -> None:
        """Count new records and the terms of their texts; the next `refresh` may compare terms again."""
        if texts is not None:
            self.terms.learn(texts)
            self.terms.frequencies.count(self.terms.spans, texts)
        self.terms.frequencies.count_records(records)
        self._looks[0] += records

    @property
    def _looks(self) -> Array:
        return self._state.array(f"{self._prefix}/looks")

    @property
    def is_due(self) -> bool:
        """Whether enough records arrived for the next `refresh` to compare terms again."""
        return bool(self._looks[0] >= self._looks[1])

    def rebuild_if_worn(self, bounds: Bounds | None) -> None:
        """Rebuild the index if too many queries are under terms that are no longer rare."""
        have, best = index_drift(self.asked, frozen(self.terms.frequencies.seen))
        if have > _TOO_COMMON * best:
            self._tree.rebuild(bounds)
