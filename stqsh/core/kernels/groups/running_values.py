"""The totals of groups after each change, and the values that count for MIN, MAX, TOPK and COUNT(DISTINCT …).

Cells hold how often each value occurs in a group, ordered by value. The changes of a version are applied in
place, and then the wanted values of its group are chosen. A version costs its changes plus the cells of its
group; TOPK costs its k times the cells.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.kernels.jit import Int, kernel

ALL, FIRST, LAST, TOP = 0, 1, 2, 3
"""Which values of a measure are wanted: all, the smallest, the largest, or the most frequent ones."""


class ValueCells(NamedTuple):
    """How often values occur in groups, by group, measure and value.

    Attributes:
        start: int64 (groups + 1,): the cells of each group.
        measure: int16 (cells,).
        wanted: ALL, FIRST, LAST or TOP, int8 (cells,), the same for a measure of a group.
        most: How many values TOP wants, int32 (cells,).
        times: How often each value occurs before the first change, int64 (cells,).
    """

    start: Array
    measure: Array
    wanted: Array
    most: Array
    times: Array


class ValueChanges(NamedTuple):
    """Changes of cells, ordered by version: the version, the cell, and the amount; int64 (n,) each."""

    version: Array
    cell: Array
    amount: Array


@kernel
def running_values(cells: ValueCells, changes: ValueChanges, versions: Array) -> tuple[Array, Array, Array]:
    """Apply the changes in place, and return the wanted values of each version of each group.

    Args:
        cells: The cells; `times` is updated.
        changes: The changes of the cells.
        versions: int64 (groups + 1,): the versions of each group, in order of time.

    Returns:
        The version, the cell, and how often the value occurs then, int64 each; by version, then cell.
    """
    version, cell = np.empty(64, np.int64), np.empty(64, np.int64)
    count, used, done = np.empty(64, np.int64), 0, 0
    chosen = np.zeros(len(cells.times), np.bool_)
    for group in range(len(versions) - 1):
        begin, end = cells.start[group], cells.start[group + 1]
        for v in range(versions[group], versions[group + 1]):
            while done < len(changes.version) and changes.version[done] == v:
                cells.times[changes.cell[done]] += changes.amount[done]
                done += 1
            _choose(cells, begin, end, chosen)
            for c in range(begin, end):
                if not chosen[c]:
                    continue
                chosen[c] = False
                if used == len(version):
                    version, cell = _longer(version), _longer(cell)
                    count = _longer(count)
                version[used], cell[used], count[used] = v, c, cells.times[c]
                used += 1
    return version[:used].copy(), cell[:used].copy(), count[:used].copy()


@kernel
def _longer(array: Array) -> Array:
    out = np.empty(2 * len(array), array.dtype)
    out[: len(array)] = array
    return out


@kernel
def _choose(cells: ValueCells, begin: Int, end: Int, chosen: Array) -> None:
    """Mark the wanted cells of a group."""
    at = begin
    while at < end:
        stop = at
        while stop < end and cells.measure[stop] == cells.measure[at]:
            stop += 1
        wanted = cells.wanted[at]
        if wanted == TOP:
            _choose_top(cells, at, stop, chosen)
        elif wanted == LAST:
            c = stop - 1
            while c >= at and cells.times[c] <= 0:
                c -= 1
            if c >= at:
                chosen[c] = True
        else:
            for c in range(at, stop):
                if cells.times[c] > 0:
                    chosen[c] = True
                    if wanted == FIRST:
                        break
        at = stop


@kernel
def _choose_top(cells: ValueCells, begin: Int, end: Int, chosen: Array) -> None:
    """Mark the cells of a measure that occur most often; of equally frequent cells, the first ones."""
    for _ in range(cells.most[begin]):
        best, most = begin, np.int64(0)
        for c in range(begin, end):
            if not chosen[c] and cells.times[c] > most:
                best, most = c, cells.times[c]
        if most == 0:
            break
        chosen[best] = True


class VersionTable(NamedTuple):
    """The versions of groups, by group and step; the first version of each group is that before the batch.

    Attributes:
        start: The versions of group g are start[g] .. start[g + 1]; int64 (groups + 1,).
        group: The group of each version, int64 (versions,).
        step: Its step, int64 (versions,).
        at: The version that each difference leads to, int32 (n,).
    """

    start: Array
    group: Array
    step: Array
    at: Array


@kernel
def version_table(which: Array, own: Array, steps: Array, groups: int) -> VersionTable:
    """Number the versions of groups, with a table of all possible versions.

    Args:
        which: The group of each difference, int32 (n,).
        own: The number of the difference's step, from 0 on, int64 (n,); or one number for all, (1,).
        steps: The step before the batch, then the steps of the differences, int64.
        groups: The number of groups.
    """
    span, each = np.int64(len(steps)), np.int64(len(own) > 1)
    places = np.full(groups * span, -1, np.int32)
    at = np.empty(len(which), np.int32)
    for i in range(len(which)):
        at[i] = np.int64(which[i]) * span + own[i * each] + 1
        places[np.uint64(at[i])] = 0
    count, start = np.int64(0), np.empty(groups + 1, np.int64)
    for g in range(groups):
        start[g] = count
        places[g * span] = 0
        for place in range(g * span, (g + 1) * span):
            if places[place] == 0:
                places[place] = count
                count += 1
    start[groups] = count
    group, step = np.empty(count, np.int64), np.empty(count, np.int64)
    for g in range(groups):
        for s in range(span):
            v = places[g * span + s]
            if v >= 0:
                group[v], step[v] = g, steps[s]
    for i in range(len(at)):
        at[i] = places[np.uint64(at[i])]
    return VersionTable(start, group, step, at)


class HeldGroups(NamedTuple):
    """Each group's row of totals before the batch, and the version that starts anew; (groups,), -1: none."""

    row: Array
    until: Array


@kernel
def running_totals(start: Array, held: HeldGroups, before: Array, at: Array, amounts: Array) -> Array:
    """Return one total of groups in all their versions, int64 (versions,).

    Args:
        start: The versions of group g are start[g] .. start[g + 1]; int64 (groups + 1,).
        held: The groups that have a total before the batch, int32.
        before: That total, int64 (m,); empty if it is 0 everywhere.
        at: The versions from which the differences count, int32 (n,).
        amounts: The first differences, int64; the remaining ones are 0.
    """
    out, row, until, is_held = np.zeros(start[-1], np.int64), held.row, held.until, len(before) > 0
    for i in range(len(amounts)):
        out[np.uint32(at[i])] += amounts[i]
    for group in range(len(row)):
        own = before[np.uint32(row[group])] if is_held and row[group] >= 0 else np.int64(0)
        total, again = own, until[group]
        out[start[group]] = total
        for version in range(start[group] + 1, start[group + 1]):
            total += out[version] - own * np.int64(version == again)
            out[version] = total
    return out
