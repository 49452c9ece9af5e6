"""The range join: what happened to objects against rectangles in a grid (SOLE section 5.3, Algorithm 2).

Rectangles are listed in every cell that they touch, with their corners in place, so that an event reads two
stretches of memory: the lists of the cell it leaves and of the cell it enters. Points outside the grid count
to its border cells, as do rectangles, hence an answer never depends on where the grid lies. Rectangles that
touch too many cells are in one more list that every event is tested against.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.core.kernels.events import Events
from stqsh.core.kernels.jit import Array, Flag, Float, Int, inlined, kernel

WAS, IS = 1, 2

_SORTED_FROM = 16
"""Events are put in the order of their cells where there are as many as this share of the cells."""


class Lattice(NamedTuple):
    """Where a grid lies: corner, cells per unit of x and of y, and `side` cells in each direction."""

    x0: float
    y0: float
    per_x: float
    per_y: float
    side: int


class Lists(NamedTuple):
    """The lists of a grid's cells.

    start: int32 (cells + 2,): cell c's entries are start[c] .. start[c + 1]; the last list is that of the
    large rectangles. rects: float64 (entries, 4): x1, y1, x2, y2. tag: int32 (entries,): twice the query's
    position, plus 1 where a condition has to be looked at too.
    """

    start: Array
    rects: Array
    tag: Array


class Lives(NamedTuple):
    """When each query follows events: those of steps after `since` and before `until`. int64 (queries,)."""

    since: Array
    until: Array


class Pairs(NamedTuple):
    """Who may have to be told: event int32, query int32 and the flags WAS | IS, uint8; (n,) each."""

    event: Array
    query: Array
    flags: Array


@kernel
def band(value: Float, low: Float, scale: Float, side: Int) -> Int:
    """The column (or row) of a grid that a coordinate counts to, never outside; monotone in the value."""
    return np.int64(min(max((value - low) * scale, 0.0), side - 1.0))


@kernel
def cell_of(x: Float, y: Float, lattice: Lattice) -> Int:
    """The cell that a point counts to."""
    row = band(y, lattice.y0, lattice.per_y, lattice.side)
    return row * lattice.side + band(x, lattice.x0, lattice.per_x, lattice.side)


@kernel
def cover(rect: Array, lattice: Lattice) -> tuple[Int, Int, Int, Int]:
    """The first and last column, and the first and last row, that a rectangle touches."""
    side = lattice.side
    return (
        band(rect[0], lattice.x0, lattice.per_x, side),
        band(rect[2], lattice.x0, lattice.per_x, side),
        band(rect[1], lattice.y0, lattice.per_y, side),
        band(rect[3], lattice.y0, lattice.per_y, side),
    )


@kernel
def list_rects(rects: Array, tag: Array, lattice: Lattice, large: int) -> Lists:
    """Put rectangles into the lists of the cells they touch.

    rects: float64 (n, 4); one with NaN is nowhere. tag: int32 (n,). large: more cells than this, and a
    rectangle goes to the list of the large ones.
    """
    side = lattice.side
    start = np.zeros(side * side + 2, np.int32)
    out_rects, out_tag = np.empty((0, 4), np.float64), np.empty(0, np.int32)
    for fill in range(2):
        for q in range(len(rects)):
            if np.isnan(rects[q, 0]):
                continue
            c1, c2, r1, r2 = cover(rects[q], lattice)
            if (c2 - c1 + 1) * (r2 - r1 + 1) > large:
                c1, c2, r1, r2 = side * side, side * side, 0, 0
            for row in range(r1, r2 + 1):
                for column in range(c1, c2 + 1):
                    cell = row * side + column
                    if fill:
                        start[cell] -= 1
                        k = start[cell]
                        out_rects[k, 0], out_rects[k, 1] = rects[q, 0], rects[q, 1]
                        out_rects[k, 2], out_rects[k, 3] = rects[q, 2], rects[q, 3]
                        out_tag[k] = tag[q]
                    else:
                        start[cell] += 1
        if not fill:
            # From counts to the end of each list; filling backwards leaves the begin of each.
            for cell in range(1, side * side + 1):
                start[cell] += start[cell - 1]
            total = start[side * side]
            start[side * side + 1] = total
            out_rects, out_tag = np.empty((total, 4), np.float64), np.empty(total, np.int32)
    return Lists(start, out_rects, out_tag)


@kernel
def within(x: Float, y: Float, x1: Float, y1: Float, x2: Float, y2: Float) -> Flag:
    """Whether a point lies in a closed rectangle; NaN never does.

    All four comparisons are made: guessing where to stop costs a processor more than they do. The corners
    come as numbers, for an array as an argument costs two atomic operations a call.
    """
    return (x1 <= x) & (x <= x2) & (y1 <= y) & (y <= y2)


@kernel
def grown(pairs: Pairs, used: Int, room: Int) -> Pairs:
    """The first `used` pairs, with room for so many."""
    event, query = np.empty(room, np.int32), np.empty(room, np.int32)
    flags = np.empty(room, np.uint8)
    event[:used], query[:used], flags[:used] = pairs.event[:used], pairs.query[:used], pairs.flags[:used]
    return Pairs(event, query, flags)


@kernel
def lives_at(lives: Lives, query: Int, step: Int) -> Flag:
    """Whether a query follows what happens at a step."""
    return lives.since[query] < step < lives.until[query]


@kernel
def _home(x: Float, y: Float, lattice: Lattice) -> Int:
    """The cell that a point counts to, -1 for NaN."""
    return np.int64(-1) if np.isnan(x) else cell_of(x, y, lattice)


@kernel
def _by_cell(events: Events, lattice: Lattice) -> tuple[Array, Array]:
    """Events by the cell that they leave, or else enter: which each is, int32, and ox, oy, nx, ny of each.

    Few of them stay as they come: then there are more cells than it would spare reads of lists.
    """
    count, cells = len(events.ox), lattice.side * lattice.side
    few = count < cells // _SORTED_FROM
    ends, home = np.zeros(cells + 2, np.int32), np.zeros(count, np.int32)
    for e in range(np.int64(0) if few else count):
        left = _home(events.ox[e], events.oy[e], lattice)
        home[e] = (_home(events.nx[e], events.ny[e], lattice) if left < 0 else left) + 1
        ends[home[e] + 1] += 1
    for cell in range(np.int64(0) if few else cells):
        ends[cell + 1] += ends[cell]
    order, moves = np.empty(count, np.int32), np.empty((count, 4), np.float64)
    for e in range(count):
        k = ends[home[e]]
        ends[home[e]] = k + 1
        order[k] = e
        moves[k, 0], moves[k, 1] = events.ox[e], events.oy[e]
        moves[k, 2], moves[k, 3] = events.nx[e], events.ny[e]
    return order, moves


@inlined
def _scan(
    lists: Lists,
    cell: Int,
    where: tuple[Float, Float, Float, Float],
    takes: tuple[Flag, Flag],
    pairs: Pairs,
    used: Int,
) -> Int:
    """Append queries and flags of one cell's list to pairs with enough room; how many there are then.

    takes: whether those count that had the object, and those that get it. Nothing in the loop branches, and
    its indices are unsigned, which spares numba a look at their sign: together a factor of four.
    """
    ox, oy, nx, ny = where
    at = np.uint64(used)
    for k in range(np.uint64(lists.start[cell]), np.uint64(lists.start[cell + 1])):
        x1, y1, x2, y2 = lists.rects[k, 0], lists.rects[k, 1], lists.rects[k, 2], lists.rects[k, 3]
        was, now = within(ox, oy, x1, y1, x2, y2), within(nx, ny, x1, y1, x2, y2)
        pairs.query[at] = lists.tag[k] >> 1
        pairs.flags[at] = np.uint8(was) * WAS + np.uint8(now) * IS
        gone = was & ((not now) | (lists.tag[k] & 1 == 1))
        at += np.uint64((takes[0] & gone) | (takes[1] & now & (not was)))
    return np.int64(at)


@kernel
def join(events: Events, lattice: Lattice, lists: Lists) -> Pairs:
    """The pairs of events and queries where an object came into a rectangle or went out of it.

    For a query with a condition also those where it stayed inside. Each pair comes once. SOLE Algorithm 2
    without its cache area: WAS tells that the old place lies within, IS the new one. Events are looked at
    cell by cell, so that a list is read from memory once for all of them: a factor of four where the lists
    are larger than the caches.
    """
    large = lattice.side * lattice.side
    longest = lists.start[large + 1] - lists.start[large]
    order, moves = _by_cell(events, lattice)
    pairs = Pairs(np.empty(1024, np.int32), np.empty(1024, np.int32), np.empty(1024, np.uint8))
    used = np.int64(0)
    for i in range(len(order)):
        ox, oy, nx, ny = moves[i, 0], moves[i, 1], moves[i, 2], moves[i, 3]
        left, entered = _home(ox, oy, lattice), _home(nx, ny, lattice)
        room = used + longest
        room += lists.start[left + 1] - lists.start[left] if left >= 0 else 0
        room += lists.start[entered + 1] - lists.start[entered] if entered >= 0 else 0
        if room > len(pairs.event):
            pairs = grown(pairs, used, 2 * room)
        begin, where = used, (ox, oy, nx, ny)
        # Of two lists, that of the place left brings who had the object, the other who gets it new.
        same = left == entered
        if same and left >= 0:
            used = _scan(lists, left, where, (True, True), pairs, used)
        elif left >= 0:
            used = _scan(lists, left, where, (True, False), pairs, used)
        if entered >= 0 and not same:
            used = _scan(lists, entered, where, (False, True), pairs, used)
        if longest:
            used = _scan(lists, large, where, (left >= 0, entered >= 0), pairs, used)
        pairs.event[begin:used] = order[i]
    return Pairs(pairs.event[:used], pairs.query[:used], pairs.flags[:used])


@kernel
def living(pairs: Pairs, events: Events, lives: Lives) -> Pairs:
    """Those pairs whose query follows what happens at the event's step."""
    kept = np.empty(len(pairs.event), np.bool_)
    for i in range(len(kept)):
        kept[i] = lives_at(lives, pairs.query[i], events.step[pairs.event[i]])
    return Pairs(pairs.event[kept], pairs.query[kept], pairs.flags[kept])
