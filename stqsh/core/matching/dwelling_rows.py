"""Queries with both DWELL and changes: how the rows of members change that readers hold.

Readers hold an object from when its coming has lasted until its leaving has. All that time its row is its
record, even while it is outside of the region and the query waits for it to return.
"""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.matching.dwell import DwellTable
from stqsh.core.matching.paused_rows import PausedRows
from stqsh.core.matching.query_context import AnswerMembers, QueryContext
from stqsh.core.matching.row_changes import RowChanges, StayingMembers
from stqsh.core.output.batch_output import QueryUpdates
from stqsh.core.output.renewed_rows import KeyedChanges, renewed_rows
from stqsh.core.queries.query_table import ACTIVE


class DwellingRows:
    """The rows that readers hold of queries with both DWELL and changes.

    Args:
        context: The context of the batch.
        dwell: The changes of answers that wait.
        changes: Says what queries select.
        paused: The rows of queries that resume.
    """

    def __init__(
        self, context: QueryContext, dwell: DwellTable, changes: RowChanges, paused: PausedRows
    ) -> None:
        self._context, self._dwell, self._changes, self._paused = context, dwell, changes, paused

    def held(self, since: Array) -> AnswerMembers | None:
        """Return what readers hold before the batch; None without such queries.

        What they hold of queries that resume is among the rows that these had sent before they paused. This
        comes before `DwellTable.lasting`.

        Args:
            since: The step before which each query's answer is known, int64 (queries,).
        """
        queries, first = self._context.queries, self._context.batch.timing.first
        mine = self._changes.wanted & (queries.dwell > 0) & (queries.mode == ACTIVE)
        if not mine.any():
            return None
        positions = np.flatnonzero(mine & (since < first))
        members = self._context.members(positions, first - 1)
        return self._dwell.sent_members(self._context, members, positions, first - 1, go_on=True)

    def updates(self, held: AnswerMembers, lasting: QueryUpdates) -> QueryUpdates:
        """Return the changes of rows that readers hold throughout.

        Args:
            held: What they hold before the batch.
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


def held_members(
    context: QueryContext, held: AnswerMembers, resumed: Array, lasting: QueryUpdates
) -> StayingMembers:
    """Return the members with new records whom readers hold before and after a step of the batch.

    Args:
        context: The context of the batch.
        held: The members that readers hold before the batch; of queries that resume, with their records after
            the first step.
        resumed: Whether the query of each resumes, bool.
        lasting: The members that come and leave as readers see it.
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
    """Return the records of objects after steps: the number of the object, the step and the version."""
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
