"""What one batch does to the objects of a table: versions, events, and the state between any two steps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stqsh.core.base.clock import NEVER, BatchTiming
from stqsh.core.kernels.events.transitions import (
    AcceptedRows,
    Transitions,
    accept,
    build,
    places_after,
    places_at,
    remove_objects,
    versions_at,
)
from stqsh.core.kernels.events.updates import LEFT, VersionSources, reasons
from stqsh.core.objects.object_table import BatchRows, ObjectTable
from stqsh.core.state.retention_mode import is_significant

Array = npt.NDArray[Any]


class ObjectPlaces(NamedTuple):
    """All objects after a step: versions int32, x and y float64 (NaN: not present); (n,) each."""

    versions: Array
    x: Array
    y: Array


class BatchObjects:
    """A batch's rows over a table that still holds the state before the batch; `finish` moves it on.

    Objects may be taken out of the batch (`take_out`): after its last step they are not present, whatever
    their rows say.
    """

    def __init__(self, table: ObjectTable, batches: Sequence[pa.RecordBatch], timing: BatchTiming) -> None:
        self.table, self.timing = table, timing
        self.rows: BatchRows = table.encode(batches)
        self.stored = table.stored
        self._places: dict[int, ObjectPlaces] = {}
        self._out: Array | None = None
        self._why: Array | None = None

    @property
    def sources(self) -> VersionSources:
        """What versions point into: the batch's rows, and the objects as stored before it."""
        return VersionSources(self.rows.arrays, self.stored)

    @property
    def unending(self) -> BatchTiming:
        """The timing under which no record grows too old."""
        return self.timing._replace(report=-1)

    @property
    def versions(self) -> int:
        """How many versions there are: objects, then rows."""
        return len(self.table) + len(self.rows)

    @cached_property
    def accepted(self) -> AcceptedRows:
        """What became of each row, see `accept`."""
        return accept(self.rows.arrays, self.stored)

    @cached_property
    def events(self) -> Transitions:
        """All events of the batch, see `build`."""
        return build(self.accepted, self.rows.arrays, self.stored, self.timing)

    def went(self, accepted: AcceptedRows, events: Transitions, out: Array) -> None:
        """Take in how the batch went where objects were forgotten between its steps.

        out: int64 (versions,), from which step on each version is not there any more, NEVER for most.
        """
        self.accepted, self.events, self._out = accepted, events, out
        self._places.clear()

    def take_out(self, why: Array) -> None:
        """Let objects go in the last step, from where they are then.

        why: int8 (objects,), a position in `stqsh.spec.chunk.WHY` for those that go, all of them present
        after the last step, 0 for the others.
        """
        out = np.flatnonzero(why).astype(np.int32)
        if not len(out):
            return
        last = self.timing.last
        nx, ny, acted = remove_objects(self.events, why, last)
        steps = np.full(len(out), last)
        versions = self.versions_after(out, steps)
        idle = np.flatnonzero(~acted[out])  # where they are they have been before the step
        x, y = places_after(versions[idle], steps[idle], *self.sources, self.unending)
        nowhere = np.full(len(idle), np.nan)
        lone = Transitions(steps[idle], out[idle], versions[idle], versions[idle], x, y, nowhere, nowhere)
        self.events = joined(self.events._replace(nx=nx, ny=ny), lone)
        self._out, self._why = np.full(self.versions, NEVER), why
        self._out[versions] = last
        self._places.clear()

    def is_out(self, versions: Array, steps: Any) -> Array:
        """Whether versions have been taken out at steps of their own, or at one step. bool (n,)."""
        if self._out is None or not len(self._out):
            return np.zeros(len(versions), np.bool_)
        taken: Array = (versions >= 0) & (self._out[versions] <= steps)
        return taken

    def reasons(self, versions: Array, objects: Array, steps: Array) -> tuple[Array, Array]:
        """`stqsh.core.kernels.events.updates.reasons`, with the reasons of objects that have been taken out.

        An object without a record (version -1) has been forgotten: it left, and its key is all there is.
        """
        if not is_significant(self.table.spec):
            return reasons(versions, objects, steps, self.sources, self.timing)
        forgotten = versions < 0
        why, show = reasons(np.where(forgotten, 0, versions), objects, steps, self.sources, self.timing)
        why[forgotten], show[forgotten] = LEFT, self.versions + objects[forgotten]
        if self._why is not None:
            taken = self.is_out(versions, steps) & (why == LEFT)
            why[taken] = self._why[objects[taken]]
        return why, show

    def shown(self, objects: Array, step: int) -> Array:
        """What to show of objects after a step, int64 as `Told.show`: versions, of forgotten ones the key."""
        return self.keyed(self.at(step).versions[objects], objects)

    def keyed(self, versions: Array, objects: Array) -> Array:
        """Versions as `Told.show` has them, int64 (n,): for -1, no record, the key of the object."""
        return np.where(versions < 0, np.int64(self.versions) + objects, versions)

    def at(self, step: int) -> ObjectPlaces:
        """All objects after a step, first - 1 .. last."""
        if step not in self._places:
            if step < self.timing.first:
                every = np.arange(len(self.stored.known), dtype=np.int32)
                versions = np.where(self.stored.known, every, np.int32(-1))
            else:
                versions = versions_at(self.events, self.stored.known, step)
            x, y = places_at(versions, step, self.rows.arrays, self.stored, self.timing)
            taken = self.is_out(versions, step)
            x[taken] = y[taken] = np.nan
            self._places = {step: ObjectPlaces(versions, x, y)}  # one is enough: callers ask step by step
        return self._places[step]

    def versions_after(self, objects: Array, steps: Array) -> Array:
        """The version of each object after a step of its own, first - 1 .. last; -1 for none. int32 (n,)."""
        base, span, (codes, changes) = self.timing.first - 1, self._span, self._changes
        versions = np.where(self.stored.known[objects], objects, -1)
        if len(codes):
            sought = objects.astype(np.int64) * span + (steps - base)
            latest = changes[np.maximum(np.searchsorted(codes, sought, side="right") - 1, 0)]
            changed = (self.events.obj[latest] == objects) & (self.events.step[latest] <= steps)
            versions = np.where(changed, self.events.new[latest], versions)
        return versions.astype(np.int32)

    @property
    def _span(self) -> int:
        return self.timing.last - self.timing.first + 2

    @cached_property
    def _changes(self) -> tuple[Array, Array]:
        """The events that gave an object another version, by object and step: object and step as one number
        each, ascending, and the positions of the events.
        """
        events = self.events
        changes = np.flatnonzero(events.old != events.new)
        codes = (
            events.obj[changes].astype(np.int64) * self._span + events.step[changes] - self.timing.first + 1
        )
        order = np.argsort(codes, kind="stable")
        return codes[order], changes[order]

    def places(self, objects: Array, steps: Array) -> tuple[Array, Array]:
        """Where each object is after a step of its own; NaN where it is not present. float64 (n,) each."""
        versions = self.versions_after(objects, steps)
        x, y = places_after(versions, steps.astype(np.int64), *self.sources, self.timing)
        taken = self.is_out(versions, steps)
        x[taken] = y[taken] = np.nan
        return x, y

    def arrivals(self, step: int, among: Array | None = None) -> Transitions:
        """All objects that are present after a step, as events of that step that brought them in.

        among: int32, ascending: only those of these objects; all unless given.
        """
        versions, x, y = self.at(step)
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

    def objects_of(self, versions: Array) -> Array:
        """The object of each version (not -1). int32 (n,)."""
        known = len(self.table)
        if not len(self.rows):
            return versions.astype(np.int32)
        rows = np.maximum(versions - known, 0)
        return np.where(versions < known, versions, self.rows.arrays.obj[rows]).astype(np.int32)

    def finish(self) -> None:
        """Store each object's last row; versions and places are void from here on."""
        final = np.flatnonzero(self.accepted.live & (self.accepted.until == NEVER))
        self.table.apply(self.rows, final)


def by_step(events: Transitions, order: Array | slice) -> Transitions:
    """Events in another order, or some of them."""
    return Transitions(*(column[order] for column in events))


def joined(events: Transitions, more: Transitions) -> Transitions:
    """Two tables of events as one."""
    return Transitions(*(np.concatenate(pair) for pair in zip(events, more, strict=True)))


def silent_from(ts: Array, timing: BatchTiming) -> Array:
    """From which steps on records of times ts, int64 µs (n,), are older than REPORT EVERY allows; int64."""
    steps: Array = (ts + timing.report) // timing.tick - timing.base + 2
    return steps
