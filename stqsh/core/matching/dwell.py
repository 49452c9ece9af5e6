"""DWELL: a row is reported as in or out of an answer only once it has stayed so for a while.

This is a stage between changes of answers and updates, for queries `WITH (dwell => …)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.base.clock import NEVER
from stqsh.core.kernels.events.dwell_changes import DwellChanges, find_lasting
from stqsh.core.kernels.events.updates import LEFT
from stqsh.core.matching.query_context import AnswerMembers, QueryContext
from stqsh.core.output.batch_output import QueryUpdates
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import ArraySpec, StateTable


class WaitingChanges(NamedTuple):
    """Rows of a `DwellTable`, (n,) each: ids of queries int64, objects int32, steps int64, op int8."""

    query: Array
    obj: Array
    step: Array
    op: Array


class DwellTable(StateTable):
    """Changes of answers that wait until they have lasted: `DwellChanges` with the ids of queries."""

    query = ArraySpec(np.int64)
    obj = ArraySpec(np.int32, "objects")
    step = ArraySpec(np.int64)
    op = ArraySpec(np.int8)

    def __init__(self, state: SlotState, prefix: str) -> None:
        super().__init__(state, f"{prefix}/dwell")

    def pop_queries(self, ids: Iterable[int]) -> WaitingChanges:
        """Remove the waiting changes of these queries and return them."""
        return WaitingChanges(*self.pop(np.isin(self.query, np.array([*ids], np.int64))))

    def sent_members(
        self,
        context: QueryContext,
        members: AnswerMembers,
        positions: Array,
        step: int,
        *,
        go_on: bool = False,
    ) -> AnswerMembers:
        """Return the members of answers that were sent by a step, and drop the changes that still wait.

        `members` are those of the queries at `positions`; if these `go_on`, the changes keep waiting.
        """
        ids = context.queries.id[positions]
        mine = np.isin(self.query, ids)
        columns = self.query, self.obj, self.step, self.op
        waits = WaitingChanges(*(column[mine] for column in columns)) if go_on else self.pop_queries(ids)
        if not len(waits.query):
            return members
        objects = context.batch.objects
        query = np.searchsorted(context.queries.id, waits.query).astype(np.int32)
        came, obj = waits.op > 0, waits.obj
        count = len(objects.table)
        have = members.query.astype(np.int64) * count + members.obj
        known = ~np.isin(have, (query.astype(np.int64) * count + obj)[came])
        gone = obj[~came]
        versions = objects.numbers.or_keys(objects.versions_after(gone, np.full(len(gone), step)), gone)
        more = (query[~came], gone, versions)
        kept = (column[known] for column in members)
        return AnswerMembers(*(np.concatenate(pair) for pair in zip(kept, more, strict=True)))

    def lasting(self, context: QueryContext, changes: list[QueryUpdates]) -> QueryUpdates:
        """Return the updates that are due in a batch; changes that have not lasted yet keep waiting.

        `changes` are those of answers of queries with DWELL, as sent without it; queries are given by
        position.
        """
        queries, timing = context.queries, context.batch.timing
        columns = [self._toggles(context, updates) for updates in changes]
        position = np.searchsorted(queries.id, self.query)
        columns.append((position, self.obj, self.step, self.op))
        query, obj, step, op = (np.concatenate(column) for column in zip(*columns, strict=True))
        order = np.lexsort((step, obj, query))
        toggles = DwellChanges(*(column[order] for column in (query.astype(np.int32), obj, step, op)))
        absent = _absences(context, toggles)
        lasted, due, left = find_lasting(toggles, absent, queries.dwell, queries.until, timing)
        self.store(
            query=queries.id[toggles.query[left]],
            obj=toggles.obj[left],
            step=toggles.step[left],
            op=toggles.op[left],
        )
        return _as_of(
            context, DwellChanges(toggles.query[lasted], toggles.obj[lasted], due, toggles.op[lasted])
        )

    def _toggles(self, context: QueryContext, updates: QueryUpdates) -> tuple[Array, Array, Array, Array]:
        """Return the query, object, step and op of changes."""
        objects = context.batch.objects
        return (
            updates.query,
            objects.numbers.shown_objects(updates.show),
            updates.step,
            updates.op.astype(np.int8),
        )


def _absences(context: QueryContext, toggles: DwellChanges) -> Array:
    """Return the first step from that of each change on in which its object is away; NEVER if none.

    An object goes away when it is disconnected, gone, expired or shed, not when it leaves a region. Only the
    objects of changes that leave an answer count. Where a query resumes, its object may have gone before.
    """
    objects, base = context.batch.objects, context.batch.timing.first - 1
    steps, left = np.full(len(toggles.step), NEVER), np.flatnonzero(toggles.op < 0)
    now = left[toggles.step[left] > base]
    obj, step = toggles.obj[now], toggles.step[now]
    why, _ = objects.reasons(objects.versions_after(obj, step), obj, step)
    gone = now[why != LEFT]
    steps[gone], left = toggles.step[gone], np.setdiff1d(left, gone)
    events = objects.events
    away = np.flatnonzero(np.isnan(events.nx) & ~np.isnan(events.ox) & np.isin(events.obj, toggles.obj[left]))
    if not len(away):
        return steps
    obj, step = events.obj[away], events.step[away]
    why, _ = objects.reasons(objects.versions_after(obj, step), obj, step)
    obj, step = obj[why != LEFT].astype(np.int64), step[why != LEFT]
    order = np.lexsort((step, obj))
    obj, step = np.append(obj[order], np.iinfo(np.int32).max), np.append(step[order], NEVER)
    span = context.batch.timing.last - base + 2
    sought = toggles.obj[left].astype(np.int64) * span + np.maximum(toggles.step[left] - base, 0)
    at = np.searchsorted(obj * span + np.minimum(step - base, span - 1), sought)
    steps[left] = np.where(obj[at] == toggles.obj[left], step[at], NEVER)
    return steps


def _as_of(context: QueryContext, toggles: DwellChanges) -> QueryUpdates:
    """Return changes as updates at the given steps, with the objects' rows and reasons at these steps."""
    objects = context.batch.objects
    versions = objects.versions_after(toggles.obj, toggles.step)
    why, show = objects.reasons(versions, toggles.obj, toggles.step)
    came = toggles.op > 0
    why, show = np.where(came, 0, why), np.where(came, versions, show)
    return QueryUpdates(toggles.step, toggles.query, toggles.op, why, show)
