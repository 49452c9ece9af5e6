"""The first n of a slot's members, computed again after each step in which their order may change.

This is for queries that are ordered by, or show, DISTANCE from a moving object or a comparison with NOW.
These change without a record of the member, so all members are found again after each step in which anything
may change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stqsh.arrays import Array
from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.groups.refresh_schedule import (
    QueryTimings,
    change_instants,
    refreshes_since,
    steps_of,
    stored_points,
)
from stqsh.core.matching.query_context import QueryContext
from stqsh.core.top_n.member_ranks import TopNMembers
from stqsh.core.top_n.orders import with_distances

PlacesAt = Callable[[int, Array, int, Array], pa.BinaryArray]
"""Returns the places of records, given a form of queries, versions, the value of NOW, and distances."""

MembersTest = Callable[[Array, Array], Array]
"""Returns which members count, bool (n,), given the positions of their queries and their versions."""


class SteppedTopN(NamedTuple):
    """The first n members of some queries after a step, (n,) each, and all of their members.

    Attributes:
        query: The position of the query, int32.
        obj, version: int32.
        place: Its place in the query's order.
        members: The queries and the objects of all members, int32 (m,) each.
    """

    query: Array
    obj: Array
    version: Array
    place: pa.BinaryArray
    members: tuple[Array, Array]

    def of_queries(self, which: Array) -> SteppedTopN:
        """Return the members of some queries, bool (queries,)."""
        mine = which[self.query]
        chosen: Any = pa.array(np.flatnonzero(mine))
        first = (self.query[mine], self.obj[mine], self.version[mine])
        return SteppedTopN(*first, self.place.take(chosen), self.members)

    def codes(self, objects: int) -> Array:
        """Return query and object as one number each; `objects` is the number of all objects."""
        codes: Array = self.query.astype(np.int64) * objects + self.obj
        return codes


class SteppedMembers:
    """Finds the first n members of a slot.

    Args:
        context: The context of the batch.
        forms: The form of each query, by position, int32.
        places_at: Returns the places of records.
    """

    def __init__(self, context: QueryContext, forms: Array, places_at: PlacesAt) -> None:
        self._context, self._forms, self._places_at = context, forms, places_at

    def after(
        self, positions: Array, limits: Array, step: int, holds: MembersTest | None = None
    ) -> SteppedTopN:
        """Return the first n of queries after a step.

        Args:
            positions: The queries.
            limits: The n of each query, int64 (queries,).
            step: The step.
            holds: Returns which members count; all if None.
        """
        context = self._context
        found = context.members(positions, step)
        if holds is not None:
            found = found.where(holds(found.query, found.version))
        query, versions = found.query, found.version
        far = context.distances(query, versions, step)
        now = int(context.batch.timing.at(step))
        parts: list[pa.BinaryArray] = [pa.array([], pa.binary())]
        at, form = np.empty(len(query), np.int64), self._forms[query]
        for number in np.unique(form).tolist():
            mine = np.flatnonzero(form == number)
            at[mine] = sum(map(len, parts)) + np.arange(len(mine))
            parts.append(self._places_at(number, versions[mine], now, far[mine]))
        shows = context.queries.shows_distance[query] > 0
        place = with_distances(pa.concat_arrays(parts).take(_positions(at)), far, shows)
        order = _in_order(query, place)
        first = order[
            np.arange(len(order)) - np.searchsorted(query[order], query[order]) < limits[query[order]]
        ]
        chosen: Any = pa.array(first)
        return SteppedTopN(
            query[first], found.obj[first], versions[first], place.take(chosen), (query, found.obj)
        )


class SteppedChanges(NamedTuple):
    """Changes of the first n in a batch.

    Attributes:
        found: The members that enter the first n, have other places there, or leave.
        places: The places of `found`.
        obj: The object of each of `found`, int32.
        is_member: Whether each is a member after its step, bool.
    """

    found: TopNMembers
    places: pa.BinaryArray
    obj: Array
    is_member: Array


def changes_between(before: SteppedTopN, after: SteppedTopN, step: int, objects: int) -> SteppedChanges:
    """Return the changes from the first n before a step to those after it, among `objects` objects."""
    was, now = before.codes(objects), after.codes(objects)
    place = np.full(len(now), -1)
    order = np.argsort(was)
    if len(was):
        at = order[np.minimum(np.searchsorted(was[order], now), len(was) - 1)]
        place = np.where(was[at] == now, at, -1)
    old: Any = pa.array(place, mask=place < 0)
    same: Any = pc.equal(before.place.take(old), after.place).fill_null(False)
    unchanged = same.to_numpy(zero_copy_only=False) & (
        before.version[place] == after.version if len(was) else True
    )
    come, gone = np.flatnonzero(~unchanged), np.flatnonzero(~np.isin(was, now))
    query = np.concatenate([after.query[come], before.query[gone]])
    version = np.concatenate([after.version[come], before.version[gone]])
    obj = np.concatenate([after.obj[come], before.obj[gone]])
    op = np.repeat(np.array([1, -1], np.int8), [len(come), len(gone)])
    members = after.members[0].astype(np.int64) * objects + after.members[1]
    is_member = np.isin(query.astype(np.int64) * objects + obj, members)
    places = pa.concat_arrays([after.place.take(_positions(come)), before.place.take(_positions(gone))])
    found = TopNMembers(query, np.full(len(query), step), version, op, np.arange(len(query)))
    return SteppedChanges(found, places, obj, is_member)


def member_codes(batch: StreamBatch, query: Array, step: Array, obj: Array) -> Array:
    """Return query, step and object as one number each, int64 (n,).

    Steps are those of the batch and the one before it.
    """
    span, size = batch.timing.last - batch.timing.first + 2, len(batch.objects.table)
    codes: Array = (query.astype(np.int64) * span + (step - batch.timing.first + 1)) * size + obj
    return codes


def steps_of_change(context: QueryContext, positions: Array, timings: QueryTimings) -> list[int]:
    """Return the steps of a batch in which the members of queries, or their order, may change."""
    batch, always = context.batch, context.conditions.change_always | timings.change_always
    if always[positions].any():
        points = [steps_of(batch.timing)]
    else:
        points = [change_instants(batch, context.conditions, timings.compared), stored_points(batch, 0)]
    return [
        refresh.step for refresh in refreshes_since(batch.timing, batch.timing.tick, np.concatenate(points))
    ]


def _positions(at: Array) -> Any:
    return pa.array(at)


def _in_order(query: Array, place: pa.BinaryArray) -> Array:
    """Return the order of members by query and place."""
    table = pa.table({"query": pa.array(query), "place": place})
    keys: Any = [("query", "ascending"), ("place", "ascending")]
    order: Array = pc.sort_indices(table, sort_keys=keys).to_numpy().astype(np.int64)
    return order
