"""The join of objects with regions that move with focal objects, step by step.

SOLE section 5.3: objects with an event are found by the regions around the place that they leave and the
place that they enter (Algorithm 2); all other objects are found through the cells of the regions that move
(Algorithm 4). So the cost depends on the objects and regions nearby, and steps without events cost nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.base.clock import NEVER
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.geometry.boxes import extended_box
from stqsh.core.kernels.geometry.circles import circle_box
from stqsh.core.kernels.geometry.shapes import IndexRange, Point
from stqsh.core.kernels.index.moving_boxes import (
    MoverPairs,
    MovingBoxGrid,
    MovingQueries,
    build_box_grid,
    end_moves,
    match_indexed,
    needs_rebuild,
    remove_moving,
)
from stqsh.core.kernels.index.object_grid import ObjectGrid, place_object
from stqsh.core.kernels.index.static_rects import (
    IS,
    WAS,
    CandidatePairs,
    GridFrame,
    QueryLifetimes,
    is_alive,
    resize_pairs,
)
from stqsh.core.kernels.jit import Flag, Int, kernel
from stqsh.core.kernels.join.moving_candidates import (
    changed_objects,
    has_exact_shape,
    is_outside,
    match_moved,
    match_unindexed,
    shape_of,
)


class MovingJoinParams(NamedTuple):
    """The grid of the objects' cells, the lifetimes of queries, and how distances are measured."""

    frame: GridFrame
    lives: QueryLifetimes
    planar: bool


class MovingJoin(NamedTuple):
    """The input of the join: object and focal transitions, ascending by step, and the moving queries."""

    events: Transitions
    turns: Transitions
    movers: MovingQueries
    params: MovingJoinParams


class BatchObjectCells(NamedTuple):
    """Objects during a batch, int32 (objects,) each except for the cells.

    Attributes:
        cells: Their cells.
        version: The current version of each object.
        acted: The last step in which each object had an event, counted within the batch.
        unchanged: The position of each object among `UnchangedObjects`, if it has one.
    """

    cells: ObjectGrid
    version: Array
    acted: Array
    unchanged: Array


class UnchangedObjects(NamedTuple):
    """Objects without an event in a step that a region gained or lost, once per step.

    Attributes:
        step: int64 (n,).
        obj: int32 (n,).
        version: int32 (n,).
    """

    step: Array
    obj: Array
    version: Array


class JoinState(NamedTuple):
    """The state between steps: the regions' index, the objects, and space for moving regions."""

    boxes: MovingBoxGrid
    objects: BatchObjectCells
    moving: Array


class JoinStep(NamedTuple):
    """A step, its number within the batch, and its object and focal transitions."""

    step: Int
    number: Int
    events: IndexRange
    turns: IndexRange


class JoinOutput(NamedTuple):
    """The pairs and unchanged objects found so far, and the number of each.

    The event of a pair is a position among the events, or -1 - i for unchanged object i.
    """

    pairs: CandidatePairs
    used: Int
    unchanged: UnchangedObjects
    unchanged_used: Int


@kernel
def by_focal(focal: Array, count: Int) -> tuple[Array, Array]:
    """Return `start` and `member` of `MovingQueries` for focal objects 0 .. count - 1, from int32 (m,)."""
    start, member = np.zeros(count + 1, np.int32), np.empty(len(focal), np.int32)
    for m in range(len(focal)):
        start[focal[m]] += 1
    for o in range(1, count + 1):
        start[o] += start[o - 1]
    for m in range(len(focal) - 1, -1, -1):
        start[focal[m]] -= 1
        member[start[focal[m]]] = m
    return start, member


@kernel
def begin_join(movers: MovingQueries, cells: ObjectGrid, frame: GridFrame) -> JoinState:
    """Return the state before the first step, from queries and cells before it."""
    count = len(cells.slot)
    none = np.full(count, -1, np.int32)
    objects = BatchObjectCells(cells, np.arange(count).astype(np.int32), none, none.copy())
    return JoinState(build_box_grid(movers, frame), objects, np.empty(len(movers.query), np.int32))


