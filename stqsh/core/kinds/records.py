"""All records of an object, for FOLLOW, including those that are replaced in the same step."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.contract.query_kind import QueryKind, QueryLogic, StreamBatch
from stqsh.core.kernels.events.updates import GONE
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.core.objects.batch_records import BatchRecords
from stqsh.core.output.batch_output import BatchOutput, QueryUpdates
from stqsh.core.output.renewed_rows import CHANGED
from stqsh.core.output.sent_answers import SentAnswers
from stqsh.core.queries.query_table import ACTIVE, PAUSED
from stqsh.core.queries.registrations import NewQueries
from stqsh.spec.query import RECORDS

_FIRST, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
"""The places within a step before all of its records, and after them."""


class _PlacedUpdates(NamedTuple):
    """Updates of one query, (n,) each: steps, places within the step, ops, reasons, and shown rows."""

    step: Array
    place: Array
    op: Array
    why: Array
    show: Array


class RecordsLogic(QueryLogic):
    """One batch of a stream's queries for records.

    For each record the query sends `-` with the previous record and `+` with the new one. So the updates, in
    their order, fold to the last record of an object while it is present.
    """

    finds_crossings = True

    def __init__(self, kind: QueryKind, batch: StreamBatch, output: BatchOutput) -> None:
        super().__init__(kind, batch, output)
        self._sent = SentAnswers(batch.state, self.prefix)
        self._conditions = QueryConditions(batch.state, self.prefix, self.queries, batch.objects, batch.focal)
        self._records = BatchRecords(batch.objects)

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
        """Emit the records of the batch; where a query begins, emit the current records first."""
        objects = self.batch.objects
        active = (self.queries.mode == ACTIVE) & (self.queries.until > self.batch.timing.first)
        if not active.any():
            return
        acting = np.unique(np.concatenate([objects.rows.arrays.obj, objects.events.obj]))
        for position in np.flatnonzero(active).tolist():
            begins = bool(np.isin(position, begun))
            updates = self._standing(position) if begins else []
            for obj in self._satisfying(position, acting).tolist():
                updates += self._updates(obj, begins=begins)
            self._emit_in_order(position, updates)

    def _emit_in_order(self, position: int, updates: list[_PlacedUpdates]) -> None:
        if updates:
            step, place, op, why, show = (np.concatenate(column) for column in zip(*updates, strict=True))
            order = np.lexsort((op, place, step))
            columns = (step, np.full(len(step), position), op, why, show)
            self.emit(QueryUpdates(*(column[order] for column in columns)))

    def _standing(self, position: int) -> list[_PlacedUpdates]:
        """Return the records that are current when a query begins, or the difference when it resumes."""
        objects, first = self.batch.objects, self.batch.timing.first
        _, had = self._sent.pop_queries([self.queries.id[position]])
        members = self._members(position, first - 1)
        new = np.setdiff1d(members, had[np.isin(had, members)])
        new = new[~np.isin(new, self._records.departing(first))]
        gone = np.setdiff1d(had, members).astype(np.int32)
        steps = np.full(len(gone), first - 1)
        why, show = objects.reasons(objects.versions_after(gone, steps), gone, steps)
        return [
            _placed(first, _FIRST, 1, 0, objects.shown(new, first - 1)),
            _placed(first, _FIRST, -1, why, show),
        ]

    def _updates(self, obj: int, *, begins: bool) -> list[_PlacedUpdates]:
        """Return the updates that an object's records cause, and those that its leaving causes."""
        objects, records = self.batch.objects, self._records.of(obj)
        step, place = records.step, np.arange(len(records.step))
        changed, gone, come = records.was & records.located, records.was & ~records.located, records.located
        left = self._records.departures(obj, records)
        who = np.full(len(left), obj, np.int32)
        why, show = objects.reasons(objects.versions_after(who, left), who, left)
        updates = [
            _placed(step[changed], place[changed], -1, CHANGED, records.before[changed]),
            _placed(step[gone], place[gone], -1, GONE, records.version[gone]),
            _placed(step[come], place[come], 1, 0, records.version[come]),
            _placed(left, _LAST, -1, why, show),
        ]
        first = self.batch.timing.first
        if begins and len(step) and step[0] == first and records.before[0] in self._records.elsewhere(obj):
            shown = records.before[:1][records.was[:1]]  # the object's old slot sends nothing
            updates.append(_placed(first, _FIRST, 1, 0, shown))
        return updates

    def _members(self, position: int, step: int) -> Array:
        """Return the objects that are present after a step, int32, ascending."""
        x = self.batch.objects.at(step).x
        return self._satisfying(position, np.flatnonzero(~np.isnan(x)).astype(np.int32))

    def _satisfying(self, position: int, objects: Array) -> Array:
        """Return the objects that satisfy a condition, which tests only the key, so any version will do."""
        found: Array = objects[self._conditions.hold(position, objects, self.batch.timing.first)]
        return found


class RecordsKind(QueryKind):
    """The records of the objects that a condition on the key selects."""

    name = RECORDS.name
    logic = RecordsLogic

    def build(self, batch: StreamBatch, output: BatchOutput) -> RecordsLogic:
        """Load the queries of a slot for one batch."""
        return RecordsLogic(self, batch, output)


def _placed(step: Any, place: Any, op: int, why: Any, show: Array) -> _PlacedUpdates:
    """Return updates; a column may be given as one value for all rows."""
    kinds = (np.int64, np.int64, np.int8, np.int8, np.int64)
    shapes = (np.broadcast_to(column, len(show)) for column in (step, place, op, why, show))
    return _PlacedUpdates(*(column.astype(kind) for column, kind in zip(shapes, kinds, strict=True)))
