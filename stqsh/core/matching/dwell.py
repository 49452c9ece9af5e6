"""DWELL of objects in regions: an object is reported as in or out only after it has stayed so for DWELL.

This is a stage between changes of answers and updates, for queries `WITH (dwell => …)`. Readers hold an
object from the time when its coming has lasted until its leaving has lasted. All that time its row shows its
current record, even while it is outside of the region and the query waits for it to return. For merged
answers, `stqsh.core.output.held_answers` applies DWELL to rows instead of objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.base.clock import NEVER
from stqsh.core.kernels.events.dwell_changes import DwellChanges, find_lasting
from stqsh.core.kernels.events.updates import LEFT
from stqsh.core.matching.earlier_answers import PausedRows
from stqsh.core.matching.query_context import AnswerMembers, QueryContext
from stqsh.core.matching.row_changes import RowChanges, StayingMembers
from stqsh.core.output.batch_output import QueryUpdates
from stqsh.core.output.renewed_rows import KeyedChanges, renewed_rows
from stqsh.core.queries.query_table import ACTIVE
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

        `members` are those of the queries at `positions`. With `go_on`, the changes keep waiting.
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

        `changes` are the changes of answers of queries with DWELL before DWELL is applied; queries are given
        by position.
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


class DwellingRows:
    """The rows that readers hold of queries with both DWELL and changes.

    Args:
        context: The context of the batch.
        dwell: The changes of answers that wait.
        changes: Computes what queries select.
        paused: The rows of queries that resume.
    """

    def __init__(
        self, context: QueryContext, dwell: DwellTable, changes: RowChanges, paused: PausedRows
    ) -> None:
        self._context, self._dwell, self._changes, self._paused = context, dwell, changes, paused

    def held(self, since: Array, replaced: AnswerMembers) -> AnswerMembers | None:
        """Return what readers hold before the batch, for queries that send changes; None if there are none.

        Queries that resume are not included; `PausedRows` has what they had sent. This must be called before
        `DwellTable.lasting`.

        Args:
            since: The step after which each query's changes are reported, int64 (queries,).
            replaced: What readers hold for queries whose regions are replaced.
        """
        wanted = self._changes.wanted
        if not (wanted & (self._context.queries.dwell > 0)).any():
            return None
        replaced = replaced.where(np.flatnonzero(wanted[replaced.query]))
        return held_before(self._context, self._dwell, wanted, since, replaced)

    def updates(self, held: AnswerMembers, lasting: QueryUpdates) -> QueryUpdates:
        """Return the changes of rows that readers hold both before and after.

        Args:
            held: What readers hold before the batch.
            lasting: The changes of answers that are due.
        """
        context = self._context
        lasting = lasting.where(self._changes.wanted[lasting.query])
        resumed = self._paused.resumed(context)
        resumed = resumed.where(context.queries.dwell[resumed.query] > 0)
        updates = [self._paused.changes(context, self._staying(resumed, lasting))]
        together = AnswerMembers(*(np.concatenate(pair) for pair in zip(held, resumed, strict=True)))
        is_resumed = np.arange(len(together.query)) >= len(held.query)
        updates.append(self._changes.updates(context, held_members(context, together, is_resumed, lasting)))
        return QueryUpdates(
            *(np.concatenate(column) for column in zip(*(u[:5] for u in updates), strict=True))
        )

    def _staying(self, resumed: AnswerMembers, lasting: QueryUpdates) -> AnswerMembers:
        """Return the members of resumed queries that neither come nor leave in the first step."""
        objects, first = self._context.batch.objects, self._context.batch.timing.first
        size, now = len(objects.table), lasting.step == first
        turned = lasting.query[now].astype(np.int64) * size + objects.numbers.shown_objects(lasting.show[now])
        return resumed.where(~np.isin(resumed.query.astype(np.int64) * size + resumed.obj, turned))


def held_before(
    context: QueryContext, dwell: DwellTable, wanted: Array, since: Array, replaced: AnswerMembers
) -> AnswerMembers:
    """Return what readers hold before a batch, for the queries in `wanted`, bool (queries,).

    For `since` and `replaced` see `DwellingRows.held`.
    """
    queries, first = context.queries, context.batch.timing.first
    mine = wanted & (queries.dwell > 0) & (queries.mode == ACTIVE)
    positions = np.flatnonzero(mine & (since < first))
    members = context.members(positions, first - 1)
    held = dwell.sent_members(context, members, positions, first - 1, go_on=True)
    return AnswerMembers(*(np.concatenate(pair) for pair in zip(held, replaced, strict=True)))


def held_members(
    context: QueryContext, held: AnswerMembers, resumed: Array, lasting: QueryUpdates
) -> StayingMembers:
    """Return the members with new records that readers hold before and after a step of the batch.

    Args:
        context: The context of the batch.
        held: The members that readers hold before the batch; for queries that resume, with their records
            after the first step.
        resumed: Whether the query of each resumes, bool.
        lasting: The members that come and leave for readers, after DWELL is applied.
    """
    objects, first = context.batch.objects, context.batch.timing.first
    turned = objects.numbers.shown_objects(lasting.show).astype(np.int64)
    size = len(objects.table)
    codes = held.query.astype(np.int64) * size + held.obj
    turns = lasting.query.astype(np.int64) * size + turned
    new = np.setdiff1d(turns, codes)
    pairs, since = np.concatenate([codes, new]), np.full(len(codes) + len(new), first - 1)
    since[: len(codes)][resumed] = first
    query, obj = pairs // size, pairs % size
    before = np.concatenate([held.version, objects.versions_after(obj[len(codes) :], since[len(codes) :])])
    known = np.flatnonzero(before >= 0)
    pair, step, version = _records(context, obj, since)
    which = np.concatenate([known, pair])
    candidates = KeyedChanges(
        query[which],
        obj[which],
        np.concatenate([since[known], step]),
        np.ones(len(which), np.int8),
        np.concatenate([before[known], version]),
    )
    sent = np.arange(len(which)) < np.count_nonzero(known < len(codes))
    order = np.argsort(lasting.step, kind="stable")
    columns = (lasting.query, turned, lasting.step, lasting.op, lasting.show)
    found = renewed_rows(
        candidates, sent, KeyedChanges(*(column[order] for column in columns)), crossing=False
    )
    lives = found.step < context.queries.until[found.query]
    return StayingMembers(found.step[lives], found.query[lives], found.old[lives], found.new[lives])


def _records(context: QueryContext, obj: Array, since: Array) -> tuple[Array, Array, Array]:
    """Return all later records of objects, after steps: index of the object, step and version."""
    events = context.batch.objects.events
    order = np.argsort(events.obj, kind="stable")
    by_object = events.obj[order]
    begin, end = (np.searchsorted(by_object, obj, side=side) for side in ("left", "right"))
    counts = end - begin
    pair = np.repeat(np.arange(len(obj)), counts)
    start = np.cumsum(counts) - counts
    event = order[np.arange(len(pair)) - start[pair] + begin[pair]]
    fits = (events.step[event] > since[pair]) & (events.new[event] >= 0)
    return pair[fits], events.step[event][fits], events.new[event][fits]


def _absences(context: QueryContext, toggles: DwellChanges) -> Array:
    """Return the first step, from that of each change on, in which its object is absent; NEVER if none.

    An object is absent when it is disconnected, gone, expired or shed, not when it is outside of a region.
    Only changes by which an object leaves an answer get a step. If a query resumes, its object may have
    become absent earlier.
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
    # Absences are sorted by object and step, so the first at or after a change is found by bisection.
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
