"""Object load shedding: objects that few queries want go when they report (SOLE sections 6.4 and 6.5)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.kernels.events.updates import SHED
from stqsh.core.kernels.events.versions import gather
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.kernels.jit import frozen
from stqsh.core.kernels.retention.drop_choice import QueryLoad, shed_objects
from stqsh.core.objects.batch_objects import silent_from
from stqsh.core.queries.query_table import ACTIVE
from stqsh.core.retention.dropped_objects import DroppedObjects, shadow_size
from stqsh.core.retention.interest_counts import InterestTracker
from stqsh.core.retention.object_retention import RetentionDecision
from stqsh.core.state.retention_mode import RetentionOrder

Array = npt.NDArray[Any]


def shed(
    batch: StreamBatch, interest: InterestTracker, verdict: RetentionDecision, memory: RetentionOrder
) -> RetentionDecision:
    """Drop objects that reported in the last step, if fewer than k queries are interested in them.

    Of those that k - 1 queries are interested in only a part goes, see `spared`: where most objects have the
    same count, SOLE's k alone would drop far more than has to go. Those go that no locked query is interested
    in, one after the other, so that no drop takes a query under its least accuracy; focal objects stay. Who
    is dropped is in the shadow table until it reports again and is judged anew, or until nothing was heard of
    it for REPORT EVERY, or no query would ask for it. Those in the shadow table are judged first: else
    another would go in the place of one that comes back, and both would be told, with each report again.
    While k is 1 nobody is dropped, and who reports is back.

    Returns:
        The verdict, with the reason SHED for those that are dropped. Their references are taken back, and
        "held" and "shed" of queries are those after the drops.
    """
    if memory.k <= 1 and not shadow_size(batch.state, batch.spec.id):
        return verdict
    reported = _reported(batch)
    shadow = DroppedObjects(batch.state, batch.spec)
    back = _count_shadow(batch, interest, shadow, reported)
    weak = (interest.refs[reported] > 0) & (interest.refs[reported] < memory.k)
    weak &= verdict.kept[reported] & ~verdict.focal[reported]
    if memory.part < 1:
        edge = np.flatnonzero(weak & (interest.refs[reported] == memory.k - 1))
        weak[edge] = ~spared(batch.objects.table.show_keys(reported[edge]), memory.part)
    candidates = reported[weak]
    if not len(candidates):
        return verdict
    dropped = candidates[_judge(interest, candidates, back[weak])]
    refs = interest.refs[dropped]
    for name in ("refs", "near"):
        batch.state.array(f"s{batch.spec.id}/objects/{name}")[dropped] = 0
    _note(batch, shadow, dropped, refs)
    why = verdict.why.copy()
    why[dropped] = SHED
    return replace(verdict, why=why)


def spared(keys: pa.Array[Any], part: float) -> Array:
    """Which objects stay of those that k - 1 queries are interested in, if a share `part` of them is to go.

    By the lower half of the key's hash (the upper one says which slot it is on), so that it is the same ones
    whenever they report: whoever was dropped stays away, and none goes in its place. bool (n,).
    """
    stays: Array = (hash_keys(keys) & np.uint64(0xFFFFFFFF)) >= np.uint64(part * 2**32)
    return stays


def _reported(batch: StreamBatch) -> Array:
    """The objects with an accepted record in the piece; int32, ascending."""
    movement = batch.objects
    return np.unique(movement.rows.arrays.obj[movement.accepted.live])


def _judge(interest: InterestTracker, candidates: Array, back: Array) -> Array:
    """Which candidates go, and the queries' counts after that; bool (n,).

    back: bool (n,), those that had been dropped before, who come first.
    """
    queries, members = interest.queries, interest.pairs_of(candidates)
    begin = np.searchsorted(members.obj, np.append(candidates, np.iinfo(np.int32).max))
    order = np.argsort(~back, kind="stable")
    lengths = np.diff(begin)[order]
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    query = members.query[np.repeat(begin[order] - start[:-1], lengths) + np.arange(start[-1])]
    standing = QueryLoad(*(queries[name] for name in ("held", "shed", "least")))
    dropped = np.empty(len(candidates), np.bool_)
    dropped[order] = shed_objects(start, query.astype(np.int32), standing)
    return dropped


def _note(batch: StreamBatch, shadow: DroppedObjects, dropped: Array, refs: Array) -> None:
    """Put objects into the shadow table as they are after the last step. refs: what they were counted."""
    movement = batch.objects
    (rows, stored), places = movement.sources, movement.at(batch.timing.last)
    times = gather(frozen(stored.ts), frozen(rows.ts), places.versions[dropped])
    ends = silent_from(times, batch.timing)
    shadow.add(movement.table.show_keys(dropped), (places.x[dropped], places.y[dropped], ends, refs))


def _count_shadow(
    batch: StreamBatch, interest: InterestTracker, shadow: DroppedObjects, reported: Array
) -> Array:
    """Let go of the shadows of objects that reported, are silent or of no interest; count the others.

    Returns which of those that reported had one, bool (n,).
    """
    stay = shadow.connected(batch.timing)
    row = shadow.find(batch.objects.table.show_keys(reported))
    back: Array = row >= 0
    stay[row[back]] = False
    shadow.keep(stay)
    query, row = _interested(batch, interest, shadow)
    interest.queries["shed"][:] = np.bincount(query, minlength=len(interest.queries))
    shadow.count(np.bincount(row, minlength=len(shadow)))
    shadow.keep(shadow["refs"] > 0)
    return back


def _interested(batch: StreamBatch, interest: InterestTracker, shadow: DroppedObjects) -> tuple[Array, Array]:
    """The pairs of active queries and rows of the shadow table within their extended regions."""
    queries, last = interest.queries, batch.timing.last
    moving = np.flatnonzero(queries["focal"] >= 0)
    focals = np.full(len(queries), -1, np.int32)
    if len(moving):
        focals[moving] = shadow.find(batch.focal.table.show_keys(queries["focal"][moving]))
    context, arrivals = replace(interest.context, focals=focals), shadow.arrivals(last)
    ranges = context.holders(np.flatnonzero(queries["mode"] == ACTIVE), arrivals, last)
    query, event = interest.near.strangers(context, arrivals)
    return np.concatenate([ranges.query, query]), np.concatenate([ranges.event, event])
