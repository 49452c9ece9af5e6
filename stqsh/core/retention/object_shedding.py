"""Object load shedding: objects that few queries need are dropped when they report (SOLE 6.4 and 6.5).

SOLE leaves one case open: its k is a whole number. Where most objects are needed by one query, k = 2 would
drop all of them to save a few, so SOLE stops dropping once the load is at its target. The objects dropped
until then would come back with their next reports, and others would be dropped instead. Here k stays, and
only a share of the objects with k - 1 references is dropped, chosen by their keys' hashes: always the same
objects, as many as necessary.

Shedding cannot guarantee the minimum accuracy in every step. It drops no object whose loss would take a query
below its minimum accuracy. But any of the objects that a query still holds may leave in the next
step, by silence, an empty location or movement, while the dropped objects have no record until they report.
If a policy drops only one of the n objects of a query, the n - 1 others may all leave a step later, and the
accuracy is 0 of 1. Nothing that a slot knows in a step can bound that. So a query is below its minimum only
after such departures. Then no object of its region is dropped, each report of a dropped object brings it
back, and an object that does not report within REPORT EVERY is silent and no longer counts. By then the query
is at its minimum again, unless other objects have left.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.kernels.events.updates import SHED
from stqsh.core.kernels.events.versions import gather
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.kernels.jit import frozen
from stqsh.core.kernels.retention.drop_choice import QueryLoad, shed_objects
from stqsh.core.objects.batch_objects import silent_from
from stqsh.core.queries.query_table import ACTIVE
from stqsh.core.retention.dropped_objects import DroppedObjects, dropped_count
from stqsh.core.retention.interest_counts import InterestTracker
from stqsh.core.retention.object_retention import RetentionDecision
from stqsh.core.state.retention_mode import RetentionOrder


def shed(
    batch: StreamBatch, interest: InterestTracker, decision: RetentionDecision, memory: RetentionOrder
) -> RetentionDecision:
    """Drop objects that reported in the last step and that fewer than k queries need.

    Of the objects that k - 1 queries need, only a share is dropped, see `is_spared`. Objects are dropped one
    by one, except those that a locked query needs, so no drop takes a query below its minimum accuracy; focal
    objects stay. A dropped object stays in the table of dropped objects until it reports and is judged again,
    has been silent for REPORT EVERY, or is no longer needed by any query. Objects in the table are judged
    first: otherwise another object would be dropped for each one that comes back, and both would be reported
    each time. While k is 1 no object is dropped, and all that report are back.

    Returns:
        The decision, with the reason SHED for dropped objects. The references of these are subtracted, and
        "held" and "shed" of queries are those after the drops.
    """
    if memory.k <= 1 and not dropped_count(batch.state, batch.spec.id):
        return decision
    reported = _reported(batch)
    shadow = DroppedObjects(batch.state, batch.spec)
    back = _update_dropped(batch, interest, shadow, reported)
    weak = (interest.refs[reported] > 0) & (interest.refs[reported] < memory.k)
    weak &= decision.kept[reported] & ~decision.focal[reported]
    if memory.part < 1:
        edge = np.flatnonzero(weak & (interest.refs[reported] == memory.k - 1))
        weak[edge] = ~is_spared(batch.objects.table.show_keys(reported[edge]), memory.part)
    candidates = reported[weak]
    if not len(candidates):
        return decision
    dropped = candidates[_choose_dropped(interest, candidates, back[weak])]
    refs = interest.refs[dropped]
    interest.by_object.forget(dropped)
    _store_dropped(batch, shadow, dropped, refs)
    why = decision.why.copy()
    why[dropped] = SHED
    return replace(decision, why=why)


def is_spared(keys: pa.Array[Any], part: float) -> Array:
    """Return which of the objects that k - 1 queries need stay, if the share `part` is dropped; bool (n,).

    The lower half of the key's hash decides (the upper half determines the slot), so always the same objects
    are dropped.
    """
    stays: Array = (hash_keys(keys) & np.uint64(0xFFFFFFFF)) >= np.uint64(part * 2**32)
    return stays


def _reported(batch: StreamBatch) -> Array:
    """Return the objects with an accepted record in the piece; int32, ascending."""
    movement = batch.objects
    return np.unique(movement.rows.arrays.obj[movement.accepted.live])


def _choose_dropped(interest: InterestTracker, candidates: Array, back: Array) -> Array:
    """Choose the candidates to drop, bool (n,), and update the queries' counts.

    `back`, bool (n,), marks candidates that were dropped before; they come first.
    """
    queries, members = interest.queries, interest.pairs_of(candidates)
    begin = np.searchsorted(members.obj, np.append(candidates, np.iinfo(np.int32).max))
    order = np.argsort(~back, kind="stable")
    lengths = np.diff(begin)[order]
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    query = members.query[np.repeat(begin[order] - start[:-1], lengths) + np.arange(start[-1])]
    standing = QueryLoad(queries.held, queries.shed, queries.min_accuracy)
    dropped = np.empty(len(candidates), np.bool_)
    dropped[order] = shed_objects(start, query.astype(np.int32), standing)
    return dropped


def _store_dropped(batch: StreamBatch, shadow: DroppedObjects, dropped: Array, refs: Array) -> None:
    """Add objects to the dropped ones, with their state after the last step; `refs` are reference counts."""
    movement = batch.objects
    (rows, stored), places = movement.sources, movement.at(batch.timing.last)
    times = gather(frozen(stored.ts), frozen(rows.ts), places.versions[dropped])
    ends = silent_from(times, batch.timing)
    shadow.add(movement.table.show_keys(dropped), (places.x[dropped], places.y[dropped], ends, refs))


def _update_dropped(
    batch: StreamBatch, interest: InterestTracker, shadow: DroppedObjects, reported: Array
) -> Array:
    """Remove dropped objects that reported, are silent, or are not needed; count the others' references.

    Returns:
        The objects that reported and had been dropped, bool (n,).
    """
    stay = shadow.connected(batch.timing)
    row = shadow.find(batch.objects.table.show_keys(reported))
    back: Array = row >= 0
    stay[row[back]] = False
    shadow.keep(stay)
    query, row = _needed_dropped(batch, interest, shadow)
    interest.queries.shed[:] = np.bincount(query, minlength=len(interest.queries))
    shadow.count(np.bincount(row, minlength=len(shadow)))
    shadow.keep(shadow.refs > 0)
    return back


def _needed_dropped(
    batch: StreamBatch, interest: InterestTracker, shadow: DroppedObjects
) -> tuple[Array, Array]:
    """Find the pairs of active queries and dropped objects in their extended regions."""
    queries, last = interest.queries, batch.timing.last
    moving = np.flatnonzero(queries.focal >= 0)
    focals = np.full(len(queries), -1, np.int32)
    if len(moving):
        focals[moving] = shadow.find(batch.focal.table.show_keys(queries.focal[moving]))
    context, arrivals = replace(interest.context, focals=focals), shadow.arrivals(last)
    ranges = context.holders(np.flatnonzero(queries.mode == ACTIVE), arrivals, last)
    query, event = interest.near.pairs_of_dropped(context, arrivals)
    return np.concatenate([ranges.query, query]), np.concatenate([ranges.event, event])
