"""A client's cache for the events of a stream on one slot: time slots, views, and past questions.

Everything in it is derived from the slot's state and only makes answers faster: an answer is identical to the
byte with and without views, whichever views were chosen.
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
from stqsh.core.snapshots.cache.covering import SnapshotPlan, cover_of
from stqsh.core.snapshots.cache.event_reader import EventReader, EventsRead
from stqsh.core.snapshots.cache.margin_choice import choose_margins
from stqsh.core.snapshots.cache.margins import Margins, Past
from stqsh.core.snapshots.cache.questions import Question
from stqsh.core.snapshots.cache.time_slots import TimeSlots
from stqsh.core.snapshots.cache.view_set import QuestionHistory, ViewSet, satisfying, states_of
from stqsh.core.snapshots.cache.word_lists import WordLists

AT_ONCE = 100_000
"""The most events that are read to build views during one question."""

WORDS = 0.75
"""The share of the views' bytes that word lists may use."""


@dataclass(frozen=True)
class Usage:
    """How a question was answered.

    Attributes:
        read: the number of events read.
        counted: the number of events of whole cells that were counted without being read.
        spared: the number of events that views replaced.
        views: the number of views used.
        rows: the number of view rows that were added up.
        margins: the number of margins that were read instead of cells.
        untested: the number of events of these cells that need not be tested.
        tested: the number of events that were tested against the region.
        listed: the number of events whose texts word lists replaced.
    """

    read: int = 0
    counted: int = 0
    spared: int = 0
    views: int = 0
    rows: int = 0
    margins: int = 0
    untested: int = 0
    tested: int = 0
    listed: int = 0

    def plus(self, other: Usage) -> Usage:
        """Return the sum of both."""
        return Usage(*(one + another for one, another in zip(astuple(self), astuple(other), strict=True)))


class Budget(NamedTuple):
    """The bytes that views and word lists may use, and the bytes that margins may use."""

    views: float
    objects: float


