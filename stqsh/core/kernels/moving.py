"""Regions that move with focal objects, step by step (SOLE section 5.3, Algorithms 2 and 4)."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np

from stqsh.core.clock import NEVER
from stqsh.core.kernels.cells import (
    BLOCK,
    RECTS,
    ObjectCells,
    RectCells,
    link_rect,
    no_rects,
    rewrite_rect,
    settle_object,
    unlink_rect,
)
from stqsh.core.kernels.distance import EARTH_M, circle_box, distance
from stqsh.core.kernels.events import Events
from stqsh.core.kernels.jit import Array, Flag, Float, Int, kernel
from stqsh.core.kernels.sightings import Sightings, copied, no_sightings, with_room
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
        tag = _tag(m, movers)
        lists = link_rect(lists, np.int32(m), movers.now[m], tag, (field.coarse, field.large))
    return lists


@kernel
def _tag(m: Int, movers: Movers) -> Int:
    """The tag of a region that stands still in a step: circles, and who is asked for at each report, are
    looked at more closely.
    """
    return np.int32(2 * m + (movers.checked[m] or movers.radius[m] >= 0))


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
    for m in changed[:moved]:
        rewrite_rect(lists, m, movers.past[m], 2 * m + 1)
    found = _pass((events, span), lists, scene, out, True)
    lists = _relink(lists, changed[:moved], movers, field)
    seen, used = _pass((events, span), lists, scene, found, False)
    _act(events, span, ground, when[1], field)
    room = np.empty(256, np.int32)
    for m in changed[:moved]:
        rewrite_rect(lists, m, movers.now[m], _tag(m, movers))
        if lives_at(field.lives, movers.query[m], when[0]):
            seen, used, room = _sweep(m, when, ground, scene, (seen, used, room))
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
    """Let the lists follow the regions that changed; their tags say that they did."""
    for m in changed:
        past, now = movers.past[m], movers.now[m]
        gone = np.isnan(past[0]) or np.isnan(now[0])
        if gone or cover(past, field.coarse) != cover(now, field.coarse):
            unlink_rect(lists, m)
            lists = link_rect(lists, m, now, 2 * m + 1, (field.coarse, field.large))
        else:
            rewrite_rect(lists, m, now, 2 * m + 1)
    return lists


@kernel
def _listed(
    happened: tuple[Events, Span], lists: RectCells, lattice: Lattice, leaves: Flag
) -> tuple[Array, Array]:
    """The pairs of a step's events and movers that have to be looked at; int32 (n,) each.

    By the cells that objects leave, movers that had them; by those that they enter, ones that have them. Most
    objects stay where they were to a region: those are left out unless its tag says otherwise. Inner loops
    here and below call nothing and keep arrays by name: to hand them on costs more than a short list.
    """
    events, span = happened
    hx, hy, tx, ty = events.ox, events.oy, events.nx, events.ny
    if not leaves:
        hx, hy, tx, ty = events.nx, events.ny, events.ox, events.oy
    head, size, following, box, tag = lists.head, lists.size, lists.next, lists.box, lists.tag
    event, mover, used = np.empty(1024, np.int32), np.empty(1024, np.int32), np.int64(0)
    for e in range(span[0], span[1]):
        x, y, other_x, other_y = hx[e], hy[e], tx[e], ty[e]
        if np.isnan(x):
            continue
        for cell in (cell_of(x, y, lattice), np.int64(lattice.side * lattice.side)):
            if used + size[cell] > len(event):
                event, mover = _longer(event, used, size[cell]), _longer(mover, used, size[cell])
            block, count = np.int64(head[cell]), (np.int64(size[cell]) - 1) % RECTS + 1
            while block:
                for at in range((block - 1) * RECTS, (block - 1) * RECTS + count):
                    x1, y1, x2, y2 = box[at, 0], box[at, 1], box[at, 2], box[at, 3]
                    both = within(other_x, other_y, x1, y1, x2, y2) & (tag[at] & 1 == 0)
                    event[used], mover[used] = e, tag[at] >> 1
                    used += within(x, y, x1, y1, x2, y2) & (not both)
                block, count = np.int64(following[block - 1]), np.int64(RECTS)
    return event[:used], mover[:used]


@kernel
def _longer(array: Array, used: Int, more: Int) -> Array:
    """The first `used` elements, int32, with room for more."""
    out = np.empty(2 * (used + more), np.int32)
    out[:used] = array[:used]
    return out


@kernel
def _pass(happened: tuple[Events, Span], lists: RectCells, scene: Scene, out: Found, leaves: Flag) -> Found:
    """The queries that had the objects of a step's events before it, by the cells that they leave; or else
    those that did not have them, and get them, by the cells that they enter.
    """
    (movers, field), events = scene, happened[0]
    found, whose = _listed(happened, lists, field.coarse, leaves)
    seen, used = with_room(out[0], out[1], len(found)), out[1]
    event, queries, flags, steps, obj, version = seen
    past, now, radii, checked, query_of = movers.past, movers.now, movers.radius, movers.checked, movers.query
    ox, oy, nx, ny, step_of = events.ox, events.oy, events.nx, events.ny, events.step
    obj_of, new, since, until = events.obj, events.new, field.lives.since, field.lives.until
    for i in range(len(found)):
        e, m = found[i], whose[i]
        radius, query, step = radii[m], query_of[m], step_of[e]
        had = within(ox[e], oy[e], past[m, 0], past[m, 1], past[m, 2], past[m, 3])
        had = had and not beyond(ox[e], oy[e], radius, (past[m, 4], past[m, 5]), field.planar)
        has = within(nx[e], ny[e], now[m, 0], now[m, 1], now[m, 2], now[m, 3])
        has = has and not beyond(nx[e], ny[e], radius, (now[m, 4], now[m, 5]), field.planar)
        told = (had and (not has or checked[m])) if leaves else (has and not had)
        if told and since[query] < step < until[query]:
            event[used], queries[used], flags[used] = e, query, WAS * had + IS * has
            steps[used], obj[used], version[used] = step, obj_of[e], new[e]
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


@kernel
def _looked(
    boxes: tuple[Array, Array], is_round: Flag, cells: ObjectCells, lattice: Lattice, room: Array
) -> tuple[Array, Int]:
    """Objects in the first box and not in the other, or there whatever the other is, if these are of circles.

    Cells between the first and the last that the other rectangle touches lie within it: whoever is there
    stays, so they are passed over. Returns `room`, int32, or a longer array, with their number.
    """
    one, other = boxes
    first, last, bottom, top = cover(one, lattice)
    left, right, low, high = last, last, top, top
    if not is_round and not np.isnan(other[0]):
        left, right, low, high = cover(other, lattice)
    x1, y1, x2, y2 = one[0], one[1], one[2], one[3]
    ox1, oy1, ox2, oy2 = other[0], other[1], other[2], other[3]
    head, size, following, owner, place = cells.head, cells.size, cells.next, cells.owner, cells.place
    used = np.int64(0)
    for row in range(bottom, top + 1):
        column = first
        while column <= last:
            if left < column < right and low < row < high:
                column = right
                continue
            cell = row * lattice.side + column
            column += 1
            if used + size[cell] > len(room):
                room = _longer(room, used, size[cell])
            block, count = np.int64(head[cell]), (np.int64(size[cell]) - 1) % BLOCK + 1
            while block:
                for seat in range((block - 1) * BLOCK, (block - 1) * BLOCK + count):
                    x, y = place[2 * seat], place[2 * seat + 1]
                    stays = within(x, y, ox1, oy1, ox2, oy2) & (not is_round)
                    room[used] = owner[seat]
                    used += within(x, y, x1, y1, x2, y2) & (not stays)
                block, count = np.int64(following[block - 1]), np.int64(BLOCK)
    return room, used


@kernel
def _sweep(
    m: Int, when: tuple[Int, Int], ground: Ground, scene: Scene, out: tuple[Sightings, Int, Array]
) -> tuple[Sightings, Int, Array]:
    """The objects that did nothing in a step, and that a region lost or gained by moving itself.

    out: what was found, and room for objects, int32.
    """
    movers, field = scene
    seen, used, room = out
    query, radius, planar = movers.query[m], movers.radius[m], field.planar
    cells, acted, version = ground.cells, ground.acted, ground.version
    for flag in (WAS, IS):
        one, other = (movers.past[m], movers.now[m]) if flag == WAS else (movers.now[m], movers.past[m])
        if np.isnan(one[0]):
            continue
        room, count = _looked((one, other), radius >= 0, cells, field.lattice, room)
        seen = with_room(seen, used, count)
        for i in range(count):
            o = room[i]
            mine = acted[o] != when[1]
            if radius >= 0:
                seat = np.int64(cells.slot[o]) - 1
                x, y = cells.place[2 * seat], cells.place[2 * seat + 1]
                stays = within(x, y, other[0], other[1], other[2], other[3])
                stays = stays and not beyond(x, y, radius, (other[4], other[5]), planar)
                mine = mine and not stays and not beyond(x, y, radius, (one[4], one[5]), planar)
            if mine:
                seen.event[used], seen.query[used], seen.flags[used] = -1, query, flag
                seen.step[used], seen.obj[used], seen.version[used] = when[0], o, version[o]
                used += 1
    return seen, used, room
