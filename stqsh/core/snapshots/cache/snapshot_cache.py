"""A client's cache for snapshots of events, for all slots and streams, within a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, TypeVar

import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.contract.snapshot_selection import PresentObjects, SnapshotSelection
from stqsh.core.objects.event_objects import times_renumbered
from stqsh.core.snapshots.cache.covering import SnapshotPlan, event_cost
from stqsh.core.snapshots.cache.event_views import WORDS, Budget, EventViews, Usage
from stqsh.core.snapshots.cache.questions import Question, Shape, question_of
from stqsh.core.snapshots.cache.saved_views import sample_of
from stqsh.core.snapshots.cache.time_slots import TimeSlots
from stqsh.core.snapshots.cache.view_set import COSTLY
from stqsh.core.snapshots.groups import states_share
from stqsh.core.state.slot_state import SlotState

T = TypeVar("T")
Find: TypeAlias = Callable[[EventViews, SnapshotSelection, Question, SnapshotPlan], tuple[T, Usage]]
"""Returns the answer of a question, and the usage."""


@dataclass(frozen=True)
class CachePolicy:
    """When caching pays off.

    Attributes:
        least: a slot with fewer events is always scanned, because nothing is faster.
        scans: how often all events of a slot are scanned before they are sorted by cell, and again after they
            have been renumbered; a scan that reads texts counts as half of this number.
        first: the number of questions after which views are chosen for the first time.
        always: whether cells and views are used even if a scan is faster.
        lists: whether word lists are kept.
        costly: the cost of questions after which views are chosen, however few the questions are; see
            `QuestionHistory`.
    """

    least: int = 50_000
    scans: float = 8.0
    first: int = 24
    always: bool = False
    lists: bool = True
    costly: float = COSTLY


@dataclass
class KeptViews:
    """The cache of a slot's events.

    Attributes:
        numbering: the numbering of events that the views refer to.
        sample: recognizes the events of the time slots, see `sample_of`.
        views: the views; None while scans cost less than building them.
        scanned: how many events have been scanned since.
    """

    numbering: int
    sample: int = 0
    views: EventViews | None = None
    scanned: float = 0.0


class ViewFiles(Protocol):
    """Where the caches of slots are stored for later clients."""

    def read(self, slot: int, stream: int) -> KeptViews | None:
        """Return the cache of a slot's events; None if none is stored that can be used."""

    def write(self, slot: int, stream: int, kept: KeptViews) -> None:
        """Store the cache of a slot's events."""


