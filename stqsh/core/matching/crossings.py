"""Objects that cross from one slot to another: drop the updates that neither slot must emit.

Under a routing by space the old slot of an object sees it leave, and the new one sees it come (CheetahGIS,
section IV: a delete and an insert). A query that had the object before the step and has it afterwards sends
nothing. Each slot decides this alone: the old slot also gets the new record, and the new slot the old one.
"""

from __future__ import annotations

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.transitions import Transitions, places_after
from stqsh.core.kernels.events.updates import UpdateArrays
from stqsh.core.matching.query_context import NO_MEMBERS, AnswerMembers, QueryContext
from stqsh.core.matching.row_changes import StayingMembers, came
from stqsh.spec.chunk import RecordRole


def without_crossings(
    context: QueryContext, updates: UpdateArrays, wanted: Array
) -> tuple[UpdateArrays, StayingMembers]:
    """Drop the updates of objects that cross while they stay in the query's answer.

    The second value has the dropped objects that cross to this slot, for the queries in `wanted`, bool.
    """
    objects = context.batch.objects
    nobody = np.zeros(len(updates.step), np.bool_)
    if not len(objects.rows.roles) or not len(updates.step):
        return updates, _cross(updates, nobody, updates.show, wanted)
    elsewhere = objects.versions_elsewhere(updates.show, updates.op, updates.step)
    crossing = np.flatnonzero(elsewhere >= 0)
    if not len(crossing):
        return updates, _cross(updates, nobody, updates.show, wanted)
    # The old slot tests at the end of the step, the new one at the end of the step before.
    steps = updates.step[crossing] - (updates.op[crossing] > 0)
    stays = nobody
    stays[crossing] = are_members(context, updates.query[crossing], elsewhere[crossing], steps)
    return UpdateArrays(*(column[~stays] for column in updates)), _cross(updates, stays, elsewhere, wanted)


def _cross(updates: UpdateArrays, stays: Array, elsewhere: Array, wanted: Array) -> StayingMembers:
    return came(UpdateArrays(*(column[stays] for column in updates)), elsewhere[stays], wanted)


def crossing_members(context: QueryContext, positions: Array, step: int) -> AnswerMembers:
    """Return the members after a step among objects that cross to this slot in the next step.

    Their versions are those before the next step.
    """
    objects = context.batch.objects
    rows = objects.rows
    if not len(rows.roles) or not len(positions):
        return NO_MEMBERS
    before = np.flatnonzero((rows.roles == RecordRole.PREVIOUS) & (rows.arrays.step == step + 1))
    versions = (objects.numbers.objects + before).astype(np.int32)
    arrivals = _arrived(context, versions, step)
    pairs = context.holders(positions, arrivals, step)
    return AnswerMembers(pairs.query, arrivals.obj[pairs.event], arrivals.new[pairs.event])


def are_members(context: QueryContext, query: Array, versions: Array, steps: Array) -> Array:
    """Return whether versions, here or on another slot, are members of queries after steps; bool (n,).

    `query` has positions, `versions` those of objects that cross, and `steps` is int64; (n,) each.
    """
    found = np.zeros(len(query), np.bool_)
    for step in np.unique(steps).tolist():
        at = np.flatnonzero(steps == step)
        found[at] = _are_members(context, query[at], versions[at], step)
    return found


def _are_members(context: QueryContext, query: Array, versions: Array, step: int) -> Array:
    queries = len(context.queries)
    distinct, event = np.unique(versions, return_inverse=True)
    arrivals = _arrived(context, distinct.astype(np.int32), step)
    held = context.holders(np.unique(query).astype(np.int64), arrivals, step)
    codes = held.event.astype(np.int64) * queries + held.query
    members: Array = np.isin(event.astype(np.int64) * queries + query, codes)
    return members


def _arrived(context: QueryContext, versions: Array, step: int) -> Transitions:
    """Return versions, int32, as arrivals at their places after a step."""
    objects = context.batch.objects
    steps = np.full(len(versions), step, np.int64)
    x, y = places_after(versions, steps, *objects.sources, objects.timing)
    nowhere, none = np.full(len(versions), np.nan), np.full(len(versions), -1, np.int32)
    owners = objects.numbers.objects_of(versions)
    return Transitions(steps, owners, none, versions, nowhere, nowhere, x, y)
