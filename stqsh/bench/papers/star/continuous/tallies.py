"""The kernels that keep up results: counts of cells by result, intervals of them, and answers from these."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.bench.papers.star.continuous.posted import CountedCells
from stqsh.bench.papers.star.continuous.questions import Cubes
from stqsh.bench.papers.star.continuous.standing import Pairs
from stqsh.core.kernels.jit import Int, inlined, kernel

MOST = 10
"""The k of TOPK."""


class Tally(NamedTuple):
    """Counts by result and cell, in an open hash table.

    Attributes:
        slots: a row + 1, int32, 0 for free; a power of two.
        cube: int32 (rows,).
        cell: int32 (rows,).
        counts: int32 (rows,).
        after: the next row + 1 of the same result, int32 (rows,), 0 for none.
        head: the first row + 1 of each result, int32 (cubes,).
        used: the number of rows, int64 (1,).
    """

    slots: Array
    cube: Array
    cell: Array
    counts: Array
    after: Array
    head: Array
    used: Array


class Pool(NamedTuple):
    """Cells and their counts, int32 both."""

    cell: Array
    counts: Array


class Scratch(NamedTuple):
    """Room for one result.

    Attributes:
        counts: of each cell, int32, 0 between uses.
        touched: cells, int32.
        place: 1 + the number of a group among those of the result, int32, 0 between uses.
        group: these groups, int32.
        kept: how many cells each of them has in `best`, int32.
        best: the most frequent cells of each, int32 (groups, MOST).
    """

    counts: Array
    touched: Array
    place: Array
    group: Array
    kept: Array
    best: Array


@inlined
def _add(tally: Tally, cube: Int, cell: Int, more: Int) -> None:
    """Add to a count; there is room for one more row."""
    slots, cubes, cells, counts, after, head, used = tally
    mixed = ((np.uint64(cube) << np.uint64(32)) | np.uint64(cell)) * np.uint64(0x9E3779B97F4A7C15)
    mask = np.uint64(len(slots) - 1)
    at = (mixed ^ (mixed >> np.uint64(32))) & mask
    row = np.int64(slots[at]) - 1
    while row >= 0 and (cubes[row] != cube or cells[row] != cell):
        at = (at + np.uint64(1)) & mask
        row = np.int64(slots[at]) - 1
    if row < 0:
        row = used[0]
        used[0] = row + 1
        slots[at], cubes[row], cells[row], counts[row] = row + 1, cube, cell, 0
        after[row], head[cube] = head[cube], row + 1
    counts[row] += more


@kernel
def move_rows(old: Tally, new: Tally) -> None:
    """Copy all rows with a count to an empty tally."""
    for row in range(old.used[0]):
        if old.counts[row]:
            _add(new, old.cube[row], old.cell[row], old.counts[row])


@kernel
def count_pairs(tally: Tally, pairs: Pairs, cubes: Cubes, cells: CountedCells, begin: Int) -> Int:
    """Count records in the results of the rows that they satisfy; return the first pair without room."""
    for i in range(begin, len(pairs.row)):
        record, row = pairs.record[i], pairs.row[i]
        first, last = cells.start[record], cells.start[record + 1]
        one, end = cubes.start[row], cubes.start[row + 1]
        if tally.used[0] + (last - first) * (end - one) > len(tally.counts):
            return np.int64(i)
        for cube in range(one, end):
            grouping = cubes.grouping[cube]
            for k in range(first, last):
                _add(tally, cube, cells.cell[grouping, k], 1)
    return np.int64(len(pairs.row))


@kernel
def take_interval(tally: Tally, pool: Pool, at: Int) -> Array:
    """Write the counts of a tally into a pool, from a place on; return where each result's begin."""
    start = np.empty(len(tally.head) + 1, np.int64)
    for cube in range(len(tally.head)):
        start[cube] = at
        row = np.int64(tally.head[cube]) - 1
        while row >= 0:
            pool.cell[at], pool.counts[at] = tally.cell[row], tally.counts[row]
            at += 1
            row = np.int64(tally.after[row]) - 1
    start[-1] = at
    return start


