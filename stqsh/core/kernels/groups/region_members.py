"""Records in the order of the cells of a grid, and the records that fixed regions contain.

In each row of cells, the records that a region may contain are one contiguous run. So a region costs one pass
over the records in the cells that its box touches; cells between the box's outer cells need no test.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.geometry.circles import QueryCircles
from stqsh.core.kernels.geometry.distance import distance
from stqsh.core.kernels.geometry.polygons import PolygonArrays, holds
from stqsh.core.kernels.index.static_rects import GridFrame, band, cell_of, cover, within
from stqsh.core.kernels.jit import Flag, Float, Int, kernel


class PlaceOrder(NamedTuple):
    """The order of records by their cells, as two moves that each touch only a few pages of memory at a time.

    Reading values directly in that order would wait for memory at each value.

    Attributes:
        in_rows: The position of each record in the order of the rows of cells, int32 (n,).
        within: The position in that order of each record in the order of cells, int32 (n,).
    """

    in_rows: Array
    within: Array


class PlacedRecords(NamedTuple):
    """Records in the order of their cells.

    Attributes:
        frame: The grid.
        start: int32 (cells + 1,): the records of cell c are start[c] .. start[c + 1].
        order: The order of the records.
        places: x and y, float64 (n, 2).
    """

    frame: GridFrame
    start: Array
    order: PlaceOrder
    places: Array


class TallyRegions(NamedTuple):
    """Regions within boxes.

    Attributes:
        boxes: float64 (n, 4).
        circles: NaN for none.
        planar: Whether distances are measured in the plane.
        area: The row of each polygon, int32 (n,); -1 for none.
        areas: The polygons.
    """

    boxes: Array
    circles: QueryCircles
    planar: Flag
    area: Array
    areas: PolygonArrays


@kernel
def place_records(x: Array, y: Array, frame: GridFrame) -> PlacedRecords:
    """Order records, all of which have a place, by their cells, and within a cell by their numbers."""
    count, side = len(x), frame.side
    rows, row = np.zeros(side + 2, np.int32), np.empty(count, np.int32)
    for i in range(count):
        row[i] = band(y[i], frame.y0, frame.per_y, side)
        rows[row[i] + 2] += 1
    for r in range(2, side + 2):
        rows[r] += rows[r - 1]
    in_rows, by_row = np.empty(count, np.int32), np.empty((count, 2), np.float64)
    for i in range(count):
        p = rows[row[i] + 1]
        rows[row[i] + 1] = p + 1
        in_rows[i], by_row[p, 0], by_row[p, 1] = p, x[i], y[i]
    start, places = np.empty(side * side + 1, np.int32), np.empty((count, 2), np.float64)
    within, column = np.empty(count, np.int32), row
    for r in range(side):
        begin, end, at = rows[r], rows[r + 1], start[r * side : (r + 1) * side + 1]
        at[:] = 0
        for p in range(begin, end):
            column[p] = band(by_row[p, 0], frame.x0, frame.per_x, side)
            at[column[p] + 1] += 1
        at[0] = begin
        for c in range(side):
            at[c + 1] += at[c]
        for p in range(begin, end):
            k = at[column[p]]
            at[column[p]] = k + 1
            within[k], places[k, 0], places[k, 1] = p, by_row[p, 0], by_row[p, 1]
        at[1:] = at[:-1].copy()
        at[0] = begin
    return PlacedRecords(frame, start, PlaceOrder(in_rows, within), places)


@kernel
def put_in_rows(values: Array, order: PlaceOrder) -> Array:
    """Return the values of records, (n,), in the order of the rows of cells."""
    by_row, in_rows = np.empty_like(values), order.in_rows
    for i in range(len(values)):
        by_row[in_rows[i]] = values[i]
    return by_row


@kernel
def put_in_order(values: Array, order: PlaceOrder) -> Array:
    """Return the values of records, (n,), in the order of cells."""
    by_row, out, within = put_in_rows(values, order), np.empty_like(values), order.within
    for k in range(len(values)):
        out[k] = by_row[within[k]]
    return out


@kernel
def first_words(groups: Array, order: PlaceOrder, count: int) -> Array:
    """Return the words of records in the order of cells, int64 (n, count): the group, 1, and zeros."""
    by_row, within_row = put_in_rows(groups, order), order.within
    words = np.empty((len(groups), count), np.int64)
    for k in range(len(groups)):
        words[k, 0], words[k, 1] = by_row[within_row[k]], 1
        for c in range(2, count):
            words[k, c] = 0
    return words


@kernel
def in_order_of_place(boxes: Array, frame: GridFrame) -> Array:
    """Return the order of boxes by the cells of their lower left corners; neighbours share records."""
    cells, start = np.empty(len(boxes), np.int64), np.zeros(frame.side * frame.side + 1, np.int32)
    for q in range(len(boxes)):
        cells[q] = 0 if np.isnan(boxes[q, 0]) else cell_of(boxes[q, 0], boxes[q, 1], frame)
        start[cells[q] + 1] += 1
    for cell in range(1, len(start)):
        start[cell] += start[cell - 1]
    order = np.empty(len(boxes), np.int64)
    for q in range(len(boxes)):
        order[start[cells[q]]] = q
        start[cells[q]] += 1
    return order


@kernel
def spread(values: Array, places: Array) -> Array:
    """Return the values, int64, at the positions `places`, int32 (n,)."""
    out = np.empty(len(places), np.int64)
    for i in range(len(places)):
        out[i] = values[places[i]]
    return out


@kernel
def box_around(boxes: Array) -> tuple[Float, Float, Float, Float]:
    """Return the corners of the box around boxes, float64 (n, 4); NaN if all boxes are NaN."""
    x1 = y1 = x2 = y2 = np.nan
    for q in range(len(boxes)):
        if np.isnan(boxes[q, 0]):
            continue
        x1 = boxes[q, 0] if np.isnan(x1) else min(x1, boxes[q, 0])
        y1 = boxes[q, 1] if np.isnan(y1) else min(y1, boxes[q, 1])
        x2 = boxes[q, 2] if np.isnan(x2) else max(x2, boxes[q, 2])
        y2 = boxes[q, 3] if np.isnan(y2) else max(y2, boxes[q, 3])
    return x1, y1, x2, y2


@kernel
def find_members(records: PlacedRecords, regions: TallyRegions, q: Int, found: Array) -> Int:
    """Write the positions of a region's members into `found`, and return their number."""
    held = find_in_box(records.places, records.start, records.frame, regions.boxes[q], found)
    return within_outline(records.places, regions, q, found, held)