@dataclass
class SnapshotCache:
    """Time slots and views of the events of each slot and stream, and the usage.

    With `files`, the cache of a slot is first read from there, and `save` stores what has changed.

    Attributes:
        budget: the bytes that views may use, over all slots.
        objects: the bytes that margins may use, over all slots; if both are 0, all events are scanned.
        patience: when views and margins are made.
        usage: how questions were answered, by stream.
        files: where caches are stored; None for nowhere.
        is_due: whether views have been chosen since the cache was last saved.
    """

    budget: int
    patience: CachePolicy = CachePolicy()
    objects: int = 0
    usage: dict[int, Usage] = field(default_factory=dict)
    files: ViewFiles | None = None
    is_due: bool = False
    _kept: dict[tuple[int, int], KeptViews] = field(default_factory=dict)
    _changed: set[tuple[int, int]] = field(default_factory=set)

    def limit(self, budget: int, objects: int = 0) -> None:
        """Set the bytes that views and margins may use; if both are 0, drop everything."""
        self.budget, self.objects = budget, objects
        if max(budget, objects) <= 0:
            self._kept.clear()
            self._changed.clear()

    def save(self) -> None:
        """Store the caches that have changed, for later clients."""
        if self.files is not None:
            for slot, stream in sorted(self._changed):
                self.files.write(slot, stream, self._kept[slot, stream])
        self._changed.clear()
        self.is_due = False

    def share(self, state: SlotState, selection: SnapshotSelection) -> pa.RecordBatch | None:
        """Return a slot's share of an aggregate; None if it must be found by a scan."""
        spec = selection.spec
        if not spec.adds_up:
            return None
        found = self._found(state, selection, EventViews.answer)
        if found is None:
            return None
        if spec.aggregates is None:
            count = found.totals["n"][0].as_py() if found.by.num_rows else 0
            return pa.RecordBatch.from_arrays([pa.array([count], pa.int64())], names=["count"])
        return states_share(found, selection.present.now)

    def members(self, state: SlotState, selection: SnapshotSelection) -> Array | None:
        """Return the events of a slot that a snapshot asks for; None if they must be found by a scan."""
        return None if selection.spec.adds_up else self._found(state, selection, EventViews.members)

    def _found(self, state: SlotState, selection: SnapshotSelection, find: Find[T]) -> T | None:
        """Return the answer from the cache; None for a snapshot that must be answered by a scan."""
        question = question_of(selection) if max(self.budget, self.objects) > 0 else None
        views = None if question is None else self._views(state, selection, question)
        if question is None or views is None:
            return None
        present, stream = selection.present, selection.present.table.spec.id
        slots = max(1, sum(kept.views is not None for kept in self._kept.values()))
        budget = Budget(self.budget / slots, self.objects / slots)
        self._catch_up(state, views, present)
        views.build(present)
        if self.patience.lists:
            views.words.build(views.slots.slots, present, WORDS * budget.views)
        views.fit(budget)
        cover = views.cover(selection, question)
        views.remember(question, selection.reach, present, cover)
        found = (
            find(views, selection, question, cover)
            if self._pays(views, cover, selection, question.shape)
            else None
        )
        if views.history.is_due:
            views.choose(present, budget)
            self.is_due = True
        if found is None:
            return None
        answer, usage = found
        self.usage[stream] = self.usage.get(stream, Usage()).plus(usage)
        return answer

    def planned(self, state: SlotState, selection: SnapshotSelection) -> Usage | None:
        """Return how a snapshot would be answered on a slot now; None for a scan."""
        question = question_of(selection) if max(self.budget, self.objects) > 0 else None
        views = None if question is None else self._of_now(state, selection.present)
        if question is None or views is None:
            return None
        cover = views.cover(selection, question)
        is_used = self._pays(views, cover, selection, question.shape)
        return views.planned(selection, question, cover) if is_used else None

    def _pays(
        self, views: EventViews, cover: SnapshotPlan, selection: SnapshotSelection, shape: Shape
    ) -> bool:
        events = len(selection.present.stored.x)
        return self.patience.always or cover.pays(views.slots, events, shape)

    def all(self) -> Iterator[tuple[int, int, EventViews]]:
        """Yield the slot, the stream and the views of all cached events."""
        for (slot, stream), kept in sorted(self._kept.items()):
            if kept.views is not None:
                yield slot, stream, kept.views

    def open(self, state: SlotState, present: PresentObjects) -> None:
        """Read a slot's cache if it is stored, so that `all` yields it."""
        if max(self.budget, self.objects) > 0:
            self._known(state, present)

    def _views(self, state: SlotState, selection: SnapshotSelection, question: Question) -> EventViews | None:
        """Return the views of a slot's events; None while scans cost less than building views."""
        present = selection.present
        stream, events = present.table.spec.id, len(present.stored.x)
        if events < self.patience.least:
            return None
        views, known = self._of_now(state, present), self._known(state, present)
        self._changed.add((state.slot, stream))
        if views is not None:
            return views
        scans = self.patience.scans / 2 if event_cost(question.shape) > 1 else 1.0
        known.scanned += scans * events
        if known.scanned < self.patience.scans * events:
            return None
        older = known.views if known.views is not None and known.views.slots.fits(events) else None
        views = EventViews(TimeSlots.over(present.stored, None if older is None else older.slots.grid))
        views.history.due, views.history.allowed = self.patience.first, self.patience.costly
        if older is not None:
            views.continue_from(older)
        made = KeptViews(times_renumbered(state, stream), sample_of(present.stored, views.slots.end), views)
        self._kept[state.slot, stream] = made
        return views

    def _of_now(self, state: SlotState, present: PresentObjects) -> EventViews | None:
        """Return the views of a slot's events if they refer to the events as they are numbered now."""
        known, stream = self._known(state, present), present.table.spec.id
        if known.views is None or known.numbering != times_renumbered(state, stream):
            return None
        return known.views if known.views.slots.end <= len(present.stored.x) else None

    def _known(self, state: SlotState, present: PresentObjects) -> KeptViews:
        """Return the cache of a slot's events; it is read when they are first asked for.

        What is read is used only if it is a cache of these events: its numbering is an older one, or the
        sample of the events is the same.
        """
        stream = present.table.spec.id
        key, numbering = (state.slot, stream), times_renumbered(state, stream)
        if key not in self._kept:
            read = None if self.files is None else self.files.read(*key)
            if read is not None and read.views is not None and read.numbering == numbering:
                end, stored = read.views.slots.end, present.stored
                if end > len(stored.x) or sample_of(stored, end) != read.sample:
                    read = None
            self._kept[key] = read or KeptViews(numbering)
        return self._kept[key]

    def _catch_up(self, state: SlotState, views: EventViews, present: PresentObjects) -> None:
        """Add the new events to a slot's views."""
        end = views.slots.end
        views.catch_up(present)
        if views.slots.end != end:
            known = self._known(state, present)
            known.sample = sample_of(present.stored, views.slots.end)
