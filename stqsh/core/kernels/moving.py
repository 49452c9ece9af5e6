"""Regions that move with focal objects, step by step (SOLE section 5.3, Algorithms 2 and 4)."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np

from stqsh.core.clock import NEVER
from stqsh.core.kernels.cells import (
    BLOCK,
    ObjectCells,
    RectCells,
    link_rect,
    no_rects,
    settle_object,
    unlink_rect,
)
from stqsh.core.kernels.distance import EARTH_M, circle_box, distance
from stqsh.core.kernels.events import Events
from stqsh.core.kernels.jit import Array, Flag, Float, Int, inlined, kernel
from stqsh.core.kernels.sightings import Sightings, copied, no_sightings, saw
from stqsh.core.kernels.stationary import IS, WAS, Lattice, Lives, cell_of, cover, lives_at, within


@kernel
def region(x: Float, y: Float, xdist: Float, ydist: Float, planar: Flag) -> tuple[Float, Float, Float, Float]:
    """The rectangle x1, y1, x2, y2 of xdist by ydist around (x, y): metres on the sphere, or units.

    NaN coordinates give a rectangle of NaN, in which nothing lies.
    """
    dx, dy = xdist / 2, ydist / 2
    if not planar:
        dx = math.degrees(xdist / 2 / (EARTH_M * math.cos(math.radians(y))))
        dy = math.degrees(ydist / 2 / EARTH_M)
    return x - dx, y - dy, x + dx, y + dy


@kernel
def extended(
    x: Float, y: Float, sides: tuple[Float, Float], reach: Float, planar: Flag
) -> tuple[Float, Float, Float, Float]:
    """`region` with sides (xdist, ydist), and what it can become while its centre moves by up to `reach`.

    On the sphere the region is widest at the latitude farthest from the equator that is within reach; it
    takes in all longitudes where that is a pole, or where it reaches across the line of 180 degrees. A reach
    of NaN is none.
    """
    if not reach > 0:
        return region(x, y, sides[0], sides[1], planar)
    dx, dy = sides[0] / 2 + reach, sides[1] / 2 + reach
    if planar:
        return x - dx, y - dy, x + dx, y + dy
    dy = math.degrees(dy / EARTH_M)
    farthest = abs(y) + math.degrees(reach / EARTH_M)
    if farthest >= 90:
        return x - np.inf, y - dy, x + np.inf, y + dy
    dx = math.degrees(dx / (EARTH_M * math.cos(math.radians(farthest))))
    if x - dx <= -180 or x + dx >= 180:
        dx = np.inf
    return x - dx, y - dy, x + dx, y + dy


@kernel
def regions(x: Array, y: Array, sides: tuple[Array, Array], reach: Array, planar: Flag) -> Array:
    """`extended` of many: float64 (n,) each; returns float64 (n, 4)."""
    out = np.empty((len(x), 4), np.float64)
    for i in range(len(x)):
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = extended(
            x[i], y[i], (sides[0][i], sides[1][i]), reach[i], planar
        )
    return out


class Movers(NamedTuple):
    """Moving queries, (m,) each: query int32 (position), xdist, ydist float64 of rectangles, and by how much
    more they reach, as in `extended`; radius float64 of circles, -1 for rectangles; checked: pairs where an
    object stays inside are wanted too.

    now float64 (m, 6): the box x1, y1, x2, y2 and the focal object's x, y; past: the same before the step;
    NaN while the focal object is not present. start int32 (focal objects + 1,) and member int32 (m,): the
    movers of each focal object.
    """

    query: Array
    xdist: Array
    ydist: Array
    reach: Array
    radius: Array
    checked: Array
    now: Array
    past: Array
    start: Array
    member: Array


class Field(NamedTuple):
    """Where it all happens: the grid of the objects' cells, a coarser one for the lists of regions and from
    how many of its cells on a region is large; when each query lives, and how distances count.
    """

    lattice: Lattice
    coarse: Lattice
    large: int
    lives: Lives
    planar: bool


Scene: TypeAlias = tuple[Movers, Field]
Found: TypeAlias = tuple[Sightings, Int]


class Ground(NamedTuple):
    """The objects during a batch: their cells, the version of each, int32, and the last step in which each
    did something, counted within the batch, int32.
    """

    cells: ObjectCells
    version: Array
    acted: Array


Span: TypeAlias = tuple[Int, Int]
Stage: TypeAlias = tuple[RectCells, Ground, Array]


@kernel
def beyond(x: Float, y: Float, radius: Float, centre: tuple[Float, Float], planar: Flag) -> Flag:
    """Whether a place in the box of a circle lies outside of the circle; a negative radius: no circle."""
    return radius >= 0 and distance(centre[0], centre[1], x, y, planar) > radius


@kernel
def follow_movers(
    events: Events, turns: Events, objects: ObjectCells, movers: Movers, field: Field
) -> Sightings:
    """Go through the steps, and find which moving queries gained or lost which objects.

    events: of objects, turns: of focal objects, both ascending by step. objects and movers.now hold the
    state before the first step, and are moved on. Objects that did something are found through the cells of
    the place they left and of the place they entered (Algorithm 2); objects that did nothing through the
    cells of the regions that moved (Algorithm 4). So cost follows what is near; empty steps cost
    nothing.
    """
    lists, ground = listed(movers, field), ground_of(objects)
    changed = np.empty(len(movers.query), np.int32)
    seen, used = no_sightings(np.int64(1024)), np.int64(0)
    i, j, number = np.int64(0), np.int64(0), 0
    while i < len(events.step) or j < len(turns.step):
        step = min(step_at(events, i), step_at(turns, j))
        begin, i = i, end_of_step(events, i, step)
        turned, j = j, end_of_step(turns, j, step)
        spans = (begin, i), (turned, j), (step, number)
        lists, seen, used = pass_step(
            (events, turns), spans, (lists, ground, changed), (movers, field), (seen, used)
        )
        number += 1
    return copied(seen, used, used)


@kernel
def listed(movers: Movers, field: Field) -> RectCells:
    """The regions of movers as they are now, in the cells they touch."""
    lists = no_rects(field.coarse.side * field.coarse.side, len(movers.query))
    for m in range(len(movers.query)):
        lists = link_rect(lists, np.int32(m), movers.now[m], field.coarse, field.large)
    return lists


@kernel
def ground_of(objects: ObjectCells) -> Ground:
    """The objects before a batch, in which none of them has done anything yet."""
    count = len(objects.slot)
    return Ground(objects, np.arange(count).astype(np.int32), np.full(count, -1, np.int32))


@kernel
def pass_step(
    happened: tuple[Events, Events], spans: tuple[Span, Span, Span], stage: Stage, scene: Scene, out: Found
) -> tuple[RectCells, Sightings, Int]:
    """Take one step in: which queries gain or lose which objects by its events and turns.

    happened: events and turns as of `follow_movers`. spans: which of the events and of the turns are the
    step's, and the step with its number within the batch. stage: the regions' lists, the objects, and room
    for the movers whose focal objects did something. Returns the lists, and `out` with what was found.
    """
    (events, turns), (span, turned, when) = happened, spans
    lists, ground, changed = stage
    movers, field = scene
    moved = _turn(turns, turned, movers, field, changed)
    seen, used = _leave(events, span, lists, scene, out)
    lists = _relink(lists, changed[:moved], movers, field)
    seen, used = _enter(events, span, lists, scene, (seen, used))
    _act(events, span, ground, when[1], field)
    for m in changed[:moved]:
        if lives_at(field.lives, movers.query[m], when[0]):
            seen, used = _sweep(m, when, ground, scene, (seen, used))
        movers.past[m] = movers.now[m]
    return lists, seen, used


@kernel
def step_at(events: Events, i: Int) -> Int:
    """The step of an event; behind the last one a step that does not come."""
    return events.step[i] if i < len(events.step) else np.int64(NEVER)


@kernel
def end_of_step(events: Events, i: Int, step: Int) -> Int:
    """Where the events of a step end that begin at i."""
    while i < len(events.step) and events.step[i] == step:
        i += 1
    return i


@kernel
def _turn(turns: Events, span: tuple[Int, Int], movers: Movers, field: Field, changed: Array) -> Int:
    """Set the regions whose focal objects did something, and list them in `changed`; their number."""
    count, now = 0, movers.now
    for k in range(span[0], span[1]):
        focal, x, y = turns.obj[k], turns.nx[k], turns.ny[k]
        for at in range(movers.start[focal], movers.start[focal + 1]):
            m = movers.member[at]
            if movers.radius[m] >= 0:
                now[m, 0], now[m, 1], now[m, 2], now[m, 3] = circle_box(x, y, movers.radius[m], field.planar)
            else:
                sides = movers.xdist[m], movers.ydist[m]
                now[m, 0], now[m, 1], now[m, 2], now[m, 3] = extended(
                    x, y, sides, movers.reach[m], field.planar
                )
            now[m, 4], now[m, 5] = x, y
            changed[count] = m
            count += 1
    return count


@kernel
def _relink(lists: RectCells, changed: Array, movers: Movers, field: Field) -> RectCells:
    """Let the lists follow the regions that changed."""
    for m in changed:
        past, now = movers.past[m], movers.now[m]
        gone = np.isnan(past[0]) or np.isnan(now[0])
        if gone or cover(past, field.coarse) != cover(now, field.coarse):
            unlink_rect(lists, m)
            lists = link_rect(lists, m, now, field.coarse, field.large)
    return lists


@kernel
def _leave(events: Events, span: tuple[Int, Int], lists: RectCells, scene: Scene, out: Found) -> Found:
    """The queries that had the objects of a step's events before it, by the cells that they leave.

    A whole step a call: handing arrays to a kernel costs more than a short list.
    """
    movers, field = scene
    seen, used = out
    past, now, radius, large = movers.past, movers.now, movers.radius, field.coarse.side**2
    for e in range(span[0], span[1]):
        ox, oy, nx, ny = events.ox[e], events.oy[e], events.nx[e], events.ny[e]
        if np.isnan(ox):
            continue
        own = lists.head[cell_of(ox, oy, field.coarse)]
        for head in (own, lists.head[large]):
            entry = head
            while entry:
                m = lists.owner[entry - 1]
                entry = lists.next[entry - 1]
                if not within(ox, oy, past[m, 0], past[m, 1], past[m, 2], past[m, 3]):
                    continue
                if beyond(ox, oy, radius[m], (past[m, 4], past[m, 5]), field.planar):
                    continue
                stays = within(nx, ny, now[m, 0], now[m, 1], now[m, 2], now[m, 3])
                stays = stays and not beyond(nx, ny, radius[m], (now[m, 4], now[m, 5]), field.planar)
                query, step = movers.query[m], events.step[e]
                if (not stays or movers.checked[m]) and lives_at(field.lives, query, step):
                    whom = (e, query, WAS + IS * stays)
                    seen = saw(seen, used, whom, (step, events.obj[e], events.new[e]))
                    used += 1
    return seen, used


@kernel
def _enter(events: Events, span: tuple[Int, Int], lists: RectCells, scene: Scene, out: Found) -> Found:
    """The queries that did not have the objects of a step's events, and get them, by the cells they enter."""
    movers, field = scene
    seen, used = out
    past, now, radius, large = movers.past, movers.now, movers.radius, field.coarse.side**2
    for e in range(span[0], span[1]):
        ox, oy, nx, ny = events.ox[e], events.oy[e], events.nx[e], events.ny[e]
        if np.isnan(nx):
            continue
        own = lists.head[cell_of(nx, ny, field.coarse)]
        for head in (own, lists.head[large]):
            entry = head
            while entry:
                m = lists.owner[entry - 1]
                entry = lists.next[entry - 1]
                if not within(nx, ny, now[m, 0], now[m, 1], now[m, 2], now[m, 3]):
                    continue
                if beyond(nx, ny, radius[m], (now[m, 4], now[m, 5]), field.planar):
                    continue
                had = within(ox, oy, past[m, 0], past[m, 1], past[m, 2], past[m, 3])
                had = had and not beyond(ox, oy, radius[m], (past[m, 4], past[m, 5]), field.planar)
                query, step = movers.query[m], events.step[e]
                if not had and lives_at(field.lives, query, step):
                    whom = (e, query, np.int64(IS))
                    seen = saw(seen, used, whom, (step, events.obj[e], events.new[e]))
                    used += 1
    return seen, used


