"""From a batch's rows to what happened to objects: at most one event for each object and step.

A version is an int32: v < n the record of object v as stored before the batch (n objects), v >= n the batch's
row v - n, -1 no record. All steps int64; an object that is not there has NaN coordinates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.core.base.clock import NEVER, BatchTiming
from stqsh.core.kernels.jit import Array, Float, Int, inlined, kernel


class RowArrays(NamedTuple):
    """A batch's rows in log order: obj int32, step int64, x, y float64 (NaN: no location), ts int64 µs."""

    obj: Array
    step: Array
    x: Array
    y: Array
    ts: Array


class StoredArrays(NamedTuple):
    """Objects as stored: x, y float64 (NaN: no location), ts int64 µs, known bool (has a record)."""

    x: Array
    y: Array
    ts: Array
    known: Array


class AcceptedRows(NamedTuple):
    """What `accept` made of each row, (m,), and of each object, (n,).

    live: the row is its object's record at the end of its step. old: the version before that step. until:
    the step in which the next row replaces it, NEVER if none does. first: an object's first accepted row,
    int32, -1 for none. stale: how many rows were older than what was known.
    """

    live: Array
    old: Array
    until: Array
    first: Array
    stale: int


class Transitions(NamedTuple):
    """What happened, (k,) each: step, obj int32, the versions before and after the step, int32, and where
    the object was at step - 1 and is at step: NaN where it is not present.
    """

    step: Array
    obj: Array
    old: Array
    new: Array
    ox: Array
    oy: Array
    nx: Array
    ny: Array


@kernel
def room_for(size: Int) -> Transitions:
    """Room for so many events."""
    return Transitions(
        np.empty(size, np.int64),
        np.empty(size, np.int32),
        np.empty(size, np.int32),
        np.empty(size, np.int32),
        np.empty(size, np.float64),
        np.empty(size, np.float64),
        np.empty(size, np.float64),
        np.empty(size, np.float64),
    )


@kernel
def first_of(events: Transitions, count: Int) -> Transitions:
    """The first so many events."""
    return Transitions(
        events.step[:count],
        events.obj[:count],
        events.old[:count],
        events.new[:count],
        events.ox[:count],
        events.oy[:count],
        events.nx[:count],
        events.ny[:count],
    )


@kernel
def none_accepted(rows: Int, objects: Int) -> AcceptedRows:
    """What becomes of so many rows and objects before anything is accepted."""
    return AcceptedRows(
        np.zeros(rows, np.bool_),
        np.full(rows, -1, np.int32),
        np.full(rows, NEVER, np.int64),
        np.full(objects, -1, np.int32),
        0,
    )


@inlined
def accept_row(r: Int, rows: RowArrays, stored: StoredArrays, version: Array, accepted: AcceptedRows) -> Int:
    """Take in one row after those before it, in log order for each object; 1 if it is stale, else 0.

    A row is stale if its time is before that of the object's record; at equal times the later row wins.
    version: int32 (objects,), the version of each object, moved on.
    """
    o, known, stale = rows.obj[r], len(stored.known), 0
    v = version[o]
    p = v - known
    if (p >= 0 and rows.ts[r] < rows.ts[p]) or (p < 0 and v >= 0 and rows.ts[r] < stored.ts[v]):
        stale = 1
    else:
        accepted.old[r] = v
        if p >= 0:
            accepted.until[p] = rows.step[r]
            if rows.step[p] == rows.step[r]:
                accepted.live[p] = False
                accepted.old[r] = accepted.old[p]
        if accepted.first[o] < 0:
            accepted.first[o] = r
        accepted.live[r] = True
        version[o] = known + r
    return stale


@kernel
def accept(rows: RowArrays, stored: StoredArrays) -> AcceptedRows:
    """Drop stale rows, and keep of each object's rows in a step the last that is not; see `accept_row`."""
    known = len(stored.known)
    accepted, version, stale = none_accepted(len(rows.obj), known), np.full(known, -1, np.int32), 0
    for o in range(known):
        if stored.known[o]:
            version[o] = o
    for r in range(len(rows.obj)):
        stale += accept_row(r, rows, stored, version, accepted)
    return AcceptedRows(accepted.live, accepted.old, accepted.until, accepted.first, stale)


