"""What a client keeps of the events of a stream on one slot: time slots, views, and past questions.

All of it is derived from the slot's state, and only makes answers quicker: an answer is the same to the
byte with views, without them, and whichever were chosen.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.aggregates.answers import KEY
from stqsh.core.aggregates.states import VALUES, States, add_states
from stqsh.core.conditions.region_test import RegionNow
from stqsh.core.contract.snapshot_selection import PresentObjects, SnapshotSelection
from stqsh.core.views.covering import Cover, Runs, cover_of
from stqsh.core.views.margin_choice import choose_margins
from stqsh.core.views.margins import Margins, Past
from stqsh.core.views.questions import Question
from stqsh.core.views.time_slots import TimeSlots, rows_of
from stqsh.core.views.view_set import QuestionHistory, ViewSet, states_of
from stqsh.core.views.views import answered, size_of

AT_ONCE = 100_000
"""The most events that are read to make views on the occasion of one question."""


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
        history: the past questions.
    """

    slots: TimeSlots
    views: ViewSet = field(default_factory=ViewSet)
    margins: Margins = field(default_factory=Margins)
    history: QuestionHistory = field(default_factory=QuestionHistory)

    def continue_from(self, other: EventViews) -> None:
        """Take over the history of views over the same cells, whose events got other numbers."""
        self.history, self.margins, self.views = other.history, other.margins, other.views
        self.margins.lists.clear()
        self.views.empty()

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
            self.margins.note(cover.margins, self.history.asked)
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
        self.history.add(question, reach, self.slots, len(present.stored.x))
        box = reach.box.tolist()
        if np.isfinite(reach.box).any():
            share = self.history.questions[-1].share
            self.margins.history.append(Past((box[0], box[1], box[2], box[3]), share))

    def choose(self, present: PresentObjects, budget: Budget) -> None:
        """Choose views and margins again by the history, within a budget of bytes; the others are let go."""
        self.history.postpone()
        self.views.choose(self.history, self.slots, present, budget.views)
        arrivals = self.history.arrivals(len(present.stored.x))
        found = choose_margins(self.margins.history, self.slots, present.stored, budget.objects, arrivals)
        self.margins.replace(*found, self.slots.grid, self.history.asked)

    def build(self, present: PresentObjects, most: int = AT_ONCE) -> None:
        """Fill views and margins for time slots that they lack, the latest first.

        It ends once `most` events were read.
        """
        most = self.views.build(self.slots, present, most)
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
        self.views.fit(budget.views)

    @property
    def nbytes(self) -> int:
        """The bytes of time slots, views and margins."""
        return self.slots.nbytes + self.margins.nbytes + self.views.nbytes


def _usage(cover: Cover, rows: int, read: int, counted: int, tested: int) -> Usage:
    """Return how a question was answered; `rows` are of views, the rest is of events."""
    margins = cover.margins
    used, spared = (0, 0) if margins is None else (len(margins.margins), int(margins.spared.sum()))
    return Usage(
        read, counted, sum(use.spared for use in cover.uses), len(cover.uses), rows, used, spared, tested
    )


def _of_count(count: int) -> States:
    """Return the states of a number of events, all of one group."""
    by = pa.table({KEY: pa.array([b""], pa.binary())})
    return States(by, pa.table({"n": pa.array([count], pa.int64())}), VALUES.empty_table())
