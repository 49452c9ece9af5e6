"""Queries with both DWELL and changes: how the rows of members change that readers hold.

Readers hold an object from when its coming has lasted until its leaving has. All that time its row is its
record, also while it is outside of the region, and the query waits whether it returns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stqsh.core.matching.query_context import AnswerMembers, QueryContext
from stqsh.core.matching.row_changes import StayingMembers
from stqsh.core.output.batch_output import QueryUpdates
from stqsh.core.output.renewed_rows import KeyedChanges, renewed_rows

Array = npt.NDArray[Any]


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
