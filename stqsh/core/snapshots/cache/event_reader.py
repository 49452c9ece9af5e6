"""Read the events that neither views nor cell counts answer, grouped by the conditions still to test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np

from stqsh.arrays import Array
from stqsh.core.contract.snapshot_selection import SnapshotSelection
from stqsh.core.snapshots.cache.covering import Runs, SnapshotPlan, Times
from stqsh.core.snapshots.cache.margins import Margins
from stqsh.core.snapshots.cache.questions import Question, Shape
from stqsh.core.snapshots.cache.time_slots import TimeSlot, TimeSlots, rows_of

FindRows: TypeAlias = Callable[[list[TimeSlot], Array, Array], Array]
"""Returns rows of events in runs of cells of time slots, like `rows_of`."""


class EventsRead(NamedTuple):
    """The events that are read for a question.

    Attributes:
        events: pairs of a shape and events, int32 (n,); the shape's conditions must still be tested on them.
        counted: the number of events of whole cells that are counted without being read.
        tested: the number of events that were tested against the region.
    """

    events: list[tuple[Shape, Array]]
    counted: int
    tested: int


@dataclass(frozen=True)
class EventReader:
    """Reads the events of a question according to its plan."""

    selection: SnapshotSelection
    question: Question
    cover: SnapshotPlan
    slots: TimeSlots
    margins: Margins

    def read(self) -> EventsRead:
        """Return the events in the region and the time of the question."""
        stored, inside, shape = self.selection.present.stored, self.cover.inside, self.question.shape
        listed, times = self.cover.times.parted(self.cover.words)
        tail = np.arange(self.slots.end, len(stored.x), dtype=np.int32)
        border = np.concatenate([*self._border(times), tail[stored.known[tail]]])
        whole = times.whole if shape.is_count else []
        counted = sum(slot.count_runs(inside.begin, inside.end) for slot in whole)
        find: FindRows = partial(rows_of, ts=stored.ts, times=self.question.times)
        events, tested = [(shape, self._events(times, find, border))], len(border)
        if self.cover.words is not None:
            find = self.cover.words.rows_of
            border = find(listed.all, self.cover.border.begin, self.cover.border.end)
            events.append((shape.without_phrases, self._events(listed, find, border)))
            tested += len(border)
        return EventsRead(events, counted, tested)

    def _events(self, times: Times, find: FindRows, border: Array) -> Array:
        """Return the events of some time slots in the region and the time of the question, int32 (n,).

        Args:
            times: the time slots.
            find: returns rows of events in runs of cells of time slots, including all rows with the
                question's time and words.
            border: events that must still be tested against the region.
        """
        stored, inside = self.selection.present.stored, self.cover.inside
        pieces = [] if self.question.shape.is_count else [find(times.whole, inside.begin, inside.end)]
        timed = [find(times.part, inside.begin, inside.end)]
        for use in self.cover.uses:
            begin, end = (np.array([cell]) for cell in self.slots.grid.span(use.view.node))
            known = {slot.rows for slot in use.slots}
            pieces.append(find([slot for slot in times.whole if slot.rows not in known], begin, end))
            timed.append(find(times.part, begin, end))
        border = border[self.selection.reach.holds(*self.selection.present.places(border))]
        late = np.concatenate([*timed, border])
        ts = stored.ts[late]
        late = late[(self.question.times.since <= ts) & (ts < self.question.times.until)]
        return np.concatenate([*pieces, late])

    def _border(self, times: Times) -> list[Array]:
        """Return the events of some time slots that must be tested against the region."""
        if self.cover.margins is None:
            return [rows_of(times.all, self.cover.border.begin, self.cover.border.end)]
        rest = Runs.of(self.cover.margins.rest)
        return [
            rows_of(times.all, rest.begin, rest.end),
            *self.margins.rows(self.cover.margins, times.all),
        ]
