"""Regions that move in a step, and the objects that do something in the same step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.index.moving_boxes import MovingBoxGrid, is_moving
from stqsh.core.kernels.index.static_rects import IS, WAS, GridFrame, cell_of, coarser, cover, within
from stqsh.core.kernels.jit import Array, Flag, Int, kernel
from stqsh.core.kernels.join.moving_params import MovingQueries, longer

_EVENTS_A_CELL = 2


class EventsByCell(NamedTuple):
    """The events of a step by the cell of one of their places, those without it left out.

    grid: the cells; start: int32 (cells + 1,), those of cell c are start[c] .. start[c + 1]; event int32, and
    this place, x and y, and the other one, float64, (n,) each.
    """

    grid: GridFrame
    start: Array
    event: Array
    x: Array
    y: Array
    other_x: Array
    other_y: Array


@kernel
def _arranged(events: Transitions, span: tuple[Int, Int], lattice: GridFrame, leaves: Flag) -> EventsByCell:
    """Events by the place that they leave, or else enter."""
    count, times = span[1] - span[0], 0
    while (lattice.side >> (2 * times)) > 1 and (lattice.side >> (2 * times)) ** 2 * _EVENTS_A_CELL > count:
        times += 1
    grid = coarser(lattice, times)
    start, home = np.zeros(grid.side * grid.side + 1, np.int32), np.empty(count, np.int32)
    x, y, other_x, other_y = events.ox, events.oy, events.nx, events.ny
    if not leaves:
        x, y, other_x, other_y = events.nx, events.ny, events.ox, events.oy
    for i in range(count):
        e = span[0] + i
        home[i] = -1 if np.isnan(x[e]) else cell_of(x[e], y[e], grid)
        if home[i] >= 0:
            start[home[i]] += 1
    for cell in range(1, len(start)):
        start[cell] += start[cell - 1]
    size = start[-1]
    event, places = np.empty(size, np.int32), np.empty((4, size), np.float64)
    for i in range(count - 1, -1, -1):
        if home[i] >= 0:
            e = span[0] + i
            start[home[i]] -= 1
            k = start[home[i]]
            event[k], places[0, k], places[1, k] = e, x[e], y[e]
            places[2, k], places[3, k] = other_x[e], other_y[e]
    return EventsByCell(grid, start, event, places[0], places[1], places[2], places[3])


@kernel
def turned_upon(
    events: Transitions, span: tuple[Int, Int], changed: Array, movers: MovingQueries, lattice: GridFrame
) -> tuple[Array, Array, Array]:
    """The pairs of a step's events and regions that have moved in it where the object was or is in the box.

    Those who were by the cells that they leave, the others by those that they enter. Returns event, mover and
    flags as `come_upon`.
    """
    event, mover, flags = np.empty(256, np.int32), np.empty(256, np.int32), np.empty(256, np.uint8)
    used = np.int64(0)
    if not len(changed) or span[0] == span[1]:
        return event[:used], mover[:used], flags[:used]
    for leaves in (True, False):
        grid, start, whose, xs, ys, other_xs, other_ys = _arranged(events, span, lattice, leaves)
        for m in changed:
            box, other = (movers.past[m], movers.now[m]) if leaves else (movers.now[m], movers.past[m])
            if np.isnan(box[0]):
                continue
            x1, y1, x2, y2 = box[0], box[1], box[2], box[3]
            ox1, oy1, ox2, oy2 = other[0], other[1], other[2], other[3]
            c1, c2, r1, r2 = cover(box, grid)
            for row in range(r1, r2 + 1):
                begin, end = start[row * grid.side + c1], start[row * grid.side + c2 + 1]
                if used + (end - begin) >= len(event):
                    more = np.int64(end - begin)
                    event, mover = longer(event, used, more), longer(mover, used, more)
                    flags = longer(flags, used, more)
                for k in range(begin, end):
                    this = within(xs[k], ys[k], x1, y1, x2, y2)
                    that = within(other_xs[k], other_ys[k], ox1, oy1, ox2, oy2)
                    event[used], mover[used] = whose[k], m
                    flags[used] = (WAS + IS if that else WAS) if leaves else IS
                    used += this & (leaves | (not that))
    return event[:used], mover[:used], flags[:used]


@kernel
def come_upon_loose(
    events: Transitions, span: tuple[Int, Int], homes: MovingBoxGrid, movers: MovingQueries
) -> tuple[Array, Array, Array]:
    """Match events with regions in no list, except those that move now, as `moving_boxes.come_upon` does."""
    event, mover, flags = np.empty(256, np.int32), np.empty(256, np.int32), np.empty(256, np.uint8)
    used, now, loose = np.int64(0), movers.now, homes.loose[: homes.spent[0]]
    for e in range(span[0], span[1]):
        if used + len(loose) >= len(event):
            event, mover = longer(event, used, len(loose)), longer(mover, used, len(loose))
            flags = longer(flags, used, len(loose))
        ox, oy, nx, ny = events.ox[e], events.oy[e], events.nx[e], events.ny[e]
        for m in loose:
            if is_moving(homes, m):
                continue
            was = within(ox, oy, now[m, 0], now[m, 1], now[m, 2], now[m, 3])
            has = within(nx, ny, now[m, 0], now[m, 1], now[m, 2], now[m, 3])
            event[used], mover[used], flags[used] = e, m, np.uint8(was) | (np.uint8(has) << np.uint8(1))
            used += was | has
    return event[:used], mover[:used], flags[:used]
