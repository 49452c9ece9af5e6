"""The members of one circle, nearest first, as objects enter and leave.

Members stay ordered by (distance, key). A single change shifts the members behind it. Many changes at once
leave gaps and append, and one sort follows. Insertion sort is fast because lists are nearly in order; long
lists with many members out of order are sorted from scratch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.geometry.distance import distance
from stqsh.core.kernels.jit import Flag, Float, Int, kernel
from stqsh.core.kernels.knn.tie_order import KeyOrder, precedes

_FEW, _SMALL = 4, 64
"""More than _SMALL members are sorted from scratch if more than _FEW of them are out of order."""

_GONE = -1
"""The object of a removed member, until `compact` closes the gap."""


class MemberLists(NamedTuple):
    """Members of circles: start[q] .. start[q + 1] for query q.

    Attributes:
        start: int64 (q + 1,).
        obj, version: int32 (n,).
        x, y: float64 (n,).
    """

    start: Array
    obj: Array
    version: Array
    x: Array
    y: Array


class MemberEvents(NamedTuple):
    """Events of members by query, step and flags: start[q] .. start[q + 1] for query q.

    Attributes:
        start: int64 (q + 1,).
        step: int64 (n,).
        obj: int32 (n,).
        version: After the step, int32 (n,).
        x, y: After the step, float64 (n,).
        flags: IS if the object is a member after the step, uint8 (n,).
        event: int32 (n,).
    """

    start: Array
    step: Array
    obj: Array
    version: Array
    x: Array
    y: Array
    flags: Array
    event: Array


class NewMember(NamedTuple):
    """A member to insert: the position of its event, its distance, and whether it was sent."""

    event: Int
    far: Float
    sent: Flag


class RankingOrder(NamedTuple):
    """The order of objects' keys, and how distances are measured."""

    order: KeyOrder
    planar: bool


class KnnMembers(NamedTuple):
    """One query's members, nearest first, while they change.

    Attributes:
        obj, version: int32.
        rank: The distance, float64.
        x, y: float64.
        sent: Whether the member was sent, bool.
        fresh: Whether the member must be sent again, bool.
        centre: float64 (2,).
        place: The position of each object in `obj`, int32 (objects,). It is only right where `obj` has the
            object at that position, so it needs no initial values.
    """

    obj: Array
    version: Array
    rank: Array
    x: Array
    y: Array
    sent: Array
    fresh: Array
    centre: Array
    place: Array


@kernel
def empty_members(room: Int, objects: Int) -> KnnMembers:
    """Return space for `room` members of a query, who are some of `objects` objects."""
    return KnnMembers(
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        np.empty(room, np.float64),
        np.empty(room, np.float64),
        np.empty(room, np.float64),
        np.empty(room, np.bool_),
        np.empty(room, np.bool_),
        np.empty(2, np.float64),
        np.empty(objects, np.int32),
    )


@kernel
def empty_lists(queries: Int, room: Int) -> MemberLists:
    """Return empty lists of `queries` queries with space for `room` members in total."""
    return MemberLists(
        np.zeros(queries + 1, np.int64),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        np.empty(room, np.float64),
        np.empty(room, np.float64),
    )


@kernel
def store_members(after: MemberLists, end: Int, ring: KnnMembers, held: Int) -> None:
    """Copy a query's members to position `end` of the lists."""
    obj, version, x, y = after.obj, after.version, after.x, after.y
    for i in range(held):
        obj[end + i], version[end + i] = ring.obj[i], ring.version[i]
        x[end + i], y[end + i] = ring.x[i], ring.y[i]


@kernel
def rank_members(ring: KnnMembers, count: Int, world: RankingOrder) -> None:
    """Compute the distances of all members and sort them; fast if they are nearly in order."""
    rank, x, y, planar = ring.rank, ring.x, ring.y, world.planar
    x0, y0 = ring.centre[0], ring.centre[1]
    for i in range(count):
        rank[i] = distance(x0, y0, x[i], y[i], planar)
    sort_by_rank(ring, count, world.order)


