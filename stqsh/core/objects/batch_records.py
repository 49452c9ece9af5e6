"""The records of one object in a batch, one by one, including those that are replaced in the same step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.transitions import places_after
from stqsh.core.objects.batch_objects import BatchObjects
from stqsh.spec.chunk import RecordRole


class ObjectRecords(NamedTuple):
    """The accepted records of one object in a batch, in their order; (n,) each.

    Attributes:
        version: int32.
        step: int64.
        located: Whether the record has a location.
        before: The version before the record, int32; -1 for none.
        was: Whether the object was present before the record.
    """

    version: Array
    step: Array
    located: Array
    before: Array
    was: Array


class BatchRecords:
    """The records of a batch by object."""

    def __init__(self, objects: BatchObjects) -> None:
        self._objects, self._arrays, self._roles = objects, objects.rows.arrays, objects.rows.roles

    def of(self, obj: int) -> ObjectRecords:
        """Return the accepted records of an object."""
        objects, arrays, stored = self._objects, self._arrays, self._objects.stored
        base = objects.numbers.objects
        rows = self._rows(obj, RecordRole.REGULAR)
        latest = stored.ts[obj] if stored.known[obj] else np.iinfo(np.int64).min
        rows = rows[arrays.ts[rows] >= np.maximum.accumulate(np.append(latest, arrays.ts[rows]))[:-1]]
        step, version = arrays.step[rows], (base + rows).astype(np.int32)
        located = ~np.isnan(arrays.x[rows])
        again = np.diff(step, prepend=-1) == 0
        who = np.full(len(rows), obj, np.int32)
        before = objects.versions_after(who, step - 1)
        was = ~np.isnan(objects.places(who, step - 1)[0])
        elsewhere = self.elsewhere(obj)
        if len(elsewhere):
            comes = np.flatnonzero(np.isin(step, arrays.step[elsewhere - base]))
            at = np.searchsorted(arrays.step[elsewhere - base], step[comes])
            before[comes] = elsewhere[at]
            places = places_after(elsewhere[at], step[comes] - 1, *objects.sources, objects.timing)
            was[comes] = ~np.isnan(places[0])
        before[again], was[again] = version[:-1][again[1:]], located[:-1][again[1:]]
        return ObjectRecords(version, step, located, before, was)

    def departures(self, obj: int, records: ObjectRecords) -> Array:
        """Return the steps, int64 (n,), at which an object leaves for another reason than one of its records.

        The object becomes silent, or its last record is too old.
        """
        objects = self._objects
        events = objects.events.step[objects.events.obj == obj]
        steps = np.setdiff1d(events, self._arrays.step[self._rows(obj, RecordRole.DEPARTED)])
        who = np.full(len(steps), obj, np.int32)
        there = ~np.isnan(objects.places(who, steps)[0])
        before = ~np.isnan(objects.places(who, steps - 1)[0])
        last = np.searchsorted(records.step, steps, side="right") - 1
        has = (last >= 0) & (records.step[last] == steps) if len(records.step) else np.zeros(len(steps), bool)
        before[has] = records.located[last[has]]
        left: Array = steps[before & ~there]
        return left

    def elsewhere(self, obj: int) -> Array:
        """Return the versions that an object had on another slot before it arrived here, int32, by step."""
        rows = self._rows(obj, RecordRole.PREVIOUS)
        versions: Array = (self._objects.numbers.objects + rows).astype(np.int32)
        return versions

    def departing(self, step: int) -> Array:
        """Return the objects that are on another slot from a step on."""
        if not len(self._roles):
            return np.empty(0, np.int32)
        departs = (self._roles == RecordRole.DEPARTED) & (self._arrays.step == step)
        objects: Array = self._arrays.obj[departs]
        return objects

    def _rows(self, obj: int, role: RecordRole) -> Array:
        """Return the rows of an object with a role, ascending."""
        found: Array = np.flatnonzero(self._arrays.obj == obj)
        if not len(self._roles):
            return found if role == RecordRole.REGULAR else found[:0]
        own: Array = found[self._roles[found] == role]
        return own
