"""Every record of an object, which FOLLOW shows: also those that another one replaces in the same step."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stqsh.core.contract.query_kind import QueryKind, QueryLogic, StreamBatch
from stqsh.core.kernels.events.transitions import places_after
from stqsh.core.kernels.events.updates import GONE
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.output.batch_output import BatchOutput, QueryUpdates
from stqsh.core.output.renewed_rows import CHANGED
from stqsh.core.output.sent_answers import SentAnswers
from stqsh.core.queries.query_table import ACTIVE, PAUSED
from stqsh.core.queries.registrations import NewQueries
from stqsh.spec.chunk import RecordRole
from stqsh.spec.query import RECORDS

Array = npt.NDArray[Any]

_FIRST, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
"""The places, among the records of a step, of what comes before all of them, and after."""


class RecordsKind(QueryKind):
    """The records of the objects that a condition on the key names."""

    name = RECORDS.name

    def build(self, batch: StreamBatch, output: BatchOutput) -> RecordsLogic:
        """Load the queries of a slot for one batch."""
        return RecordsLogic(self, batch, output)


class _Records(NamedTuple):
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


class _Told(NamedTuple):
    """Updates of one query, (n,) each: steps, places within the step, ops, reasons, and what is shown."""

    step: Array
    place: Array
    op: Array
    why: Array
    show: Array


class RecordsLogic(QueryLogic):
    """One batch of a stream's queries for records.

    A record sends `-` with the one before it, and `+` with itself. So updates in their order fold to the last
    record of an object while it is present.
    """

    def __init__(self, kind: QueryKind, batch: StreamBatch, output: BatchOutput) -> None:
        super().__init__(kind, batch, output)
        self._sent = SentAnswers(batch.state, self.prefix)
        self._conditions = QueryConditions(batch.state, self.prefix, self.queries, batch.objects)

    def register(self, positions: Array, new: NewQueries) -> None:
        """Store the conditions of new queries."""
        self._conditions.add(positions, new)

    def pause(self, positions: Array) -> None:
        """Store what queries have sent."""
        for position in positions.tolist():
            members = self._members(position, self.batch.timing.first - 1)
            self._sent.add(np.full(len(members), self.queries.id[position]), members)

    def retire(self, positions: Array, steps: Array, why: int) -> None:
        """Emit a removal for each object that is present."""
        for position, step in zip(positions.tolist(), steps.tolist(), strict=True):
            if self.queries.mode[position] == PAUSED:
                _, members = self._sent.pop_queries([self.queries.id[position]])
            else:
                members = self._members(position, step - 1)
            shown = self.batch.objects.shown(members, step - 1)
            self.emit_removals(step, position, shown, np.full(len(members), why, np.int8))
        super().retire(positions, steps, why)

    def on_events(self, begun: Array) -> None:
        """Emit the records of the batch, after those that stand where a query begins."""
        objects = self.batch.objects
        active = (self.queries.mode == ACTIVE) & (self.queries.until > self.batch.timing.first)
        if not active.any():
            return
        acting = np.unique(np.concatenate([objects.rows.arrays.obj, objects.events.obj]))
        for position in np.flatnonzero(active).tolist():
            begins = bool(np.isin(position, begun))
            told = self._standing(position) if begins else []
            for obj in self._satisfying(position, acting).tolist():
                told += self._told(obj, begins=begins)
            self._emit_in_order(position, told)

    def _emit_in_order(self, position: int, told: list[_Told]) -> None:
        if told:
            step, place, op, why, show = (np.concatenate(column) for column in zip(*told, strict=True))
            order = np.lexsort((op, place, step))
            columns = (step, np.full(len(step), position), op, why, show)
            self.emit(QueryUpdates(*(column[order] for column in columns)))

    def _standing(self, position: int) -> list[_Told]:
        """Return the records that stand where a query begins, or the difference where it is resumed."""
        objects, first = self.batch.objects, self.batch.timing.first
        _, had = self._sent.pop_queries([self.queries.id[position]])
        members = self._members(position, first - 1)
        new = np.setdiff1d(members, had[np.isin(had, members)])
        new = new[~np.isin(new, self._departing(first))]
        gone = np.setdiff1d(had, members).astype(np.int32)
        steps = np.full(len(gone), first - 1)
        why, show = objects.reasons(objects.versions_after(gone, steps), gone, steps)
        return [
            _told(first, _FIRST, 1, 0, objects.shown(new, first - 1)),
            _told(first, _FIRST, -1, why, show),
        ]

    def _told(self, obj: int, *, begins: bool) -> list[_Told]:
        """Return the updates by the records of an object, and those by its leaving."""
        records = self._records(obj)
        step, place = records.step, np.arange(len(records.step))
        changed, gone, come = records.was & records.located, records.was & ~records.located, records.located
        told = [
            _told(step[changed], place[changed], -1, CHANGED, records.before[changed]),
            _told(step[gone], place[gone], -1, GONE, records.version[gone]),
            _told(step[come], place[come], 1, 0, records.version[come]),
            self._departures(obj, records),
        ]
        first = self.batch.timing.first
        if begins and len(step) and step[0] == first and records.before[0] in self._elsewhere(obj):
            shown = records.before[:1][records.was[:1]]  # the slot from which the object comes says nothing
            told.append(_told(first, _FIRST, 1, 0, shown))
        return told

    def _departures(self, obj: int, records: _Records) -> _Told:
        """Return how an object leaves other than by a record: it is silent, or its last record is too old."""
        objects = self.batch.objects
        events = objects.events.step[objects.events.obj == obj]
        steps = np.setdiff1d(events, objects.rows.arrays.step[self._rows(obj, RecordRole.DEPARTED)])
        who = np.full(len(steps), obj, np.int32)
        there = ~np.isnan(objects.places(who, steps)[0])
        before = ~np.isnan(objects.places(who, steps - 1)[0])
        last = np.searchsorted(records.step, steps, side="right") - 1
        has = (last >= 0) & (records.step[last] == steps) if len(records.step) else np.zeros(len(steps), bool)
        before[has] = records.located[last[has]]
        left = steps[before & ~there]
        who = who[: len(left)]
        why, show = objects.reasons(objects.versions_after(who, left), who, left)
        return _told(left, _LAST, -1, why, show)

    def _records(self, obj: int) -> _Records:
        """Return the accepted records of an object in the batch."""
        objects = self.batch.objects
        arrays, stored, base = objects.rows.arrays, objects.stored, objects.numbers.objects
        rows = self._rows(obj, RecordRole.REGULAR)
        latest = stored.ts[obj] if stored.known[obj] else np.iinfo(np.int64).min
        rows = rows[arrays.ts[rows] >= np.maximum.accumulate(np.append(latest, arrays.ts[rows]))[:-1]]
        step, version = arrays.step[rows], (base + rows).astype(np.int32)
        located = ~np.isnan(arrays.x[rows])
        again = np.diff(step, prepend=-1) == 0
        who = np.full(len(rows), obj, np.int32)
        before = objects.versions_after(who, step - 1)
        was = ~np.isnan(objects.places(who, step - 1)[0])
        elsewhere = self._elsewhere(obj)
        if len(elsewhere):
            comes = np.flatnonzero(np.isin(step, arrays.step[elsewhere - base]))
            at = np.searchsorted(arrays.step[elsewhere - base], step[comes])
            before[comes] = elsewhere[at]
            places = places_after(elsewhere[at], step[comes] - 1, *objects.sources, self.batch.timing)
            was[comes] = ~np.isnan(places[0])
        before[again], was[again] = version[:-1][again[1:]], located[:-1][again[1:]]
        return _Records(version, step, located, before, was)

    def _elsewhere(self, obj: int) -> Array:
        """Return the versions that an object had on another slot before it came here, int32, by step."""
        rows = self._rows(obj, RecordRole.PREVIOUS)
        versions: Array = (self.batch.objects.numbers.objects + rows).astype(np.int32)
        return versions

    def _rows(self, obj: int, role: RecordRole) -> Array:
        """Return the rows of an object in a role, ascending."""
        rows = self.batch.objects.rows
        found: Array = np.flatnonzero(rows.arrays.obj == obj)
        if not len(rows.roles):
            return found if role == RecordRole.REGULAR else found[:0]
        own: Array = found[rows.roles[found] == role]
        return own

    def _departing(self, step: int) -> Array:
        """Return the objects that are on another slot from a step on."""
        rows = self.batch.objects.rows
        if not len(rows.roles):
            return np.empty(0, np.int32)
        departs = (rows.roles == RecordRole.DEPARTED) & (rows.arrays.step == step)
        objects: Array = rows.arrays.obj[departs]
        return objects

    def _members(self, position: int, step: int) -> Array:
        """Return the objects that are present after a step, int32, ascending."""
        x = self.batch.objects.at(step).x
        return self._satisfying(position, np.flatnonzero(~np.isnan(x)).astype(np.int32))

    def _satisfying(self, position: int, objects: Array) -> Array:
        """Return which objects a query's condition names; it is on the key alone, so any version will do."""
        found: Array = objects[self._conditions.hold(position, objects, self.batch.timing.first)]
        return found


def _told(step: Any, place: Any, op: int, why: Any, show: Array) -> _Told:
    """Return updates whose columns may be given by one value for all."""
    kinds = (np.int64, np.int64, np.int8, np.int8, np.int64)
    shapes = (np.broadcast_to(column, len(show)) for column in (step, place, op, why, show))
    return _Told(*(column.astype(kind) for column, kind in zip(shapes, kinds, strict=True)))