@kernel
def sort_by_rank(ring: KnnMembers, count: Int, order: KeyOrder) -> None:
    """Sort members by distance and then by key; fast if they are nearly in order.

    Arrays are bound to local names, and only numbers are passed on, because a call with arrays costs more
    than a member.
    """
    obj, version, rank, x, y = ring.obj, ring.version, ring.rank, ring.x, ring.y
    sent, fresh = ring.sent, ring.fresh
    descents = 0
    for i in range(1, count):
        descents += rank[i - 1] > rank[i]
    if descents > _FEW and count > _SMALL:
        by = np.argsort(rank[:count])
        obj[:count], version[:count], rank[:count] = obj[by], version[by], rank[by]
        x[:count], y[:count], sent[:count], fresh[:count] = x[by], y[by], sent[by], fresh[by]
    for j in range(1, count):
        if rank[j - 1] < rank[j]:
            continue
        one, other, far, x1, y1, was, new = obj[j], version[j], rank[j], x[j], y[j], sent[j], fresh[j]
        i = j
        while i > 0 and (far < rank[i - 1] or (far == rank[i - 1] and precedes(order, one, obj[i - 1]))):
            obj[i], version[i], rank[i], x[i], y[i] = (
                obj[i - 1],
                version[i - 1],
                rank[i - 1],
                x[i - 1],
                y[i - 1],
            )
            sent[i], fresh[i] = sent[i - 1], fresh[i - 1]
            i -= 1
        obj[i], version[i], rank[i], x[i], y[i], sent[i], fresh[i] = one, other, far, x1, y1, was, new


@kernel
def remove_member(ring: KnnMembers, count: Int, out: Int) -> tuple[Int, Flag]:
    """Remove an object if it is a member; return the number of members left, and whether it was sent."""
    obj, version, rank, x, y, sent, fresh = (
        ring.obj,
        ring.version,
        ring.rank,
        ring.x,
        ring.y,
        ring.sent,
        ring.fresh,
    )
    at = 0
    while at < count and obj[at] != out:
        at += 1
    if at == count:
        return count, False
    had = sent[at]
    for i in range(at, count - 1):
        obj[i], version[i], rank[i], x[i], y[i] = obj[i + 1], version[i + 1], rank[i + 1], x[i + 1], y[i + 1]
        sent[i], fresh[i] = sent[i + 1], fresh[i + 1]
    return count - 1, had


@kernel
def insert_member(ring: KnnMembers, count: Int, seen: MemberEvents, new: NewMember, order: KeyOrder) -> None:
    """Insert a member at its place; the members after it move by one position."""
    e, far, had = new
    obj, version, rank, x, y = ring.obj, ring.version, ring.rank, ring.x, ring.y
    sent, fresh, one = ring.sent, ring.fresh, seen.obj[e]
    i = count
    while i > 0 and (far < rank[i - 1] or (far == rank[i - 1] and precedes(order, one, obj[i - 1]))):
        obj[i], version[i], rank[i], x[i], y[i] = obj[i - 1], version[i - 1], rank[i - 1], x[i - 1], y[i - 1]
        sent[i], fresh[i] = sent[i - 1], fresh[i - 1]
        i -= 1
    obj[i], version[i], rank[i], x[i], y[i] = one, seen.version[e], far, seen.x[e], seen.y[e]
    sent[i], fresh[i] = had, True


# For many changes at once: removed members leave gaps, and new members are appended until `compact`. A member
# is found by the position that `note_places` has noted; a search for each would take n² steps for n members.


@kernel
def note_places(ring: KnnMembers, count: Int) -> None:
    """Note the positions of all members."""
    obj, place = ring.obj, ring.place
    for i in range(count):
        place[obj[i]] = i


@kernel
def mark_removed(ring: KnnMembers, count: Int, out: Int) -> Flag:
    """Leave a gap in place of an object if it is a member; return whether it was sent."""
    at = ring.place[out]
    if at < 0 or at >= count or ring.obj[at] != out:
        return False
    ring.obj[at] = _GONE
    return ring.sent[at]


@kernel
def append_member(ring: KnnMembers, count: Int, seen: MemberEvents, new: NewMember) -> None:
    """Append a member after all others, and note its position."""
    e, far, had = new
    ring.obj[count], ring.version[count], ring.rank[count] = seen.obj[e], seen.version[e], far
    ring.x[count], ring.y[count], ring.sent[count], ring.fresh[count] = seen.x[e], seen.y[e], had, True
    ring.place[seen.obj[e]] = count


@kernel
def compact(ring: KnnMembers, count: Int, order: KeyOrder) -> Int:
    """Close the gaps, sort the members, and return their number."""
    obj, version, rank, x, y = ring.obj, ring.version, ring.rank, ring.x, ring.y
    sent, fresh, left = ring.sent, ring.fresh, 0
    for i in range(count):
        if obj[i] != _GONE:
            obj[left], version[left], rank[left], x[left], y[left] = obj[i], version[i], rank[i], x[i], y[i]
            sent[left], fresh[left] = sent[i], fresh[i]
            left += 1
    sort_by_rank(ring, left, order)
    return left