@kernel
def expiry(ts: Int, timing: BatchTiming) -> Int:
    """The first step at which a record of time ts is older than REPORT EVERY allows."""
    if timing.report < 0:
        return np.int64(NEVER)
    return np.int64((ts + timing.report) // timing.tick - timing.base + 2)


@kernel
def _put(events: Transitions, k: Int, what: tuple[Int, Int, Int, Int], old: tuple[Float, Float]) -> None:
    events.step[k], events.obj[k], events.old[k], events.new[k] = what
    events.ox[k], events.oy[k] = old[0], old[1]
    events.nx[k] = events.ny[k] = np.nan


@kernel
def _old_place(
    old: Int, before: Int, rows: RowArrays, stored: StoredArrays, timing: BatchTiming
) -> tuple[Float, Float]:
    """Where the version `old` shows its object at step `before`."""
    if old < 0:
        return np.nan, np.nan
    objects = len(stored.known)
    if old < objects:
        x, y, ts = stored.x[old], stored.y[old], stored.ts[old]
    else:
        x, y, ts = rows.x[old - objects], rows.y[old - objects], rows.ts[old - objects]
    if expiry(ts, timing) <= before:
        return np.nan, np.nan
    return x, y


@kernel
def build(accepted: AcceptedRows, rows: RowArrays, stored: StoredArrays, timing: BatchTiming) -> Transitions:
    """All events of a batch: arrivals in the rows' order, each followed by its disconnection, then the
    disconnections of records stored before.

    A record disconnects at `expiry` of its time, unless it never had a location, was born too old, or is
    replaced in that step or before. Time is taken in closed form: empty steps cost nothing.
    """
    objects, count = len(stored.known), len(rows.obj)
    silent = _expiring(accepted, rows, stored, timing)
    size = 2 * np.sum(accepted.live) + len(silent)
    events = room_for(size)
    k = np.int64(0)
    for r in range(count):
        if not accepted.live[r]:
            continue
        o, v, step = rows.obj[r], objects + r, rows.step[r]
        x, y = _old_place(accepted.old[r], step - 1, rows, stored, timing)
        events.step[k], events.obj[k], events.old[k], events.new[k] = step, o, accepted.old[r], v
        events.ox[k], events.oy[k] = x, y
        end = expiry(rows.ts[r], timing)
        present = end > step
        events.nx[k] = rows.x[r] if present else np.nan
        events.ny[k] = rows.y[r] if present else np.nan
        k += 1
        if present and end <= timing.last and end < accepted.until[r] and not np.isnan(rows.x[r]):
            _put(events, k, (end, o, np.int32(v), np.int32(v)), (rows.x[r], rows.y[r]))
            k += 1
    for o in silent:
        _put(events, k, (expiry(stored.ts[o], timing), o, o, o), (stored.x[o], stored.y[o]))
        k += 1
    return first_of(events, k)


@kernel
def _expiring(accepted: AcceptedRows, rows: RowArrays, stored: StoredArrays, timing: BatchTiming) -> Array:
    """The objects whose stored record disconnects in this batch before any row replaces it. int32."""
    found = np.empty(256, np.int32)
    used = 0
    if timing.report < 0 or timing.last < timing.first:
        return found[:used]
    # Present before the batch: ts >= at(first - 1) - report; too old after it: ts < at(last) - report.
    low = (timing.base + timing.first - 2) * timing.tick - timing.report
    high = (timing.base + timing.last - 1) * timing.tick - timing.report
    for o in range(len(stored.known)):
        ts = stored.ts[o]
        if ts < low or ts >= high or not stored.known[o] or np.isnan(stored.x[o]):
            continue
        r = accepted.first[o]
        if r >= 0 and rows.step[r] <= expiry(ts, timing):
            continue
        if used == len(found):
            more = np.empty(2 * used, np.int32)
            more[:used] = found
            found = more
        found[used] = o
        used += 1
    return found[:used]


@kernel
def without(events: Transitions, why: Array, last: int) -> tuple[Array, Array, Array]:
    """Events that lead nowhere: those of the last step whose objects are taken out.

    why: int8 (objects,), not 0 for those that are. Returns nx and ny as they are then, and which objects that
    are taken out did something in the last step, bool (objects,).
    """
    nx, ny = events.nx.copy(), events.ny.copy()
    acted = np.zeros(len(why), np.bool_)
    for k in range(len(events.step)):
        o = events.obj[k]
        if events.step[k] == last and why[o] != 0:
            acted[o] = True
            nx[k] = ny[k] = np.nan
    return nx, ny, acted


@kernel
def versions_at(events: Transitions, known: Array, step: int) -> Array:
    """The version of each object after a step; known: bool (n,). int32 (n,), -1 for none."""
    current = np.full(len(known), -1, np.int32)
    for o in range(len(known)):
        if known[o]:
            current[o] = o
    for k in range(len(events.step)):
        # An object's arrivals come in order; disconnections change no version, and come anywhere.
        if events.step[k] <= step and events.old[k] != events.new[k]:
            current[events.obj[k]] = events.new[k]
    return current


@kernel
def places_at(
    versions: Array, step: int, rows: RowArrays, stored: StoredArrays, timing: BatchTiming
) -> tuple[Array, Array]:
    """Where versions show their objects at a step; NaN where they are not present. float64 (n,) each."""
    x, y = np.empty(len(versions), np.float64), np.empty(len(versions), np.float64)
    for i in range(len(versions)):
        x[i], y[i] = _old_place(versions[i], step, rows, stored, timing)
    return x, y


@kernel
def places_after(
    versions: Array, steps: Array, rows: RowArrays, stored: StoredArrays, timing: BatchTiming
) -> tuple[Array, Array]:
    """`places_at` with a step for each version, int64 (n,)."""
    x, y = np.empty(len(versions), np.float64), np.empty(len(versions), np.float64)
    for i in range(len(versions)):
        x[i], y[i] = _old_place(versions[i], steps[i], rows, stored, timing)
    return x, y
