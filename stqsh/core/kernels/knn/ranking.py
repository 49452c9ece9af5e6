"""The k nearest of what lies in a circle, step by step.

SOLE sections 3 and 5 (a kNN query is a circular region that grows and shrinks), and SEA-CNN, which SSTD
section 6.1 takes for its CKQ: what a circle of fixed radius gains and loses is known, and its members are
kept in order.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from stqsh.core.kernels.events.updates import LEFT
from stqsh.core.kernels.geometry.distance import distance
from stqsh.core.kernels.index.static_rects import IS
from stqsh.core.kernels.jit import Array, Float, Int, kernel
from stqsh.core.kernels.knn.candidate_merge import OVERTAKEN
from stqsh.core.kernels.knn.circle_members import (
    KnnMembers,
    MemberEvents,
    MemberLists,
    RankingOrder,
    close_up,
    empty_ring,
    keep,
    no_roster,
    put_behind,
    put_in,
    put_in_order,
    strike_out,
    take_out,
)

_LOOSE, _SPREAD, _ROOMY = 3, 6.0, 8 / 3
"""Circles are laid around _LOOSE * k objects, or around k and _SPREAD of its roots, if that is fewer: how
many are in a circle goes up and down by about the root of their number. They shrink to that where they hold
_ROOMY times as many."""
_MANY, _CROWD = 4, 64
"""So many that come and go at a step, in a circle of so many members, are put in order together."""


class TrackedCircles(NamedTuple):
    """Queries, (q,) each: k int32; radius, x, y float64: the circle before the batch (NaN: no centre).

    turn, end int64: its focal object's events are turns[turn:end]; those not before `until` int64 are not
    its. begin int64: the step after which all k are told anew, -1: what is known is not told.
    """

    k: Array
    radius: Array
    x: Array
    y: Array
    turn: Array
    end: Array
    until: Array
    begin: Array


class FocalMoves(NamedTuple):
    """What focal objects did, by focal object and step: step int64, x, y float64 (NaN: not present)."""

    step: Array
    x: Array
    y: Array


class RankChanges(NamedTuple):
    """Changes of the first k, (n,) each: step int64, query int32 (number), op int8 (1: is one, or has
    another record or distance; -1: is none any more), why int8, obj, version int32, rank float64 (the
    distance), event int32 (that took it out of the circle, -1 if it is still in it).
    """

    step: Array
    query: Array
    op: Array
    why: Array
    obj: Array
    version: Array
    rank: Array
    event: Array


class ShortCircles(NamedTuple):
    """Where circles had fewer than k members, (q,) each: step int64 (-1: never) and the centre then."""

    step: Array
    x: Array
    y: Array


class RankResult(NamedTuple):
    """All that `rank` finds. radius float64 (q,): those for the next batch, with which `roster` goes.

    Of circles that were short nothing is offered, and their rosters are empty.
    """

    offers: RankChanges
    roster: MemberLists
    radius: Array
    short: ShortCircles


Out: TypeAlias = tuple[RankChanges, Int]


@kernel
def enough(k: Array) -> Array:
    """Around how many objects a circle is laid, so that it does not run short too soon. int64 (n,)."""
    loose, spread = _LOOSE * k.astype(np.int64), k + (_SPREAD * np.sqrt(k)).astype(np.int64)
    around: Array = np.minimum(loose, spread) + 2
    return around


@kernel
def rank(
    circles: TrackedCircles, turns: FocalMoves, roster: MemberLists, seen: MemberEvents, world: RankingOrder
) -> RankResult:
    """Go through the steps of each query, and find how its k nearest change."""
    count = len(circles.k)
    room = np.int64(16)
    for q in range(count):
        room = max(room, roster.start[q + 1] - roster.start[q] + seen.start[q + 1] - seen.start[q])
    snug = enough(circles.k)
    ring, after = empty_ring(room), no_roster(count, len(roster.obj) + len(seen.obj))
    radius = circles.radius.copy()
    short = ShortCircles(
        np.full(count, -1, np.int64), np.empty(count, np.float64), np.empty(count, np.float64)
    )
    offers, used, end = _no_offers(np.int64(1024)), np.int64(0), np.int64(0)
    for q in range(count):
        held, mark = _gather(circles, roster, q, ring, world), used
        offers, used, held = _live(q, circles, (turns, seen), (ring, held, world), (offers, used))
        if held < 0:
            used, step = mark, -held
            short.step[q], short.x[q], short.y[q] = step, ring.centre[0], ring.centre[1]
            held = np.int64(0)
        held, radius[q] = _shrunk(ring, held, snug[q], radius[q])
        keep(after, end, ring, held)
        end += held
        after.start[q + 1] = end
    kept = MemberLists(after.start, after.obj[:end], after.version[:end], after.x[:end], after.y[:end])
    return RankResult(_copied(offers, used, used), kept, radius, short)


@kernel
def _no_offers(room: Int) -> RankChanges:
    return RankChanges(
        np.empty(room, np.int64),
        np.empty(room, np.int32),
        np.empty(room, np.int8),
        np.empty(room, np.int8),
        np.empty(room, np.int32),
        np.empty(room, np.int32),
        np.empty(room, np.float64),
        np.empty(room, np.int32),
    )


@kernel
def _copied(offers: RankChanges, used: Int, room: Int) -> RankChanges:
    out = _no_offers(room)
    out.step[:used], out.query[:used], out.op[:used] = (
        offers.step[:used],
        offers.query[:used],
        offers.op[:used],
    )
    out.why[:used], out.obj[:used] = offers.why[:used], offers.obj[:used]
    out.version[:used], out.rank[:used] = offers.version[:used], offers.rank[:used]
    out.event[:used] = offers.event[:used]
    return out


@kernel
def _gather(
    circles: TrackedCircles, roster: MemberLists, q: Int, ring: KnnMembers, world: RankingOrder
) -> Int:
    """Put a query's members before the batch into the ring; how many they are."""
    ring.centre[0], ring.centre[1] = circles.x[q], circles.y[q]
    first, count = roster.start[q], roster.start[q + 1] - roster.start[q]
    known = circles.k[q] if circles.begin[q] < 0 else 0
    obj, version, x, y, told, fresh = ring.obj, ring.version, ring.x, ring.y, ring.told, ring.fresh
    for i in range(count):
        obj[i], version[i] = roster.obj[first + i], roster.version[first + i]
        x[i], y[i] = roster.x[first + i], roster.y[first + i]
        fresh[i] = False
    put_in_order(ring, count, world)
    for i in range(count):
        told[i] = i < known
    return count


