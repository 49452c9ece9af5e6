"""The ways to answer that are compared: a scan, STAR's baselines, and views."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf
from time import process_time_ns

import numpy as np
import pyarrow as pa

from stqsh.core.contract.snapshot_selection import PresentObjects
from stqsh.core.snapshots.cache.cells import ROOT
from stqsh.core.snapshots.cache.covering import ROW_COST, VIEW_COST, event_cost
from stqsh.core.snapshots.cache.event_views import EventViews
from stqsh.core.snapshots.cache.selection import ViewCandidate, usable
from stqsh.core.snapshots.cache.snapshot_cache import CachePolicy, SnapshotCache
from stqsh.core.snapshots.cache.views import View
from stqsh.core.snapshots.select import part, whole
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.expression import ContainsExpr, has_node
from stqsh.spec.query import SnapshotSpec

_AT_ONCE = CachePolicy(least=0, scans=0, lists=False)
_EAGER = CachePolicy(least=0, scans=0, always=True, lists=False)
_NEVER = CachePolicy(least=0, scans=0, first=1 << 62, costly=inf, always=True, lists=False)
ALL = 1 << 62
"""More events, and more questions, than there are."""

_EVERY = 24


@dataclass
class Contender:
    """A way to answer questions.

    Attributes:
        name: its name in tables.
        kept: what it keeps; None for a scan.
        learn: called after every 24 questions of the warm-up, where views are not chosen as a client does.
    """

    name: str
    kept: SnapshotCache | None = None
    learn: Callable[[EventViews, PresentObjects, float], None] | None = None
    _asked: int = field(default=0, init=False)

    @property
    def learns(self) -> bool:
        """Whether past questions make later ones quicker."""
        return self.kept is not None and (self.learn is not None or self.kept.patience is not _NEVER)

    def answer(self, states: Sequence[SlotState], spec: SnapshotSpec) -> tuple[pa.Table, float]:
        """Return an answer, and its processor time, ms: that of the slowest slot, and of the merge."""
        shares, ends = list[pa.RecordBatch](), [process_time_ns()]
        for state in states:
            share = part(state, spec, kept=self.kept)
            shares += [] if share is None else [share]
            ends.append(process_time_ns())
        answer = whole(shares, spec)
        merged = process_time_ns() - ends[-1]
        return answer, (max(end - begin for begin, end in pairwise(ends)) + merged) / 1e6

    def warm(self, states: Sequence[SlotState], spec: SnapshotSpec) -> None:
        """Take note of a question of the past."""
        self.answer(states, spec)
        self._asked += 1
        if self.kept is None or self.learn is None or self._asked % _EVERY:
            return
        for views, present in self._all(states, spec.stream_id):
            self.learn(views, present, self.kept.budget / len(states))

    def finish(self, states: Sequence[SlotState], stream: int) -> None:
        """Fill the views that were chosen last, and choose no others."""
        for views, present in self._all(states, stream):
            views.history.due, views.history.allowed = ALL, inf
            views.build(present, ALL)

    def _all(self, states: Sequence[SlotState], stream: int) -> Iterator[tuple[EventViews, PresentObjects]]:
        """Yield the views of each slot, and its objects."""
        for slot, _, views in [] if self.kept is None else self.kept.all():
            present = PresentObjects.of(states[slot], stream)
            assert present is not None, "the slot knows the stream"
            yield views, present

    @property
    def nbytes(self) -> int:
        """The bytes of views, margins and word lists."""
        kept = [] if self.kept is None else [views for _, _, views in self.kept.all()]
        return sum(views.nbytes - views.slots.nbytes for views in kept)


def scan() -> Contender:
    """Return the scan of all events, which stqsh does without views."""
    return Contender("scan")


def baseline_1() -> Contender:
    """Return STAR without views: cells tell which events are read."""
    return Contender("Baseline-1", SnapshotCache(1, _NEVER))


def baseline_2(budget: int) -> Contender:
    """Return STAR with views by a classic greedy choice, for questions without range and keywords."""
    return Contender("Baseline-2", SnapshotCache(budget, _NEVER), choose_classic)


def q_cache(budget: int, name: str = "Q-cache") -> Contender:
    """Return STAR with views of nodes, as stqsh keeps them."""
    return Contender(name, SnapshotCache(budget, _AT_ONCE))


def with_words(budget: int) -> Contender:
    """Return what a client keeps: views and word lists."""
    return Contender("with words", SnapshotCache(budget, replace(_AT_ONCE, lists=True)))


def o_cache(objects: int) -> Contender:
    """Return STAR with margins of cells, its object cache, and without views."""
    return Contender("O-cache", SnapshotCache(0, _EAGER, objects))


def qo_cache(budget: int, objects: int) -> Contender:
    """Return STAR with views of nodes and margins of cells."""
    return Contender("QO-cache", SnapshotCache(budget, _AT_ONCE, objects))


def choose_classic(views: EventViews, present: PresentObjects, budget: float) -> None:
    """Choose views of everything by benefit alone, for questions without range and keywords."""
    del present
    slots = views.slots
    everywhere = slots.grid.box_of(ROOT)
    history = [
        asked
        for asked in views.history.questions
        if asked.covered == everywhere
        and not any(has_node(one, ContainsExpr) for one in asked.shape.conditions)
    ]
    shapes = sorted({asked.shape.as_view for asked in history}, key=repr)
    some = [ViewCandidate(shape, ROOT) for shape in shapes]
    if not some:
        return
    there = {view.shape: view for view in views.views}
    gains = usable(history, some, slots.grid) * np.array(
        [[event_cost(asked.shape) * slots.end * asked.share] for asked in history]
    )
    chosen, kept = list[View](), np.zeros(len(history))
    for _ in some:
        benefits = np.maximum(gains - kept[:, None], 0).sum(axis=0) - (VIEW_COST + ROW_COST)
        best = int(np.argmax(benefits))
        if benefits[best] <= 0:
            break
        view = there.get(shapes[best]) or View(shapes[best], ROOT)
        budget -= view.nbytes
        if budget < 0:
            break
        chosen.append(view)
        kept = np.maximum(kept, gains[:, best])
    views.views.chosen = chosen
