"""The index of keyword queries: stationary regions, and terms that the stream's text has to contain.

Tornado section 3.2 (FAST), which SSTD section 6.1 takes for its CRQ too: a query hangs in the cells of its
box and under its rarest term, so an event meets few of the queries whose terms it lacks. See
`stqsh.core.kernels.forest` for how it hangs, and `stqsh.core.texts.terms` for what is rare.

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

from stqsh.core.kernels.events import Events
from stqsh.core.kernels.forest import DEPTH, WIDTH, Forest
from stqsh.core.kernels.jit import frozen
from stqsh.core.kernels.keywords import Asked, drift, hang_rows, join, sift
from stqsh.core.kernels.stationary import Lattice, Pairs
from stqsh.core.kernels.texts import Coded
from stqsh.core.regions.grid import lattice_over
from stqsh.core.slot.state import SlotState
from stqsh.core.texts.terms import Terms, follows_terms, holds_terms

Array = npt.NDArray[Any]

_ROOM = 4096
"""Entries for which room is made at least."""

_OUTGROWN = 4
"""All queries are hung up anew once there are so many times as many, for the grid was laid for fewer, and
once entries take so many times as much room as they need."""

_FIRST_LOOK, _LAST_LOOK = 1 << 12, 1 << 20
"""Records after which it is seen whether queries still hang under their rarest terms, at first and later."""

_TOO_COMMON = 1.5
"""They are hung up anew once events come by so many times as often as they need to."""

_ASKED: dict[str, Any] = {
    "id": np.int64,  # ascending
    "every": np.bool_,
    "checked": np.bool_,
    "hung": np.int32,
    "position": np.int32,  # among the queries of the kind
}


class KeywordIndex:
    """Keyword queries of a stream on a slot, kept in arrays beneath `prefix`.

    asked/…: a row a query, `_ASKED`, and start, terms and box (flat) as in `kernels.keywords.Asked`.
    forest/…: as in `kernels.forest.Forest`, flat. lattice float64 (6,): a `Lattice`, and for how many queries
    it was laid. looks int64 (2,): records since the last look at frequencies, and when to look again.
    """

    def __init__(self, state: SlotState, prefix: str, terms: Terms) -> None:
        self._state, self._prefix, self.terms = state, prefix, terms
        if f"{prefix}/lattice" not in state:
            self._create()

    def _create(self) -> None:
        state, asked = self._state, f"{self._prefix}/asked"
        for name, dtype in {**_ASKED, "start": np.int32, "terms": np.int32, "box": np.float64}.items():
            state.create(f"{asked}/{name}", dtype)
        state.resize(f"{asked}/start", 1)
        state.create(f"{self._prefix}/looks", np.int64, 2)[:] = 0, _FIRST_LOOK
        self._clear(Lattice(0.0, 0.0, 1.0, 1.0, 1), 0)
        for name in (f"{asked}/terms", f"{asked}/hung", f"{self._prefix}/forest/rest"):
            holds_terms(state, name)
        follows_terms(state, f"{self._prefix}/forest/root")

    def _clear(self, lattice: Lattice, count: int) -> None:
        """Take all queries down, and lay the grid anew."""
        state, folder = self._state, f"{self._prefix}/forest"
        for name, dtype, length in (
            ("root", np.int32, 0),
            ("nodes", np.int32, WIDTH),  # node 0 stands for none
            ("boxes", np.float64, 0),
            ("rest", np.int32, 0),
            ("tag", np.int32, 0),
            ("used", np.int64, 34),
        ):
            state.create(f"{folder}/{name}", dtype, length)
        state.array(f"{folder}/used")[0] = 1
        state.replace(f"{self._prefix}/lattice", np.array([*lattice, count], np.float64))

    def __len__(self) -> int:
        return len(self.ids)

    def _array(self, name: str) -> Array:
        return self._state.array(f"{self._prefix}/{name}")

    @property
    def ids(self) -> Array:
        """The queries that are kept here, ascending. int64 (n,)."""
        return self._array("asked/id")

    @property
    def positions(self) -> Array:
        """Where these queries are among those of the kind, after `settle`. int32 (n,)."""
        return self._array("asked/position")

    @property
    def asked(self) -> Asked:
        """What the queries ask for, a row each in the order of `ids`."""
        start, terms, every, box, checked, hung = (
            self._array(f"asked/{name}") for name in ("start", "terms", "every", "box", "checked", "hung")
        )
        return Asked(start, terms, every, box.reshape(-1, 4), checked, hung)

    @property
    def _forest(self) -> Forest:
        root, nodes, boxes, rest, tag, used = (self._array(f"forest/{name}") for name in Forest._fields)
        return Forest(root, nodes.reshape(-1, WIDTH), boxes.reshape(-1, 4), rest.reshape(-1, 2), tag, used)

    @property
    def _lattice(self) -> Lattice:
        x0, y0, per_x, per_y, side, _ = self._array("lattice").tolist()
        return Lattice(x0, y0, per_x, per_y, int(side))

    def add(self, ids: Array, phrases: list[str], every: list[bool]) -> None:
        """Take in new queries, whose ids are beyond all others; they hang nowhere before `settle`.

        phrases: what each asks for, with a term at least; every: all of its terms, or any of them.
        """
        self._put(ids, self.terms.of(phrases), every)

    def _put(self, ids: Array, coded: Coded, every: npt.ArrayLike) -> None:
        state, asked = self._state, f"{self._prefix}/asked"
        known = len(self._array("asked/terms"))
        state.append(f"{asked}/start", coded.start[1:] + known)
        state.append(f"{asked}/terms", coded.codes)
        for name, values in (("id", ids), ("every", every), ("box", np.full(4 * len(ids), np.nan))):
            state.append(f"{asked}/{name}", values)
        for name in ("checked", "hung", "position"):
            state.resize(f"{asked}/{name}", len(self))
        self._array("asked/hung")[-len(ids) :] = -1

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
        same &= self._array("asked/checked")[there] == checked[at]
        row = np.full(len(there), -1, np.int64)
        row[np.flatnonzero(there)[same]] = np.flatnonzero(same)
        left = self._sift(row)
        self._keep(there)
        self.asked.box[:], self.asked.checked[:] = box, checked[at]
        self._array("asked/position")[:] = at
        hung = ~np.isnan(box[:, 0])
        needed, used = _OUTGROWN * (left + _ROOM), int(self._array("forest/used")[1])
        if used > needed or int(hung.sum()) > _OUTGROWN * self._array("lattice")[5]:
            self._hang_anew(bounds)
        else:
            self._hang(np.flatnonzero(hung & ~same))

    def _sift(self, row: Array) -> int:
        """Let entries follow their rows; how many are left, as far as that is known."""
        if (row == np.arange(len(row))).all():
            return int(self._array("forest/used")[1])
        return int(sift(self._forest, row))

    def _keep(self, there: Array) -> None:
        """Forget the rows that are not there any more."""
        if there.all():
            return
        state, asked, start = self._state, f"{self._prefix}/asked", self._array("asked/start")
        counts = np.diff(start)
        state.replace(f"{asked}/terms", self._array("asked/terms")[np.repeat(there, counts)])
        state.replace(f"{asked}/start", offsets(counts[there]))
        state.replace(f"{asked}/box", self._array("asked/box")[np.repeat(there, 4)])
        for name in _ASKED:
            state.replace(f"{asked}/{name}", self._array(f"asked/{name}")[there])

    def _hang_anew(self, bounds: list[float] | None) -> None:
        box = self.asked.box
        rows = np.flatnonzero(~np.isnan(box[:, 0]))
        lattice = lattice_over(box[:, 0::2].ravel(), box[:, 1::2].ravel(), 1 << DEPTH, bounds)
        self._clear(lattice, len(rows))
        self._hang(rows)

    def _hang(self, rows: Array) -> None:
        """Hang queries up that hang nowhere, under their rarest terms; of equally rare ones those come first
        that fewer queries ask for.
        """
        if not len(rows):
            return
        state, folder = self._state, f"{self._prefix}/forest"
        asks = np.bincount(self._array("asked/terms"), minlength=len(self.terms))
        rarity = self.terms.seen * (len(self) + 1) + asks
        state.resize(f"{folder}/root", len(self.terms))
        done, more = np.zeros(2, np.int64), _ROOM + 2 * len(rows)
        while True:
            nodes, entries, *_ = self._array("forest/used").tolist()
            self._make_room(nodes + more, entries + more)
            if hang_rows(self._forest, self.asked, frozen(rows), frozen(rarity), self._lattice, done):
                break
            more *= 2
        nodes, entries, *_ = self._array("forest/used").tolist()
        self._make_room(nodes, entries)

    def _make_room(self, nodes: int, entries: int) -> None:
        sizes = {"nodes": nodes * WIDTH, "boxes": entries * 4, "rest": entries * 2, "tag": entries}
        for name, length in sizes.items():
            self._state.resize(f"{self._prefix}/forest/{name}", length)

    def join(self, events: Events, old: Array, new: Array) -> Pairs:
        """The pairs of events and queries, by their positions, where box and terms begin or cease to hold.

        Of queries that are checked also those where they go on to. old, new: the codes of the events' texts
        before and after, int32 (n,), -1 for NULL.
        """
        terms = self.terms
        terms.learn(old)
        terms.learn(new)
        self._state.resize(f"{self._prefix}/forest/root", len(terms))
        found = join(
            events, (frozen(old), frozen(new)), (self._forest, self.asked, terms.spans, self._lattice)
        )
        return Pairs(found.event, self._array("asked/position")[found.query], found.flags)

    def alone(self, ids: Array, boxes: Array) -> KeywordIndex:
        """An index of some of the queries, with other boxes; for one use, it keeps nothing.

        ids: ascending, all of them kept here. int64 (n,). boxes: float64 (n, 4).
        """
        rows = np.searchsorted(self.ids, ids)
        asked, counts = self.asked, np.diff(self.asked.start)
        some = KeywordIndex(SlotState.fresh(0), "", self.terms)
        chosen = np.zeros(len(self), np.bool_)
        chosen[rows] = True
        some._put(
            ids, Coded(offsets(counts[rows]), asked.terms[np.repeat(chosen, counts)]), asked.every[rows]
        )
        some.settle(ids, boxes, np.zeros(len(ids), np.bool_), None)
        return some

    def note(self, texts: Array, bounds: list[float] | None) -> None:
        """Take the texts of new records into the statistics; now and then, see whether queries hang well."""
        self.terms.learn(texts)
        self.terms.count(texts)
        looks = self._array("looks")
        looks[0] += len(texts)
        if looks[0] < looks[1]:
            return
        looks[:] = 0, min(2 * looks[1], _LAST_LOOK)
        self.hang_better(bounds)

    def hang_better(self, bounds: list[float] | None) -> None:
        """Hang all queries up anew if too many hang under terms that are not rare any more."""
        have, best = drift(self.asked, frozen(self.terms.seen))
        if have > _TOO_COMMON * best:
            self._hang_anew(bounds)


def offsets(counts: Array) -> Array:
    """Where stretches of these lengths begin, and where the last one ends. int32 (n + 1,)."""
    return np.append(0, np.cumsum(counts)).astype(np.int32)
