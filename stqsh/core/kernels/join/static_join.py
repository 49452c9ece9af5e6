"""The range join of object transitions with static rectangles (SOLE section 5.3, Algorithm 2).

The list of the cell that an event leaves has the regions that had the object, and the list of the cell that
it enters has those that have it now; see `stqsh.core.kernels.index.static_rects`. Each pair is found once. An
event costs the two lists in each grid that has rectangles.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.geometry.shapes import IndexRange
from stqsh.core.kernels.index.static_rects import (
    CandidatePairs,
    EventMove,
    GridFrame,
    ListedRects,
    PairRoom,
    RectGrid,
    WantedPairs,
    cell_of,
    coarser,
    count_grids,
    resize_pairs,
    scan,
)
from stqsh.core.kernels.jit import Flag, Float, Int, kernel

_SORTED_FROM = 16
"""Events are sorted by cell if there is at least one event for this many cells."""


@kernel
def _cell_or_none(x: Float, y: Float, frame: GridFrame) -> Int:
    """Return the cell of a point, -1 for NaN."""
    return np.int64(-1) if np.isnan(x) else cell_of(x, y, frame)


@kernel
def _order_by_cell(events: Transitions, frame: GridFrame) -> tuple[Array, Transitions]:
    """Sort the places of events by the cell that they leave, or else enter.

    Returns:
        The event at each position, int32 (n,), and events of which only the places are in this order.
    """
    count, cells = len(events.ox), frame.side * frame.side
    ends, home = np.zeros(cells + 2, np.int32), np.empty(count, np.int32)
    for e in range(count):
        left = _cell_or_none(events.ox[e], events.oy[e], frame)
        home[e] = (_cell_or_none(events.nx[e], events.ny[e], frame) if left < 0 else left) + 1
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
def by_cell(events: Transitions, frame: GridFrame) -> tuple[Array, Transitions]:
    """Sort events by the cell that they leave, or else enter.

    Later loops then read memory sequentially: lists here, and versions when updates are made.

    Returns:
        The event at each position, int32 (n,), and the events in this order.
    """
    order, moved = _order_by_cell(events, frame)
    step, obj, old, new = events.step[order], events.obj[order], events.old[order], events.new[order]
    return order, Transitions(step, obj, old, new, moved.ox, moved.oy, moved.nx, moved.ny)


@kernel
def _used_grids(frame: GridFrame, lists: RectGrid) -> tuple[Array, Array]:
    """Find the grids that have any rectangle: the argument of `coarser`, and the first cell of each."""
    times, firsts = np.empty(count_grids(frame), np.int64), np.empty(count_grids(frame), np.int64)
    used, first = 0, np.int64(0)
    for above in range(len(times)):
        cells = coarser(frame, above).side ** 2
        if lists.start[first + cells] > lists.start[first]:
            times[used], firsts[used] = above, first
            used += 1
        first += cells
    return times[:used], firsts[:used]


@kernel
def _longest(lists: RectGrid) -> Int:
    """Return the length of the longest list."""
    longest = np.int32(0)
    for cell in range(len(lists.start) - 1):
        longest = max(longest, lists.start[cell + 1] - lists.start[cell])
    return np.int64(longest)


class _Grid(NamedTuple):
    """One of the grids of a `RectGrid`, and the number of its first cell."""

    frame: GridFrame
    first: Int


@kernel
def _join_grid(
    events: Transitions, begin: Int, grid: _Grid, lists: RectGrid, out: PairRoom, used: Int
) -> tuple[Int, Int]:
    """Append the pairs of one grid, from event `begin` on while there is space.

    An object that stays in a cell stays in the rectangles that contain the whole cell, so these are skipped.

    Returns:
        The event at which it stopped, and the number of pairs.
    """
    start, whole = lists.start[grid.first :], lists.whole[grid.first :]
    listed, nothing = ListedRects(lists.rects, lists.tag), IndexRange(np.int32(0), np.int32(0))
    for i in range(begin, len(events.ox)):
        move = EventMove(i, events.ox[i], events.oy[i], events.nx[i], events.ny[i])
        left, entered = (
            _cell_or_none(move.ox, move.oy, grid.frame),
            _cell_or_none(move.nx, move.ny, grid.frame),
        )
        had = IndexRange(start[left], start[left + 1]) if left >= 0 else nothing
        gets = IndexRange(start[entered], start[entered + 1]) if entered >= 0 else nothing
        if used + had.end - had.begin + gets.end - gets.begin >= len(out.event):
            return i, used
        if left == entered and left >= 0:
            partly = IndexRange(had.begin, whole[left])
            used = scan(listed, partly, move, WantedPairs(True, True), out, used)
            continue
        # The left cell's list has the pairs that had the object, the entered cell's those that have it.
        if had.end > had.begin:
            used = scan(listed, had, move, WantedPairs(True, False), out, used)
        if gets.end > gets.begin:
            used = scan(listed, gets, move, WantedPairs(False, True), out, used)
    return len(events.ox), used


@kernel
def join_in_order(events: Transitions, frame: GridFrame, lists: RectGrid) -> CandidatePairs:
    """Join events in a suitable order, such as that of `by_cell`; the pairs of each grid keep this order."""
    times, firsts = _used_grids(frame, lists)
    room, used, found = 2 * len(events.ox) + 1024, np.int64(0), np.empty(_longest(lists), np.uint8)
    pairs = CandidatePairs(np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.uint8))
    for g in range(len(times)):
        grid, i = _Grid(coarser(frame, times[g]), firsts[g]), np.int64(0)
        while True:
            out = PairRoom(pairs.event, pairs.query, pairs.flags, found)
            i, used = _join_grid(events, i, grid, lists, out, used)
            if i == len(events.ox):
                break
            pairs = resize_pairs(pairs, used, 2 * len(pairs.event))
    return CandidatePairs(pairs.event[:used], pairs.query[:used], pairs.flags[:used])


@kernel
def are_few(events: Transitions, frame: GridFrame) -> Flag:
    """Return whether there are too few events for sorting them by cell to pay off."""
    return len(events.ox) < frame.side * frame.side // _SORTED_FROM


@kernel
def join(events: Transitions, frame: GridFrame, lists: RectGrid) -> CandidatePairs:
    """Find the pairs of events and queries where an object entered or left a rectangle, each pair once.

    For a query with a condition, pairs where the object stayed inside are included. This is SOLE Algorithm 2
    without its cache area: WAS means that the old place is inside, IS that the new one is. Events are
    processed cell by cell, so a list is read from memory once for all of them, which is four times as fast if
    the lists are larger than the caches.
    """
    if are_few(events, frame):
        return join_in_order(events, frame, lists)
    order, arranged = _order_by_cell(events, frame)
    pairs = join_in_order(arranged, frame, lists)
    for k in range(len(pairs.event)):
        pairs.event[k] = order[pairs.event[k]]
    return pairs
