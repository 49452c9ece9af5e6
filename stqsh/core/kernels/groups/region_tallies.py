"""Totals of the records in fixed regions, by group, without a list of all members.

Each region adds up its members in a small table of groups, which stays in the processor's cache. Records in
the order of cells make a region's members a few contiguous runs; packed words make a member cost one addition
per word. The cost is linear in the members, plus the groups of each region.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.aggregates.exact_sums import UNIT_PLACE, add_double
from stqsh.core.kernels.groups.packed_words import WordFields, take_apart
from stqsh.core.kernels.groups.region_members import (
    PlacedRecords,
    TallyRegions,
    find_in_box,
    find_members,
    within_outline,
)
from stqsh.core.kernels.index.static_rects import GridFrame, cover, within
from stqsh.core.kernels.jit import Int, inlined, kernel

WHOLE, DOUBLE, GREATEST = 0, 1, 2
"""How values are combined: a sum of whole numbers, a sum of doubles, or the greatest number (from 1 on)."""

TOGETHER = 2
"""Words are added in lots of this size: the number of records and a sum of doubles mostly need this many."""

_LOW = np.int64(0xFFFFFFFF)

_FEW = 4
"""A region scans all groups if there are at most this many groups per member."""

_ALWAYS = 64
"""A region also scans all groups if there are at most this many groups."""

_BLOCK = 1 << 11
"""Rows whose words are unpacked at a time, so that they stay in the processor's cache."""


class RecordTerms(NamedTuple):
    """The contributions of records, in the order of cells, to the totals of their groups.

    The first words hold the number of records, the number of arguments, and sums, as `fields` describes. The
    totals of values that would need too many words follow: the limbs of their sum, or a single total for the
    greatest value.

    Attributes:
        words: int64 (n, 1 + a multiple of TOGETHER): the group, and the words to add.
        fields: The fields of words; the first field is the number of records, in the first word.
        values: int64 (n, s): whole numbers, or the bits of doubles; 0 for NULL.
        sort: WHOLE, DOUBLE or GREATEST for each column of values, int8 (s,).
        column: The index that the total of place 0 would have, or the index of the greatest value, int64
            (s,).
        groups: The number of groups.
        packed: The number of totals that words are unpacked into.
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
    """Totals by region and group: the numbers of both, int32 (n,), and the totals, int64 (width, n)."""

    region: Array
    group: Array
    totals: Array


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
    """Space for the positions of a region's records, int32 (n,), and for totals, int64, flat."""

    found: Array
    totals: Array


@inlined
def _add_record(words: Array, k: Int, totals: Array) -> None:
    """Add one lot of a record's words to the totals; both are flat."""
    at = np.uint64(TOGETHER + 1) * k
    total = np.uint64(TOGETHER) * np.uint64(words[at])
    totals[total] += words[at + np.uint64(1)]
    totals[total + np.uint64(1)] += words[at + np.uint64(2)]


