"""A client's cache for snapshots of events, for all slots and streams, within a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.contract.snapshot_selection import SnapshotSelection
from stqsh.core.objects.event_objects import times_renumbered
from stqsh.core.snapshots.cache.covering import SnapshotPlan
from stqsh.core.snapshots.cache.event_views import WORDS, Budget, EventViews, Usage
from stqsh.core.snapshots.cache.questions import Question, Shape, question_of
from stqsh.core.snapshots.cache.time_slots import TimeSlots
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
            have been renumbered; a scan that searches texts counts as half of this number.
        first: the number of questions after which views are chosen for the first time.
        always: whether cells and views are used even if a scan is faster.
        lists: whether word lists are kept.
    """

    least: int = 50_000
    scans: float = 8.0
    first: int = 24
    always: bool = False
    lists: bool = True


@dataclass
class _Kept:
    """The views of a slot's events, with the numbering of events that they refer to."""

    numbering: int
    views: EventViews


@dataclass
class SnapshotCache:
    """Time slots and views of the events of each slot and stream, and the usage.

    Attributes:
        budget: the bytes that views may use, over all slots.
        objects: the bytes that margins may use, over all slots; if both are 0, all events are scanned.
        patience: when views and margins are made.
        usage: how questions were answered, by stream.
    """

    budget: int
    patience: CachePolicy = CachePolicy()
    objects: int = 0
    usage: dict[int, Usage] = field(default_factory=dict)
    _kept: dict[tuple[int, int], _Kept] = field(default_factory=dict)
    _scanned: dict[tuple[int, int], float] = field(default_factory=dict)

    def limit(self, budget: int, objects: int = 0) -> None:
        """Set the bytes that views and margins may use; if both are 0, drop everything."""
        self.budget, self.objects = budget, objects
        if max(budget, objects) <= 0:
            self._kept.clear()
            self._scanned.clear()

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
        slots = max(1, len(self._kept))
        budget = Budget(self.budget / slots, self.objects / slots)
        views.catch_up(present)
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
        if views.history.asked >= views.history.due:
            views.choose(present, budget)
        if found is None:
            return None
        answer, usage = found
        self.usage[stream] = self.usage.get(stream, Usage()).plus(usage)
        return answer

    def planned(self, state: SlotState, selection: SnapshotSelection) -> Usage | None:
        """Return how a snapshot would be answered on a slot now; None for a scan."""
        known = self._kept.get((state.slot, selection.present.table.spec.id))
        question = question_of(selection)
        is_of_now = known is not None and known.numbering == times_renumbered(state, selection.spec.stream_id)
        if known is None or question is None or not is_of_now:
            return None
        cover = known.views.cover(selection, question)
        return (
            known.views.planned(selection, question, cover)
            if self._pays(known.views, cover, selection, question.shape)
            else None
        )

    def _pays(
        self, views: EventViews, cover: SnapshotPlan, selection: SnapshotSelection, shape: Shape
    ) -> bool:
        events = len(selection.present.stored.x)
        return self.patience.always or cover.pays(views.slots, events, shape)

    def all(self) -> Iterator[tuple[int, int, EventViews]]:
        """Yield the slot, the stream and the views of all cached events."""
        for (slot, stream), kept in sorted(self._kept.items()):
            yield slot, stream, kept.views

    def _views(self, state: SlotState, selection: SnapshotSelection, question: Question) -> EventViews | None:
        """Return the views of a slot's events; None while scans cost less than building views."""
        present = selection.present
        stream, events = present.table.spec.id, len(present.stored.x)
        key, numbering = (state.slot, stream), times_renumbered(state, stream)
        known = self._kept.get(key)
        if known is not None and known.numbering == numbering and known.views.slots.end <= events:
            return known.views
        scans = self.patience.scans / 2 if question.shape.phrases else 1.0
        self._scanned[key] = self._scanned.get(key, 0.0) + scans * events
        if events < self.patience.least or self._scanned[key] < self.patience.scans * events:
            return None
        older = known.views if known is not None and known.views.slots.fits(events) else None
        views = EventViews(TimeSlots.over(present.stored, None if older is None else older.slots.grid))
        views.history.due = self.patience.first
        if older is not None:
            views.continue_from(older)
        self._kept[key], self._scanned[key] = _Kept(numbering, views), 0.0
        return views