@kernel
def _live(
    q: Int,
    circles: TrackedCircles,
    said: tuple[FocalMoves, MemberEvents],
    held: tuple[KnnMembers, Int, RankingOrder],
    out: Out,
) -> tuple[RankChanges, Int, Int]:
    """One query's batch; the offers, and its number of members, or minus the step at which it was short."""
    turns, seen = said
    ring, count, world = held
    offers, used = out
    i, t, begin = seen.start[q], circles.turn[q], np.int64(circles.begin[q])
    k, radius = circles.k[q], circles.radius[q]
    while True:
        step = _next_step(q, circles, (turns, t), (seen, i), begin)
        if step == circles.until[q]:
            return offers, used, count
        turned = False
        while t < circles.end[q] and turns.step[t] == step:
            turned = turned or ring.centre[0] != turns.x[t] or ring.centre[1] != turns.y[t]
            ring.centre[0], ring.centre[1] = turns.x[t], turns.y[t]
            t += 1
        first = i
        while i < seen.start[q + 1] and seen.step[i] == step:
            i += 1
        offers, used, count = _hear(q, radius, (seen, first, i), (ring, count, world), (offers, used))
        if turned:
            put_in_order(ring, count, world)
            ring.fresh[:count] = True
        if count < k and radius < np.inf and not np.isnan(ring.centre[0]):
            return offers, used, -step
        offers, used = _tell(q, step, k, (ring, count), (offers, used))
        if begin == step:
            begin = np.int64(-1)  # told


