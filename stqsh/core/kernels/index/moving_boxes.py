"""A grid index of moving regions by their centres, and its match with events.

Each region is in one list only, that of its centre's cell in the grid of its size class, so rebuilding the
index is cheap. The regions that may contain a place have centres around it, at most as far away as the
largest region of the class reaches; a row of cells is contiguous in memory. So regions of one size class do
not slow down those of another, and the index tests about twice as many regions as match.

Regions that have moved since the index was built are unindexed: they are tested one by one, until these tests
have cost as much as rebuilding the index.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.geometry.shapes import CellWindow, IndexRange, Point
from stqsh.core.kernels.index.static_rects import (
    EventMove,
    GridFrame,
    ListedRects,
    PairRoom,
    RectGrid,
    WantedPairs,
    band,
    longer,
    scan,
)
from stqsh.core.kernels.jit import Flag, Float, Int, inlined, kernel

SIZES = 14
"""The number of size classes; the regions of each class reach half as far as those of the class before."""

_FINENESS = 4
"""The cells of a class are this many times narrower than the farthest reach of its regions ..."""

_CELLS_A_REGION = 4
"""... unless there were more than this many cells per region."""

_BUILD_COST = 16
"""Indexing a region takes as long as this many tests of a region."""

_BUILD_COST_FIXED = 1000
"""Building an index takes at least as long as this many tests, however few the regions are."""

_ROUNDING = 1e-15
"""Several times the relative error of sums."""

_NOWHERE, _UNINDEXED, _MOVING = -1, -2, -3
"""Special positions: not present, unindexed, or moving in this step."""


class MovingQueries(NamedTuple):
    """Moving queries, (m,) each unless stated.

    Attributes:
        own: The focal object, int32; -1 if it is not an object of this slot.
        own: The object on this slot that is the focal object, int32; -1 for none.
        xdist, ydist: The size of rectangles, float64.
        reach: See `extended_box`.
        radius: The radius of circles, float64; -1 for rectangles.
        checked: Whether pairs where an object stays inside are wanted, too.
        now: The box x1, y1, x2, y2 and the focal object's x, y, float64 (m, 6); NaN while it is not present.
        past: Like `now`, before the step.
        start: The start of each focal object's queries in `member`, int32 (focal objects + 1,).
        member: The moving queries of each focal object, int32 (m,).
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


class MovingBoxGrid(NamedTuple):
    """Moving regions by size class and cell.

    Attributes:
        side: The number of cells in each direction of each class's grid, int64 (SIZES,).
        first: The number of each class's first cell, counted over all classes, int64 (SIZES + 1,).
        reach: How far the regions of each class reach from their centres in x and y, float64 (SIZES, 2).
        lists: The regions in the cells of their centres; start, rects and tag as in `RectGrid`. The tag is
            twice the mover's number, plus 1 if the box does not decide.
        position: The position of each mover in the lists, int32 (movers,).
        unindexed: The movers that are in no list, int32 (movers,).
        counters: The number of unindexed movers, and the tests that they have cost, int64 (2,).
    """

    side: Array
    first: Array
    reach: Array
    lists: RectGrid
    position: Array
    unindexed: Array
    counters: Array


class MoverPairs(NamedTuple):
    """Pairs of events and movers: event, mover int32, and flags uint8 (WAS | IS, for the box); (n,) each."""

    event: Array
    mover: Array
    flags: Array


