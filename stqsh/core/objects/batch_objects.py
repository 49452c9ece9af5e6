"""The effect of one batch on a table's objects: versions, events, and the state between any two steps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.base.clock import NEVER, BatchTiming
from stqsh.core.kernels.events.transitions import (
    AcceptedRows,
    Transitions,
    accept,
    accept_events,
    build,
    places_after,
    places_at,
    versions_at,
)
from stqsh.core.kernels.events.updates import LEFT, VersionSources, reasons
from stqsh.core.objects.event_objects import EventKeyColumn
from stqsh.core.objects.object_table import ObjectTable
from stqsh.core.objects.stored_columns import BatchRows
from stqsh.spec.chunk import RecordRole


class ObjectPlaces(NamedTuple):
    """All objects after a step: versions int32, x and y float64 (NaN: not present); (n,) each."""

    versions: Array
    x: Array
    y: Array


class VersionNumbers(NamedTuple):
    """The numbering of versions: each object as stored before the batch, then each row of the batch.

    An update shows a version; or the number of all versions plus an object, if only the object's key is
    known.

    Attributes:
        objects: The number of objects.
        row_objects: The object of each row, int32 (rows,).
        roles: The role of each row, as in `BatchRows`.
    """

    objects: int
    row_objects: Array
    roles: Array

    @property
    def versions(self) -> int:
        """The number of versions."""
        return self.objects + len(self.row_objects)

    def objects_of(self, versions: Array) -> Array:
        """Return the object of each version, int32 (n,); no version is -1."""
        if not len(self.row_objects):
            return versions.astype(np.int32)
        rows = np.maximum(versions - self.objects, 0)
        return np.where(versions < self.objects, versions, self.row_objects[rows]).astype(np.int32)

    def shown_objects(self, shown: Array) -> Array:
        """Return the object of each value that updates show, int32 (n,)."""
        is_key = shown >= self.versions
        known = self.objects_of(np.where(is_key, 0, shown))
        return np.where(is_key, shown - self.versions, known).astype(np.int32)

    def have_departed(self, versions: Array) -> Array:
        """Return whether versions are records with which objects depart to other slots, bool (n,)."""
        if not len(self.roles):
            return np.zeros(len(versions), np.bool_)
        row = np.maximum(versions - self.objects, 0)
        departed: Array = (versions >= self.objects) & (self.roles[row] == RecordRole.DEPARTED)
        return departed

    def or_keys(self, versions: Array, objects: Array) -> Array:
        """Return what to show of objects, int64 (n,): their versions, or the key alone if a version is -1."""
        return np.where(versions < 0, np.int64(self.versions) + objects, versions)


class Removals(NamedTuple):
    """Objects that are removed within the batch, regardless of their rows.

    Attributes:
        since: The step from which each version is removed, int64 (versions,), NEVER for most; None if all
            objects stay.
        why: The reason for each object, int8 (objects,), a position in `stqsh.spec.chunk.WHY`; None if the
            reason is that it left.
    """

    since: Array | None = None
    why: Array | None = None

    @staticmethod
    def of_departures(rows: BatchRows, numbers: VersionNumbers) -> Removals:
        """Return from which step the records with which objects depart to other slots are removed."""
        departed = np.flatnonzero(rows.roles == RecordRole.DEPARTED)
        if not len(departed):
            return Removals()
        since = np.full(numbers.versions, NEVER)
        since[numbers.objects + departed] = rows.arrays.step[departed]
        return Removals(since)

    def cover(self, versions: Array, steps: Any) -> Array:
        """Return whether versions are removed, each at its own step or all at one step; bool (n,)."""
        if self.since is None or not len(self.since):
            return np.zeros(len(versions), np.bool_)
        removed: Array = (versions >= 0) & (self.since[versions] <= steps)
        return removed


class VersionChanges(NamedTuple):
    """The events that give objects new versions, by object and step.

    Attributes:
        codes: Object and step as one number, int64 (n,), ascending.
        obj: The object of each event, (n,).
        step: Its step, (n,).
        version: The new version, (n,).
        base: The step before the batch.
        span: The number of steps, including `base`.
    """

    codes: Array
    obj: Array
    step: Array
    version: Array
    base: int
    span: int

    @staticmethod
    def of(events: Transitions, timing: BatchTiming) -> VersionChanges:
        """Return the changes among a batch's events."""
        base, span = timing.first - 1, timing.last - timing.first + 2
        at = np.flatnonzero(events.old != events.new)
        codes = events.obj[at].astype(np.int64) * span + events.step[at] - base
        at, codes = at[order := np.argsort(codes, kind="stable")], codes[order]
        return VersionChanges(codes, events.obj[at], events.step[at], events.new[at], base, span)

    def latest(self, objects: Array, steps: Array, before: Array) -> Array:
        """Return the version of each object after its own step; `before`: those before the batch."""
        if not len(self.codes):
            return before
        sought = objects.astype(np.int64) * self.span + (steps - self.base)
        last = np.maximum(np.searchsorted(self.codes, sought, side="right") - 1, 0)
        changed = (self.obj[last] == objects) & (self.step[last] <= steps)
        return np.where(changed, self.version[last], before)


