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
from stqsh.core.kernels.jit import Array, Flag, Float, Int, inlined, kernel

WHOLE, DOUBLE, GREATEST = 0, 1, 2
"""What is wanted of values: the sum of whole numbers or of doubles, or the greatest of numbers from 1 on."""

TOGETHER = 2
"""Words are added in lots of this many, as the number of records and a sum of doubles mostly take."""

WORD_BITS = 64
"""The bits of a word."""

_LOW = np.int64(0xFFFFFFFF)

_FEW = 4
"""All groups are looked through if there are at most this many for each member."""

_ALWAYS = 64
"""They are looked through, too, if there are at most this many of them."""

_BLOCK = 1 << 11
"""Rows whose words are taken apart at a time, so that they stay in the processor's cache."""


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


class WordFields(NamedTuple):
    """The parts of words, each a signed number that adds up without reaching the next part; (f,) each.

    Attributes:
        word: The word, from 1 on.
        shift: The place of its lowest bit there.
        size: Its bits.
        column: The total that it is, or that of the first limb of the sum of which it is a digit.
        limbs: How many limbs this sum has; 0 for no sum.
        room: How many totals there are for them.
        position: The bits from the lowest one of the first limb to the lowest one of the digit.
    """

    word: Array
    shift: Array
    size: Array
    column: Array
    limbs: Array
    room: Array
    position: Array


class RecordTerms(NamedTuple):
    """What records, in the order of their cells, add to the totals of their groups.

    The first words add up to the number of records, to that of arguments, and to sums, as `fields` say. Then
    there are totals of values that would take too many words: the limbs of their sum, or only one, the
    greatest.

    Attributes:
        words: int64 (n, 1 + a multiple of TOGETHER): the group, and what is added to words.
        fields: The parts of words; the first is the number of records, in the first word.
        values: int64 (n, s): whole numbers, or the bits of doubles; 0 for NULL.
        sort: WHOLE, DOUBLE or GREATEST for each column of values, int8 (s,).
        column: Where the total of place 0 would be, or the total of the greatest, int64 (s,).
        groups: The number of groups.
        packed: The number of totals that words are taken apart into.
        width: The number of totals.
    """

    words: Array
    fields: WordFields
    values: Array
    sort: Array
    column: Array
    groups: int
    packed: int
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
def first_words(groups: Array, order: PlaceOrder, count: int) -> Array:
    """Return words of records in the order of their cells, int64 (n, count): the group, 1, and zeros."""
    by_row, words = np.empty_like(groups), np.empty((len(groups), count), np.int64)
    in_rows, within_row = order.in_rows, order.within
    for i in range(len(groups)):
        by_row[in_rows[i]] = groups[i]
    for k in range(len(groups)):
        words[k, 0], words[k, 1] = by_row[within_row[k]], 1
        for c in range(2, count):
            words[k, c] = 0
    return words


@kernel
def in_order_of_place(boxes: Array, frame: GridFrame) -> Array:
    """Return the order of boxes by the cells of their lower left corners: neighbours share records."""
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
    """Return the values, int64, at places, int32 (n,)."""
    out = np.empty(len(places), np.int64)
    for i in range(len(places)):
        out[i] = values[places[i]]
    return out


@kernel
def box_around(boxes: Array) -> tuple[Float, Float, Float, Float]:
    """Return the corners of the box around boxes, float64 (n, 4); NaN if none has a place."""
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
def _find_members(records: PlacedRecords, regions: TallyRegions, q: Int, found: Array) -> Int:
    """Put the positions of a region's members into `found`, and return their number."""
    held = _find_in_box(records.places, records.start, records.frame, regions.boxes[q], found)
    return _within_outline(records.places, regions, q, found, held)


@kernel
def _find_in_box(places: Array, start: Array, frame: GridFrame, box: Array, found: Array) -> Int:
    """Put the positions of the records in a box into `found`, and return their number.

    Places are tested without branches, which would often be mispredicted. Those in cells between the box's
    outer ones need no test.
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
def _within_outline(places: Array, regions: TallyRegions, q: Int, found: Array, held: Int) -> Int:
    """Keep those records in a region's box that are within its polygon or circle; return their number."""
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
    """Return a number of members that no region exceeds."""
    most, side = np.int64(0), records.frame.side
    for q in range(len(regions.boxes)):
        if np.isnan(regions.boxes[q, 0]):
            continue
        window, members = cover(regions.boxes[q], records.frame), np.int64(0)
        for row in range(window.bottom, window.top + 1):
            members += records.start[row * side + window.right + 1] - records.start[row * side + window.left]
        most = max(most, members)
    return most


