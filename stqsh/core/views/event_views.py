"""What a client keeps of the events of a stream on one slot: time slots, views, and past questions.

All of it is derived from the slot's state, and only makes answers quicker: an answer is the same to the
byte with views, without them, and whichever were chosen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import astuple, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stqsh.core.aggregates.answers import KEY
from stqsh.core.aggregates.states import VALUES, States, add_states
from stqsh.core.conditions.region_test import RegionNow
from stqsh.core.contract.snapshot_selection import PresentObjects, SnapshotSelection, StoredRows
from stqsh.core.snapshots.groups import group_states
from stqsh.core.views.covering import Cover, Runs, cells_of_region, cover_of
from stqsh.core.views.margin_choice import choose_margins
from stqsh.core.views.margins import Margins, Past
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
        margins: the number of margins of cells that were read in the place of cells.
        untested: the events of these cells that did not have to be tested.
        tested: the events that were tested for being in the region.
    """

    read: int = 0
    counted: int = 0
    spared: int = 0
    views: int = 0
    rows: int = 0
    margins: int = 0
    untested: int = 0
    tested: int = 0

    def plus(self, other: Usage) -> Usage:
        """Return the usage of both."""
        return Usage(*(one + another for one, another in zip(astuple(self), astuple(other), strict=True)))


class Budget(NamedTuple):
    """The bytes that views, and margins of cells, may take."""

    views: float
    objects: float


