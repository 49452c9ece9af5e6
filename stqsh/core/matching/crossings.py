"""Objects that cross from one slot to another: the updates that neither slot has to emit.

Under a routing by space the old slot of an object sees it leave, and the new one sees it come (CheetahGIS,
section IV: a delete and an insert). A query that had the object before the step and has it afterwards sends
nothing. Each slot finds that out by itself: the old one has the new record, and the new one has the old one.
"""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.transitions import Transitions, places_after
from stqsh.core.kernels.events.updates import UpdateArrays
from stqsh.core.matching.query_context import QueryContext
from stqsh.core.matching.row_changes import StayingMembers, came
from stqsh.core.objects.batch_objects import BatchObjects
from stqsh.spec.chunk import RecordRole


def without_crossings(
    context: QueryContext, updates: UpdateArrays, wanted: Array
) -> tuple[UpdateArrays, StayingMembers]:
    """Return updates without those of objects that cross while they stay in the query's answer.

    The second value has such objects that cross to this slot, for the queries that are wanted, bool.
    """
    objects = context.batch.objects
    nobody = np.zeros(len(updates.step), np.bool_)
    if not len(objects.rows.roles) or not len(updates.step):
        return updates, _cross(updates, nobody, updates.show, wanted)
    elsewhere = _versions_elsewhere(objects, updates)
    crossing = np.flatnonzero(elsewhere >= 0)
    if not len(crossing):
        return updates, _cross(updates, nobody, updates.show, wanted)
    # The old slot looks at the end of the step, the new one at the end of the step before.
    steps = updates.step[crossing] - (updates.op[crossing] > 0)
    stays = nobody
    stays[crossing] = are_members(context, updates.query[crossing], elsewhere[crossing], steps)
    return UpdateArrays(*(column[~stays] for column in updates)), _cross(updates, stays, elsewhere, wanted)


def _cross(updates: UpdateArrays, stays: Array, elsewhere: Array, wanted: Array) -> StayingMembers:
    return came(UpdateArrays(*(column[stays] for column in updates)), elsewhere[stays], wanted)


def _versions_elsewhere(objects: BatchObjects, updates: UpdateArrays) -> Array:
    """Return the version that another slot has of the object of each update, int64 (n,).

    It is -1 where the object does not cross.
    """
    known, rows, roles = objects.numbers.objects, objects.rows.arrays, objects.rows.roles
    found = np.full(len(updates.step), -1, np.int64)
    row = updates.show - known
    has_row = (row >= 0) & (row < len(roles))
    departs = np.flatnonzero(
        (updates.op < 0) & objects.numbers.have_departed(np.where(has_row, updates.show, -1))
    )
    found[departs] = updates.show[departs]
    comes = np.flatnonzero(has_row & (updates.op > 0))
    before = np.flatnonzero(roles == RecordRole.PREVIOUS)
    if len(before) and len(comes):
        span = int(rows.step.max()) + 1
        codes = rows.obj[before].astype(np.int64) * span + rows.step[before]
        before, codes = before[order := np.argsort(codes)], codes[order]
        sought = rows.obj[row[comes]].astype(np.int64) * span + updates.step[comes]
        place = np.minimum(np.searchsorted(codes, sought), len(codes) - 1)
        there = codes[place] == sought
        found[comes[there]] = known + before[place[there]]
    return found


def are_members(context: QueryContext, query: Array, versions: Array, steps: Array) -> Array:
    """Return whether versions are in the regions of queries after steps, and satisfy them, here or elsewhere.

    `query` are positions, `versions` those of objects that cross, and `steps` int64, (n,) each; bool (n,).
    """
    found = np.zeros(len(query), np.bool_)
    for step in np.unique(steps).tolist():
        at = np.flatnonzero(steps == step)
        found[at] = _are_members(context, query[at], versions[at], step)
    return found


def _are_members(context: QueryContext, query: Array, versions: Array, step: int) -> Array:
    objects, queries = context.batch.objects, len(context.queries)
    distinct, event = np.unique(versions, return_inverse=True)
    versions = distinct.astype(np.int32)
    steps = np.full(len(versions), step, np.int64)
    x, y = places_after(versions, steps, *objects.sources, objects.timing)
    nowhere, none = np.full(len(versions), np.nan), np.full(len(versions), -1, np.int32)
    owners = objects.numbers.objects_of(versions)
    arrivals = Transitions(steps, owners, none, versions, nowhere, nowhere, x, y)
    held = context.holders(np.unique(query).astype(np.int64), arrivals, step)
    codes = held.event.astype(np.int64) * queries + held.query
    members: Array = np.isin(event.astype(np.int64) * queries + query, codes)
    return members