@kernel
def double_bits(bits: Array) -> tuple[Int, Int]:
    """Return the bits that doubles reach, given by their own: the lowest one that is set, and the one above.

    Bits are counted as limbs are, from 2 ** -1088 on.
    """
    low, high = np.int64(1 << 30), np.int64(-1)
    for i in range(len(bits)):
        position, mantissa = _apart(bits[i])
        if mantissa == 0:
            continue
        high = max(high, position + 53)
        below = min(low - position, np.int64(53))
        if below > 0 and mantissa & ((np.int64(1) << below) - 1) != 0:
            while mantissa & 1 == 0:
                mantissa >>= 1
                position += 1
            low = position
    return low, high


@inlined
def _apart(bits: Int) -> tuple[Int, Int]:
    """Return the bit at which the mantissa of a finite double begins, and the mantissa."""
    exponent, mantissa = (bits >> 52) & 2047, bits & np.int64(0xFFFFFFFFFFFFF)
    if exponent == 0:
        exponent = np.int64(1)
    else:
        mantissa |= np.int64(1) << 52
    return exponent + 13, mantissa


@kernel
def pack_digits(values: Array, is_double: Flag, low: Int, fields: WordFields, words: Array) -> None:
    """Add the digits of values, which are whole numbers or the bits of doubles, to the words of records.

    Args:
        values: The values, int64 (n,).
        is_double: Whether they are doubles.
        low: The lowest bit of doubles.
        fields: The digits, the lowest first. All but the last are as wide as the first two are apart.
        words: The words, (n, m).
    """
    digits = len(fields.word)
    every = fields.position[1] - fields.position[0] if digits > 1 else np.int64(63)
    mask = (np.uint64(1) << np.uint64(every)) - np.uint64(1)
    for k in range(len(values)):
        value, shift = values[k], np.int64(0)
        size = np.uint64(value) if value >= 0 else ~np.uint64(value) + np.uint64(1)
        if is_double:
            position, mantissa = _apart(value)
            size, shift = np.uint64(mantissa), position - low
        if size == 0:
            continue
        for j in range(digits):
            if shift >= 0:
                digit = size << np.uint64(shift) if shift < 64 else np.uint64(0)
            else:
                digit = size >> np.uint64(-shift) if shift > -64 else np.uint64(0)
            if j < digits - 1:
                digit &= mask
            signed = np.int64(digit) if value >= 0 else -np.int64(digit)
            words[k, fields.word[j]] += signed << fields.shift[j]
            shift -= every


@kernel
def _take_apart(words: Array, fields: WordFields, totals: Array) -> None:
    """Write what the totals of words, (words, n), are into totals, (columns, n), which are 0."""
    words_of, sizes, columns = fields.word, fields.size, fields.column
    limbs, room, positions = fields.limbs, fields.room, fields.position
    for f in range(len(words_of)):
        own, size, column = words[words_of[f] - 1], sizes[f], columns[f]
        place, shift = column + (positions[f] >> 5), positions[f] & 31
        for i in range(words.shape[1]):
            value = own[i]
            if size < WORD_BITS:
                unused = WORD_BITS - size
                value = (value << unused) >> unused
                own[i] = (own[i] - value) >> size
            if limbs[f] == 0:
                totals[column, i] = value
            else:
                low, high = (value & _LOW) << shift, (value >> 32) << shift
                totals[place, i] += low & _LOW
                totals[place + 1, i] += (low >> 32) + (high & _LOW)
                totals[place + 2, i] += high >> 32
    for f in range(len(words_of)):
        if limbs[f] > 0 and positions[f] < 32:
            _carry(totals[columns[f] : columns[f] + room[f]], limbs[f])


@kernel
def _carry(totals: Array, limbs: Int) -> None:
    """Normalise the limbs of sums, (room, n), of which all beyond some limbs only repeat the sign."""
    for place in range(len(totals) - 1):
        for i in range(totals.shape[1]):
            carry = totals[place, i] >> 32
            totals[place, i] -= carry << 32
            totals[place + 1, i] += carry
    for place in range(len(totals) - 1, limbs - 1, -1):
        for i in range(totals.shape[1]):
            totals[place - 1, i] += totals[place, i] << 32
            totals[place, i] = 0


@kernel
def _add_words(words: Array, found: Array, members: Int, totals: Array) -> None:
    """Add the words of members to the totals."""
    end = np.uint64(words.shape[1])
    for i in range(np.uint64(members)):
        k = np.uint64(found[i])
        group = np.uint64(words[k, 0])
        c = np.uint64(1)
        while c < end:  # TOGETHER
            totals[group, c - np.uint64(1)] += words[k, c]
            totals[group, c] += words[k, c + np.uint64(1)]
            c += np.uint64(2)


class TallyScratch(NamedTuple):
    """Room for the positions of a region's records, int32 (n,), and for totals, int64, flat."""

    found: Array
    totals: Array