@kernel
def build_box_grid(movers: MovingQueries, frame: GridFrame) -> MovingBoxGrid:
    """Index all movers at their current places; movers that are not present are in no list."""
    count = len(movers.query)
    size, reach, held = _sizes(movers.now, frame)
    side, first = np.empty(SIZES, np.int64), np.zeros(SIZES + 1, np.int64)
    for s in range(SIZES):
        fine, few = _FINENESS << s, int((_CELLS_A_REGION * held[s]) ** 0.5) + 1
        side[s] = min(fine, few)
        first[s + 1] = first[s] + (side[s] * side[s] if held[s] else 0)
    cells, start = np.full(count, -1, np.int32), np.zeros(first[SIZES] + 1, np.int32)
    for m in range(count):
        s = size[m]
        if s >= 0:
            x, y = movers.now[m, 4], movers.now[m, 5]
            column, row = _band_x(x, side[s], frame), _band_y(y, side[s], frame)
            cells[m] = first[s] + row * side[s] + column
            start[cells[m]] += 1
    for cell in range(1, len(start)):
        start[cell] += start[cell - 1]
    rects, tag = np.empty((4, start[-1]), np.float64), np.empty(start[-1], np.int32)
    position = np.full(count, _NOWHERE, np.int32)
    for m in range(count - 1, -1, -1):
        if cells[m] >= 0:
            start[cells[m]] -= 1
            k = start[cells[m]]
            for corner in range(4):
                rects[corner, k] = movers.now[m, corner]
            exact = movers.radius[m] >= 0 or movers.now[m, 0] == -np.inf
            tag[k] = 2 * m + (movers.checked[m] or exact)
            position[m] = k
    lists = RectGrid(start, start[1:], rects, tag)  # no cell is known to be completely inside a region
    unindexed, counters = np.empty(count, np.int32), np.zeros(2, np.int64)
    return MovingBoxGrid(side, first, reach, lists, position, unindexed, counters)


@kernel
def _sizes(now: Array, frame: GridFrame) -> tuple[Array, Array, Array]:
    """Return each region's size class, how far the regions of each class reach, and their number.

    Returns:
        int8 (n,), -1 for a region that is not present; float64 (SIZES, 2); int64 (SIZES,).
    """
    size, reach, held = np.full(len(now), -1, np.int8), np.zeros((SIZES, 2)), np.zeros(SIZES, np.int64)
    for m in range(len(now)):
        if np.isnan(now[m, 0]):
            continue
        x, y = now[m, 4], now[m, 5]
        far_x, far_y = max(x - now[m, 0], now[m, 2] - x), max(y - now[m, 1], now[m, 3] - y)
        share = max(far_x * frame.per_x, far_y * frame.per_y) / frame.side
        s, bound = 0, 0.5
        while share < bound and s < SIZES - 1:
            s += 1
            bound /= 2
        size[m] = s
        held[s] += 1
        reach[s, 0], reach[s, 1] = max(reach[s, 0], far_x), max(reach[s, 1], far_y)
    return size, reach, held


@inlined
def _band_x(x: Float, side: Int, frame: GridFrame) -> Int:
    """Return the column of a place in a grid over the same area with `side` columns."""
    return band(x, frame.x0, frame.per_x * (side / frame.side), side)


@inlined
def _band_y(y: Float, side: Int, frame: GridFrame) -> Int:
    return band(y, frame.y0, frame.per_y * (side / frame.side), side)


@kernel
def needs_rebuild(grid: MovingBoxGrid, events: Int) -> Flag:
    """Return whether to rebuild the index before a number of events; count the tests that these will cost."""
    grid.counters[1] += events * grid.counters[0]
    return grid.counters[1] > _BUILD_COST * len(grid.position) + _BUILD_COST_FIXED


@kernel
def remove_moving(grid: MovingBoxGrid, moving: Array) -> None:
    """Remove regions that move in this step from the lists; they are unindexed from the next step on."""
    for m in moving:
        k = grid.position[m]
        if k >= 0:
            grid.lists.rects[0, k] = np.nan
        if k != _UNINDEXED:
            grid.unindexed[grid.counters[0]] = m
            grid.counters[0] += 1
        grid.position[m] = _MOVING


@kernel
def end_moves(grid: MovingBoxGrid, moving: Array) -> None:
    """End the step for regions that moved in it: they are unindexed, but no longer moving."""
    for m in moving:
        grid.position[m] = _UNINDEXED


@kernel
def is_moving(grid: MovingBoxGrid, m: Int) -> Flag:
    """Return whether a region moves in this step."""
    return grid.position[m] == _MOVING


