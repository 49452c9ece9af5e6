"""The range join: what happened to objects against rectangles in grids (SOLE section 5.3, Algorithm 2)."""

from __future__ import annotations

import numpy as np

from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.index.static_rects import (
    CandidatePairs,
    GridFrame,
    RectGrid,
    cell_of,
    coarser,
    grids_above,
    grown,
    scan,
)
from stqsh.core.kernels.jit import Array, Flag, Float, Int, kernel

_SORTED_FROM = 16
"""Events are put in the order of their cells where there are as many as this share of the cells."""


@kernel
def _home(x: Float, y: Float, lattice: GridFrame) -> Int:
    """The cell that a point counts to, -1 for NaN."""
    return np.int64(-1) if np.isnan(x) else cell_of(x, y, lattice)


@kernel
def _arranged(events: Transitions, lattice: GridFrame) -> tuple[Array, Transitions]:
    """Places of events by the cell that they leave, or else enter: which each is, int32 (n,), and events that
    have only their places in this order.
    """
    count, cells = len(events.ox), lattice.side * lattice.side
    ends, home = np.zeros(cells + 2, np.int32), np.empty(count, np.int32)
    for e in range(count):
        left = _home(events.ox[e], events.oy[e], lattice)
        home[e] = (_home(events.nx[e], events.ny[e], lattice) if left < 0 else left) + 1
        ends[home[e] + 1] += 1
    for cell in range(cells):
        ends[cell + 1] += ends[cell]
    order, ox, oy = np.empty(count, np.int32), np.empty(count, np.float64), np.empty(count, np.float64)
    nx, ny = np.empty(count, np.float64), np.empty(count, np.float64)
    for e in range(count):
        k = ends[home[e]]
        ends[home[e]] = k + 1
        order[k], ox[k], oy[k], nx[k], ny[k] = e, events.ox[e], events.oy[e], events.nx[e], events.ny[e]
    return order, Transitions(events.step, events.obj, events.old, events.new, ox, oy, nx, ny)


@kernel
def by_cell(events: Transitions, lattice: GridFrame) -> tuple[Array, Transitions]:
    """Events by the cell that they leave, or else enter: which each is, int32 (n,), and the events.

    Whatever reads them one after the other then finds its memory in a row: lists here, versions where
    updates are made.
    """
    order, moved = _arranged(events, lattice)
    step, obj, old, new = events.step[order], events.obj[order], events.old[order], events.new[order]
    return order, Transitions(step, obj, old, new, moved.ox, moved.oy, moved.nx, moved.ny)


@kernel
def _used_grids(lattice: GridFrame, lists: RectGrid) -> tuple[Array, Array]:
    """Which grids have any rectangle: by how often they are coarser, and the number of their first cell."""
    times, firsts = np.empty(grids_above(lattice), np.int64), np.empty(grids_above(lattice), np.int64)
    used, first = 0, np.int64(0)
    for above in range(len(times)):
        cells = coarser(lattice, above).side ** 2
        if lists.start[first + cells] > lists.start[first]:
            times[used], firsts[used] = above, first
            used += 1
        first += cells
    return times[:used], firsts[:used]


@kernel
def _longest(lists: RectGrid) -> Int:
    """How many entries the longest list has."""
    longest = np.int32(0)
    for cell in range(len(lists.start) - 1):
        longest = max(longest, lists.start[cell + 1] - lists.start[cell])
    return np.int64(longest)


@kernel
def _join_grid(
    events: Transitions,
    span: tuple[Int, Int],
    grid: tuple[GridFrame, Int],
    lists: RectGrid,
    out: tuple[CandidatePairs, Array],
) -> tuple[Int, Int]:
    """Append the pairs of one grid, from an event on for as long as there is room: where it ends, and how
    many pairs there are. Whoever stays in a cell stays in the rectangles that hold all of it.

    span: the first event, and how many pairs there are. grid: with the number of its first cell. out: as in
    `scan`.
    """
    (begin, used), (lattice, first), (pairs, found) = span, grid, out
    start, whole, lists_ = lists.start[first:], lists.whole[first:], (lists.rects, lists.tag)
    out_ = pairs.event, pairs.query, pairs.flags, found
    for i in range(begin, len(events.ox)):
        where = events.ox[i], events.oy[i], events.nx[i], events.ny[i]
        left, entered = _home(where[0], where[1], lattice), _home(where[2], where[3], lattice)
        had = (start[left], start[left + 1]) if left >= 0 else (np.int32(0), np.int32(0))
        gets = (start[entered], start[entered + 1]) if entered >= 0 else (np.int32(0), np.int32(0))
        if used + had[1] - had[0] + gets[1] - gets[0] >= len(pairs.event):
            return i, used
        if left == entered and left >= 0:
            used = scan(lists_, (had[0], whole[left]), where, (True, True), out_, (used, i))
            continue
        # Of two lists, that of the place left brings who had the object, the other who gets it new.
        if had[1] > had[0]:
            used = scan(lists_, had, where, (True, False), out_, (used, i))
        if gets[1] > gets[0]:
            used = scan(lists_, gets, where, (False, True), out_, (used, i))
    return len(events.ox), used


@kernel
def join_in_order(events: Transitions, lattice: GridFrame, lists: RectGrid) -> CandidatePairs:
    """`join`, of events in a good order, such as that of `by_cell`: so are the pairs of each grid."""
    times, firsts = _used_grids(lattice, lists)
    room, used, found = 2 * len(events.ox) + 1024, np.int64(0), np.empty(_longest(lists), np.uint8)
    pairs = CandidatePairs(np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.uint8))
    for g in range(len(times)):
        grid, i = (coarser(lattice, times[g]), firsts[g]), np.int64(0)
        while True:
            i, used = _join_grid(events, (i, used), grid, lists, (pairs, found))
            if i == len(events.ox):
                break
            pairs = grown(pairs, used, 2 * len(pairs.event))
    return CandidatePairs(pairs.event[:used], pairs.query[:used], pairs.flags[:used])


@kernel
def are_few(events: Transitions, lattice: GridFrame) -> Flag:
    """Whether there are more cells than it would spare reads of lists to look at events cell by cell."""
    return len(events.ox) < lattice.side * lattice.side // _SORTED_FROM


@kernel
def join(events: Transitions, lattice: GridFrame, lists: RectGrid) -> CandidatePairs:
    """The pairs of events and queries where an object came into a rectangle or went out of it.

    For a query with a condition also those where it stayed inside. Each pair comes once. SOLE Algorithm 2
    without its cache area: WAS tells that the old place lies within, IS the new one. Events are looked at
    cell by cell, so that a list is read from memory once for all of them: a factor of four where the lists
    are larger than the caches.
    """
    if are_few(events, lattice):
        return join_in_order(events, lattice, lists)
    order, arranged = _arranged(events, lattice)
    pairs = join_in_order(arranged, lattice, lists)
    for k in range(len(pairs.event)):
        pairs.event[k] = order[pairs.event[k]]
    return pairs