@kernel
def _act(events: Events, span: tuple[Int, Int], ground: Ground, number: Int, field: Field) -> None:
    """Move the objects of a step's events on."""
    for e in range(span[0], span[1]):
        o = events.obj[e]
        settle_object(ground.cells, o, events.nx[e], events.ny[e], field.lattice)
        ground.version[o] = events.new[e]
        ground.acted[o] = number


@inlined
def _look(
    whose: tuple[Int, Int, Int],
    when: tuple[Int, Int],
    boxes: tuple[Array, Array],
    ground: Ground,
    scene: Scene,
    out: Found,
) -> Found:
    """Who of a cell is in the first box and not in the other; each with its centre, as in `Movers`.

    whose: a mover, the flag of who is found, the cell.
    """
    movers, field = scene
    (m, flag, cell), (step, number), (one, other), (seen, used) = whose, when, boxes, out
    cells, query, radius, planar = ground.cells, movers.query[m], movers.radius[m], field.planar
    block, count = np.int64(cells.head[cell]), (np.int64(cells.size[cell]) - 1) % BLOCK + 1
    while block:
        for seat in range((block - 1) * BLOCK, (block - 1) * BLOCK + count):
            x, y = cells.place[2 * seat], cells.place[2 * seat + 1]
            mine = within(x, y, one[0], one[1], one[2], one[3])
            stays = within(x, y, other[0], other[1], other[2], other[3])
            if mine & ((not stays) | (radius >= 0)):
                o = cells.owner[seat]
                mine = ground.acted[o] != number and not beyond(x, y, radius, (one[4], one[5]), planar)
                if mine and not (stays and not beyond(x, y, radius, (other[4], other[5]), planar)):
                    whom = (np.int64(-1), query, np.int64(flag))
                    seen = saw(seen, used, whom, (step, o, ground.version[o]))
                    used += 1
        block, count = np.int64(cells.next[block - 1]), np.int64(BLOCK)
    return seen, used


@kernel
def _sweep(m: Int, when: tuple[Int, Int], ground: Ground, scene: Scene, out: Found) -> Found:
    """The objects that did nothing in a step, and that a region lost or gained by moving itself.

    Cells between the first and the last that the other rectangle touches lie within it: whoever is there
    stays, so they are passed over.
    """
    movers, field = scene
    seen, used = out
    for flag in (WAS, IS):
        one, other = (movers.past[m], movers.now[m]) if flag == WAS else (movers.now[m], movers.past[m])
        if np.isnan(one[0]):
            continue
        first, last, bottom, top = cover(one, field.lattice)
        left, right, low, high = last, last, top, top
        if movers.radius[m] < 0 and not np.isnan(other[0]):
            left, right, low, high = cover(other, field.lattice)
        for row in range(bottom, top + 1):
            column = first
            while column <= last:
                if left < column < right and low < row < high:
                    column = right
                    continue
                cell = row * field.lattice.side + column
                seen, used = _look((m, flag, cell), when, (one, other), ground, scene, (seen, used))
                column += 1
    return seen, used