@kernel
def _next_step(
    q: Int,
    circles: TrackedCircles,
    turning: tuple[FocalMoves, Int],
    seeing: tuple[MemberEvents, Int],
    begin: Int,
) -> Int:
    """The next step at which something happens to a query, or the one at which it ends."""
    turns, t = turning
    seen, i = seeing
    step = circles.until[q]
    if begin >= 0:
        step = min(step, begin)
    if t < circles.end[q]:
        step = min(step, turns.step[t])
    if i < seen.start[q + 1]:
        step = min(step, seen.step[i])
    return step


@kernel
def _hear(
    q: Int,
    radius: Float,
    news: tuple[MemberEvents, Int, Int],
    held: tuple[KnnMembers, Int, RankingOrder],
    out: Out,
) -> tuple[RankChanges, Int, Int]:
    """Let a step's members come and go; those that had been told and go are told so."""
    seen, first, end = news
    ring, count, world = held
    offers, used = out
    many = end - first >= _MANY and count >= _CROWD
    for i in range(first, end):
        if many:
            told = strike_out(ring, count, seen.obj[i])
        else:
            count, told = take_out(ring, count, seen.obj[i])
        far = distance(ring.centre[0], ring.centre[1], seen.x[i], seen.y[i], world.planar)
        if seen.flags[i] & IS:
            if many:
                put_behind(ring, count, seen, (i, far, told))
            else:
                put_in(ring, count, seen, (i, far, told), world.order)
            count += 1
        elif told:
            # Within the circle only the condition can have failed; beyond it that is still to be seen.
            why = LEFT if far <= radius or np.isnan(ring.centre[0]) else OVERTAKEN
            offers = _with_room(offers, used)
            what, whom = (seen.step[i], q, -1, why), (seen.obj[i], seen.version[i], far, seen.event[i])
            used = _offer(offers, used, what, whom)
    if many:
        count = close_up(ring, count, world.order)
    return offers, used, count


@kernel
def _with_room(offers: RankChanges, used: Int) -> RankChanges:
    return offers if used < len(offers.step) else _copied(offers, used, 2 * used)


@kernel
def _offer(
    offers: RankChanges, used: Int, what: tuple[Int, Int, Int, Int], whom: tuple[Int, Int, Float, Int]
) -> Int:
    """Note step, query, op and why, and object, version, rank and event; how many offers there are then."""
    offers.step[used], offers.query[used], offers.op[used], offers.why[used] = what
    offers.obj[used], offers.version[used], offers.rank[used], offers.event[used] = whom
    return used + 1


@kernel
def _tell(q: Int, step: Int, k: Int, held: tuple[KnnMembers, Int], out: Out) -> Out:
    """Tell who is among the first k now, or was and is no more."""
    ring, count = held
    offers, used = out
    told, fresh = ring.told, ring.fresh
    for i in range(count):
        if i < k and (fresh[i] or not told[i]):
            op, why = 1, 0
        elif i >= k and told[i]:
            op, why = -1, OVERTAKEN
        else:
            fresh[i] = False
            continue
        told[i], fresh[i] = i < k, False
        offers = _with_room(offers, used)
        whom = (ring.obj[i], ring.version[i], ring.rank[i], np.int64(-1))
        used = _offer(offers, used, (step, q, op, why), whom)
    return offers, used


@kernel
def _shrunk(ring: KnnMembers, count: Int, snug: Int, radius: Float) -> tuple[Int, Float]:
    """How many members a circle keeps, and the radius that holds just them."""
    if count <= _ROOMY * snug or np.isnan(ring.centre[0]):
        return count, radius
    radius = ring.rank[snug - 1]
    kept = snug
    while kept < count and ring.rank[kept] <= radius:
        kept += 1
    return np.int64(kept), radius
