"""The k nearest of the objects in a circle, step by step.

See SOLE sections 3 and 5 (a kNN query is a circular region that grows and shrinks), and SEA-CNN, which SSTD
section 6.1 uses for its CKQ: a circle of fixed radius reports the objects that it gains and loses, and its
members are kept in order. While a circle holds at least k objects, its first k members are the k nearest of
all. If it holds fewer, the query is reported as short and its circle must be found again. A step costs the
circle's changes; a move of the centre costs ranking all members again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.updates import LEFT
from stqsh.core.kernels.geometry.distance import distance
from stqsh.core.kernels.geometry.shapes import IndexRange
from stqsh.core.kernels.index.static_rects import IS
from stqsh.core.kernels.jit import Float, Int, kernel
from stqsh.core.kernels.knn.candidate_merge import OVERTAKEN
from stqsh.core.kernels.knn.circle_members import (
    KnnMembers,
    MemberEvents,
    MemberLists,
    NewMember,
    RankingOrder,
    append_member,
    compact,
    empty_lists,
    empty_members,
    insert_member,
    mark_removed,
    note_places,
    rank_members,
    remove_member,
    store_members,
)

_GENEROUS, _SPREAD, _ROOMY = 3, 6.0, 8 / 3
"""A circle is chosen to hold _GENEROUS * k objects, or k plus _SPREAD square roots of k if that is fewer,
because the number of objects in a circle varies by about its square root. The circle shrinks to that number
once it holds _ROOMY times as many."""

_MANY, _CROWD = 4, 64
"""Changes of one step are sorted together if there are at least _MANY and the circle has _CROWD members."""


class TrackedCircles(NamedTuple):
    """Queries with their circles, (q,) each.

    Attributes:
        k: int32.
        radius: The circle's radius before the batch, float64.
        x, y: Its centre, float64; NaN for none.
        turn, end: The range turns[turn:end] of the focal object's events, int64.
        until: The step at which the query ends, int64.
        begin: The step after which all k are sent again, int64; -1 if the answer is not sent again.
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
    """Moves of focal objects, by focal object and step: step int64, x, y float64 (NaN: not present)."""

    step: Array
    x: Array
    y: Array


class RankChanges(NamedTuple):
    """Changes of the first k, (n,) each.

    Attributes:
        step: int64.
        query: The query's number, int32.
        op, why: int8; op is 1 if the object is among the first k, or has another record or distance there; -1
            if it no longer is among them.
        obj, version: int32.
        rank: The distance, float64.
        event: The event that removed the object from the circle, int32; -1 if it is still inside.
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
    """When circles first had fewer than k members, (q,) each: step int64 (-1: never), and the centre then."""

    step: Array
    x: Array
    y: Array


class RankResult(NamedTuple):
    """The result of `rank`; `roster` and `radius`, float64 (q,), are the input of the next batch.

    A short circle has no offers, and its member list is empty.
    """

    offers: RankChanges
    roster: MemberLists
    radius: Array
    short: ShortCircles


class RankChange(NamedTuple):
    """One row of `RankChanges`."""

    step: Int
    query: Int
    op: Int
    why: Int
    obj: Int
    version: Int
    rank: Float
    event: Int


class Offers(NamedTuple):
    """The changes found so far, with spare space, and their number."""

    changes: RankChanges
    used: Int


class _Ranking(NamedTuple):
    """The input of the ranking of all queries, and the members of the current query."""

    circles: TrackedCircles
    turns: FocalMoves
    seen: MemberEvents
    ring: KnnMembers
    world: RankingOrder


@kernel
def enough(k: Array) -> Array:
    """Return how many objects a circle should hold so that it does not soon run short; int64 (n,)."""
    generous, spread = _GENEROUS * k.astype(np.int64), k + (_SPREAD * np.sqrt(k)).astype(np.int64)
    around: Array = np.minimum(generous, spread) + 2
    return around


@kernel
def rank(
    circles: TrackedCircles, turns: FocalMoves, roster: MemberLists, seen: MemberEvents, world: RankingOrder
) -> RankResult:
    """Find how the k nearest of each query change, step by step."""
    count = len(circles.k)
    room = np.int64(16)
    for q in range(count):
        room = max(room, roster.start[q + 1] - roster.start[q] + seen.start[q + 1] - seen.start[q])
    snug = enough(circles.k)
    ring = empty_members(room, len(world.order.codes))
    after = empty_lists(count, len(roster.obj) + len(seen.obj))
    ranking = _Ranking(circles, turns, seen, ring, world)
    radius = circles.radius.copy()
    short = ShortCircles(
        np.full(count, -1, np.int64), np.empty(count, np.float64), np.empty(count, np.float64)
    )
    out, end = Offers(_room_for_changes(np.int64(1024)), np.int64(0)), np.int64(0)
    for q in range(count):
        held, mark = _load(ranking, q, roster), out.used
        out, held = _rank_query(ranking, q, held, out)
        if held < 0:
            out, step = Offers(out.changes, mark), -held
            short.step[q], short.x[q], short.y[q] = step, ring.centre[0], ring.centre[1]
            held = np.int64(0)
        held, radius[q] = _shrink(ring, held, snug[q], radius[q])
        store_members(after, end, ring, held)
        end += held
        after.start[q + 1] = end
    kept = MemberLists(after.start, after.obj[:end], after.version[:end], after.x[:end], after.y[:end])
    return RankResult(_resize_changes(out.changes, out.used, out.used), kept, radius, short)


@kernel
def _room_for_changes(room: Int) -> RankChanges:
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
def _resize_changes(offers: RankChanges, used: Int, room: Int) -> RankChanges:
    out = _room_for_changes(room)
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
def _load(ranking: _Ranking, q: Int, roster: MemberLists) -> Int:
    """Load a query's members before the batch, and return their number."""
    circles, ring = ranking.circles, ranking.ring
    ring.centre[0], ring.centre[1] = circles.x[q], circles.y[q]
    first, count = roster.start[q], roster.start[q + 1] - roster.start[q]
    known = circles.k[q] if circles.begin[q] < 0 else 0
    obj, version, x, y, sent, fresh = ring.obj, ring.version, ring.x, ring.y, ring.sent, ring.fresh
    for i in range(count):
        obj[i], version[i] = roster.obj[first + i], roster.version[first + i]
        x[i], y[i] = roster.x[first + i], roster.y[first + i]
        fresh[i] = False
    rank_members(ring, count, ranking.world)
    for i in range(count):
        sent[i] = i < known
    return count


