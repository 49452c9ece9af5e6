"""The range join: what happened to objects against rectangles in grids (SOLE section 5.3, Algorithm 2)."""

from __future__ import annotations

import numpy as np

from stqsh.core.kernels.events import Events
from stqsh.core.kernels.jit import Array, Flag, Float, Int, inlined, kernel
from stqsh.core.kernels.stationary import (
    IS,
    WAS,
    Lattice,
    Lists,
    Pairs,
    cell_of,
    coarser,
    grids_above,
    grown,
    within,
)

_SORTED_FROM = 16
"""Events are put in the order of their cells where there are as many as this share of the cells."""


@kernel
def _home(x: Float, y: Float, lattice: Lattice) -> Int:
    """The cell that a point counts to, -1 for NaN."""
    return np.int64(-1) if np.isnan(x) else cell_of(x, y, lattice)


@kernel
def by_cell(events: Events, lattice: Lattice) -> tuple[Array, Events]:
    """Events by the cell that they leave, or else enter: which each is, int32 (n,), and the events.

    Whatever reads them one after the other then finds its memory in a row: lists here, versions where
    updates are made.
    """
    count, cells = len(events.ox), lattice.side * lattice.side
    ends, home = np.zeros(cells + 2, np.int32), np.empty(count, np.int32)
    for e in range(count):
        left = _home(events.ox[e], events.oy[e], lattice)
        home[e] = (_home(events.nx[e], events.ny[e], lattice) if left < 0 else left) + 1
        ends[home[e] + 1] += 1
    for cell in range(cells):
        ends[cell + 1] += ends[cell]
    order = np.empty(count, np.int32)
    for e in range(count):
        order[ends[home[e]]] = e
        ends[home[e]] += 1
    return order, _in_order(events, order)


@kernel
def _in_order(events: Events, order: Array) -> Events:
    """Events in another order."""
    count = len(order)
    out = Events(
        np.empty(count, np.int64),
        np.empty(count, np.int32),
        np.empty(count, np.int32),
        np.empty(count, np.int32),
        np.empty(count, np.float64),
        np.empty(count, np.float64),
        np.empty(count, np.float64),
        np.empty(count, np.float64),
    )
    for k in range(count):
        e = order[k]
        out.step[k], out.obj[k], out.old[k], out.new[k] = (
            events.step[e],
            events.obj[e],
            events.old[e],
            events.new[e],
        )
        out.ox[k], out.oy[k], out.nx[k], out.ny[k] = events.ox[e], events.oy[e], events.nx[e], events.ny[e]
    return out


@inlined
def _scan(
    lists: Lists,
    cell: Int,
    where: tuple[Float, Float, Float, Float],
    takes: tuple[Flag, Flag],
    out: tuple[Pairs, Array],
    used: Int,
) -> Int:
    """Append queries and flags of one cell's list to pairs; how many there are then.

    takes: whether those count that had the object, and those that get it. out: pairs with enough room, and
    uint8, room for the flags of one list.
    The first loop has nothing but comparisons of neighbours, so that a processor makes several at once; the
    second one does not branch. Indices are unsigned, which spares numba a look at their sign.
    """
    (ox, oy, nx, ny), (pairs, code) = where, out
    begin, end = np.uint64(lists.start[cell]), np.uint64(lists.start[cell + 1])
    rects = lists.rects
    for k in range(begin, end):
        x1, y1, x2, y2 = rects[0, k], rects[1, k], rects[2, k], rects[3, k]
        was, now = within(ox, oy, x1, y1, x2, y2), within(nx, ny, x1, y1, x2, y2)
        code[k - begin] = np.uint8(was) | (np.uint8(now) << np.uint8(1))
    at = np.uint64(used)
    for k in range(begin, end):
        flags, tag = code[k - begin], lists.tag[k]
        pairs.query[at], pairs.flags[at] = tag >> 1, flags
        gone = (flags == WAS) | ((flags == WAS + IS) & (tag & 1 == 1))
        at += np.uint64((takes[0] & gone) | (takes[1] & (flags == IS)))
    return np.int64(at)


@kernel
def _used_grids(lattice: Lattice, lists: Lists) -> tuple[Array, Array]:
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
def join_in_order(events: Events, lattice: Lattice, lists: Lists) -> Pairs:
    """`join`, of events in a good order, such as that of `by_cell`: pairs come in the order of the events."""
    times, firsts = _used_grids(lattice, lists)
    count, used, code = len(events.ox), np.int64(0), np.empty(256, np.uint8)
    room = 2 * count + 1024
    pairs = Pairs(np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.uint8))
    for i in range(count):
        ox, oy, nx, ny = events.ox[i], events.oy[i], events.nx[i], events.ny[i]
        begin, where = used, (ox, oy, nx, ny)
        for g in range(len(times)):
            grid = coarser(lattice, times[g])
            left, entered = _home(ox, oy, grid), _home(nx, ny, grid)
            same = left == entered
            left, entered = left + firsts[g] * (left >= 0), entered + firsts[g] * (entered >= 0)
            had = lists.start[left + 1] - lists.start[left] if left >= 0 else np.int32(0)
            gets = lists.start[entered + 1] - lists.start[entered] if entered >= 0 else np.int32(0)
            if max(had, gets) > len(code):
                code = np.empty(2 * max(had, gets), np.uint8)
            if used + had + gets + 1 > len(pairs.event):
                pairs = grown(pairs, used, 2 * (used + had + gets + 1))
            # Of two lists, that of the place left brings who had the object, the other who gets it new.
            if same and had:
                used = _scan(lists, left, where, (True, True), (pairs, code), used)
            elif had:
                used = _scan(lists, left, where, (True, False), (pairs, code), used)
            if gets and not same:
                used = _scan(lists, entered, where, (False, True), (pairs, code), used)
        pairs.event[begin:used] = i
    return Pairs(pairs.event[:used], pairs.query[:used], pairs.flags[:used])


@kernel
def are_few(events: Events, lattice: Lattice) -> Flag:
    """Whether there are more cells than it would spare reads of lists to look at events cell by cell."""
    return len(events.ox) < lattice.side * lattice.side // _SORTED_FROM


@kernel
def join(events: Events, lattice: Lattice, lists: Lists) -> Pairs:
    """The pairs of events and queries where an object came into a rectangle or went out of it.

    For a query with a condition also those where it stayed inside. Each pair comes once. SOLE Algorithm 2
    without its cache area: WAS tells that the old place lies within, IS the new one. Events are looked at
    cell by cell, so that a list is read from memory once for all of them: a factor of four where the lists
    are larger than the caches.
    """
    if are_few(events, lattice):
        return join_in_order(events, lattice, lists)
    order, ordered = by_cell(events, lattice)
    pairs = join_in_order(ordered, lattice, lists)
    for k in range(len(pairs.event)):
        pairs.event[k] = order[pairs.event[k]]
    return pairs