@dataclass
class EventViews:
    """Time slots and views of the events of one slot.

    Attributes:
        slots: the time slots.
        views: the views.
        margins: the margins of cells.
        asked: the number of questions.
        due: the question after which views are chosen again, twice as many as the last time.
    """

    slots: TimeSlots
    views: list[View] = field(default_factory=list)
    margins: Margins = field(default_factory=Margins)
    asked: int = 0
    due: int = 24
    history: deque[Asked] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _seen: deque[int] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _sizes: dict[ViewCandidate, Size] = field(default_factory=dict)

    def continue_from(self, other: EventViews) -> None:
        """Take over the history of views over the same cells, whose events got other numbers."""
        self.asked, self.due = other.asked, other.due
        self.history, self._seen = other.history, other._seen
        self.margins = other.margins
        self.margins.lists.clear()
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
        self.margins.forget(joined)
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
        events, counted, tested = self._events(selection, question, cover)
        parts.append(states_of(selection.present, question.shape, events))
        if counted:
            parts.append(_of_count(counted))
        if cover.margins is not None:
            self.margins.note(cover.margins, self.asked)
        return add_states(parts) if len(parts) > 1 else parts[0], _usage(
            cover, rows, len(events), counted, tested
        )

    def planned(self, selection: SnapshotSelection, question: Question, cover: Cover) -> Usage:
        """Return how a question would be answered now; nothing is noted."""
        events, counted, tested = self._events(selection, question, cover)
        rows = sum(size_of(use.view.sum_of(use.slots)) for use in cover.uses)
        return _usage(cover, rows, len(events), counted, tested)

    def cover(self, selection: SnapshotSelection, question: Question) -> Cover:
        """Return the cheapest way to answer a question by cells and views."""
        views = () if question.shape.is_count else self.views  # cells tell a number of events
        return cover_of(self.slots, question, selection.reach, views, self.margins)

    def _events(
        self, selection: SnapshotSelection, question: Question, cover: Cover
    ) -> tuple[Array, int, int]:
        """Return the events that are read, int32 (n,), and how many are only counted, and are tested."""
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
        border = np.concatenate([*self._border(cover), tail[stored.known[tail]]])
        tested = len(border)
        border = border[selection.reach.holds(*selection.present.places(border))]
        late = np.concatenate([*timed, border])
        ts = stored.ts[late]
        late = late[(question.times.since <= ts) & (ts < question.times.until)]
        return np.concatenate([*pieces, late]), counted, tested

    def _border(self, cover: Cover) -> list[Array]:
        """Return the events that are tested for being in the region."""
        slots, rest = [*cover.times.whole, *cover.times.part], cover.border
        if cover.margins is None:
            return [rows_of(slots, rest.begin, rest.end)]
        rest = Runs.of(cover.margins.rest)
        return [rows_of(slots, rest.begin, rest.end), *self.margins.rows(cover.margins, slots)]

    def remember(self, question: Question, reach: RegionNow, present: PresentObjects) -> None:
        """Add a question to the history."""
        self.asked += 1
        _, covered = cells_of_region(self.slots, reach)
        total = max(1, self.slots.end)
        whole = sum(slot.end - slot.begin for slot, is_whole in self.slots.among(question.times) if is_whole)
        self.history.append(Asked(question.shape, covered, whole / total))
        self._seen.append(len(present.stored.x))
        box = reach.box.tolist()
        if np.isfinite(reach.box).any():
            self.margins.history.append(Past((box[0], box[1], box[2], box[3]), self.history[-1].share))

    def choose(self, present: PresentObjects, budget: Budget) -> None:
        """Choose views and margins again by the history, within a budget of bytes; the others are let go."""
        self.due = self.asked + min(self.asked, REMEMBERED)
        self._choose_views(present, budget.views)
        arrivals = self._arrivals(present)
        found = choose_margins(self.margins.history, self.slots, present.stored, budget.objects, arrivals)
        self.margins.replace(*found, self.slots.grid, self.asked)

    def _arrivals(self, present: PresentObjects) -> float:
        """Return the share of the events that came since the first of the questions."""
        count = len(present.stored.x)
        return (count - self._seen[0]) / max(1, count)

    def _choose_views(self, present: PresentObjects, budget: float) -> None:
        there = {ViewCandidate(view.shape, view.node): view for view in self.views}
        if len(self._sizes) > _SIZES_KEPT:
            self._sizes.clear()
        self._sizes |= {one: view.size for one, view in there.items() if view.parts}
        situation = Situation(
            grid=self.slots.grid,
            count=lambda node: sum(slot.count(self.slots.grid.span(node)) for slot in self.slots.slots),
            measure=lambda one: self._size(one, present),
            arrivals=self._arrivals(present),
            types=present.table.spec.types,
            kept=frozenset(there),
        )
        views = []
        for one in choose(list(self.history), budget, situation):
            view = there.get(one.candidate) or View(one.candidate.shape, one.candidate.node)
            view.expected, view.benefit = one.size.rows, one.benefit
            views.append(view)
        self.views = views

    def build(self, present: PresentObjects, most: int = AT_ONCE) -> None:
        """Fill views and margins for time slots that they lack, the latest first.

        It ends once `most` events were read.
        """
        for view, slot in self._missing():
            if most <= 0:
                return
            first, end = self.slots.grid.span(view.node)
            events = slot.order[slot.starts[first] : slot.starts[end]]
            most -= len(events) + 1
            view.keep(slot, states_of(present, view.shape, events))
        for slot in reversed(self.slots.slots if self.margins else []):
            if most <= 0:
                return
            if slot.rows not in self.margins.lists:
                most -= self.margins.fill(present.stored, slot)

    def fit(self, budget: Budget) -> None:
        """Let go of what does not fit a budget of bytes.

        These are the views of the least benefit for their space, and the margins that were not used for the
        longest time.
        """
        self.margins.fit(budget.objects)
        self._fit_views(budget.views)

    def _fit_views(self, budget: float) -> None:
        total = sum(view.nbytes for view in self.views)
        for view in sorted(self.views, key=lambda one: one.benefit / max(1, one.nbytes)):
            if total <= budget:
                return
            total -= view.nbytes
            self.views.remove(view)

    @property
    def nbytes(self) -> int:
        """The bytes of time slots, views and margins."""
        return self.slots.nbytes + self.margins.nbytes + sum(view.nbytes for view in self.views)

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


def _usage(cover: Cover, rows: int, read: int, counted: int, tested: int) -> Usage:
    """Return how a question was answered; `rows` are of views, the rest is of events."""
    margins = cover.margins
    used, spared = (0, 0) if margins is None else (len(margins.margins), int(margins.spared.sum()))
    return Usage(
        read, counted, sum(use.spared for use in cover.uses), len(cover.uses), rows, used, spared, tested
    )


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