@kernel
def empty_output() -> JoinOutput:
    """Return space for the first pairs."""
    event, query, flags = np.empty(1024, np.int32), np.empty(1024, np.int32), np.empty(1024, np.uint8)
    pairs = CandidatePairs(event, query, flags)
    return JoinOutput(pairs, np.int64(0), _no_unchanged(np.int64(256)), np.int64(0))


@kernel
def _no_unchanged(room: Int) -> UnchangedObjects:
    return UnchangedObjects(np.empty(room, np.int64), np.empty(room, np.int32), np.empty(room, np.int32))


@kernel
def _resize_unchanged(objects: UnchangedObjects, used: Int, room: Int) -> UnchangedObjects:
    """Copy the first `used` objects to arrays with space for `room`."""
    out = _no_unchanged(room)
    out.step[:used], out.obj[:used] = objects.step[:used], objects.obj[:used]
    out.version[:used] = objects.version[:used]
    return out


@kernel
def _with_room(pairs: CandidatePairs, used: Int, more: Int) -> CandidatePairs:
    """Return pairs with space for `more`; the first `used` pairs are kept."""
    return pairs if used + more <= len(pairs.event) else resize_pairs(pairs, used, 2 * (used + more))


@kernel
def join_moving(join: MovingJoin, cells: ObjectGrid) -> tuple[CandidatePairs, UnchangedObjects]:
    """Find which moving queries gain or lose which objects, step by step.

    Args:
        join: The input; movers.now holds the regions before the first step, and is updated.
        cells: The objects before the first step; updated.

    Returns:
        Pairs, with events as in `JoinOutput`, and the unchanged objects that some of them refer to.
    """
    events, turns = join.events, join.turns
    state, out = begin_join(join.movers, cells, join.params.frame), empty_output()
    i, j, number = np.int64(0), np.int64(0), np.int64(0)
    while i < len(events.step) or j < len(turns.step):
        step = min(step_at(events, i), step_at(turns, j))
        begin, i = i, end_of_step(events, i, step)
        turned, j = j, end_of_step(turns, j, step)
        state, out = join_step(
            join, JoinStep(step, number, IndexRange(begin, i), IndexRange(turned, j)), state, out
        )
        number += 1
    pairs = resize_pairs(out.pairs, out.used, out.used)
    return pairs, _resize_unchanged(out.unchanged, out.unchanged_used, out.unchanged_used)


@kernel
def join_step(
    join: MovingJoin, step: JoinStep, state: JoinState, out: JoinOutput
) -> tuple[JoinState, JoinOutput]:
    """Process one step: append the pairs of its transitions, and update regions and objects."""
    events, turns, movers, params = join
    span, boxes = step.events, state.boxes
    if needs_rebuild(boxes, span.end - span.begin):
        boxes = build_box_grid(movers, params.frame)
    moving = state.moving[: _move_regions(turns, step.turns, movers, params.planar, state.moving)]
    remove_moving(boxes, moving)
    out = _append(join, match_indexed(events, span, boxes, params.frame), out)
    if boxes.counters[0] > len(moving):
        out = _append(join, match_unindexed(events, span, boxes, movers), out)
    out = _append(join, match_moved(events, span, moving, movers, params.frame), out)
    _move_objects(events, span, state.objects, step.number, params.frame)
    out = _append_unchanged(join, moving, step, state.objects, out)
    end_moves(boxes, moving)
    for m in moving:
        movers.past[m] = movers.now[m]
    return JoinState(boxes, state.objects, state.moving), out


@kernel
def step_at(events: Transitions, i: Int) -> Int:
    """Return the step of an event; after the last event, a step that never comes."""
    return events.step[i] if i < len(events.step) else np.int64(NEVER)


@kernel
def end_of_step(events: Transitions, i: Int, step: Int) -> Int:
    """Return the end of the events of a step that begin at i."""
    while i < len(events.step) and events.step[i] == step:
        i += 1
    return i


