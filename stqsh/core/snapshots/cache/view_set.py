"""The views that are kept for a slot's events: chosen by past questions, within a budget of bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from stqsh.arrays import Array
from stqsh.core.aggregates.states import States
from stqsh.core.contract.snapshot_selection import NOWHERE, PresentObjects, StoredRows
from stqsh.core.snapshots.cache.covering import SnapshotPlan
from stqsh.core.snapshots.cache.questions import Question, Shape
from stqsh.core.snapshots.cache.selection import Asked, Situation, ViewCandidate, choose
from stqsh.core.snapshots.cache.time_slots import TimeSlot, TimeSlots, rows_of
from stqsh.core.snapshots.cache.views import Size, View
from stqsh.core.snapshots.groups import group_states

REMEMBERED = 256
"""The most questions in the history."""

COSTLY = 2e7
"""The cost of questions, about 0.4 s, after which views are first chosen, however few the questions are."""

_SAMPLE = 1000
"""The number of events from which the size of a view is estimated."""

_SIZES_KEPT = 4096
"""The most size estimates that are kept."""

_ROW_BYTES, _VALUE_BYTES = 64.0, 48.0


@dataclass
class QuestionHistory:
    """Past questions.

    Attributes:
        asked: the number of questions.
        due: the number of questions after which views are chosen again; it doubles each time, but grows
            by at most `REMEMBERED`.
        spent: the cost of the questions since views were chosen last.
        allowed: the cost after which views are chosen again, however few the questions are; it doubles each
            time.
        questions: the latest questions.
        seen: how many events there were at each of them.
    """

    asked: int = 0
    due: int = 24
    spent: float = 0.0
    allowed: float = COSTLY
    questions: deque[Asked] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    seen: deque[int] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def add(self, question: Question, cover: SnapshotPlan, slots: TimeSlots, events: int) -> None:
        """Add a question, asked when there were `events` events, and its plan."""
        self.asked += 1
        self.spent += cover.weight * (cover.listed + cover.searched)
        total = max(1, slots.end)
        whole = sum(slot.end - slot.begin for slot, is_whole in slots.among(question.times) if is_whole)
        self.questions.append(Asked(question.shape, cover.covered, whole / total, cover.weight))
        self.seen.append(events)

    @property
    def is_due(self) -> bool:
        """Whether views are to be chosen now."""
        return self.asked >= self.due or self.spent >= self.allowed

    def postpone(self) -> None:
        """Set when views are chosen next."""
        self.due = max(self.due, self.asked + min(self.asked, REMEMBERED))
        self.spent, self.allowed = 0.0, 2 * self.allowed

    def arrivals(self, events: int) -> float:
        """Return the share of all events that arrived after the first of the questions."""
        return (events - self.seen[0]) / max(1, events)


@dataclass
class ViewSet:
    """Views of the events of one slot; `chosen` lists them."""

    chosen: list[View] = field(default_factory=list)
    _sizes: dict[ViewCandidate, Size] = field(default_factory=dict)

    def __iter__(self) -> Iterator[View]:
        return iter(self.chosen)

    def __len__(self) -> int:
        return len(self.chosen)

    @property
    def nbytes(self) -> int:
        """The bytes of all views."""
        return sum(view.nbytes for view in self.chosen)

    def empty(self) -> None:
        """Keep the views without their rows, because events have been renumbered."""
        self.chosen = [
            View(
                view.shape,
                view.node,
                expected=view.expected,
                benefit=view.benefit,
                hits=view.hits,
                spared=view.spared,
            )
            for view in self.chosen
        ]
        self._sizes.clear()

    def choose(
        self, history: QuestionHistory, slots: TimeSlots, present: PresentObjects, budget: float
    ) -> None:
        """Choose views by the history, within a budget of bytes; drop all others."""
        there = {ViewCandidate(view.shape, view.node): view for view in self.chosen}
        if len(self._sizes) > _SIZES_KEPT:
            self._sizes.clear()
        self._sizes |= {one: view.size for one, view in there.items() if view.parts}
        situation = Situation(
            grid=slots.grid,
            count=lambda node: sum(slot.count(slots.grid.span(node)) for slot in slots.slots),
            measure=lambda one: self._size(one, slots, present),
            arrivals=history.arrivals(len(present.stored.x)),
            types=present.table.spec.types,
            kept=frozenset(there),
        )
        views = []
        for one in choose(list(history.questions), budget, situation):
            view = there.get(one.candidate) or View(one.candidate.shape, one.candidate.node)
            view.expected, view.benefit = one.size.rows, one.benefit
            views.append(view)
        self.chosen = views

    def build(self, slots: TimeSlots, present: PresentObjects, most: int) -> int:
        """Build the missing parts of views, latest time slots first; return the rest of `most`."""
        for view, slot in self._missing(slots):
            if most <= 0:
                break
            first, end = slots.grid.span(view.node)
            events = slot.order[slot.starts[first] : slot.starts[end]]
            most -= len(events) + 1
            view.keep(slot, states_of(present, view.shape, events))
        return most

    def fit(self, budget: float) -> None:
        """Drop the views with the least benefit per byte until the rest fits a budget of bytes."""
        total = self.nbytes
        for view in sorted(self.chosen, key=lambda one: one.benefit / max(1, one.nbytes)):
            if total <= budget:
                return
            total -= view.nbytes
            self.chosen.remove(view)

    def _missing(self, slots: TimeSlots) -> Iterator[tuple[View, TimeSlot]]:
        for slot in reversed(slots.slots):
            for view in self.chosen:
                if slot.rows not in view.parts:
                    yield view, slot

    def _size(self, one: ViewCandidate, slots: TimeSlots, present: PresentObjects) -> Size:
        """Return the expected size of a view, from a sample of the events of its node."""
        if one not in self._sizes:
            begin, end = (np.array([cell]) for cell in slots.grid.span(one.node))
            events = rows_of(slots.slots, begin, end)
            step = max(1, len(events) // _SAMPLE)
            found = states_of(present, one.shape, events[::step])
            self._sizes[one] = _scaled(found, len(events), len(events[::step]), len(slots.slots))
        return self._sizes[one]


def _scaled(found: States, events: int, sampled: int, slots: int) -> Size:
    """Return the size of the states of all events, estimated from those of a sample."""
    more = events / max(1, sampled)
    groups, values = found.by.num_rows, found.values.num_rows
    once = int((found.totals["n"].to_numpy() == 1).sum())
    # Charikar's estimate of the number of groups, unless nearly every event has its own group.
    rows = groups * more if 20 * once > 19 * sampled else groups - once + once * more**0.5
    listed = values * (1.2 if 4 * values < sampled else more**0.7)
    width = _ROW_BYTES + 16 * found.totals.num_columns
    nbytes = min(rows * (slots + 1), events) * width + min(listed * (slots + 1), 16 * events) * _VALUE_BYTES
    return Size(rows + listed, nbytes)


def states_of(present: PresentObjects, shape: Shape, events: Array) -> States:
    """Return the states of the groups of the events, int32 (n,), that satisfy the conditions of a shape."""
    events = satisfying(present, shape, events)
    rows = StoredRows(present, events, NOWHERE)
    return group_states(shape.groups, shape.measures, rows, len(events), shape.error)


def satisfying(present: PresentObjects, shape: Shape, events: Array) -> Array:
    """Return the events, int32 (n,), that satisfy the conditions of a shape."""
    if shape.condition is None or not len(events):
        return events
    return events[StoredRows(present, events, NOWHERE).truth(shape.condition)]