@inlined
def _cells_around(place: Point, reach: Point, side: Int, frame: GridFrame) -> CellWindow:
    """Return the cells that may contain the centres of regions which contain a place."""
    x, y = place
    dx, dy = reach.x + (abs(x) + reach.x) * _ROUNDING, reach.y + (abs(y) + reach.y) * _ROUNDING
    return CellWindow(
        _band_x(x - dx, side, frame),
        _band_x(x + dx, side, frame),
        _band_y(y - dy, side, frame),
        _band_y(y + dy, side, frame),
    )


@kernel
def match_indexed(events: Transitions, span: IndexRange, grid: MovingBoxGrid, frame: GridFrame) -> MoverPairs:
    """Find the pairs of events and indexed regions where an object enters or leaves a box, each pair once.

    If a tag marks that the box does not decide, pairs where the object stays inside are included.
    """
    event, mover, flags = np.empty(1, np.int32), np.empty(1, np.int32), np.empty(1, np.uint8)
    pairs = PairRoom(event, mover, flags, np.empty(len(grid.lists.tag) + 1, np.uint8))
    used = np.int64(0)
    for s in range(SIZES):
        if grid.first[s + 1] > grid.first[s]:
            pairs, used = _match_size(events, span, _SizeClass(grid, s), frame, pairs, used)
    return MoverPairs(pairs.event[:used], pairs.query[:used], pairs.flags[:used])


class _SizeClass(NamedTuple):
    """One size class of a `MovingBoxGrid`."""

    grid: MovingBoxGrid
    number: Int


@kernel
def _match_size(
    events: Transitions, span: IndexRange, size: _SizeClass, frame: GridFrame, out: PairRoom, used: Int
) -> tuple[PairRoom, Int]:
    """Append the pairs of some events and the regions of one size class; `out` grows."""
    grid, s = size
    start, listed = grid.lists.start, ListedRects(grid.lists.rects, grid.lists.tag)
    first, side, reach = grid.first[s], grid.side[s], Point(grid.reach[s, 0], grid.reach[s, 1])
    held = np.int64(start[grid.first[s + 1]]) - start[first]
    nothing = CellWindow(np.int64(0), np.int64(-1), np.int64(0), np.int64(-1))
    for e in range(span.begin, span.end):
        if used + 2 * held >= len(out.event):
            event, mover = longer(out.event, used, 2 * held), longer(out.query, used, 2 * held)
            out = PairRoom(event, mover, longer(out.flags, used, 2 * held), out.found)
        move = EventMove(e, events.ox[e], events.oy[e], events.nx[e], events.ny[e])
        old, new = Point(move.ox, move.oy), Point(move.nx, move.ny)
        left = nothing if np.isnan(move.ox) else _cells_around(old, reach, side, frame)
        entered = nothing if np.isnan(move.nx) else _cells_around(new, reach, side, frame)
        # The old place's window has the pairs that had the object, the new place's those that have it.
        one = _union(left, entered)
        both = _cells(one) <= _cells(left) + _cells(entered) and _cells(left) > 0 and _cells(entered) > 0
        if both:
            left, entered = one, nothing
        for row in range(left.bottom, left.top + 1):
            cell = first + row * side
            entries = IndexRange(start[cell + left.left], start[cell + left.right + 1])
            used = scan(listed, entries, move, WantedPairs(True, both), out, used)
        for row in range(entered.bottom, entered.top + 1):
            cell = first + row * side
            entries = IndexRange(start[cell + entered.left], start[cell + entered.right + 1])
            used = scan(listed, entries, move, WantedPairs(False, True), out, used)
    return out, used


@inlined
def _cells(window: CellWindow) -> Int:
    """Count the cells of a window."""
    return (window.right - window.left + 1) * (window.top - window.bottom + 1)


@inlined
def _union(a: CellWindow, b: CellWindow) -> CellWindow:
    """Return the smallest window that contains all cells of two windows."""
    return CellWindow(min(a.left, b.left), max(a.right, b.right), min(a.bottom, b.bottom), max(a.top, b.top))