@kernel
def _move_regions(
    turns: Transitions, span: IndexRange, movers: MovingQueries, planar: Flag, moving: Array
) -> Int:
    """Update the regions whose focal objects move in a step; list them in `moving`, return their number."""
    count, now = 0, movers.now
    for k in range(span.begin, span.end):
        focal, x, y = turns.obj[k], turns.nx[k], turns.ny[k]
        for at in range(movers.start[focal], movers.start[focal + 1]):
            m = movers.member[at]
            if movers.radius[m] >= 0:
                box = circle_box(x, y, movers.radius[m], planar)
            else:
                box = extended_box(x, y, movers.xdist[m], movers.ydist[m], movers.reach[m], planar)
            now[m, 0], now[m, 1], now[m, 2], now[m, 3] = box
            now[m, 4], now[m, 5] = x, y
            moving[count] = m
            count += 1
    return count


@kernel
def _append(join: MovingJoin, near: MoverPairs, out: JoinOutput) -> JoinOutput:
    """Append the pairs that change an answer, or whose query checks objects that stay.

    The flags are correct for the box; circles and lifetimes are tested here. A focal object is excluded from
    its own queries.
    """
    events, _, movers, params = join
    event, mover, flags = near
    used, pairs = out.used, _with_room(out.pairs, out.used, len(near.event))
    past, now, own, query_of = movers.past, movers.now, movers.own, movers.query
    since, until, checked, planar = params.lives.since, params.lives.until, movers.checked, params.planar
    for i in range(len(event)):
        e, m, flag = event[i], mover[i], flags[i]
        query, step = query_of[m], events.step[e]
        shape = shape_of(m, movers)
        if has_exact_shape(shape, past[m]) or has_exact_shape(shape, now[m]):
            old, new = Point(events.ox[e], events.oy[e]), Point(events.nx[e], events.ny[e])
            if is_outside(old, past[m], shape, planar):
                flag &= ~np.uint8(WAS)
            if is_outside(new, now[m], shape, planar):
                flag &= ~np.uint8(IS)
        changes = flag in (WAS, IS) or (flag == WAS + IS and checked[m])
        if changes and own[m] != events.obj[e] and since[query] < step < until[query]:
            pairs.event[used], pairs.query[used], pairs.flags[used] = e, query, flag
            used += 1
    return JoinOutput(pairs, used, out.unchanged, out.unchanged_used)


@kernel
def _move_objects(
    events: Transitions, span: IndexRange, objects: BatchObjectCells, number: Int, frame: GridFrame
) -> None:
    """Move the objects of a step's events."""
    for e in range(span.begin, span.end):
        o = events.obj[e]
        place_object(objects.cells, o, events.nx[e], events.ny[e], frame)
        objects.version[o] = events.new[e]
        objects.acted[o] = number


@kernel
def _append_unchanged(
    join: MovingJoin, moving: Array, step: JoinStep, objects: BatchObjectCells, out: JoinOutput
) -> JoinOutput:
    """Append the objects without an event that moving regions gain or lose (Algorithm 4).

    A focal object is excluded from its own queries.
    """
    movers, params = join.movers, join.params
    pairs, used, unchanged, count = out
    begin, room = count, np.empty(256, np.int64)
    acted, place_of, version = objects.acted, objects.unchanged, objects.version
    for m in moving:
        query, own = movers.query[m], movers.own[m]
        if not is_alive(params.lives, query, step.step):
            continue
        room, found = changed_objects(m, movers, objects.cells, params.frame, params.planar, room)
        pairs = _with_room(pairs, used, found)
        if count + found > len(unchanged.obj):
            unchanged = _resize_unchanged(unchanged, count, 2 * (count + found))
        for i in range(found):
            o = room[i] >> 1
            if acted[o] == step.number or o == own:
                continue
            at = place_of[o]
            if not begin <= at < count or unchanged.obj[at] != o:
                at = count
                place_of[o] = at
                unchanged.step[at], unchanged.obj[at], unchanged.version[at] = step.step, o, version[o]
                count += 1
            pairs.event[used], pairs.query[used] = -1 - at, query
            pairs.flags[used] = IS if room[i] & 1 else WAS
            used += 1
    return JoinOutput(pairs, used, unchanged, count)