@kernel
def _tally_box(
    places: Array, words: Array, start: Array, frame: GridFrame, box: Array, scratch: TallyScratch
) -> Int:
    """Add the words of all records in a box, flat, to the totals, and return the number of these records.

    This combines `find_in_box` and `_add_words`, so records that need no test are not listed.
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
    """Space for the groups of a region, int32 (groups,), and for marks, bool, all False between calls."""

    groups: Array
    is_seen: Array


class SumRows(NamedTuple):
    """Space for rows: region and group, int32 (room,), and their words and other totals, int64, flat."""

    region: Array
    group: Array
    sums: Array


@inlined
def _move_row(totals: Array, wide: Int, q: Int, group: Int, rows: SumRows, used: Int) -> None:
    """Move the totals of a group, flat and in lots, to the next row."""
    region, groups, sums = rows
    region[used], groups[used] = q, group
    at, to = np.uint64(group) * np.uint64(wide), np.uint64(used) * np.uint64(wide)
    end = at + np.uint64(wide)
    while at < end:  # TOGETHER
        sums[to], sums[to + np.uint64(1)] = totals[at], totals[at + np.uint64(1)]
        totals[at], totals[at + np.uint64(1)] = 0, 0
        at += np.uint64(TOGETHER)
        to += np.uint64(TOGETHER)


@kernel
def _move_rows(totals: Array, wide: Int, q: Int, rows: SumRows, used: Int) -> Int:
    """Move all totals of region q to rows, and return the number of rows, including earlier ones.

    There is no branch per group: the next row overwrites the row of a group without members.
    """
    for group in range(len(totals) // wide):
        is_there = totals[group * wide] != 0
        _move_row(totals, wide, q, group, rows, used)
        used += np.int64(is_there)
    return used


@kernel
def _find_groups(words: Array, found: Array, members: Int, scratch: GroupScratch) -> Int:
    """Write the groups of members into `scratch`, ascending; return the number of groups."""
    groups, is_seen, seen = scratch.groups, scratch.is_seen, np.int64(0)
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
    """Add the values of members that are not in words to the totals."""
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
    """Return the totals of regions, from region `begin` on, while there is room for all groups.

    Returns:
        The region at which it stopped, and a row for each region and group with members, in order.
    """
    # Reading arrays from tuples in a loop counts references, so bind them to local names first.
    boxes, area, circle, words = regions.boxes, regions.area, regions.circles.x, terms.words
    places, start, frame, most = records.places, records.start, records.frame, terms.groups
    lots = words.shape[1] - 1
    limbs = terms.width - terms.packed
    wide = lots + limbs + limbs % TOGETHER
    totals, flat = np.zeros((most, wide), np.int64), words.reshape(-1)
    found, every = np.empty(len(places) + 1, np.int32), totals.reshape(-1)
    tallies = TallyScratch(found, every)
    scratch = GroupScratch(np.empty(most, np.int32), np.zeros(most, np.bool_))
    sums, used, q = np.empty((room, wide), np.int64), np.int64(0), begin
    rows = SumRows(np.empty(room, np.int32), np.empty(room, np.int32), sums.reshape(-1))
    while q < len(boxes) and used + most <= room:
        is_box = area[q] < 0 and np.isnan(circle[q]) and not np.isnan(boxes[q, 0])
        if is_box and most <= _ALWAYS and wide == TOGETHER:
            members = _tally_box(places, flat, start, frame, boxes[q], tallies)
        else:
            members = find_in_box(places, start, frame, boxes[q], found)
            if area[q] >= 0 or not np.isnan(circle[q]):
                members = within_outline(places, regions, q, found, members)
            _add_words(words, found, members, totals)
            if limbs > 0:
                _add_values(terms, found, members, totals)
        if most <= max(_FEW * members, _ALWAYS):
            used = _move_rows(every, wide, q, rows, used)
        else:
            for i in range(_find_groups(words, found, members, scratch)):
                _move_row(every, wide, q, scratch.groups[i], rows, used)
                used += 1
        q += 1
    columns = np.empty((terms.width, used), np.int64)
    for at in range(0, used, _BLOCK):
        until = min(at + _BLOCK, used)
        columns[: terms.packed, at:until] = 0
        take_apart(sums[at:until, :lots].T.copy(), terms.fields, columns[:, at:until])
        for c in range(limbs):
            columns[terms.packed + c, at:until] = sums[at:until, lots + c]
    return q, TallyRows(rows.region[:used], rows.group[:used], columns)


class RecordValues(NamedTuple):
    """The values or terms of records, in the order of cells.

    Attributes:
        start: int64 (n + 1,): the values of record k are start[k] .. start[k + 1].
        codes: The number of each value, int32.
        values: How many distinct values there are.
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
        The region, group and value as one number, (region * groups + group) * values + value, ascending; and
        the count; int64 (m,) each.
    """
    size = terms.groups * listed.values
    counts, touched = np.zeros(size, np.int64), np.empty(size, np.int64)
    found = np.empty(len(records.places) + 1, np.int32)
    codes, times, used = np.empty(64, np.int64), np.empty(64, np.int64), 0
    for q in range(begin, end):
        seen = 0
        for i in range(find_members(records, regions, q, found)):
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
