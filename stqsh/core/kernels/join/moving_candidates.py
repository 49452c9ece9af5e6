"""Candidate pairs of the moving join: objects that moving regions meet, and regions outside the index.

A region that moves is compared with the cells it touches before and after, and cells inside both boxes are
skipped (SOLE section 5.3, Algorithm 4). Events of a step are sorted by cell if regions move. So costs depend
on the objects near moving regions and on the events of the step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.geometry.boxes import is_beside
from stqsh.core.kernels.geometry.distance import distance
from stqsh.core.kernels.geometry.shapes import CellWindow, IndexRange, Point
from stqsh.core.kernels.index.moving_boxes import MoverPairs, MovingBoxGrid, MovingQueries, is_moving
from stqsh.core.kernels.index.object_grid import BLOCK, ObjectGrid
from stqsh.core.kernels.index.static_rects import (
    IS,
    WAS,
    GridFrame,
    cell_of,
    coarser,
    cover,
    longer,
    within,
)
from stqsh.core.kernels.jit import Flag, Float, Int, kernel

_EVENTS_A_CELL = 2
"""The number of events per cell in the grid over a step's events."""


class EventsByCell(NamedTuple):
    """The events of a step, sorted by the cell of one of their places, without events that lack this place.

    Attributes:
        grid: The cells.
        start: int32 (cells + 1,): the events of cell c are start[c] .. start[c + 1].
        event: int32 (n,).
        x, y: The place that is sorted by, float64 (n,).
        other_x, other_y: The event's other place, float64 (n,).
    """

    grid: GridFrame
    start: Array
    event: Array
    x: Array
    y: Array
    other_x: Array
    other_y: Array


@kernel
def _events_by_cell(events: Transitions, span: IndexRange, frame: GridFrame, leaving: Flag) -> EventsByCell:
    """Sort events by the cell that they leave if `leaving`, else by the cell that they enter."""
    count, times = span.end - span.begin, 0
    while (frame.side >> (2 * times)) > 1 and (frame.side >> (2 * times)) ** 2 * _EVENTS_A_CELL > count:
        times += 1
    grid = coarser(frame, times)
    start, cell_of_event = np.zeros(grid.side * grid.side + 1, np.int32), np.empty(count, np.int32)
    x, y, other_x, other_y = events.ox, events.oy, events.nx, events.ny
    if not leaving:
        x, y, other_x, other_y = events.nx, events.ny, events.ox, events.oy
    for i in range(count):
        e = span.begin + i
        cell_of_event[i] = -1 if np.isnan(x[e]) else cell_of(x[e], y[e], grid)
        if cell_of_event[i] >= 0:
            start[cell_of_event[i]] += 1
    for cell in range(1, len(start)):
        start[cell] += start[cell - 1]
    size = start[-1]
    event, places = np.empty(size, np.int32), np.empty((4, size), np.float64)
    for i in range(count - 1, -1, -1):
        if cell_of_event[i] >= 0:
            e = span.begin + i
            start[cell_of_event[i]] -= 1
            k = start[cell_of_event[i]]
            event[k], places[0, k], places[1, k] = e, x[e], y[e]
            places[2, k], places[3, k] = other_x[e], other_y[e]
    return EventsByCell(grid, start, event, places[0], places[1], places[2], places[3])


@kernel
def match_moved(
    events: Transitions, span: IndexRange, moving: Array, movers: MovingQueries, frame: GridFrame
) -> MoverPairs:
    """Find the pairs of events and regions that move in a step where the object was or is in the box.

    Objects that were in the box are found by the cells that they leave, others by the cells that they enter.
    """
    event, mover, flags = np.empty(256, np.int32), np.empty(256, np.int32), np.empty(256, np.uint8)
    used = np.int64(0)
    if not len(moving) or span.begin == span.end:
        return MoverPairs(event[:used], mover[:used], flags[:used])
    for leaving in (True, False):
        grid, start, numbers, xs, ys, other_xs, other_ys = _events_by_cell(events, span, frame, leaving)
        for m in moving:
            box, other = (movers.past[m], movers.now[m]) if leaving else (movers.now[m], movers.past[m])
            if np.isnan(box[0]):
                continue
            x1, y1, x2, y2 = box[0], box[1], box[2], box[3]
            ox1, oy1, ox2, oy2 = other[0], other[1], other[2], other[3]
            window = cover(box, grid)
            for row in range(window.bottom, window.top + 1):
                begin = start[row * grid.side + window.left]
                end = start[row * grid.side + window.right + 1]
                if used + (end - begin) >= len(event):
                    more = np.int64(end - begin)
                    event, mover = longer(event, used, more), longer(mover, used, more)
                    flags = longer(flags, used, more)
                for k in range(begin, end):
                    this = within(xs[k], ys[k], x1, y1, x2, y2)
                    that = within(other_xs[k], other_ys[k], ox1, oy1, ox2, oy2)
                    event[used], mover[used] = numbers[k], m
                    flags[used] = (WAS + IS if that else WAS) if leaving else IS
                    used += this & (leaving | (not that))
    return MoverPairs(event[:used], mover[:used], flags[:used])