@kernel
def find_in_box(places: Array, start: Array, frame: GridFrame, box: Array, found: Array) -> Int:
    """Write the positions of the records in a box into `found`, and return their number.

    Places are tested without branches, because branches would often be mispredicted. Places in cells between
    the box's outer cells need no test.
    """
    x1, y1, x2, y2 = box[0], box[1], box[2], box[3]
    if np.isnan(x1):
        return 0
    window, held = cover(box, frame), np.uint64(0)
    for row in range(window.bottom, window.top + 1):
        first, last = row * frame.side + window.left, row * frame.side + window.right
        begin, end = np.uint64(start[first]), np.uint64(start[last + 1])
        inner, outer = end, end
        if window.bottom < row < window.top and window.left < window.right:
            inner, outer = np.uint64(start[first + 1]), np.uint64(start[last])
        for k in range(begin, inner):
            found[held] = k
            held += np.uint64(within(places[k, 0], places[k, 1], x1, y1, x2, y2))
        for k in range(inner, outer):
            found[held + (k - inner)] = k
        held += outer - inner
        for k in range(outer, end):
            found[held] = k
            held += np.uint64(within(places[k, 0], places[k, 1], x1, y1, x2, y2))
    return np.int64(held)


@kernel
def within_outline(places: Array, regions: TallyRegions, q: Int, found: Array, held: Int) -> Int:
    """Keep the found records that are within the region's polygon or circle; return their number."""
    x, y, radius = regions.circles.x[q], regions.circles.y[q], regions.circles.radius[q]
    near, area = 0, regions.area[q]
    if area >= 0:
        for i in range(held):
            k = found[i]
            if holds(area, places[k, 0], places[k, 1], regions.areas):
                found[near] = k
                near += 1
        return near
    if np.isnan(x):
        return held
    for i in range(held):
        k = found[i]
        if distance(x, y, places[k, 0], places[k, 1], regions.planar) <= radius:
            found[near] = k
            near += 1
    return near


@kernel
def most_members(records: PlacedRecords, regions: TallyRegions) -> Int:
    """Return an upper bound of the number of members of any region."""
    most, side = np.int64(0), records.frame.side
    for q in range(len(regions.boxes)):
        if np.isnan(regions.boxes[q, 0]):
            continue
        window, members = cover(regions.boxes[q], records.frame), np.int64(0)
        for row in range(window.bottom, window.top + 1):
            members += records.start[row * side + window.right + 1] - records.start[row * side + window.left]
        most = max(most, members)
    return most
