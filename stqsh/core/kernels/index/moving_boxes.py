"""Moving regions in grids by where their centres are, and the events that come upon them.

A region is in one place only, so that laying all of them anew takes little: in the cell of its centre, in the
grid of its size. Those that may hold a place are around it, no farther away than half of the greatest region
of the size; a row of cells lies in memory in a row. So regions of one size do not wait for those of another,
and what is looked at is about twice what is found.

Regions that have moved since are loose, and looked at one by one, until that has cost as much as laying all
anew would.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.index.static_rects import GridFrame, RectGrid, band, scan
from stqsh.core.kernels.jit import Array, Flag, Float, Int, inlined, kernel
from stqsh.core.kernels.join.moving_params import MovingQueries, longer

SIZES = 14
"""Regions that reach half as far as those of the size before are of the next one; so the last are tiny."""

_FINENESS = 4
"""Cells are so many times narrower than the regions of their size reach at the most,"""

_CELLS_A_REGION = 4
"""where there are not far more cells than regions."""

_LAYING, _LAYING_ANY = 16, 1000
"""To lay a region takes as long as so many looks at one; and to lay any as so many."""

_ROUNDING = 1e-15
"""Shares of numbers by which sums may be wrong, several times over."""

Window: TypeAlias = tuple[Int, Int, Int, Int]
"""Cells of a grid: first and last column, first and last row."""

_NOWHERE, _LOOSE, _MOVING = -1, -2, -3
"""What takes the place of a seat: in no list, loose, and loose since or again in this step."""


class MovingBoxGrid(NamedTuple):
    """Regions by their sizes and cells.

    side: int64 (SIZES,): how many cells the grid of each size is wide. first: int64 (SIZES + 1,): the number
    of its first cell, the cells of all sizes counted together. reach: float64 (SIZES, 2): how far its regions
    reach from their centres in x and y. lists: the regions in the cells of their centres; start, rects and
    tag as in `RectGrid`, tag twice the mover's number, plus 1 where it has to be looked at more closely.
    seat: int32 (movers,): where each is in the lists. loose: int32 (movers,), those that are in none; spent
    int64 (2,): how many these are, and how many looks they have cost.
    """

    side: Array
    first: Array
    reach: Array
    lists: RectGrid
    seat: Array
    loose: Array
    spent: Array


@kernel
def lay(movers: MovingQueries, lattice: GridFrame) -> MovingBoxGrid:
    """All movers as they are now; those that are nowhere are in no list."""
    count = len(movers.query)
    size, reach, held = _sizes(movers.now, lattice)
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
            column, row = _band_x(x, side[s], lattice), _band_y(y, side[s], lattice)
            cells[m] = first[s] + row * side[s] + column
            start[cells[m]] += 1
    for cell in range(1, len(start)):
        start[cell] += start[cell - 1]
    rects, tag = np.empty((4, start[-1]), np.float64), np.empty(start[-1], np.int32)
    seat = np.full(count, _NOWHERE, np.int32)
    for m in range(count - 1, -1, -1):
        if cells[m] >= 0:
            start[cells[m]] -= 1
            k = start[cells[m]]
            for corner in range(4):
                rects[corner, k] = movers.now[m, corner]
            tag[k] = 2 * m + (movers.checked[m] or movers.radius[m] >= 0)
            seat[m] = k
    lists = RectGrid(start, start[1:], rects, tag)  # no cell is known to lie in a region as a whole
    return MovingBoxGrid(side, first, reach, lists, seat, np.empty(count, np.int32), np.zeros(2, np.int64))


@kernel
def _sizes(now: Array, lattice: GridFrame) -> tuple[Array, Array, Array]:
    """The size of each region, int8 (n,), -1 for one that is nowhere; how far those of each reach, as in
    `MovingBoxGrid`, and how many there are.
    """
    size, reach, held = np.full(len(now), -1, np.int8), np.zeros((SIZES, 2)), np.zeros(SIZES, np.int64)
    for m in range(len(now)):
        if np.isnan(now[m, 0]):
            continue
        x, y = now[m, 4], now[m, 5]
        far_x, far_y = max(x - now[m, 0], now[m, 2] - x), max(y - now[m, 1], now[m, 3] - y)
        share = max(far_x * lattice.per_x, far_y * lattice.per_y) / lattice.side
        s, bound = 0, 0.5
        while share < bound and s < SIZES - 1:
            s += 1
            bound /= 2
        size[m] = s
        held[s] += 1
        reach[s, 0], reach[s, 1] = max(reach[s, 0], far_x), max(reach[s, 1], far_y)
    return size, reach, held


@inlined
def _band_x(x: Float, side: Int, lattice: GridFrame) -> Int:
    """The column of a grid as wide as another one that a place counts to."""
    return band(x, lattice.x0, lattice.per_x * (side / lattice.side), side)


@inlined
def _band_y(y: Float, side: Int, lattice: GridFrame) -> Int:
    return band(y, lattice.y0, lattice.per_y * (side / lattice.side), side)


@kernel
def is_worn(homes: MovingBoxGrid, looks: Int) -> Flag:
    """Whether it is time to lay all movers anew if so many events are to come; what they cost is noted."""
    homes.spent[1] += looks * homes.spent[0]
    return homes.spent[1] > _LAYING * len(homes.seat) + _LAYING_ANY


@kernel
def leave_homes(homes: MovingBoxGrid, changed: Array) -> None:
    """Take regions that move in this step out of the lists: they are loose from the next step on."""
    for m in changed:
        k = homes.seat[m]
        if k >= 0:
            homes.lists.rects[0, k] = np.nan
        if k != _LOOSE:
            homes.loose[homes.spent[0]] = m
            homes.spent[0] += 1
        homes.seat[m] = _MOVING


@kernel
def come_to_rest(homes: MovingBoxGrid, changed: Array) -> None:
    """Regions that have moved in a step stand still again."""
    for m in changed:
        homes.seat[m] = _LOOSE


@kernel
def is_moving(homes: MovingBoxGrid, m: Int) -> Flag:
    """Whether a region moves in this step."""
    return homes.seat[m] == _MOVING


@inlined
def _around(x: Float, y: Float, reach: tuple[Float, Float], side: Int, lattice: GridFrame) -> Window:
    """The window of cells where the centres of regions may be that hold a place."""
    dx, dy = reach[0] + (abs(x) + reach[0]) * _ROUNDING, reach[1] + (abs(y) + reach[1]) * _ROUNDING
    return (
        _band_x(x - dx, side, lattice),
        _band_x(x + dx, side, lattice),
        _band_y(y - dy, side, lattice),
        _band_y(y + dy, side, lattice),
    )


@kernel
def come_upon(
    events: Transitions, span: tuple[Int, Int], homes: MovingBoxGrid, lattice: GridFrame
) -> tuple[Array, Array, Array]:
    """The pairs of some events and regions in the lists where an object comes into a region or goes out of
    it, or may do so, or stays inside, where a tag says that it has to be looked at more closely.

    Returns event and mover int32 and flags uint8 (WAS | IS, of the box), (n,) each; a pair comes once.
    """
    event, mover, flags = np.empty(1, np.int32), np.empty(1, np.int32), np.empty(1, np.uint8)
    used, found = np.int64(0), np.empty(len(homes.lists.tag) + 1, np.uint8)
    for s in range(SIZES):
        if homes.first[s + 1] > homes.first[s]:
            out = event, mover, flags, found
            event, mover, flags, used = _upon_size(events, span, (homes, s), lattice, out, used)
    return event[:used], mover[:used], flags[:used]


@kernel
def _upon_size(
    events: Transitions,
    span: tuple[Int, Int],
    which: tuple[MovingBoxGrid, Int],
    lattice: GridFrame,
    out: tuple[Array, Array, Array, Array],
    used: Int,
) -> tuple[Array, Array, Array, Int]:
    """Append the pairs of some events and the regions of one size; out: as in `scan`, with any room."""
    (homes, s), (event, mover, flags, found) = which, out
    start, rects, tags = homes.lists.start, homes.lists.rects, homes.lists.tag
    first, side, reach = homes.first[s], homes.side[s], (homes.reach[s, 0], homes.reach[s, 1])
    held = np.int64(start[homes.first[s + 1]]) - start[first]
    nowhere = np.int64(0), np.int64(-1), np.int64(0), np.int64(-1)
    for e in range(span[0], span[1]):
        if used + 2 * held >= len(event):
            event, mover = longer(event, used, 2 * held), longer(mover, used, 2 * held)
            flags = longer(flags, used, 2 * held)
        ox, oy, nx, ny = events.ox[e], events.oy[e], events.nx[e], events.ny[e]
        left = nowhere if np.isnan(ox) else _around(ox, oy, reach, side, lattice)
        entered = nowhere if np.isnan(nx) else _around(nx, ny, reach, side, lattice)
        # Of two windows, that of the place left brings who had the object, the other who gets it new.
        one = _as_one(left, entered)
        both = _cells(one) <= _cells(left) + _cells(entered) and _cells(left) > 0 and _cells(entered) > 0
        if both:
            left, entered = one, nowhere
        where, room = (ox, oy, nx, ny), (event, mover, flags, found)
        for row in range(left[2], left[3] + 1):
            cell = first + row * side
            stretch = start[cell + left[0]], start[cell + left[1] + 1]
            used = scan((rects, tags), stretch, where, (True, both), room, (used, e))
        for row in range(entered[2], entered[3] + 1):
            cell = first + row * side
            stretch = start[cell + entered[0]], start[cell + entered[1] + 1]
            used = scan((rects, tags), stretch, where, (False, True), room, (used, e))
    return event, mover, flags, used


@inlined
def _cells(window: Window) -> Int:
    """How many cells a window has."""
    return (window[1] - window[0] + 1) * (window[3] - window[2] + 1)


@inlined
def _as_one(some: Window, more: Window) -> Window:
    """The window that has all cells of two."""
    return min(some[0], more[0]), max(some[1], more[1]), min(some[2], more[2]), max(some[3], more[3])