@inlined
def _add_record(words: Array, k: Int, totals: Array) -> None:
    """Add the words of a record, one lot, to the totals, both flat."""
    at = np.uint64(TOGETHER + 1) * k
    total = np.uint64(TOGETHER) * np.uint64(words[at])
    totals[total] += words[at + np.uint64(1)]
    totals[total + np.uint64(1)] += words[at + np.uint64(2)]


@kernel
def _tally_box(
    places: Array, words: Array, start: Array, frame: GridFrame, box: Array, scratch: TallyScratch
) -> Int:
    """Add the words of all records in a box, flat, to the totals, and return the number of these records.

    This is `_find_in_box` and `_add_words` at once: what needs no test is not listed either.
    """
    found, totals = scratch
    x1, y1, x2, y2 = box[0], box[1], box[2], box[3]
    window, held, inside = cover(box, frame), np.uint64(0), np.uint64(0)
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
            _add_record(words, k, totals)
        inside += outer - inner
        for k in range(outer, end):
            found[held] = k
            held += np.uint64(within(places[k, 0], places[k, 1], x1, y1, x2, y2))
    for i in range(held):
        _add_record(words, np.uint64(found[i]), totals)
    return np.int64(held + inside)


class GroupScratch(NamedTuple):
    """Room for the groups of a region, int32 (groups,), and which ones are seen, bool; none between calls."""

    groups: Array
    is_seen: Array


@kernel
def _find_groups(words: Array, found: Array, members: Int, totals: Array, scratch: GroupScratch) -> Int:
    """Put the groups of members, which have totals, into `scratch`, ascending; return how many there are.

    All groups are looked through if these are few: that takes no sort, and no branch for each member.
    """
    groups, is_seen, seen = scratch.groups, scratch.is_seen, np.int64(0)
    if len(totals) <= max(_FEW * members, _ALWAYS):
        for group in range(len(totals)):
            groups[seen] = group
            seen += np.int64(totals[group, 0] != 0)
        return seen
    for i in range(members):
        group = words[np.uint64(found[i]), 0]
        if not is_seen[group]:
            is_seen[group] = True
            groups[seen] = group
            seen += 1
    groups[:seen].sort()
    for i in range(seen):
        is_seen[groups[i]] = False
    return seen


@kernel
def _add_values(terms: RecordTerms, found: Array, members: Int, totals: Array) -> None:
    """Add the values of members that are not among their words to the totals."""
    flat = totals.reshape(-1)
    for s in range(len(terms.sort)):
        sort, column = terms.sort[s], terms.column[s]
        for i in range(members):
            k = np.uint64(found[i])
            at, value = terms.words[k, 0] * totals.shape[1] + column, terms.values[k, s]
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
    # A loop over arrays of tuples counts references to each of them, so they are taken out before.
    boxes, area, circle, words = regions.boxes, regions.area, regions.circles.x, terms.words
    places, start, frame, most = records.places, records.start, records.frame, terms.groups
    lots = words.shape[1] - 1
    wide = lots + terms.width - terms.packed
    totals, flat = np.zeros((most, wide), np.int64), words.reshape(-1)
    found, groups = np.empty(len(places) + 1, np.int32), np.empty(most, np.int32)
    tallies = TallyScratch(found, totals.reshape(-1))
    scratch = GroupScratch(groups, np.zeros(most, np.bool_))
    region, group = np.empty(room, np.int32), np.empty(room, np.int32)
    columns, used, q = np.empty((wide, room), np.int64), 0, begin
    while q < len(boxes) and used + most <= room:
        is_box = area[q] < 0 and np.isnan(circle[q]) and not np.isnan(boxes[q, 0])
        if is_box and most <= _ALWAYS and wide == TOGETHER:
            members = _tally_box(places, flat, start, frame, boxes[q], tallies)
        else:
            members = _find_in_box(places, start, frame, boxes[q], found)
            if area[q] >= 0 or not np.isnan(circle[q]):
                members = _within_outline(places, regions, q, found, members)
            _add_words(words, found, members, totals)
            if wide > lots:
                _add_values(terms, found, members, totals)
        seen = _find_groups(words, found, members, totals, scratch)
        for i in range(seen):
            region[used], group[used] = q, groups[i]
            for c in range(wide):
                columns[c, used] = totals[groups[i], c]
                totals[groups[i], c] = 0
            used += 1
        q += 1
    rows = np.empty((terms.width, used), np.int64)
    for at in range(0, used, _BLOCK):
        until = min(at + _BLOCK, used)
        rows[: terms.packed, at:until] = 0
        _take_apart(columns[:lots, at:until], terms.fields, rows[:, at:until])
    rows[terms.packed :] = columns[lots:, :used]
    return q, TallyRows(region[:used], group[:used], rows)


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