class BatchObjects:
    """A batch's rows over a table, which still holds the state before the batch until `finish`.

    Attributes:
        stored: The objects as stored before the batch.
        sources: What versions refer to: the batch's rows, and `stored`.
        versions: The number of versions.
        coded_columns: The results of `coded` so far, by name.
    """

    def __init__(self, table: ObjectTable, batches: Sequence[pa.RecordBatch], timing: BatchTiming) -> None:
        self.table, self.timing = table, timing
        self.rows: BatchRows = table.encode(batches)
        self.stored = table.stored
        self.sources = VersionSources(self.rows.arrays, self.stored)
        self.numbers = VersionNumbers(len(table), self.rows.arrays.obj, self.rows.roles)
        self.versions = self.numbers.versions
        self._places: dict[int, ObjectPlaces] = {}
        self.coded_columns: dict[str, pa.Array[Any] | None] = {}
        self.removals = Removals.of_departures(self.rows, self.numbers)

    @cached_property
    def accepted(self) -> AcceptedRows:
        """The outcome of each row, see `accept`."""
        if isinstance(self.table.keys, EventKeyColumn) and not len(self.rows.roles):
            return accept_events(self.rows.arrays.obj, self.numbers.objects)
        return accept(self.rows.arrays, self.rows.roles, self.stored)

    @cached_property
    def events(self) -> Transitions:
        """All events of the batch, see `build`."""
        return build(self.accepted, self.rows.arrays, self.rows.roles, self.stored, self.timing)

    def coded(self, name: str) -> pa.Array[Any] | None:
        """Return a column of texts of all versions as a dictionary, made once; None for other columns."""
        if name not in self.coded_columns:
            every = np.arange(self.versions, dtype=np.int32)
            self.coded_columns[name] = self.table.columns.show_coded(name, self.rows, every)
        return self.coded_columns[name]

    def set_course(self, accepted: AcceptedRows, events: Transitions, removals: Removals) -> None:
        """Set the events of the batch, from which objects were removed.

        Args:
            accepted: The outcome of each row.
            events: All events.
            removals: The objects that were removed.
        """
        self.accepted, self.events, self.removals = accepted, events, removals
        self._places.clear()

    def reasons(self, versions: Array, objects: Array, steps: Array) -> tuple[Array, Array]:
        """Return why objects with these versions after these steps left, int8 (n,), and what to show, (n,).

        An update shows the version itself. An object without a record (version -1) has been forgotten: its
        reason is that it left, and only its key can be shown. The reasons of removed objects are included.
        """
        if not self.table.spec.is_significant:
            return reasons(versions, steps, self.sources, self.timing), versions.astype(np.int64)
        forgotten = versions < 0
        why = reasons(np.where(forgotten, 0, versions), steps, self.sources, self.timing)
        why[forgotten] = LEFT
        if self.removals.why is not None:
            removed = self.removals.cover(versions, steps) & (why == LEFT)
            why[removed] = self.removals.why[objects[removed]]
        return why, self.numbers.or_keys(versions, objects)

    def shown(self, objects: Array, step: int) -> Array:
        """Return what to show of objects after a step, see `VersionNumbers.or_keys`. int64 (n,)."""
        return self.numbers.or_keys(self.at(step).versions[objects], objects)

    def versions_at(self, step: int) -> Array:
        """Return the version of each object after a step, first - 1 .. last, -1 for none; int32 (n,)."""
        if step in self._places:
            return self._places[step].versions
        if step >= self.timing.first:
            return versions_at(self.events, self.stored.known, step)
        every = np.arange(len(self.stored.known), dtype=np.int32)
        return np.where(self.stored.known, every, np.int32(-1))

    def at(self, step: int) -> ObjectPlaces:
        """Return all objects after a step, first - 1 .. last."""
        if step not in self._places:
            versions = self.versions_at(step)
            x, y = places_at(versions, step, self.rows.arrays, self.stored, self.timing)
            removed = self.removals.cover(versions, step)
            x[removed] = y[removed] = np.nan
            self._places = {step: ObjectPlaces(versions, x, y)}  # one is enough: callers go step by step
        return self._places[step]

    def versions_after(self, objects: Array, steps: Array) -> Array:
        """Return the version of each object after its own step, -1 for none; int32 (n,)."""
        before = np.where(self.stored.known[objects], objects, -1)
        return self._changes.latest(objects, steps, before).astype(np.int32)

    @cached_property
    def _changes(self) -> VersionChanges:
        return VersionChanges.of(self.events, self.timing)

    def places(self, objects: Array, steps: Array) -> tuple[Array, Array]:
        """Return the place of each object after its own step, float64 (n,) each; NaN if it is not present."""
        versions = self.versions_after(objects, steps)
        x, y = places_after(versions, steps.astype(np.int64), *self.sources, self.timing)
        removed = self.removals.cover(versions, steps)
        x[removed] = y[removed] = np.nan
        return x, y

    def places_of(self, objects: Array, steps: Array) -> tuple[Array, Array]:
        """Return the places of `places`, with NaN for an object of -1."""
        x, y = (np.full(len(objects), np.nan) for _ in range(2))
        known = np.flatnonzero(objects >= 0)
        x[known], y[known] = self.places(objects[known], steps[known])
        return x, y

    def versions_elsewhere(self, shown: Array, op: Array, steps: Array) -> Array:
        """Return the version that another slot has of each object that crosses; -1 if no slot has one.

        For an object that leaves this slot, the other slot has its new record; for an object that arrives,
        the other slot had the record before.

        Args:
            shown: The values that updates show, (n,).
            op: 1 for objects that enter, -1 for objects that leave, int8 (n,).
            steps: The steps, int64 (n,).

        Returns:
            The versions, int64 (n,).
        """
        rows, roles = self.rows.arrays, self.rows.roles
        found = np.full(len(steps), -1, np.int64)
        if not len(roles):
            return found
        row = shown - self.numbers.objects
        has_row = (row >= 0) & (row < len(roles))
        departs = np.flatnonzero((op < 0) & self.numbers.have_departed(np.where(has_row, shown, -1)))
        found[departs] = shown[departs]
        comes = np.flatnonzero(has_row & (op > 0))
        before = np.flatnonzero(roles == RecordRole.PREVIOUS)
        if len(before) and len(comes):
            span = int(rows.step.max()) + 1
            codes = rows.obj[before].astype(np.int64) * span + rows.step[before]
            before, codes = before[order := np.argsort(codes)], codes[order]
            sought = rows.obj[row[comes]].astype(np.int64) * span + steps[comes]
            place = np.minimum(np.searchsorted(codes, sought), len(codes) - 1)
            there = codes[place] == sought
            found[comes[there]] = self.numbers.objects + before[place[there]]
        return found

    def finish(self) -> None:
        """Store each object's last row, and forget the objects that departed.

        Versions and places are no longer valid afterwards.
        """
        final = self.accepted.live & (self.accepted.until == NEVER)
        if len(self.rows.roles):
            departed = self.rows.roles == RecordRole.DEPARTED
            self.table.forget(self.rows.arrays.obj[departed])
            final &= ~departed
        self.table.columns.store(self.rows, np.flatnonzero(final))


