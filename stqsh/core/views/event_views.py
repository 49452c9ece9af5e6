"""What a client keeps of the events of a stream on one slot: time slots, views, and past questions.

All of it is derived from the slot's state, and only makes answers quicker: an answer is the same to the
byte with views, without them, and whichever were chosen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stqsh.core.aggregates.answers import KEY
from stqsh.core.aggregates.states import VALUES, States, add_states
from stqsh.core.conditions.region_test import RegionNow
from stqsh.core.contract.snapshot_selection import PresentObjects, SnapshotSelection, StoredRows
from stqsh.core.snapshots.groups import group_states
from stqsh.core.views.covering import Cover, cells_of_region, cover_of
from stqsh.core.views.questions import Question, Shape
from stqsh.core.views.selection import Asked, Situation, ViewCandidate, choose
from stqsh.core.views.time_slots import TimeSlot, TimeSlots, rows_of
from stqsh.core.views.views import Size, View, answered, size_of

Array = npt.NDArray[Any]

REMEMBERED = 256
"""The most questions of the history."""

AT_ONCE = 100_000
"""The most events that are read to make views on the occasion of one question."""

_SAMPLE = 1000
"""The events by which the size of a view is estimated."""

_SIZES_KEPT = 4096
"""The most estimates that are kept."""

_ROW_BYTES, _VALUE_BYTES = 64.0, 48.0


@dataclass(frozen=True)
class Usage:
    """How a question was answered.

    Attributes:
        read: the events that were read.
        counted: the events of whole cells that were counted without being read.
        spared: the events for which views stood.
        views: the number of views.
        rows: the rows of views that were added up.
    """

    read: int = 0
    counted: int = 0
    spared: int = 0
    views: int = 0
    rows: int = 0

    def plus(self, other: Usage) -> Usage:
        """Return the usage of both."""
        return Usage(
            self.read + other.read,
            self.counted + other.counted,
            self.spared + other.spared,
            self.views + other.views,
            self.rows + other.rows,
        )


@dataclass
class EventViews:
    """Time slots and views of the events of one slot.

    Attributes:
        slots: the time slots.
        views: the views.
        asked: the number of questions.
        due: the question after which views are chosen again, twice as many as the last time.
    """

    slots: TimeSlots
    views: list[View] = field(default_factory=list)
    asked: int = 0
    due: int = 24
    history: deque[Asked] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _seen: deque[int] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _sizes: dict[ViewCandidate, Size] = field(default_factory=dict)

    def continue_from(self, other: EventViews) -> None:
        """Take over the history of views over the same cells, whose events got other numbers."""
        self.asked, self.due = other.asked, other.due
        self.history, self._seen = other.history, other._seen
        self.views = [
            View(
                view.shape,
                view.node,
                expected=view.expected,
                benefit=view.benefit,
                hits=view.hits,
                spared=view.spared,
            )
            for view in other.views
        ]

    def catch_up(self, present: PresentObjects) -> None:
        """Take in the events that are new."""
        joined = self.slots.catch_up(present.stored)
        for one, other in zip(joined[::2], joined[1::2], strict=True):
            for view in self.views:
                view.join((one, other), (one.begin, other.end))

    def answer(self, selection: SnapshotSelection, question: Question, cover: Cover) -> tuple[States, Usage]:
        """Return the states of the groups of a question, and what was used for them."""
        parts, rows = list[States](), 0
        for use in cover.uses:
            states = use.view.sum_of(use.slots)
            rows += size_of(states)
            parts.append(answered(use.view.shape, states, question.shape))
            use.view.hits += 1
            use.view.spared += use.spared
        events, counted = self._events(selection, question, cover)
        parts.append(states_of(selection.present, question.shape, events))
        if counted:
            parts.append(_of_count(counted))
        spared = sum(use.spared for use in cover.uses)
        usage = Usage(len(events), counted, spared, len(cover.uses), rows)
        return add_states(parts) if len(parts) > 1 else parts[0], usage

    def planned(self, selection: SnapshotSelection, question: Question, cover: Cover) -> Usage:
        """Return how a question would be answered now; nothing is noted."""
        events, counted = self._events(selection, question, cover)
        rows = sum(size_of(use.view.sum_of(use.slots)) for use in cover.uses)
        return Usage(len(events), counted, sum(use.spared for use in cover.uses), len(cover.uses), rows)

    def cover(self, selection: SnapshotSelection, question: Question) -> Cover:
        """Return the cheapest way to answer a question by cells and views."""
        views = () if question.shape.is_count else self.views  # cells tell a number of events
        return cover_of(self.slots, question, selection.reach, views)

    def _events(self, selection: SnapshotSelection, question: Question, cover: Cover) -> tuple[Array, int]:
        """Return the events that are read, int32 (n,), and the number of those that are only counted."""
        times, inside = cover.times, cover.inside
        stored, counted = selection.present.stored, 0
        pieces = []
        if question.shape.is_count:
            counted = sum(
                int((slot.starts[inside.end] - slot.starts[inside.begin]).sum()) for slot in times.whole
            )
        else:
            pieces.append(rows_of(times.whole, inside.begin, inside.end))
        timed = [rows_of(times.part, inside.begin, inside.end)]
        for use in cover.uses:
            begin, end = (np.array([cell]) for cell in self.slots.grid.span(use.view.node))
            known = {slot.rows for slot in use.slots}
            pieces.append(rows_of([slot for slot in times.whole if slot.rows not in known], begin, end))
            timed.append(rows_of(times.part, begin, end))
        tail = np.arange(self.slots.end, len(stored.x), dtype=np.int32)
        border = rows_of([*times.whole, *times.part], cover.border.begin, cover.border.end)
        border = np.concatenate([border, tail[stored.known[tail]]])
        border = border[selection.reach.holds(*selection.present.places(border))]
        late = np.concatenate([*timed, border])
        ts = stored.ts[late]
        late = late[(question.times.since <= ts) & (ts < question.times.until)]
        return np.concatenate([*pieces, late]), counted

    def remember(self, question: Question, reach: RegionNow, present: PresentObjects) -> None:
        """Add a question to the history."""
        self.asked += 1
        _, covered = cells_of_region(self.slots, reach)
        total = max(1, self.slots.end)
        whole = sum(slot.end - slot.begin for slot, is_whole in self.slots.among(question.times) if is_whole)
        self.history.append(Asked(question.shape, covered, whole / total))
        self._seen.append(len(present.stored.x))

    def choose(self, present: PresentObjects, budget: float) -> None:
        """Choose views again by the history, within a budget of bytes; the others are let go."""
        count = len(present.stored.x)
        there = {ViewCandidate(view.shape, view.node): view for view in self.views}
        if len(self._sizes) > _SIZES_KEPT:
            self._sizes.clear()
        self._sizes |= {one: view.size for one, view in there.items() if view.parts}
        situation = Situation(
            grid=self.slots.grid,
            count=lambda node: sum(slot.count(self.slots.grid.span(node)) for slot in self.slots.slots),
            measure=lambda one: self._size(one, present),
            arrivals=(count - self._seen[0]) / max(1, count),
            types=present.table.spec.types,
            kept=frozenset(there),
        )
        views = []
        for one in choose(list(self.history), budget, situation):
            view = there.get(one.candidate) or View(one.candidate.shape, one.candidate.node)
            view.expected, view.benefit = one.size.rows, one.benefit
            views.append(view)
        self.views, self.due = views, self.asked + min(self.asked, REMEMBERED)

    def build(self, present: PresentObjects, most: int = AT_ONCE) -> None:
        """Fill views for time slots that they lack, the latest first, until `most` events were read."""
        for view, slot in self._missing():
            if most <= 0:
                return
            first, end = self.slots.grid.span(view.node)
            events = slot.order[slot.starts[first] : slot.starts[end]]
            most -= len(events) + 1
            view.keep(slot, states_of(present, view.shape, events))

    def fit(self, budget: float) -> None:
        """Let go of views until the rest fits a budget of bytes, the least benefit for the space first."""
        total = sum(view.nbytes for view in self.views)
        for view in sorted(self.views, key=lambda one: one.benefit / max(1, one.nbytes)):
            if total <= budget:
                return
            total -= view.nbytes
            self.views.remove(view)

    @property
    def nbytes(self) -> int:
        """The bytes of time slots and views."""
        return self.slots.nbytes + sum(view.nbytes for view in self.views)

    def _missing(self) -> Iterator[tuple[View, TimeSlot]]:
        for slot in reversed(self.slots.slots):
            for view in self.views:
                if slot.rows not in view.parts:
                    yield view, slot

    def _size(self, one: ViewCandidate, present: PresentObjects) -> Size:
        """Return the expected size of a view, by a sample of the events of its node."""
        if one not in self._sizes:
            begin, end = (np.array([cell]) for cell in self.slots.grid.span(one.node))
            events = rows_of(self.slots.slots, begin, end)
            step = max(1, len(events) // _SAMPLE)
            found = states_of(present, one.shape, events[::step])
            self._sizes[one] = _scaled(found, len(events), len(events[::step]), len(self.slots.slots))
        return self._sizes[one]


def _scaled(found: States, events: int, sampled: int, slots: int) -> Size:
    """Return the size of the states of all events by those of a sample."""
    more = events / max(1, sampled)
    groups, values = found.by.num_rows, found.values.num_rows
    once = int((found.totals["n"].to_numpy() == 1).sum())
    # Charikar's estimate of the number of groups, unless nearly each event has one of its own.
    rows = groups * more if 20 * once > 19 * sampled else groups - once + once * more**0.5
    listed = values * (1.2 if 4 * values < sampled else more**0.7)
    width = _ROW_BYTES + 16 * found.totals.num_columns
    nbytes = min(rows * (slots + 1), events) * width + min(listed * (slots + 1), 16 * events) * _VALUE_BYTES
    return Size(rows + listed, nbytes)


def states_of(present: PresentObjects, shape: Shape, events: Array) -> States:
    """Return the states of the groups of those events, int32 (n,), that satisfy the conditions of a shape."""
    reach = RegionNow(np.full(4, np.nan))
    if shape.condition is not None and len(events):
        events = events[StoredRows(present, events, reach).truth(shape.condition)]
    return group_states(shape.groups, shape.measures, StoredRows(present, events, reach), len(events))


def _of_count(count: int) -> States:
    """Return the states of a number of events, all of one group."""
    by = pa.table({KEY: pa.array([b""], pa.binary())})
    return States(by, pa.table({"n": pa.array([count], pa.int64())}), VALUES.empty_table())
