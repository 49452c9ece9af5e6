"""Rectangles that stand still, in grids (SOLE section 5.3); `stqsh.core.kernels.join.static_join` joins them.

Rectangles are listed in every cell that they touch, with their corners in place, so that an event reads two
stretches of memory: the lists of the cell it leaves and of the cell it enters. One that would be in too many
lists is in a coarser grid, of cells four times as wide, or a coarser one still: however sizes differ, a list
is about as long as places in its cell are in rectangles. Points outside a grid count to its border cells, as
do rectangles, hence an answer never depends on where the grid lies.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.jit import Array, Flag, Float, Int, inlined, kernel

WAS, IS = 1, 2


class GridFrame(NamedTuple):
    """Where a grid lies: corner, cells per unit of x and of y, and `side` cells in each direction."""

    x0: float
    y0: float
    per_x: float
    per_y: float
    side: int


class RectGrid(NamedTuple):
    """The lists of the cells of a grid and of the coarser ones above it, see `coarser`.

    start: int32 (cells + 1,): the entries of cell c are start[c] .. start[c + 1]; the cells of each grid come
    after those of the finer one. whole: int32 (cells,): from here on a cell's entries are rectangles that
    hold all of it, with no condition. rects: float64 (4, entries): x1, y1, x2, y2. tag: int32 (entries,):
    twice the query's position, plus 1 where a condition has to be looked at too.
    """

    start: Array
    whole: Array
    rects: Array
    tag: Array


class QueryLifetimes(NamedTuple):
    """When each query follows events: those of steps after `since` and before `until`. int64 (queries,)."""

    since: Array
    until: Array


class CandidatePairs(NamedTuple):
    """Who may have to be told: event int32, query int32 and the flags WAS | IS, uint8; (n,) each."""

    event: Array
    query: Array
    flags: Array


@kernel
def band(value: Float, low: Float, scale: Float, side: Int) -> Int:
    """The column (or row) of a grid that a coordinate counts to, never outside; monotone in the value."""
    return np.int64(min(max((value - low) * scale, 0.0), side - 1.0))


@kernel
def cell_of(x: Float, y: Float, lattice: GridFrame) -> Int:
    """The cell that a point counts to."""
    row = band(y, lattice.y0, lattice.per_y, lattice.side)
    return row * lattice.side + band(x, lattice.x0, lattice.per_x, lattice.side)


@kernel
def cover(rect: Array, lattice: GridFrame) -> tuple[Int, Int, Int, Int]:
    """The first and last column, and the first and last row, that a rectangle touches."""
    side = lattice.side
    return (
        band(rect[0], lattice.x0, lattice.per_x, side),
        band(rect[2], lattice.x0, lattice.per_x, side),
        band(rect[1], lattice.y0, lattice.per_y, side),
        band(rect[3], lattice.y0, lattice.per_y, side),
    )


@kernel
def coarser(lattice: GridFrame, times: Int) -> GridFrame:
    """The grid whose cells are wider by 4 ** times; the coarsest one has a single cell."""
    side = max(1, lattice.side >> (2 * times))
    share = side / lattice.side
    return GridFrame(lattice.x0, lattice.y0, lattice.per_x * share, lattice.per_y * share, side)


@kernel
def grids_above(lattice: GridFrame) -> Int:
    """How many grids there are, from the finest to that of a single cell."""
    count = 1
    while lattice.side >> (2 * (count - 1)) > 1:
        count += 1
    return count


@kernel
def _home_of(rect: Array, lattice: GridFrame, large: Int) -> tuple[Int, GridFrame, tuple[Int, Int, Int, Int]]:
    """The finest grid in which a rectangle touches no more than `large` cells, by its first cell's number,
    or else the coarsest; and what it covers there.
    """
    first, times, grid = np.int64(0), np.int64(0), lattice
    while True:
        c1, c2, r1, r2 = cover(rect, grid)
        if (c2 - c1 + 1) * (r2 - r1 + 1) <= large or grid.side == 1:
            return first, grid, (c1, c2, r1, r2)
        first += grid.side * grid.side
        times += 1
        grid = coarser(lattice, times)


@kernel
def _cells_above(lattice: GridFrame) -> Int:
    """How many cells a grid and the coarser ones have together."""
    cells = np.int64(0)
    for times in range(grids_above(lattice)):
        cells += coarser(lattice, times).side ** 2
    return cells


@kernel
def _holds(cover: tuple[Int, Int, Int, Int], column: Int, row: Int) -> Flag:
    """Whether a rectangle with this cover holds all of a cell: `band` is monotone, so where a cell is not in
    a band of one of its sides.
    """
    c1, c2, r1, r2 = cover
    return (c1 < column) & (column < c2) & (r1 < row) & (row < r2)


@kernel
def _counted(rects: Array, tag: Array, lattice: GridFrame, large: int) -> tuple[Array, Array]:
    """How many entries each cell gets, by whether they count as `whole`; int32 (cells,) each."""
    partly, wholly = np.zeros(_cells_above(lattice), np.int32), np.zeros(_cells_above(lattice), np.int32)
    for q in range(len(rects)):
        if np.isnan(rects[q, 0]):
            continue
        first, grid, (c1, c2, r1, r2) = _home_of(rects[q], lattice, large)
        for row in range(r1, r2 + 1):
            for column in range(c1, c2 + 1):
                cell = first + row * grid.side + column
                if _holds((c1, c2, r1, r2), column, row) and tag[q] & 1 == 0:
                    wholly[cell] += 1
                else:
                    partly[cell] += 1
    return partly, wholly


@kernel
def list_rects(rects: Array, tag: Array, lattice: GridFrame, large: int) -> RectGrid:
    """Put rectangles into the lists of the cells they touch.

    rects: float64 (n, 4); one with NaN is nowhere. tag: int32 (n,). large: more cells than this, and a
    rectangle goes to a coarser grid.
    """
    partly, wholly = _counted(rects, tag, lattice, large)
    ends = np.cumsum(partly + wholly).astype(np.int32)
    entries = ends[-1]
    # Each part is filled backwards, so what says where it ends says where it begins in the end.
    start, whole = np.append(ends - wholly, entries).astype(np.int32), ends
    out_rects, out_tag = np.empty((4, entries), np.float64), np.empty(entries, np.int32)
    for q in range(len(rects)):
        if np.isnan(rects[q, 0]):
            continue
        first, grid, (c1, c2, r1, r2) = _home_of(rects[q], lattice, large)
        for row in range(r1, r2 + 1):
            for column in range(c1, c2 + 1):
                cell = first + row * grid.side + column
                part = whole if _holds((c1, c2, r1, r2), column, row) and tag[q] & 1 == 0 else start
                part[cell] -= 1
                for corner in range(4):
                    out_rects[corner, part[cell]] = rects[q, corner]
                out_tag[part[cell]] = tag[q]
    return RectGrid(start, whole, out_rects, out_tag)


@kernel
def within(x: Float, y: Float, x1: Float, y1: Float, x2: Float, y2: Float) -> Flag:
    """Whether a point lies in a closed rectangle; NaN never does.

    All four comparisons are made: guessing where to stop costs a processor more than they do. The corners
    come as numbers, for an array as an argument costs two atomic operations a call.
    """
    return (x1 <= x) & (x <= x2) & (y1 <= y) & (y <= y2)


@inlined
def scan(
    lists: tuple[Array, Array],
    span: tuple[Int, Int],
    where: tuple[Float, Float, Float, Float],
    takes: tuple[Flag, Flag],
    out: tuple[Array, Array, Array, Array],
    so_far: tuple[Int, Int],
) -> Int:
    """Append the pairs that some entries of lists make with an event; how many pairs there are then.

    lists: rects and tag of `RectGrid`, as arrays: to take them out of a tuple in a loop costs. span: from
    which entry up to which. takes: whether those count that had the object, and those that get it. out: the
    fields of `CandidatePairs` with enough room, and uint8, room for the flags of one list. so_far: how many
    pairs there are, and which event it is.

    The first loop has nothing but comparisons of neighbours, so that a processor makes several at once; the
    second one does not branch. Indices are unsigned, which spares numba a look at their sign.
    """
    (rects, tags), (events, queries, flags, found) = lists, out
    (ox, oy, nx, ny), (used, event) = where, so_far
    begin, end = np.uint64(span[0]), np.uint64(span[1])
    for k in range(begin, end):
        x1, y1, x2, y2 = rects[0, k], rects[1, k], rects[2, k], rects[3, k]
        was, now = within(ox, oy, x1, y1, x2, y2), within(nx, ny, x1, y1, x2, y2)
        found[k - begin] = np.uint8(was) | (np.uint8(now) << np.uint8(1))
    at = np.uint64(used)
    for k in range(begin, end):
        flag, tag = found[k - begin], tags[k]
        events[at], queries[at], flags[at] = event, tag >> 1, flag
        gone = (flag == WAS) | ((flag == WAS + IS) & (tag & 1 == 1))
        at += np.uint64((takes[0] & gone) | (takes[1] & (flag == IS)))
    return np.int64(at)


@kernel
def grown(pairs: CandidatePairs, used: Int, room: Int) -> CandidatePairs:
    """The first `used` pairs, with room for so many."""
    event, query = np.empty(room, np.int32), np.empty(room, np.int32)
    flags = np.empty(room, np.uint8)
    event[:used], query[:used], flags[:used] = pairs.event[:used], pairs.query[:used], pairs.flags[:used]
    return CandidatePairs(event, query, flags)


@kernel
def lives_at(lives: QueryLifetimes, query: Int, step: Int) -> Flag:
    """Whether a query follows what happens at a step."""
    return lives.since[query] < step < lives.until[query]


@kernel
def living(pairs: CandidatePairs, events: Transitions, lives: QueryLifetimes) -> CandidatePairs:
    """Those pairs whose query follows what happens at the event's step."""
    kept = np.empty(len(pairs.event), np.bool_)
    for i in range(len(kept)):
        kept[i] = lives_at(lives, pairs.query[i], events.step[pairs.event[i]])
    return CandidatePairs(pairs.event[kept], pairs.query[kept], pairs.flags[kept])