def arrivals_at(objects: BatchObjects, step: int, among: Array | None = None) -> Transitions:
    """Return all objects that are present after a step, as events of their arrival in that step.

    Args:
        objects: The objects.
        step: The step.
        among: Only these objects, int32, ascending; None for all objects.
    """
    versions, x, y = objects.at(step)
    there = np.flatnonzero(~np.isnan(x)).astype(np.int32) if among is None else among[~np.isnan(x[among])]
    nowhere = np.full(len(there), np.nan)
    return Transitions(
        step=np.full(len(there), step, np.int64),
        obj=there,
        old=np.full(len(there), -1, np.int32),
        new=versions[there],
        ox=nowhere,
        oy=nowhere,
        nx=x[there],
        ny=y[there],
    )


def by_step(events: Transitions, order: Array | slice) -> Transitions:
    """Return events reordered, or some of them."""
    return Transitions(*(column[order] for column in events))


def joined(events: Transitions, more: Transitions) -> Transitions:
    """Return the concatenation of two tables of events."""
    return Transitions(*(np.concatenate(pair) for pair in zip(events, more, strict=True)))


def silent_from(ts: Array, timing: BatchTiming) -> Array:
    """Return the steps from which records with times ts, int64 µs (n,), are out of date; int64 (n,)."""
    steps: Array = (ts + timing.report) // timing.tick - timing.base + 2
    return steps