@kernel
def merge_intervals(pool: Pool, one: Array, two: Array, at: Int, scratch: Scratch) -> Array:
    """Write the sum of two intervals into a pool, from a place on; return where each result's begin."""
    start = np.empty(len(one), np.int64)
    counts = scratch.counts
    for cube in range(len(one) - 1):
        start[cube] = at
        for part in (one, two):
            for k in range(part[cube], part[cube + 1]):
                cell = pool.cell[k]
                if not counts[cell]:
                    pool.cell[at] = cell
                    at += 1
                counts[cell] += pool.counts[k]
        for k in range(start[cube], at):
            pool.counts[k] = counts[pool.cell[k]]
            counts[pool.cell[k]] = 0
    start[-1] = at
    return start


@kernel
def shift_totals(totals: Tally, pool: Pool, start: Array, chosen: Array, sign: Int) -> None:
    """Add the counts of an interval to totals, for chosen results, bool (cubes,); there is room."""
    for cube in range(len(start) - 1):
        if chosen[cube]:
            for k in range(start[cube], start[cube + 1]):
                _add(totals, cube, pool.cell[k], sign * pool.counts[k])


@inlined
def _mix(cell: Int, count: Int) -> Int:
    mixed = ((np.uint64(cell) << np.uint64(32)) | np.uint64(count)) * np.uint64(0xBF58476D1CE4E5B9)
    return (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)


@inlined
def _show(scratch: Scratch, touched: Int, groups: Array, is_top: bool) -> Int:
    """Return a digest of one result: all counts, or the most frequent terms of each group; clear the room."""
    counts, cells, place, group, kept, best = scratch
    found: Int = np.uint64(0)
    number: Int = np.int64(0)
    for i in range(touched):
        cell = np.int64(cells[i])
        count = counts[cell]
        if not is_top:
            found += _mix(cell, count)
            counts[cell] = 0
            continue
        g = groups[cell]
        at: Int = np.int64(place[g]) - 1
        if at < 0:
            at = number
            number += 1
            place[g], group[at], kept[at] = number, g, 0
        k = np.int64(kept[at])
        if k == MOST:
            last = best[at, MOST - 1]
            if counts[last] > count or (counts[last] == count and last < cell):
                continue
            k -= 1
        else:
            kept[at] = k + 1
        while k and (
            counts[best[at, k - 1]] < count or (counts[best[at, k - 1]] == count and best[at, k - 1] > cell)
        ):
            best[at, k] = best[at, k - 1]
            k -= 1
        best[at, k] = cell
    for at in range(number):
        place[group[at]] = 0
        for rank in range(kept[at]):
            found += _mix(best[at, rank], counts[best[at, rank]])
    if is_top:
        for i in range(touched):
            counts[cells[i]] = 0
    return found


@kernel
def answer_intervals(
    pool: Pool, starts: Array, due: Array, grouping: Array, scratch: Scratch, shown: tuple[Array, bool, Array]
) -> None:
    """Answer results from intervals, and add a digest of each answer to what is shown.

    Args:
        pool: the counts.
        starts: where those of each result begin, int64 (intervals, cubes + 1).
        due: the results, int64.
        grouping: that of each result.
        scratch: room.
        shown: the group of each cell, as in `CountedCells`; whether the most frequent terms are shown; and
            the digests, uint64 (cubes,).
    """
    groups, is_top, digests = shown
    counts, cells = scratch.counts, scratch.touched
    for cube in due:
        touched = np.int64(0)
        for i in range(len(starts)):
            for k in range(starts[i, cube], starts[i, cube + 1]):
                cell = pool.cell[k]
                if not counts[cell]:
                    cells[touched] = cell
                    touched += 1
                counts[cell] += pool.counts[k]
        digests[cube] += _show(scratch, touched, groups[grouping[cube]], is_top)


@kernel
def answer_totals(
    totals: Tally, due: Array, grouping: Array, scratch: Scratch, shown: tuple[Array, bool, Array]
) -> None:
    """Answer results from totals; for `shown` see `answer_intervals`."""
    groups, is_top, digests = shown
    counts, cells = scratch.counts, scratch.touched
    for cube in due:
        touched, row = np.int64(0), np.int64(totals.head[cube]) - 1
        while row >= 0:
            if totals.counts[row]:
                cell = totals.cell[row]
                cells[touched], counts[cell] = cell, totals.counts[row]
                touched += 1
            row = np.int64(totals.after[row]) - 1
        digests[cube] += _show(scratch, touched, groups[grouping[cube]], is_top)
