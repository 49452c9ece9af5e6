"""Regions that move with focal objects, step by step (SOLE section 5.3, Algorithms 2 and 4)."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from stqsh.core.base.clock import NEVER
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.index.moving_boxes import (
    MovingBoxGrid,
    come_to_rest,
    come_upon,
    is_worn,
    lay,
    leave_homes,
)
from stqsh.core.kernels.index.object_grid import ObjectGrid, settle_object
from stqsh.core.kernels.index.static_rects import IS, WAS
from stqsh.core.kernels.jit import Array, Int, kernel
from stqsh.core.kernels.join.moving_params import (
    BatchObjectCells,
    MovingJoinParams,
    MovingQueries,
    Scene,
    UnchangedObjects,
    beyond,
    first_lone,
    ground_of,
    no_lone,
    turn,
)
from stqsh.core.kernels.join.moving_regions import come_upon_loose, turned_upon
from stqsh.core.kernels.join.pair_buffer import PairBuffer, copied, no_sightings, with_room
from stqsh.core.kernels.join.unchanged_objects import Found, sweep

Span: TypeAlias = tuple[Int, Int]
Stage: TypeAlias = tuple[MovingBoxGrid, BatchObjectCells, Array]
Near: TypeAlias = tuple[Array, Array, Array]


@kernel
def follow_movers(
    events: Transitions,
    turns: Transitions,
    objects: ObjectGrid,
    movers: MovingQueries,
    field: MovingJoinParams,
) -> tuple[PairBuffer, UnchangedObjects]:
    """Go through the steps, and find which moving queries gained or lost which objects.

    events: of objects, turns: of focal objects, both ascending by step. objects and movers.now hold the
    state before the first step, and are moved on. Objects that did something are found by the regions around
    the place they left and the place they entered (Algorithm 2); objects that did nothing through the cells
    of the regions that moved (Algorithm 4). So cost follows what is near; empty steps cost nothing.
    """
    homes, ground = lay(movers, field.lattice), ground_of(objects)
    changed = np.empty(len(movers.query), np.int32)
    found = no_sightings(np.int64(1024)), np.int64(0), no_lone(np.int64(256)), np.int64(0)
    i, j, number = np.int64(0), np.int64(0), 0
    while i < len(events.step) or j < len(turns.step):
        step = min(step_at(events, i), step_at(turns, j))
        begin, i = i, end_of_step(events, i, step)
        turned, j = j, end_of_step(turns, j, step)
        spans = (begin, i), (turned, j), (step, number)
        homes, found = pass_step((events, turns), spans, (homes, ground, changed), (movers, field), found)
        number += 1
    seen, used, lone, alone = found
    return copied(seen, used, used), first_lone(lone, alone, alone)


@kernel
def pass_step(
    happened: tuple[Transitions, Transitions],
    spans: tuple[Span, Span, Span],
    stage: Stage,
    scene: Scene,
    out: Found,
) -> tuple[MovingBoxGrid, Found]:
    """Take one step in: which queries gain or lose which objects by its events and turns.

    happened: events and turns as of `follow_movers`. spans: which of the events and of the turns are the
    step's, and the step with its number within the batch. stage: where regions are, the objects, and room
    for the movers whose focal objects did something. Returns where regions are, and `out` with what was
    found.
    """
    (events, turns), (span, turned, when) = happened, spans
    homes, ground, changed = stage
    movers, field = scene
    if is_worn(homes, span[1] - span[0]):
        homes = lay(movers, field.lattice)
    changed = changed[: turn(turns, turned, movers, field.planar, changed)]
    leave_homes(homes, changed)
    out = _note(events, come_upon(events, span, homes, field.lattice), scene, out)
    if homes.spent[0] > len(changed):
        out = _note(events, come_upon_loose(events, span, homes, movers), scene, out)
    out = _note(events, turned_upon(events, span, changed, movers, field.lattice), scene, out)
    _act(events, span, ground, when[1], field)
    out = sweep(changed, when, ground, scene, out)
    come_to_rest(homes, changed)
    for m in changed:
        movers.past[m] = movers.now[m]
    return homes, out


@kernel
def step_at(events: Transitions, i: Int) -> Int:
    """The step of an event; behind the last one a step that does not come."""
    return events.step[i] if i < len(events.step) else np.int64(NEVER)


@kernel
def end_of_step(events: Transitions, i: Int, step: Int) -> Int:
    """Where the events of a step end that begin at i."""
    while i < len(events.step) and events.step[i] == step:
        i += 1
    return i


@kernel
def _note(events: Transitions, near: Near, scene: Scene, out: Found) -> Found:
    """Append those pairs of events and movers after which there is something to tell.

    near: event, mover, and flags that are right of the box; circles and lives are looked at here. A focal
    object is left out of its own queries.
    """
    (movers, field), (event, mover, flags) = scene, near
    seen, used, lone, alone = out
    seen = with_room(seen, used, len(event))
    past, now, radii, own, query_of = movers.past, movers.now, movers.radius, movers.own, movers.query
    since, until, checked, planar = field.lives.since, field.lives.until, movers.checked, field.planar
    for i in range(len(event)):
        e, m, flag = event[i], mover[i], flags[i]
        query, step = query_of[m], events.step[e]
        if radii[m] >= 0:
            if beyond(events.ox[e], events.oy[e], radii[m], (past[m, 4], past[m, 5]), planar):
                flag &= ~np.uint8(WAS)
            if beyond(events.nx[e], events.ny[e], radii[m], (now[m, 4], now[m, 5]), planar):
                flag &= ~np.uint8(IS)
        changes = flag in (WAS, IS) or (flag == WAS + IS and checked[m])
        if changes and own[m] != events.obj[e] and since[query] < step < until[query]:
            seen.event[used], seen.query[used], seen.flags[used] = e, query, flag
            used += 1
    return seen, used, lone, alone


@kernel
def _act(
    events: Transitions, span: Span, ground: BatchObjectCells, number: Int, field: MovingJoinParams
) -> None:
    """Move the objects of a step's events on."""
    for e in range(span[0], span[1]):
        o = events.obj[e]
        settle_object(ground.cells, o, events.nx[e], events.ny[e], field.lattice)
        ground.version[o] = events.new[e]
        ground.acted[o] = number