@dataclass
class EventViews:
    """Time slots and views of the events of one slot.

    Attributes:
        slots: the time slots.
        views: the views.
        margins: the margins of cells.
        words: the word lists.
        history: the past questions.
    """

    slots: TimeSlots
    views: ViewSet = field(default_factory=ViewSet)
    margins: Margins = field(default_factory=Margins)
    words: WordLists = field(default_factory=WordLists)
    history: QuestionHistory = field(default_factory=QuestionHistory)

    def continue_from(self, other: EventViews) -> None:
        """Adopt the cache of older events over the same cells; the events have been renumbered."""
        self.history, self.margins, self.views = other.history, other.margins, other.views
        self.words = other.words
        self.words.empty()
        self.margins.lists.clear()
        self.views.empty()

    def catch_up(self, present: PresentObjects) -> None:
        """Add the new events."""
        joined = self.slots.catch_up(present.stored)
        self.margins.forget(joined)
        self.words.forget(joined)
        for one, other in zip(joined[::2], joined[1::2], strict=True):
            for view in self.views:
                view.join((one, other), (one.begin, other.end))

    def answer(
        self, selection: SnapshotSelection, question: Question, cover: SnapshotPlan
    ) -> tuple[States, Usage]:
        """Return the states of the groups of a question, and the usage."""
        parts, rows = list[States](), 0
        for use in cover.uses:
            rows += use.view.size_over(use.slots)
            parts.append(use.view.answer(use.slots, question.shape))
            use.view.hits += 1
            use.view.spared += use.spared
        read = self._reader(selection, question, cover).read()
        parts += [states_of(selection.present, shape, events) for shape, events in read.events]
        if read.counted:
            parts.append(_of_count(read.counted))
        _note_use(self, cover)
        return add_states(parts) if len(parts) > 1 else parts[0], _usage(cover, rows, read)

    def members(
        self, selection: SnapshotSelection, question: Question, cover: SnapshotPlan
    ) -> tuple[Array, Usage]:
        """Return the events that a question asks for, int32 (n,), ascending, and the usage."""
        read = self._reader(selection, question, cover).read()
        found = [satisfying(selection.present, shape, events) for shape, events in read.events]
        _note_use(self, cover)
        return np.sort(np.concatenate(found)), _usage(cover, 0, read)

    def planned(self, selection: SnapshotSelection, question: Question, cover: SnapshotPlan) -> Usage:
        """Return how a question would be answered now, without recording it."""
        rows = sum(use.view.size_over(use.slots) for use in cover.uses)
        return _usage(cover, rows, self._reader(selection, question, cover).read())

    def cover(self, selection: SnapshotSelection, question: Question) -> SnapshotPlan:
        """Return the cheapest plan to answer a question with cells and views."""
        reads = question.shape.is_count or question.shape.is_of_events
        views = () if reads else self.views  # cells alone give a number of events
        return cover_of(self.slots, question, selection, views, self.margins, self.words)

    def _reader(self, selection: SnapshotSelection, question: Question, cover: SnapshotPlan) -> EventReader:
        return EventReader(selection, question, cover, self.slots, self.margins)

    def remember(
        self, question: Question, reach: RegionNow, present: PresentObjects, cover: SnapshotPlan
    ) -> None:
        """Add a question to the history."""
        self.words.note_search(question.shape.phrases, cover.searched)
        if question.shape.is_of_events:
            return
        self.history.add(question, cover, self.slots, len(present.stored.x))
        box = reach.box.tolist()
        if np.isfinite(reach.box).any():
            share = self.history.questions[-1].share
            self.margins.history.append(Past((box[0], box[1], box[2], box[3]), share))

    def choose(self, present: PresentObjects, budget: Budget) -> None:
        """Choose views and margins by the history, within a budget of bytes; drop all others."""
        self.history.postpone()
        self.views.choose(self.history, self.slots, present, budget.views - self.words.nbytes)
        arrivals = self.history.arrivals(len(present.stored.x))
        found = choose_margins(self.margins.history, self.slots, present.stored, budget.objects, arrivals)
        self.margins.replace(*found, self.slots.grid, self.history.asked)

    def build(self, present: PresentObjects, most: int = AT_ONCE) -> None:
        """Build the parts of views and margins that are missing for time slots, latest time slots first.

        It stops once `most` events were read.
        """
        most = self.views.build(self.slots, present, most)
        for slot in reversed(self.slots.slots if self.margins else []):
            if most <= 0:
                return
            if slot.rows not in self.margins.lists:
                most -= self.margins.fill(present.stored, slot)

    def fit(self, budget: Budget) -> None:
        """Drop what exceeds a budget of bytes.

        Views with the least benefit per byte, margins that were unused for the longest time, and the word
        lists of the oldest events are dropped first.
        """
        self.margins.fit(budget.objects)
        self.words.fit(WORDS * budget.views)
        self.views.fit(budget.views - self.words.nbytes)

    @property
    def nbytes(self) -> int:
        """The bytes of time slots, views, margins and word lists."""
        return self.slots.nbytes + self.margins.nbytes + self.views.nbytes + self.words.nbytes


def _note_use(views: EventViews, cover: SnapshotPlan) -> None:
    """Record the use of margins and word lists."""
    if cover.margins is not None:
        views.margins.note(cover.margins, views.history.asked)
    if cover.words is not None:
        views.words.note_use(cover.words.phrases, cover.listed)


def _usage(cover: SnapshotPlan, rows: int, read: EventsRead) -> Usage:
    """Return how a question was answered; `rows` is the number of view rows."""
    margins = cover.margins
    used, untested = (0, 0) if margins is None else (len(margins.margins), int(margins.spared.sum()))
    return Usage(
        read=sum(len(events) for _, events in read.events),
        counted=read.counted,
        spared=sum(use.spared for use in cover.uses),
        views=len(cover.uses),
        rows=rows,
        margins=used,
        untested=untested,
        tested=read.tested,
        listed=cover.listed,
    )


def _of_count(count: int) -> States:
    """Return the states for a number of events, all in one group."""
    by = pa.table({KEY: pa.array([b""], pa.binary())})
    return States(by, pa.table({"n": pa.array([count], pa.int64())}), VALUES.empty_table())
