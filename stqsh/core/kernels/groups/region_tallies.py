"""What the records in fixed regions add up to, by group, without a list of all members.

Records are put in the order of the cells of a grid, so that those that a region may hold are one run in each
row of cells. A region adds up its members in a small table, which the processor keeps at hand.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.core.kernels.aggregates.exact_sums import add_double
from stqsh.core.kernels.geometry.circles import QueryCircles
from stqsh.core.kernels.geometry.distance import distance
from stqsh.core.kernels.geometry.polygons import PolygonArrays, holds
from stqsh.core.kernels.index.static_rects import GridFrame, cell_of, cover, within
from stqsh.core.kernels.jit import Array, Flag, Int, kernel

COUNT, WHOLE, DOUBLE, GREATEST = 0, 1, 2, 3
"""What is wanted of an argument: how many values there are, or their sum too, of whole numbers or doubles; or
only the greatest of numbers from 1 on."""

_LOW = np.int64(0xFFFFFFFF)


class PlacedRecords(NamedTuple):
    """Records in the order of their cells.

    Attributes:
        frame: The grid.
        start: int32 (cells + 1,): the records of cell c are start[c] .. start[c + 1].
        order: The number of each record, int32 (n,).
        places: x and y, float64 (n, 2).
    """

    frame: GridFrame
    start: Array
    order: Array
    places: Array


class TallyRegions(NamedTuple):
    """Regions within boxes.

    Attributes:
        boxes: float64 (n, 4).
        circles: NaN for none.
        planar: Whether distances are those of the plane.
        area: The row of each polygon, int32 (n,); -1 for none.
        areas: The polygons.
    """

    boxes: Array
    circles: QueryCircles
    planar: Flag
    area: Array
    areas: PolygonArrays


class RecordTerms(NamedTuple):
    """What records, in the order of their cells, add to the totals of their groups.

    The first total is the number of records. An argument has a total for the number of its values, and then
    one for each limb of their sum; or only one, the greatest.

    Attributes:
        words: int64 (n, 1 + arguments): the group, plus 1 << (32 + a) where argument a has a value; then the
            values: whole numbers, or the bits of doubles.
        sort: COUNT, WHOLE, DOUBLE or GREATEST for each argument, int8.
        column: The total that counts the argument's values, or the greatest, int64.
        low: The place of its first limb, int64.
        groups: The number of groups.
        width: The number of totals.
    """

    words: Array
    sort: Array
    column: Array
    low: Array
    groups: int
    width: int


class TallyRows(NamedTuple):
    """Totals of regions and groups: both by number, int32 (n,), and the totals, int64 (n, width)."""

    region: Array
    group: Array
    totals: Array


@kernel
def place_records(x: Array, y: Array, frame: GridFrame) -> PlacedRecords:
    """Put records, which all have a place, in the order of their cells, and of their numbers within one."""
    count, cells = len(x), frame.side * frame.side
    start, cell = np.zeros(cells + 2, np.int32), np.empty(count, np.int32)
    for i in range(count):
        cell[i] = cell_of(x[i], y[i], frame)
        start[cell[i] + 2] += 1
    for c in range(2, cells + 2):
        start[c] += start[c - 1]
    order, places = np.empty(count, np.int32), np.empty((count, 2), np.float64)
    for i in range(count):
        k = start[cell[i] + 1]
        start[cell[i] + 1] = k + 1
        order[k] = i
    for k in range(count):
        places[k, 0], places[k, 1] = x[order[k]], y[order[k]]
    return PlacedRecords(frame, start[: cells + 1], order, places)


@kernel
def in_order_of_place(boxes: Array, frame: GridFrame) -> Array:
    """Return the order of boxes by the cells of their lower left corners: neighbours share records."""
    cells = np.empty(len(boxes), np.int64)
    for q in range(len(boxes)):
        cells[q] = cell_of(boxes[q, 0], boxes[q, 1], frame)
    return np.argsort(cells, kind="mergesort")


@kernel
def _find_members(records: PlacedRecords, regions: TallyRegions, q: Int, found: Array) -> Int:
    """Put the positions of a region's members into `found`, and return their number.

    Places are tested without branches, which would often be mispredicted.
    """
    x1, y1, x2, y2 = regions.boxes[q, 0], regions.boxes[q, 1], regions.boxes[q, 2], regions.boxes[q, 3]
    if np.isnan(x1):
        return 0
    start, places, side = records.start, records.places, records.frame.side
    window, held = cover(regions.boxes[q], records.frame), np.uint64(0)
    for row in range(window.bottom, window.top + 1):
        begin, end = start[row * side + window.left], start[row * side + window.right + 1]
        for k in range(np.uint64(begin), np.uint64(end)):
            found[held] = k
            held += np.uint64(within(places[k, 0], places[k, 1], x1, y1, x2, y2))
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
        return np.int64(held)
    for i in range(held):
        k = found[i]
        if distance(x, y, places[k, 0], places[k, 1], regions.planar) <= radius:
            found[near] = k
            near += 1
    return near


@kernel
def _add_members(terms: RecordTerms, found: Array, members: Int, totals: Array, groups: Array) -> Int:
    """Add members to the totals, and put their groups into `groups`; return the number of groups."""
    words, seen = terms.words, 0
    for i in range(members):
        k = np.uint64(found[i])
        word = words[k, 0]
        group = word & _LOW
        at = group * terms.width
        if totals[at] == 0:
            groups[seen] = group
            seen += 1
        totals[at] += 1
        for a in range(len(terms.sort)):
            if (word >> (32 + a)) & 1 == 0:
                continue
            column = at + terms.column[a]
            if terms.sort[a] == GREATEST:
                totals[column] = max(totals[column], words[k, a + 1])
                continue
            totals[column] += 1
            if terms.sort[a] == DOUBLE:
                add_double(words[k, a + 1], np.int64(1), totals, column + 1 - terms.low[a])
            elif terms.sort[a] == WHOLE:
                totals[column + 1] += words[k, a + 1] & _LOW
                totals[column + 2] += words[k, a + 1] >> 32
    return seen


@kernel
def tally_regions(
    records: PlacedRecords, terms: RecordTerms, regions: TallyRegions, begin: Int, room: int
) -> tuple[Int, TallyRows]:
    """Return the totals of regions, from region `begin` on for as long as there is room for all groups.

    Returns:
        The region at which it ended, and a row for each region and group with members, in order.
    """
    totals = np.zeros(terms.groups * terms.width, np.int64)
    found, groups = np.empty(len(records.order) + 1, np.int32), np.empty(terms.groups, np.int32)
    region, group = np.empty(room, np.int32), np.empty(room, np.int32)
    rows, used, q = np.empty((room, terms.width), np.int64), 0, begin
    while q < len(regions.boxes) and used + terms.groups <= room:
        members = _find_members(records, regions, q, found)
        seen = _add_members(terms, found, members, totals, groups)
        groups[:seen].sort()
        for i in range(seen):
            region[used], group[used] = q, groups[i]
            at = np.int64(groups[i]) * terms.width
            for c in range(terms.width):
                rows[used, c] = totals[at + c]
                totals[at + c] = 0
            used += 1
        q += 1
    return q, TallyRows(region[:used], group[:used], rows[:used])


class RecordValues(NamedTuple):
    """The values or terms of records, in the order of their cells.

    Attributes:
        start: int64 (n + 1,): the values of record k are start[k] .. start[k + 1].
        codes: The number of each value, int32.
        values: How many different values there are.
    """

    start: Array
    codes: Array
    values: int


@kernel
def count_values(
    records: PlacedRecords,
    terms: RecordTerms,
    listed: RecordValues,
    regions: TallyRegions,
    begin: Int,
    end: Int,
) -> tuple[Array, Array]:
    """Count how often values occur in the groups of regions begin .. end.

    Returns:
        The region, group and value as one number, (region * groups + group) * values + value, ascending, and
        the count; int64 (m,) each.
    """
    size = terms.groups * listed.values
    counts, touched = np.zeros(size, np.int64), np.empty(size, np.int64)
    found = np.empty(len(records.order) + 1, np.int32)
    codes, times, used = np.empty(64, np.int64), np.empty(64, np.int64), 0
    for q in range(begin, end):
        seen = 0
        for i in range(_find_members(records, regions, q, found)):
            k = np.uint64(found[i])
            first = (terms.words[k, 0] & _LOW) * listed.values
            for at in range(listed.start[k], listed.start[k + np.uint64(1)]):
                cell = first + listed.codes[at]
                if counts[cell] == 0:
                    touched[seen] = cell
                    seen += 1
                counts[cell] += 1
        while used + seen > len(codes):
            codes, times = _doubled(codes), _doubled(times)
        touched[:seen].sort()
        for i in range(seen):
            codes[used], times[used] = np.int64(q) * size + touched[i], counts[touched[i]]
            counts[touched[i]] = 0
            used += 1
    return codes[:used].copy(), times[:used].copy()


@kernel
def _doubled(array: Array) -> Array:
    out = np.empty(2 * len(array), array.dtype)
    out[: len(array)] = array
    return out
