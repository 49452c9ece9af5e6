"""Conditions that time alone changes: the steps at which `e op NOW ± d` changes, in closed form.

The truth of such a condition changes only in the first step in which NOW + shift reaches the value, and in
the first step in which NOW + shift exceeds it. Both follow from a division, so other steps cost nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.base.clock import NEVER, BatchTiming
from stqsh.core.kernels.events.transitions import AcceptedRows, RowArrays, StoredArrays, ages_of, expiry
from stqsh.core.kernels.jit import Int, kernel


class VersionSpans(NamedTuple):
    """The steps at which versions begin and cease to be present; int64 (versions,) each."""

    begin: Array
    end: Array


@kernel
def _first_from(values: Array, low: Int) -> Int:
    """Return the first position of an ascending array whose value is not below `low`."""
    begin, end = 0, len(values)
    while begin < end:
        middle = (begin + end) // 2
        if values[middle] < low:
            begin = middle + 1
        else:
            end = middle
    return begin


@kernel
def version_spans(
    versions: Array, accepted: AcceptedRows, rows: RowArrays, stored: StoredArrays, timing: BatchTiming
) -> VersionSpans:
    """Return the steps between which versions, int32 (n,), are present.

    Each version becomes present at `begin` (first - 1 for stored versions) and ceases to be present at `end`,
    which is at most last + 1. A version that is never present has end <= begin.
    """
    known = len(stored.known)
    begin = np.full(len(versions), timing.first - 1, np.int64)
    end = np.full(len(versions), timing.first - 1, np.int64)
    ages, (floor_steps, floors), after = ages_of(timing), timing.floors, timing.last + 1
    old_x, old_ts, is_known = stored.x, stored.ts, stored.known
    row_x, row_ts, row_step = rows.x, rows.ts, rows.step
    live, until, first = accepted.live, accepted.until, accepted.first
    for i in range(len(versions)):
        v = versions[i]
        if v < known:
            if is_known[v] and not np.isnan(old_x[v]):
                r = first[v]
                replaced = row_step[r] if r >= 0 else np.int64(NEVER)
                end[i] = min(replaced, expiry(old_ts[v], ages, floor_steps, floors), after)
        else:
            r = v - known
            begin[i] = row_step[r]
            if live[r] and not np.isnan(row_x[r]):
                end[i] = min(until[r], expiry(row_ts[r], ages, floor_steps, floors), after)
    return VersionSpans(begin, end)


@kernel
def values_near_now(values: Array, shifts: Array, timing: BatchTiming) -> Array:
    """Return the positions of values that NOW + shift reaches or exceeds in the batch; int32, ascending.

    `values` are int64 µs (n,); `shifts` are int64 µs, ascending.
    """
    found = np.empty(256, np.int32)
    used = 0
    low, high = timing.base + timing.last - 1, timing.base + timing.first - 2
    for v in range(len(values)):
        k = _first_from(shifts, values[v] - low * timing.tick)
        if k < len(shifts) and shifts[k] <= values[v] - high * timing.tick:
            if used == len(found):
                more = np.empty(2 * used, np.int32)
                more[:used] = found
                found = more
            found[used] = v
            used += 1
    return found[:used]


@kernel
def _with_room(steps: Array, versions: Array, used: Int) -> tuple[Array, Array]:
    """Copy the first `used` elements to arrays of twice the length."""
    more_steps, more_versions = np.empty(2 * len(steps), np.int64), np.empty(2 * len(steps), np.int32)
    more_steps[:used], more_versions[:used] = steps[:used], versions[:used]
    return more_steps, more_versions


@kernel
def find_flips(
    values: Array, valid: Array, shifts: Array, bounds: VersionSpans, timing: BatchTiming
) -> tuple[Array, Array]:
    """Find the steps within a version's span in which NOW + shift reaches or exceeds the version's value.

    A step that begins or ends a span already has an event, so it is left out.

    Args:
        values: int64 µs (versions,).
        valid: bool (versions,), False for NULL.
        shifts: int64 µs, ascending.
        bounds: The result of `version_spans`.
        timing: The batch's clock.

    Returns:
        Steps, int64, and positions of versions, int32.
    """
    begin, end = bounds
    steps, versions = np.empty(256, np.int64), np.empty(256, np.int32)
    used = 0
    for v in range(len(values)):
        if not valid[v] or end[v] - begin[v] < 2:
            continue
        # NOW + shift reaches the value at a step in (begin, end) only for shifts in this range.
        low = values[v] - (timing.base + end[v] - 2) * timing.tick
        high = values[v] - (timing.base + begin[v] - 1) * timing.tick
        for k in range(_first_from(shifts, low), _first_from(shifts, high + 1)):
            meets = -((shifts[k] - values[v]) // timing.tick) - timing.base + 1
            passes = (values[v] - shifts[k]) // timing.tick - timing.base + 2
            if used + 2 > len(steps):
                steps, versions = _with_room(steps, versions, used)
            if begin[v] < meets < end[v]:
                steps[used], versions[used] = meets, v
                used += 1
            if begin[v] < passes < end[v] and passes != meets:
                steps[used], versions[used] = passes, v
                used += 1
    return steps[:used], versions[:used]
