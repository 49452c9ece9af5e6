"""A search for places near centres: places in the cells of a grid, nearest cells first.

See SSTD section 6.2 (an SKQ uses the distance of its k-th initial result, which is never too short, as the
radius of a range query) and CheetahGIS section VI-A (the smallest circle of cells that holds k objects).
Rings of cells are added until they hold enough places; the distance to the k-th of these is then an upper
bound of the true distance. The cost depends on the places near a centre, not on all places.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.geometry.circles import circle_box
from stqsh.core.kernels.geometry.distance import distance
from stqsh.core.kernels.index.static_rects import GridFrame, band, cell_of, longer
from stqsh.core.kernels.jit import Flag, Float, Int, kernel


class PlaceGrid(NamedTuple):
    """Places by cell: those of cell c are member[start[c]:start[c + 1]], both int32; x, y float64 (n,)."""

    frame: GridFrame
    start: Array
    member: Array
    x: Array
    y: Array


@kernel
def build_place_grid(x: Array, y: Array, frame: GridFrame) -> PlaceGrid:
    """List places by cell; x and y are float64 (n,) without NaN."""
    cells = frame.side * frame.side
    start = np.zeros(cells + 1, np.int32)
    member = np.empty(len(x), np.int32)
    for i in range(len(x)):
        start[cell_of(x[i], y[i], frame)] += 1
    for cell in range(1, cells + 1):
        start[cell] += start[cell - 1]
    for i in range(len(x) - 1, -1, -1):
        cell = cell_of(x[i], y[i], frame)
        start[cell] -= 1
        member[start[cell]] = i
    return PlaceGrid(frame, start, member, x, y)


@kernel
def _block(cells: PlaceGrid, x: Float, y: Float, ring: Int) -> tuple[Int, Int, Int, Int, Int]:
    """Return the cells up to a ring around a place, as columns and rows, and the number of their places."""
    frame = cells.frame
    side = frame.side
    column, row = band(x, frame.x0, frame.per_x, side), band(y, frame.y0, frame.per_y, side)
    left, right = max(column - ring, 0), min(column + ring, side - 1)
    low, high = max(row - ring, 0), min(row + ring, side - 1)
    count = 0
    for at in range(low, high + 1):
        count += cells.start[at * side + right + 1] - cells.start[at * side + left]
    return left, right, low, high, count


@kernel
def _wanted_distance(cells: PlaceGrid, x: Float, y: Float, want: Int, planar: Flag) -> Float:
    """Return a distance within which there are at least `want` places; infinite if there are fewer."""
    if want > len(cells.member):
        return np.inf
    ring = np.int64(0)
    left, right, low, high, count = _block(cells, x, y, ring)
    while count < want:
        ring = max(ring + 1, ring * 5 // 4)
        left, right, low, high, count = _block(cells, x, y, ring)
    found, used = np.empty(count, np.float64), 0
    side = cells.frame.side
    for row in range(low, high + 1):
        for at in range(cells.start[row * side + left], cells.start[row * side + right + 1]):
            i = cells.member[at]
            found[used] = distance(x, y, cells.x[i], cells.y[i], planar)
            used += 1
    return np.partition(found, want - 1)[want - 1]


@kernel
def wanted_distances(cells: PlaceGrid, x: Array, y: Array, want: Array, planar: Flag) -> Array:
    """Return for each centre a distance within which there are at least `want` places, and few more.

    The distance is infinite if there are fewer places, and 0 if a centre is NaN. x and y are float64 (n,),
    and want is int64 (n,).
    """
    out = np.zeros(len(x), np.float64)
    for i in range(len(x)):
        if not np.isnan(x[i]):
            out[i] = _wanted_distance(cells, x[i], y[i], want[i], planar)
    return out


@kernel
def within_distances(
    cells: PlaceGrid, x: Array, y: Array, radius: Array, planar: Flag
) -> tuple[Array, Array]:
    """Find the places within a distance of each centre: pairs of centre and place, int32 each."""
    frame = cells.frame
    centre, place = np.empty(1024, np.int32), np.empty(1024, np.int32)
    used = 0
    for q in range(len(x)):
        if np.isnan(x[q]):
            continue
        x1, y1, x2, y2 = circle_box(x[q], y[q], radius[q], planar)
        left = band(x1, frame.x0, frame.per_x, frame.side)
        right = band(x2, frame.x0, frame.per_x, frame.side)
        low = band(y1, frame.y0, frame.per_y, frame.side)
        high = band(y2, frame.y0, frame.per_y, frame.side)
        for row in range(low, high + 1):
            begin = cells.start[row * frame.side + left]
            end = cells.start[row * frame.side + right + 1]
            if used + end - begin > len(place):
                more = np.int64(end - begin)
                centre, place = longer(centre, used, more), longer(place, used, more)
            for at in range(begin, end):
                i = cells.member[at]
                if distance(x[q], y[q], cells.x[i], cells.y[i], planar) <= radius[q]:
                    centre[used], place[used] = q, i
                    used += 1
    return centre[:used], place[:used]
