"""What one batch does to the objects of a table: versions, events, and the state between any two steps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stqsh.core.clock import NEVER, Timing
from stqsh.core.kernels.events import (
    Accepted,
    Events,
    RowArrays,
    accept,
    build,
    places_after,
    places_at,
    versions_at,
)
from stqsh.core.objects.table import ObjectTable, Rows

Array = npt.NDArray[Any]


class Places(NamedTuple):
    """All objects after a step: versions int32, x and y float64 (NaN: not present); (n,) each."""

    versions: Array
    x: Array
    y: Array


class Movement:
    """A batch's rows over a table that still holds the state before the batch; `finish` moves it on."""

    def __init__(self, table: ObjectTable, batches: Sequence[pa.RecordBatch], timing: Timing) -> None:
        self.table, self.timing = table, timing
        self.rows: Rows = table.encode(batches)
        self.stored = table.stored
        self.accepted: Accepted = accept(self.rows.arrays, self.stored)
        self._places: dict[int, Places] = {}

    @property
    def sources(self) -> tuple[RowArrays, Any]:
        """What versions point into: the batch's rows, and the objects as stored before it."""
        return self.rows.arrays, self.stored

    @property
    def unending(self) -> Timing:
        """The timing under which no record grows too old."""
        return self.timing._replace(report=-1)

    @property
    def versions(self) -> int:
        """How many versions there are: objects, then rows."""
        return len(self.table) + len(self.rows)

    @cached_property
    def events(self) -> Events:
        """All events of the batch, see `build`."""
        return build(self.accepted, self.rows.arrays, self.stored, self.timing)

    def at(self, step: int) -> Places:
        """All objects after a step, first - 1 .. last."""
        if step not in self._places:
            versions = versions_at(self.events, self.stored.known, step)
            x, y = places_at(versions, step, self.rows.arrays, self.stored, self.timing)
            self._places = {step: Places(versions, x, y)}  # one is enough: callers ask step by step
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
        return places_after(versions, steps.astype(np.int64), *self.sources, self.timing)

    def arrivals(self, step: int) -> Events:
        """All objects that are present after a step, as events of that step that brought them in."""
        versions, x, y = self.at(step)
        there = np.flatnonzero(~np.isnan(x)).astype(np.int32)
        nowhere = np.full(len(there), np.nan)
        return Events(
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


def by_step(events: Events, order: Array) -> Events:
    """Events in another order."""
    return Events(*(column[order] for column in events))


def joined(events: Events, more: Events) -> Events:
    """Two tables of events as one."""
    return Events(*(np.concatenate(pair) for pair in zip(events, more, strict=True)))