@kernel
def _rank_query(ranking: _Ranking, q: Int, count: Int, out: Offers) -> tuple[Offers, Int]:
    """Process the batch of one query.

    Returns:
        The changes; and the query's number of members, or minus the step at which it had too few.
    """
    circles, turns, seen, ring, world = ranking
    i, t, begin = seen.start[q], circles.turn[q], np.int64(circles.begin[q])
    k, radius = circles.k[q], circles.radius[q]
    while True:
        step = _next_step(ranking, q, t, i, begin)
        if step == circles.until[q]:
            return out, count
        turned = False
        while t < circles.end[q] and turns.step[t] == step:
            turned = turned or ring.centre[0] != turns.x[t] or ring.centre[1] != turns.y[t]
            ring.centre[0], ring.centre[1] = turns.x[t], turns.y[t]
            t += 1
        first = i
        while i < seen.start[q + 1] and seen.step[i] == step:
            i += 1
        out, count = _apply_events(ranking, q, IndexRange(first, i), count, out)
        if turned:
            rank_members(ring, count, world)
            ring.fresh[:count] = True
        if count < k and radius < np.inf and not np.isnan(ring.centre[0]):
            return out, -step
        out = _update_answer(ranking, q, step, count, out)
        if begin == step:
            begin = np.int64(-1)  # sent


@kernel
def _next_step(ranking: _Ranking, q: Int, t: Int, i: Int, begin: Int) -> Int:
    """Return the next step that concerns a query, or the step at which it ends."""
    circles, seen = ranking.circles, ranking.seen
    step = circles.until[q]
    if begin >= 0:
        step = min(step, begin)
    if t < circles.end[q]:
        step = min(step, ranking.turns.step[t])
    if i < seen.start[q + 1]:
        step = min(step, seen.step[i])
    return step


@kernel
def _apply_events(ranking: _Ranking, q: Int, span: IndexRange, count: Int, out: Offers) -> tuple[Offers, Int]:
    """Add and remove a step's members; retract sent members that leave."""
    _, _, seen, ring, world = ranking
    radius = ranking.circles.radius[q]
    many = span.end - span.begin >= _MANY and count >= _CROWD
    if many:
        note_places(ring, count)
    for i in range(span.begin, span.end):
        if many:
            sent = mark_removed(ring, count, seen.obj[i])
        else:
            count, sent = remove_member(ring, count, seen.obj[i])
        far = distance(ring.centre[0], ring.centre[1], seen.x[i], seen.y[i], world.planar)
        if seen.flags[i] & IS:
            if many:
                append_member(ring, count, seen, NewMember(i, far, sent))
            else:
                insert_member(ring, count, seen, NewMember(i, far, sent), world.order)
            count += 1
        elif sent:
            # Inside the circle only the condition can have failed; outside, a later stage finds the reason.
            why = LEFT if far <= radius or np.isnan(ring.centre[0]) else OVERTAKEN
            change = RankChange(seen.step[i], q, -1, why, seen.obj[i], seen.version[i], far, seen.event[i])
            out = _add_change(out, change)
    if many:
        count = compact(ring, count, world.order)
    return out, count


@kernel
def _add_change(out: Offers, change: RankChange) -> Offers:
    """Append one change."""
    changes, used = out
    if used == len(changes.step):
        changes = _resize_changes(changes, used, 2 * used)
    changes.step[used], changes.query[used], changes.op[used] = change.step, change.query, change.op
    changes.why[used], changes.obj[used], changes.version[used] = change.why, change.obj, change.version
    changes.rank[used], changes.event[used] = change.rank, change.event
    return Offers(changes, used + 1)


@kernel
def _update_answer(ranking: _Ranking, q: Int, step: Int, count: Int, out: Offers) -> Offers:
    """Append the changes of the first k after a step."""
    ring, k = ranking.ring, ranking.circles.k[q]
    sent, fresh = ring.sent, ring.fresh
    for i in range(count):
        if i < k and (fresh[i] or not sent[i]):
            op, why = 1, 0
        elif i >= k and sent[i]:
            op, why = -1, OVERTAKEN
        else:
            fresh[i] = False
            continue
        sent[i], fresh[i] = i < k, False
        change = RankChange(step, q, op, why, ring.obj[i], ring.version[i], ring.rank[i], np.int64(-1))
        out = _add_change(out, change)
    return out


@kernel
def _shrink(ring: KnnMembers, count: Int, snug: Int, radius: Float) -> tuple[Int, Float]:
    """Return how many members a circle keeps, and the radius that holds exactly these."""
    if count <= _ROOMY * snug or np.isnan(ring.centre[0]):
        return count, radius
    radius = ring.rank[snug - 1]
    kept = snug
    while kept < count and ring.rank[kept] <= radius:
        kept += 1
    return np.int64(kept), radius
