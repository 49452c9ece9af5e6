"""The index of keyword queries: stationary regions, and terms that the stream's text has to contain.

Tornado section 3.2 (FAST), which SSTD section 6.1 takes for its CRQ too: a query hangs in the cells of its
box and under its rarest term, so an event meets few of the queries whose terms it lacks. See
`stqsh.core.kernels.index.term_quadtrees` for how it hangs, and `stqsh.core.texts.term_table` for what is
rare.

Costs. An event: a look at one number for each term that nobody asks for, and for each other one a walk down
its tree, of at most ten nodes with lists of boxes that were too large, or fewer than eight, for a further
level; a box that holds is verified by one look for each further term. A query: 44 bytes an entry, of which it
has one to four (under each of its terms if any is enough), most often one or two, for lists are not split
before they are long, some 16 bytes for nodes, and 54 bytes and four a term for itself; and 1.6 µs to hang up.

Measured on one core with real posts of 15 terms, queries of one to three terms drawn as they occur, events a
second; in brackets a grid of the boxes whose pairs are looked at one by one:

| side of boxes | 10 thousand queries | 100 thousand | 1 million |
|---|---|---|---|
| 1 % | 950 000 (710 000) | 530 000 (260 000) | 180 000, 7.9 pairs an event |
| 10 % | 550 000 (22 000) | 115 000 (2 200), 78 pairs an event | |
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.index.static_rects import CandidatePairs
from stqsh.core.kernels.jit import frozen
from stqsh.core.kernels.join.keyword_join import AskedTerms, KeywordTrees, index_drift, join
from stqsh.core.state.slot_state import SlotState
from stqsh.core.texts.query_terms import QueryTerms
from stqsh.core.texts.term_table import TermTable
from stqsh.core.texts.term_tree import TermTree

Array = npt.NDArray[Any]

_FIRST_LOOK, _LAST_LOOK = 1 << 12, 1 << 20
"""Records after which it is seen whether queries still hang under their rarest terms, at first and later."""

_TOO_COMMON = 1.5
"""They are hung up anew once events come by so many times as often as they need to."""


class KeywordIndex:
    """Keyword queries of a stream on a slot, kept in arrays beneath `prefix`.

    asked/…: see `QueryTerms`. forest/… and lattice: see `TermTree`. looks int64 (2,): records since the last
    look at frequencies, and when to look again.
    """

    def __init__(self, state: SlotState, prefix: str, terms: TermTable) -> None:
        self._state, self._prefix, self.terms = state, prefix, terms
        self._asked = QueryTerms(state, f"{prefix}/asked")
        self._hanging = TermTree(state, prefix, self._asked, terms)
        if f"{prefix}/looks" not in state:
            state.create(f"{prefix}/looks", np.int64, 2)[:] = 0, _FIRST_LOOK

    def __len__(self) -> int:
        return len(self._asked)

    @property
    def ids(self) -> Array:
        """The queries that are kept here, ascending. int64 (n,)."""
        return self._asked.ids

    @property
    def positions(self) -> Array:
        """Where these queries are among those of the kind, after `settle`. int32 (n,)."""
        return self._asked.positions

    @property
    def asked(self) -> AskedTerms:
        """What the queries ask for, a row each in the order of `ids`."""
        return self._asked.rows

    def add(self, ids: Array, phrases: list[str], every: list[bool]) -> None:
        """Take in new queries, whose ids are beyond all others; they hang nowhere before `settle`.

        phrases: what each asks for, with a term at least; every: all of its terms, or any of them.
        """
        self._asked.put(ids, self.terms.of(phrases), every)

    def settle(self, ids: Array, boxes: Array, checked: Array, bounds: list[float] | None) -> None:
        """Follow the queries of the kind: forget those that are not among them, and hang up what changed.

        Args:
            ids: all queries of the kind, ascending, those without keywords too. int64 (q,).
            boxes: where each has to be looked for, NaN for nowhere. float64 (q, 4).
            checked: whether pairs that stay are wanted too. bool (q,).
            bounds: where the stream is, where that is known.
        """
        at = np.searchsorted(ids, self.ids)
        there = ids[np.minimum(at, len(ids) - 1)] == self.ids if len(ids) else np.zeros(len(self), np.bool_)
        at = at[there]
        was, box = self.asked.box[there], boxes[at]
        same = ((was == box) | (np.isnan(was) & np.isnan(box))).all(axis=1)
        same &= self.asked.checked[there] == checked[at]
        row = np.full(len(there), -1, np.int64)
        row[np.flatnonzero(there)[same]] = np.flatnonzero(same)
        left = self._hanging.renumber(row)
        self._asked.keep(there)
        self.asked.box[:], self.asked.checked[:] = box, checked[at]
        self.positions[:] = at
        self._hanging.hang(np.flatnonzero(~np.isnan(box[:, 0]) & ~same), left, bounds)

    def join(self, events: Transitions, old: Array, new: Array) -> CandidatePairs:
        """The pairs of events and queries, by their positions, where box and terms begin or cease to hold.

        Of queries that are checked also those where they go on to. old, new: the codes of the events' texts
        before and after, int32 (n,), -1 for NULL.
        """
        terms = self.terms
        terms.learn(old)
        terms.learn(new)
        self._hanging.follow()
        trees = KeywordTrees(self._hanging.forest, self.asked, terms.spans, self._hanging.lattice)
        found = join(events, frozen(old), frozen(new), trees)
        return CandidatePairs(found.event, self.positions[found.query], found.flags)

    def alone(self, ids: Array, boxes: Array) -> KeywordIndex:
        """An index of some of the queries, with other boxes; for one use, it keeps nothing.

        ids: ascending, all of them kept here. int64 (n,). boxes: float64 (n, 4).
        """
        some = KeywordIndex(SlotState.fresh(0), "", self.terms)
        some._asked.put(ids, *self._asked.chosen(ids))
        some.settle(ids, boxes, np.zeros(len(ids), np.bool_), None)
        return some

    def note(self, texts: Array, bounds: list[float] | None) -> None:
        """Take the texts of new records into the statistics; now and then, see whether queries hang well."""
        self.terms.learn(texts)
        self.terms.count(texts)
        looks = self._state.array(f"{self._prefix}/looks")
        looks[0] += len(texts)
        if looks[0] < looks[1]:
            return
        looks[:] = 0, min(2 * looks[1], _LAST_LOOK)
        self.hang_better(bounds)

    def hang_better(self, bounds: list[float] | None) -> None:
        """Hang all queries up anew if too many hang under terms that are not rare any more."""
        have, best = index_drift(self.asked, frozen(self.terms.seen))
        if have > _TOO_COMMON * best:
            self._hanging.hang_anew(bounds)
