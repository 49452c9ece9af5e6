"""What the records in fixed regions add up to, by group, without a list of all members.

Records are put in the order of the cells of a grid, so that those that a region may hold are one run in each
row of cells. A region adds up its members in a small table, which the processor keeps at hand.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.core.kernels.aggregates.exact_sums import UNIT_PLACE, add_double
from stqsh.core.kernels.geometry.circles import QueryCircles
from stqsh.core.kernels.geometry.distance import distance
from stqsh.core.kernels.geometry.polygons import PolygonArrays, holds
from stqsh.core.kernels.index.static_rects import GridFrame, band, cell_of, cover, within
from stqsh.core.kernels.jit import Array, Flag, Int, kernel

WHOLE, DOUBLE, GREATEST = 0, 1, 2
"""What is wanted of values: the sum of whole numbers or of doubles, or the greatest of numbers from 1 on."""

TOGETHER = 3
"""Words are added in lots of this many, as a sum of doubles mostly has: the processor need not count them."""

_LOW = np.int64(0xFFFFFFFF)


class PlaceOrder(NamedTuple):
    """The order of records by their cells, as two moves that each stay within a few pages of memory.

    Reading values in that order at once would be a wait for memory for each of them.

    Attributes:
        in_rows: Where each record is among all in the order of the rows of cells, int32 (n,).
        within: Where each one in the order of cells is among those, int32 (n,).
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

    The first total is the number of records. Then there is one for each word, and then those of values that
    would take too many words: the limbs of their sum, or only one, the greatest.

    Attributes:
        words: int64 (n, 1 + a multiple of TOGETHER): the group, and what is added to totals.
        values: int64 (n, s): whole numbers, or the bits of doubles; 0 for NULL.
        sort: WHOLE, DOUBLE or GREATEST for each column of values, int8 (s,).
        column: Where the total of place 0 would be, or the total of the greatest, int64 (s,).
        groups: The number of groups.
        width: The number of totals.
    """

    words: Array
    values: Array
    sort: Array
    column: Array
    groups: int
    width: int


class TallyRows(NamedTuple):
    """Totals of regions and groups: both by number, int32 (n,), and the totals, int64 (width, n)."""

    region: Array
    group: Array
    totals: Array


@kernel
def place_records(x: Array, y: Array, frame: GridFrame) -> PlacedRecords:
    """Put records, which all have a place, in the order of their cells, and of their numbers within one."""
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
def put_in_order(values: Array, order: PlaceOrder) -> Array:
    """Return the values of records, (n,), in the order of their cells."""
    by_row, out = np.empty_like(values), np.empty_like(values)
    in_rows, within = order.in_rows, order.within
    for i in range(len(values)):
        by_row[in_rows[i]] = values[i]
    for k in range(len(values)):
        out[k] = by_row[within[k]]
    return out


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
def spread_doubles(bits: Array, low: Int, words: Array, column: Int) -> None:
    """Write the limbs of doubles, given by their bits, into words, which are 0 there, from a column on.

    `low` is the place of the first limb.
    """
    flat, width = words.reshape(-1), words.shape[1]
    for k in range(len(bits)):
        add_double(bits[k], np.int64(1), flat, k * width + column - low)


@kernel
def _add_words(terms: RecordTerms, found: Array, members: Int, totals: Array, groups: Array) -> Int:
    """Add members to the totals, and put their groups into `groups`; return the number of groups."""
    words, end, seen = terms.words, np.uint64(terms.words.shape[1]), 0
    for i in range(members):
        k = np.uint64(found[i])
        group = np.uint64(words[k, 0])
        if totals[group, 0] == 0:
            groups[seen] = group
            seen += 1
        totals[group, 0] += 1
        c = np.uint64(1)
        while c < end:  # TOGETHER
            totals[group, c] += words[k, c]
            totals[group, c + np.uint64(1)] += words[k, c + np.uint64(1)]
            totals[group, c + np.uint64(2)] += words[k, c + np.uint64(2)]
            c += np.uint64(3)
    return seen


@kernel
def _add_values(terms: RecordTerms, found: Array, members: Int, totals: Array) -> None:
    """Add the values of members that are not among their words to the totals."""
    flat = totals.reshape(-1)
    for s in range(len(terms.sort)):
        sort, column = terms.sort[s], terms.column[s]
        for i in range(members):
            k = np.uint64(found[i])
            at, value = terms.words[k, 0] * terms.width + column, terms.values[k, s]
            if sort == GREATEST:
                flat[at] = max(flat[at], value)
            elif sort == DOUBLE:
                add_double(value, np.int64(1), flat, at)
            else:
                flat[at + UNIT_PLACE] += value & _LOW
                flat[at + UNIT_PLACE + 1] += value >> 32


@kernel
def tally_regions(
    records: PlacedRecords, terms: RecordTerms, regions: TallyRegions, begin: Int, room: int
) -> tuple[Int, TallyRows]:
    """Return the totals of regions, from region `begin` on for as long as there is room for all groups.

    Returns:
        The region at which it ended, and a row for each region and group with members, in order.
    """
    totals = np.zeros((terms.groups, terms.width), np.int64)
    found, groups = np.empty(len(records.places) + 1, np.int32), np.empty(terms.groups, np.int32)
    region, group = np.empty(room, np.int32), np.empty(room, np.int32)
    columns, used, q = np.empty((terms.width, room), np.int64), 0, begin
    while q < len(regions.boxes) and used + terms.groups <= room:
        members = _find_members(records, regions, q, found)
        seen = _add_words(terms, found, members, totals, groups)
        _add_values(terms, found, members, totals)
        groups[:seen].sort()
        for i in range(seen):
            region[used], group[used] = q, groups[i]
            for c in range(terms.width):
                columns[c, used] = totals[groups[i], c]
                totals[groups[i], c] = 0
            used += 1
        q += 1
    return q, TallyRows(region[:used], group[:used], columns[:, :used])


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
    found = np.empty(len(records.places) + 1, np.int32)
    codes, times, used = np.empty(64, np.int64), np.empty(64, np.int64), 0
    for q in range(begin, end):
        seen = 0
        for i in range(_find_members(records, regions, q, found)):
            k = np.uint64(found[i])
            first = terms.words[k, 0] * listed.values
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