@kernel
def match_unindexed(
    events: Transitions, span: IndexRange, grid: MovingBoxGrid, movers: MovingQueries
) -> MoverPairs:
    """Match events with unindexed regions that do not move in this step, as `match_indexed` does."""
    event, mover, flags = np.empty(256, np.int32), np.empty(256, np.int32), np.empty(256, np.uint8)
    used, now, unindexed = np.int64(0), movers.now, grid.unindexed[: grid.counters[0]]
    for e in range(span.begin, span.end):
        if used + len(unindexed) >= len(event):
            event, mover = longer(event, used, len(unindexed)), longer(mover, used, len(unindexed))
            flags = longer(flags, used, len(unindexed))
        ox, oy, nx, ny = events.ox[e], events.oy[e], events.nx[e], events.ny[e]
        for m in unindexed:
            if is_moving(grid, m):
                continue
            was = within(ox, oy, now[m, 0], now[m, 1], now[m, 2], now[m, 3])
            has = within(nx, ny, now[m, 0], now[m, 1], now[m, 2], now[m, 3])
            event[used], mover[used], flags[used] = e, m, np.uint8(was) | (np.uint8(has) << np.uint8(1))
            used += was | has
    return MoverPairs(event[:used], mover[:used], flags[:used])


class MoverShape(NamedTuple):
    """The test within the box of a region: a circle's radius, or -1; a rectangle's width, or -1."""

    radius: Float
    width: Float


@kernel
def shape_of(m: Int, movers: MovingQueries) -> MoverShape:
    """Return the shape of a region; the box of an extended rectangle needs no further test."""
    return MoverShape(movers.radius[m], -1.0 if movers.reach[m] > 0 else movers.xdist[m])


@kernel
def has_exact_shape(shape: MoverShape, box: Array) -> Flag:
    """Return whether a region, a row of `MovingQueries`, is smaller than its box."""
    return shape.radius >= 0 or (box[0] == -np.inf and shape.width >= 0)


@kernel
def is_outside(place: Point, box: Array, shape: MoverShape, planar: Flag) -> Flag:
    """Return whether a place in the box of a region, a row of `MovingQueries`, is outside the region."""
    if shape.radius >= 0:
        return distance(box[4], box[5], place.x, place.y, planar) > shape.radius
    return has_exact_shape(shape, box) and is_beside(place.x, box[4], box[5], shape.width)


class RegionChange(NamedTuple):
    """A region before and after its move: rows of `MovingQueries`, and its shape."""

    past: Array
    now: Array
    shape: MoverShape
    planar: Flag


class Scan(NamedTuple):
    """The objects that `_scan_cells` searches for, and the cells to search.

    Attributes:
        window: The cells.
        inner: Cells to skip: between the first and last of these, all objects are in both boxes.
        leaving: Whether to find objects that the region loses.
        entering: Whether to find objects that it gains.
    """

    window: CellWindow
    inner: CellWindow
    leaving: Flag
    entering: Flag


class FoundObjects(NamedTuple):
    """Objects that a region gains or loses (int64: 2 * object, plus 1 if inside now), and their number."""

    found: Array
    used: Int


@kernel
def changed_objects(
    m: Int, movers: MovingQueries, cells: ObjectGrid, frame: GridFrame, planar: Flag, room: Array
) -> FoundObjects:
    """Find the objects that are in a region either before or after its move; `room` may grow."""
    region = RegionChange(movers.past[m], movers.now[m], shape_of(m, movers), planar)
    out = FoundObjects(room, np.int64(0))
    was, there = not np.isnan(region.past[0]), not np.isnan(region.now[0])
    if was and there:
        a, b = cover(region.past, frame), cover(region.now, frame)
        left, right = min(a.left, b.left), max(a.right, b.right)
        bottom, top = min(a.bottom, b.bottom), max(a.top, b.top)
        apart = (a.right - a.left + 1) * (a.top - a.bottom + 1)
        apart += (b.right - b.left + 1) * (b.top - b.bottom + 1)
        if (right - left + 1) * (top - bottom + 1) <= apart:
            inner = CellWindow(
                max(a.left, b.left), min(a.right, b.right), max(a.bottom, b.bottom), min(a.top, b.top)
            )
            both = CellWindow(left, right, bottom, top)
            return _scan_cells(region, Scan(both, inner, True, True), cells, frame.side, out)
    nothing = CellWindow(np.int64(0), np.int64(0), np.int64(0), np.int64(0))
    if was:
        scan = Scan(cover(region.past, frame), nothing, True, False)
        out = _scan_cells(region, scan, cells, frame.side, out)
    if there:
        scan = Scan(cover(region.now, frame), nothing, False, True)
        out = _scan_cells(region, scan, cells, frame.side, out)
    return out


@kernel
def _scan_cells(
    region: RegionChange, scan: Scan, cells: ObjectGrid, side: Int, out: FoundObjects
) -> FoundObjects:
    """Append the objects of some cells that a region loses or gains."""
    past, now, shape, planar = region
    (first, last, bottom, top), (left, right, low, high), leaving, entering = scan
    room, used = out
    exact = has_exact_shape(shape, past) or has_exact_shape(shape, now)
    if exact:
        right, high = left, low
    x1, y1, x2, y2 = past[0], past[1], past[2], past[3]
    u1, v1, u2, v2 = now[0], now[1], now[2], now[3]
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
                    if exact:
                        was = was and not is_outside(Point(x, y), past, shape, planar)
                        has = has and not is_outside(Point(x, y), now, shape, planar)
                    room[used] = 2 * np.int64(owner[seat]) + has
                    used += (leaving & was & (not has)) | (entering & has & (not was))
                block, count = np.int64(following[block - 1]), np.int64(BLOCK)
    return FoundObjects(room, used)
