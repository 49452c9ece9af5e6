"""What kernels know of moving queries: where they are, where it all happens, and what was found."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.geometry.boxes import extended
from stqsh.core.kernels.geometry.distance import circle_box, distance
from stqsh.core.kernels.index.object_grid import ObjectGrid
from stqsh.core.kernels.index.static_rects import GridFrame, QueryLifetimes
from stqsh.core.kernels.jit import Array, Flag, Float, Int, kernel


class MovingQueries(NamedTuple):
    """Moving queries, (m,) each: query int32 (position), own int32 (the object on this slot that is its focal
    object, -1 for none), xdist, ydist float64 of rectangles, and by how much more they reach, as in
    `extended`; radius float64 of circles, -1 for rectangles; checked: pairs where an object stays inside are
    wanted too.

    now float64 (m, 6): the box x1, y1, x2, y2 and the focal object's x, y; past: the same before the step;
    NaN while the focal object is not present. start int32 (focal objects + 1,) and member int32 (m,): the
    movers of each focal object.
    """

    query: Array
    own: Array
    xdist: Array
    ydist: Array
    reach: Array
    radius: Array
    checked: Array
    now: Array
    past: Array
    start: Array
    member: Array


class MovingJoinParams(NamedTuple):
    """Where it all happens: the grid of the objects' cells, when each query lives, how distances count."""

    lattice: GridFrame
    lives: QueryLifetimes
    planar: bool


class BatchObjectCells(NamedTuple):
    """The objects during a batch: their cells, the version of each, int32, the last step in which each did
    something, counted within the batch, int32, and where each is among `UnchangedObjects`, int32, if it is
    there.
    """

    cells: ObjectGrid
    version: Array
    acted: Array
    lone: Array


class UnchangedObjects(NamedTuple):
    """Objects that did nothing while a region came or went, once a step, (n,) each: step int64, obj and
    version int32.
    """

    step: Array
    obj: Array
    version: Array


Scene: TypeAlias = tuple[MovingQueries, MovingJoinParams]


@kernel
def by_focal(focal: Array, count: Int) -> tuple[Array, Array]:
    """Return `start` and `member` of `MovingQueries`; focal: int32 (m,), focal objects, 0 .. count - 1."""
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
def ground_of(objects: ObjectGrid) -> BatchObjectCells:
    """The objects before a batch, in which none of them has done anything yet."""
    count = len(objects.slot)
    none = np.full(count, -1, np.int32)
    return BatchObjectCells(objects, np.arange(count).astype(np.int32), none, none.copy())


@kernel
def no_lone(room: Int) -> UnchangedObjects:
    """Room for so many objects."""
    return UnchangedObjects(np.empty(room, np.int64), np.empty(room, np.int32), np.empty(room, np.int32))


@kernel
def first_lone(lone: UnchangedObjects, used: Int, room: Int) -> UnchangedObjects:
    """The first `used` of them, with room for so many."""
    out = no_lone(room)
    out.step[:used], out.obj[:used] = lone.step[:used], lone.obj[:used]
    out.version[:used] = lone.version[:used]
    return out


@kernel
def longer(array: Array, used: Int, more: Int) -> Array:
    """The first `used` elements, with room for `more` and as many again."""
    out = np.empty(2 * (used + more), array.dtype)
    out[:used] = array[:used]
    return out


@kernel
def beyond(x: Float, y: Float, radius: Float, centre: tuple[Float, Float], planar: Flag) -> Flag:
    """Whether a place in the box of a circle lies outside of the circle; a negative radius: no circle."""
    return radius >= 0 and distance(centre[0], centre[1], x, y, planar) > radius


@kernel
def turn(
    turns: Transitions, span: tuple[Int, Int], movers: MovingQueries, planar: Flag, changed: Array
) -> Int:
    """Set the regions whose focal objects did something in a step, and list them in `changed`; how many."""
    count, now = 0, movers.now
    for k in range(span[0], span[1]):
        focal, x, y = turns.obj[k], turns.nx[k], turns.ny[k]
        for at in range(movers.start[focal], movers.start[focal + 1]):
            m = movers.member[at]
            if movers.radius[m] >= 0:
                now[m, 0], now[m, 1], now[m, 2], now[m, 3] = circle_box(x, y, movers.radius[m], planar)
            else:
                sides = movers.xdist[m], movers.ydist[m]
                now[m, 0], now[m, 1], now[m, 2], now[m, 3] = extended(x, y, sides, movers.reach[m], planar)
            now[m, 4], now[m, 5] = x, y
            changed[count] = m
            count += 1
    return count
