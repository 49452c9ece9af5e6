"""Objects that did nothing, and that regions gain or lose by moving themselves (SOLE Algorithm 4)."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from stqsh.core.kernels.index.moving_boxes import Window
from stqsh.core.kernels.index.object_grid import BLOCK, ObjectGrid
from stqsh.core.kernels.index.static_rects import IS, WAS, GridFrame, cover, lives_at, within
from stqsh.core.kernels.jit import Array, Flag, Float, Int, kernel
from stqsh.core.kernels.join.moving_params import (
    BatchObjectCells,
    MovingQueries,
    Scene,
    UnchangedObjects,
    beyond,
    first_lone,
    longer,
)
from stqsh.core.kernels.join.pair_buffer import PairBuffer, with_room

Found: TypeAlias = tuple[PairBuffer, Int, UnchangedObjects, Int]
"""Pairs with their number, and lone objects with theirs."""


@kernel
def sweep(changed: Array, when: tuple[Int, Int], ground: BatchObjectCells, scene: Scene, out: Found) -> Found:
    """Append what regions gain and lose that move in a step, after the step's events.

    when: the step and its number within the batch. Pairs name no event, but -1 - i for the lone object i. A
    focal object is not found for its own queries.
    """
    movers, field = scene
    seen, used, lone, alone = out
    begin, room = alone, np.empty(256, np.int64)
    acted, place_of, version = ground.acted, ground.lone, ground.version
    for m in changed:
        query, own = movers.query[m], movers.own[m]
        if not lives_at(field.lives, query, when[0]):
            continue
        room, count = _differing(m, movers, ground.cells, (field.lattice, field.planar), room)
        seen = with_room(seen, used, count)
        if alone + count > len(lone.obj):
            lone = first_lone(lone, alone, 2 * (alone + count))
        for i in range(count):
            o = room[i] >> 1
            if acted[o] == when[1] or o == own:
                continue
            at = place_of[o]
            if not begin <= at < alone or lone.obj[at] != o:
                at = alone
                place_of[o] = at
                lone.step[at], lone.obj[at], lone.version[at] = when[0], o, version[o]
                alone += 1
            seen.event[used], seen.query[used] = -1 - at, query
            seen.flags[used] = IS if room[i] & 1 else WAS
            used += 1
    return seen, used, lone, alone


@kernel
def _differing(
    m: Int, movers: MovingQueries, cells: ObjectGrid, where: tuple[GridFrame, Flag], room: Array
) -> tuple[Array, Int]:
    """Objects that are in a region as it was or as it is, but not in both: twice the object, plus 1 for those
    in it now. Returns `room`, int64, or a longer array, with their number.
    """
    lattice, planar = where
    boxes, shape = (movers.past[m], movers.now[m]), (movers.radius[m], planar)
    grid, out = (cells, lattice.side), (room, np.int64(0))
    was, there = not np.isnan(boxes[0][0]), not np.isnan(boxes[1][0])
    if was and there:
        (a1, a2, b1, b2), (c1, c2, d1, d2) = cover(boxes[0], lattice), cover(boxes[1], lattice)
        one = min(a1, c1), max(a2, c2), min(b1, d1), max(b2, d2)
        apart = (a2 - a1 + 1) * (b2 - b1 + 1) + (c2 - c1 + 1) * (d2 - d1 + 1)
        if (one[1] - one[0] + 1) * (one[3] - one[2] + 1) <= apart:
            shared = max(a1, c1), min(a2, c2), max(b1, d1), min(b2, d2)
            return _look(boxes, shape, (one, shared), grid, (True, True), out)
    nowhere = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    if was:
        out = _look(boxes, shape, (cover(boxes[0], lattice), nowhere), grid, (True, False), out)
    if there:
        out = _look(boxes, shape, (cover(boxes[1], lattice), nowhere), grid, (False, True), out)
    return out


@kernel
def _look(
    boxes: tuple[Array, Array],
    shape: tuple[Float, Flag],
    windows: tuple[Window, Window],
    grid: tuple[ObjectGrid, Int],
    takes: tuple[Flag, Flag],
    out: tuple[Array, Int],
) -> tuple[Array, Int]:
    """Append the objects of some cells that a region loses or gains, as `_differing`.

    boxes: as it was and as it is. shape: the radius of a circle or -1, and how distances count. windows: the
    cells; and those between whose first and last everybody is in both boxes, which are passed over. takes:
    whether those count that it loses, and those that it gains.
    """
    (past, now), (cells, side), (room, used), (radius, planar) = boxes, grid, out, shape
    (first, last, bottom, top), (left, right, low, high) = windows
    if radius >= 0:
        right, high = left, low
    x1, y1, x2, y2, cx, cy = past[0], past[1], past[2], past[3], past[4], past[5]
    u1, v1, u2, v2, cu, cv = now[0], now[1], now[2], now[3], now[4], now[5]
    head, size, following, owner, place = cells.head, cells.size, cells.next, cells.owner, cells.place
    for row in range(bottom, top + 1):
        column = first
        while column <= last:
            if left < column < right and low < row < high:
                column = right
                continue
            cell = row * side + column
            column += 1
            if used + size[cell] >= len(room):
                room = longer(room, used, size[cell])
            block, count = np.int64(head[cell]), (np.int64(size[cell]) - 1) % BLOCK + 1
            while block:
                for seat in range((block - 1) * BLOCK, (block - 1) * BLOCK + count):
                    x, y = place[2 * seat], place[2 * seat + 1]
                    was, has = within(x, y, x1, y1, x2, y2), within(x, y, u1, v1, u2, v2)
                    if radius >= 0:
                        was = was and not beyond(x, y, radius, (cx, cy), planar)
                        has = has and not beyond(x, y, radius, (cu, cv), planar)
                    room[used] = 2 * np.int64(owner[seat]) + has
                    used += (takes[0] & was & (not has)) | (takes[1] & has & (not was))
                block, count = np.int64(following[block - 1]), np.int64(BLOCK)
    return room, used
