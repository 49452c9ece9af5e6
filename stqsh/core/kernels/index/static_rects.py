"""Static rectangles in grids (SOLE section 5.3); `stqsh.core.kernels.join.static_join` joins them.

Rectangles are listed in every cell that they touch, with their corners in the list, so an event reads two
contiguous pieces of memory: the lists of the cell that it leaves and of the cell that it enters. A rectangle
that would be in too many lists is in a coarser grid, whose cells are four times as wide, or in an even
coarser one. So a list is about as long as the number of rectangles that contain a place in its cell, however
sizes differ. Points and rectangles outside a grid belong to its border cells, so answers never depend on the
grid's position.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.geometry.shapes import CellWindow, IndexRange
from stqsh.core.kernels.jit import Flag, Float, Int, inlined, kernel

WAS, IS = 1, 2
"""The flags of a pair: the object was in the region before the event, and is in the region after it."""


class GridFrame(NamedTuple):
    """The frame of a grid: its corner, cells per unit of x and of y, and `side` cells in each direction."""

    x0: float
    y0: float
    per_x: float
    per_y: float
    side: int


class RectGrid(NamedTuple):
    """The lists of the cells of a grid and of the coarser grids above it, see `coarser`.

    Attributes:
        start: int32 (cells + 1,): the entries of cell c are start[c] .. start[c + 1]; the cells of each grid
            follow those of the next finer grid.
        whole: int32 (cells,): from this position on, a cell's entries are rectangles that contain the whole
            cell and have no condition.
        rects: x1, y1, x2, y2, float64 (4, entries).
        tag: Twice the query's position, plus 1 if the query has a condition, int32 (entries,).
    """

    start: Array
    whole: Array
    rects: Array
    tag: Array


class QueryLifetimes(NamedTuple):
    """The lifetime of each query: the steps after `since` and before `until`. int64 (queries,)."""

    since: Array
    until: Array


class CandidatePairs(NamedTuple):
    """Pairs that may be updates: event int32, query int32 and the flags WAS | IS, uint8; (n,) each."""

    event: Array
    query: Array
    flags: Array


class ListedRects(NamedTuple):
    """The entries of lists: rects and tag of `RectGrid`."""

    rects: Array
    tag: Array


class EventMove(NamedTuple):
    """An event's number, and its object's place before and after it; NaN while the object is not present."""

    event: Int
    ox: Float
    oy: Float
    nx: Float
    ny: Float


class WantedPairs(NamedTuple):
    """The pairs that `scan` appends: those that had the object, and those that have it now."""

    leaving: Flag
    entering: Flag


class PairRoom(NamedTuple):
    """The fields of `CandidatePairs` with spare space, and space for the flags of one list, uint8."""

    event: Array
    query: Array
    flags: Array
    found: Array


@kernel
def band(value: Float, low: Float, scale: Float, side: Int) -> Int:
    """Return the column (or row) of a coordinate, always inside the grid; it is monotone in the value."""
    return np.int64(min(max((value - low) * scale, 0.0), side - 1.0))


@kernel
def cell_of(x: Float, y: Float, frame: GridFrame) -> Int:
    """Return the cell of a point."""
    row = band(y, frame.y0, frame.per_y, frame.side)
    return row * frame.side + band(x, frame.x0, frame.per_x, frame.side)


@kernel
def cover(rect: Array, frame: GridFrame) -> CellWindow:
    """Return the cells that a rectangle touches."""
    side = frame.side
    return CellWindow(
        band(rect[0], frame.x0, frame.per_x, side),
        band(rect[2], frame.x0, frame.per_x, side),
        band(rect[1], frame.y0, frame.per_y, side),
        band(rect[3], frame.y0, frame.per_y, side),
    )


@kernel
def coarser(frame: GridFrame, times: Int) -> GridFrame:
    """Return the grid whose cells are `4 ** times` times as wide; the coarsest grid has a single cell."""
    side = max(1, frame.side >> (2 * times))
    share = side / frame.side
    return GridFrame(frame.x0, frame.y0, frame.per_x * share, frame.per_y * share, side)


@kernel
def count_grids(frame: GridFrame) -> Int:
    """Count the grids, from the finest grid to that of a single cell."""
    count = 1
    while frame.side >> (2 * (count - 1)) > 1:
        count += 1
    return count


@kernel
def _grid_of(rect: Array, frame: GridFrame, large: Int) -> tuple[Int, GridFrame, CellWindow]:
    """Choose the finest grid in which a rectangle touches at most `large` cells, or else the coarsest grid.

    Returns:
        The number of the grid's first cell, the grid, and the cells that the rectangle touches there.
    """
    first, times, grid = np.int64(0), np.int64(0), frame
    while True:
        window = cover(rect, grid)
        cells = (window.right - window.left + 1) * (window.top - window.bottom + 1)
        if cells <= large or grid.side == 1:
            return first, grid, window
        first += grid.side * grid.side
        times += 1
        grid = coarser(frame, times)


@kernel
def _cells_above(frame: GridFrame) -> Int:
    """Count the cells of a grid and of all coarser grids."""
    cells = np.int64(0)
    for times in range(count_grids(frame)):
        cells += coarser(frame, times).side ** 2
    return cells


@kernel
def _holds(window: CellWindow, column: Int, row: Int) -> Flag:
    """Return whether a rectangle that touches these cells contains all of a cell.

    Because `band` is monotone, it does if the cell is in no band of one of the rectangle's sides.
    """
    columns = (window.left < column) & (column < window.right)
    return columns & (window.bottom < row) & (row < window.top)


@kernel
def _count_entries(rects: Array, tag: Array, frame: GridFrame, large: int) -> tuple[Array, Array]:
    """Count the entries of each cell: those that are not `whole`, and those that are; int32 (cells,) each."""
    partly, wholly = np.zeros(_cells_above(frame), np.int32), np.zeros(_cells_above(frame), np.int32)
    for q in range(len(rects)):
        if np.isnan(rects[q, 0]):
            continue
        first, grid, window = _grid_of(rects[q], frame, large)
        for row in range(window.bottom, window.top + 1):
            for column in range(window.left, window.right + 1):
                cell = first + row * grid.side + column
                if _holds(window, column, row) and tag[q] & 1 == 0:
                    wholly[cell] += 1
                else:
                    partly[cell] += 1
    return partly, wholly


@kernel
def build_rect_grid(rects: Array, tag: Array, frame: GridFrame, large: int) -> RectGrid:
    """List rectangles in the cells that they touch.

    Args:
        rects: float64 (n, 4); a rectangle with NaN is in no cell.
        tag: int32 (n,), see `RectGrid`.
        frame: The finest grid.
        large: A rectangle that touches more cells than this is listed in a coarser grid.
    """
    partly, wholly = _count_entries(rects, tag, frame, large)
    ends = np.cumsum(partly + wholly).astype(np.int32)
    entries = ends[-1]
    # Each part is filled backwards, so its end position becomes its start position.
    start, whole = np.append(ends - wholly, entries).astype(np.int32), ends
    out_rects, out_tag = np.empty((4, entries), np.float64), np.empty(entries, np.int32)
    for q in range(len(rects)):
        if np.isnan(rects[q, 0]):
            continue
        first, grid, window = _grid_of(rects[q], frame, large)
        for row in range(window.bottom, window.top + 1):
            for column in range(window.left, window.right + 1):
                cell = first + row * grid.side + column
                part = whole if _holds(window, column, row) and tag[q] & 1 == 0 else start
                part[cell] -= 1
                for corner in range(4):
                    out_rects[corner, part[cell]] = rects[q, corner]
                out_tag[part[cell]] = tag[q]
    return RectGrid(start, whole, out_rects, out_tag)


@kernel
def within(x: Float, y: Float, x1: Float, y1: Float, x2: Float, y2: Float) -> Flag:
    """Return whether a point is in a closed rectangle; False for NaN.

    All four comparisons are made, because a mispredicted branch costs more. The corners are numbers, because
    an array argument costs two atomic operations per call.
    """
    return (x1 <= x) & (x <= x2) & (y1 <= y) & (y <= y2)


@inlined
def scan(
    lists: ListedRects, span: IndexRange, move: EventMove, wanted: WantedPairs, out: PairRoom, used: Int
) -> Int:
    """Append the pairs that entries of lists form with an event, and return the number of pairs.

    The first loop only compares neighbours in memory, so the processor makes several comparisons at once. The
    second loop has no branches. Indices are unsigned, which avoids a test of their sign in numba.

    Args:
        lists: The entries; `out.found` has space for as many entries as `span`.
        span: The entries to test.
        move: The event.
        wanted: The pairs to append.
        out: Where to append them.
        used: The number of pairs so far.
    """
    rects, tags = lists.rects, lists.tag
    events, queries, flags, found = out.event, out.query, out.flags, out.found
    event, ox, oy, nx, ny = move
    leaving, entering = wanted
    begin, end = np.uint64(span.begin), np.uint64(span.end)
    for k in range(begin, end):
        x1, y1, x2, y2 = rects[0, k], rects[1, k], rects[2, k], rects[3, k]
        was, now = within(ox, oy, x1, y1, x2, y2), within(nx, ny, x1, y1, x2, y2)
        found[k - begin] = np.uint8(was) | (np.uint8(now) << np.uint8(1))
    at = np.uint64(used)
    for k in range(begin, end):
        flag, tag = found[k - begin], tags[k]
        events[at], queries[at], flags[at] = event, tag >> 1, flag
        gone = (flag == WAS) | ((flag == WAS + IS) & (tag & 1 == 1))
        at += np.uint64((leaving & gone) | (entering & (flag == IS)))
    return np.int64(at)


@kernel
def longer(array: Array, used: Int, more: Int) -> Array:
    """Copy the first `used` elements to an array with space for `more` elements, and for as many again."""
    out = np.empty(2 * (used + more), array.dtype)
    out[:used] = array[:used]
    return out


@kernel
def resize_pairs(pairs: CandidatePairs, used: Int, room: Int) -> CandidatePairs:
    """Copy the first `used` pairs to arrays with space for `room` pairs."""
    event, query = np.empty(room, np.int32), np.empty(room, np.int32)
    flags = np.empty(room, np.uint8)
    event[:used], query[:used], flags[:used] = pairs.event[:used], pairs.query[:used], pairs.flags[:used]
    return CandidatePairs(event, query, flags)


@kernel
def is_alive(lives: QueryLifetimes, query: Int, step: Int) -> Flag:
    """Return whether a query is alive at a step."""
    return lives.since[query] < step < lives.until[query]


@kernel
def filter_alive(pairs: CandidatePairs, events: Transitions, lives: QueryLifetimes) -> CandidatePairs:
    """Return the pairs whose query is alive at the event's step."""
    kept = np.empty(len(pairs.event), np.bool_)
    for i in range(len(kept)):
        kept[i] = is_alive(lives, pairs.query[i], events.step[pairs.event[i]])
    return CandidatePairs(pairs.event[kept], pairs.query[kept], pairs.flags[kept])
