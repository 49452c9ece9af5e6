"""Turn a batch's rows into transitions of objects, with at most one event for each object and step.

A version is an int32. With n objects, v < n is the record of object v as stored before the batch, v >= n is
row v - n of the batch, and -1 means no record. Steps are int64. An object that is not present has NaN
coordinates. The cost depends on the rows and the expiring objects: one pass over the rows, and one over the
stored times.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.base.clock import NEVER, BatchTiming
from stqsh.core.kernels.geometry.shapes import Box, Point
from stqsh.core.kernels.jit import Int, inlined, kernel
from stqsh.spec.chunk import RecordRole

_DEPARTED, _PREVIOUS, _STALE = int(RecordRole.DEPARTED), int(RecordRole.PREVIOUS), int(RecordRole.STALE)


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
    """The result of `accept` for each row, (m,), and each object, (n,).

    Attributes:
        live: Whether the row is its object's record at the end of its step, (m,).
        old: The version before that step, (m,).
        until: The step in which the next row replaces it, NEVER if none does, (m,).
        first: The first accepted row of each object, int32 (n,); -1 for none.
        stale: The number of rows that were older than the record before them.
    """

    live: Array
    old: Array
    until: Array
    first: Array
    stale: int


class Transitions(NamedTuple):
    """Events, (k,) each.

    Attributes:
        step: int64.
        obj: int32.
        old, new: The versions before and after the step, int32.
        ox, oy: Where the object was at step - 1, NaN if it was not present.
        nx, ny: Where the object is at the step, NaN if it is not present.
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
    """Return space for `size` events."""
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
    """Return the first `count` events."""
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
    """Return the state of rows and objects before any row is accepted."""
    return AcceptedRows(
        np.zeros(rows, np.bool_),
        np.full(rows, -1, np.int32),
        np.full(rows, NEVER, np.int64),
        np.full(objects, -1, np.int32),
        0,
    )


@inlined
def accept_row(r: Int, rows: RowArrays, stored: StoredArrays, version: Array, accepted: AcceptedRows) -> Int:
    """Accept one row; return 1 if it is stale, else 0. Call it in log order for each object.

    A row is stale if its time is before that of the object's record; at equal times the later row wins.
    `version`, int32 (objects,), holds each object's version, and is updated.
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
def accept(rows: RowArrays, roles: Array, stored: StoredArrays) -> AcceptedRows:
    """Drop stale rows, and accept the last other row of each object and step; see `accept_row`.

    `roles`, int8 (rows,), are `RecordRole`s; empty if no object crosses from slot to slot. An object that
    departs has no record on this slot afterwards.
    """
    known = len(stored.known)
    accepted, version, stale = none_accepted(len(rows.obj), known), np.full(known, -1, np.int32), 0
    for o in range(known):
        if stored.known[o]:
            version[o] = o
    for r in range(len(rows.obj)):
        role = roles[r] if len(roles) else 0
        if role == _PREVIOUS:
            continue
        if role == _STALE:
            stale += 1
            continue
        stale += accept_row(r, rows, stored, version, accepted)
        if role == _DEPARTED:
            version[rows.obj[r]] = -1
    return AcceptedRows(accepted.live, accepted.old, accepted.until, accepted.first, stale)


def accept_events(obj: Array, objects: int) -> AcceptedRows:
    """Accept the rows of events: each row is a separate object that no other row replaces.

    Args:
        obj: The object of each row, int32 (n,), without repeats.
        objects: The number of objects.
    """
    rows = len(obj)
    first = np.full(objects, -1, np.int32)
    first[obj] = np.arange(rows, dtype=np.int32)
    return AcceptedRows(
        np.ones(rows, np.bool_), np.full(rows, -1, np.int32), np.full(rows, NEVER, np.int64), first, 0
    )


class Ages(NamedTuple):
    """When records expire by age, see `BatchTiming`; numbers only, so that passing them costs nothing."""

    report: int
    tick: int
    base: int


@inlined
def ages_of(timing: BatchTiming) -> Ages:
    """Return the ages at which records expire."""
    return Ages(timing.report, timing.tick, timing.base)


@inlined
def expiry(ts: Int, ages: Ages, floor_steps: Array, floors: Array) -> Int:
    """Return the first step at which a record of time ts is older than REPORT EVERY or a floor allows.

    `floor_steps` and `floors` are the arrays of `BatchTiming.floors`, bound to names outside of loops.
    """
    end = np.int64(NEVER)
    if ages.report >= 0:
        end = np.int64((ts + ages.report) // ages.tick - ages.base + 2)
    low, high = 0, len(floors)
    while low < high:  # the first floor above ts
        middle = (low + high) >> 1
        if floors[middle] <= ts:
            low = middle + 1
        else:
            high = middle
    if low < len(floors) and floor_steps[low] < end:
        end = floor_steps[low]
    return end


@kernel
def least_at(step: Int, timing: BatchTiming) -> Int:
    """Return the time before which records have expired at a step, µs; see `expiry`."""
    least = np.int64(-NEVER)
    if timing.report >= 0:
        least = np.int64((timing.base + step - 1) * timing.tick - timing.report)
    if len(timing.floors.step):
        held = np.searchsorted(timing.floors.step, step, side="right")
        if held > 0:
            least = max(least, timing.floors.least[held - 1])
    return least


@kernel
def _add_expiry(events: Transitions, k: Int, step: Int, obj: Int, version: Int, place: Point) -> None:
    """Store the event at which a version of an object at a place expires."""
    events.step[k], events.obj[k], events.old[k], events.new[k] = step, obj, version, version
    events.ox[k], events.oy[k] = place.x, place.y
    events.nx[k] = events.ny[k] = np.nan


@kernel
def build(
    accepted: AcceptedRows, rows: RowArrays, roles: Array, stored: StoredArrays, timing: BatchTiming
) -> Transitions:
    """Build all events of a batch; see `accept` for `roles`.

    Arrivals are in the order of rows, and each is followed by its disconnection. The disconnections of
    records stored before the batch come last. A record disconnects at `expiry` of its time. It does not
    disconnect if it never had a location, was too old when it arrived, or is replaced in that step or before.
    An object that departs has no place from then on. Steps without events cost nothing.
    """
    objects, count = len(stored.known), len(rows.obj)
    silent, ages, (floor_steps, floors) = (
        _expiring(accepted, rows, stored, timing),
        ages_of(timing),
        timing.floors,
    )
    ox, oy = places_after(accepted.old, rows.step - 1, rows, stored, timing)
    size = 2 * np.sum(accepted.live) + len(silent)
    events = room_for(size)
    k = np.int64(0)
    for r in range(count):
        if not accepted.live[r]:
            continue
        o, v, step = rows.obj[r], objects + r, rows.step[r]
        events.step[k], events.obj[k], events.old[k], events.new[k] = step, o, accepted.old[r], v
        events.ox[k], events.oy[k] = ox[r], oy[r]
        end = expiry(rows.ts[r], ages, floor_steps, floors)
        present = end > step and not (len(roles) and roles[r] == _DEPARTED)
        events.nx[k] = rows.x[r] if present else np.nan
        events.ny[k] = rows.y[r] if present else np.nan
        k += 1
        if present and end <= timing.last and end < accepted.until[r] and not np.isnan(rows.x[r]):
            _add_expiry(events, k, end, o, np.int32(v), Point(rows.x[r], rows.y[r]))
            k += 1
    for o in silent:
        end = expiry(stored.ts[o], ages, floor_steps, floors)
        _add_expiry(events, k, end, o, o, Point(stored.x[o], stored.y[o]))
        k += 1
    return first_of(events, k)


@kernel
def _expiring(accepted: AcceptedRows, rows: RowArrays, stored: StoredArrays, timing: BatchTiming) -> Array:
    """Return the objects whose stored record disconnects in this batch before a row replaces it; int32."""
    found = np.empty(256, np.int32)
    used = 0
    if timing.last < timing.first:
        return found[:used]
    low, high = least_at(timing.first - 1, timing), least_at(timing.last, timing)
    if low == high:
        return found[:used]
    ages, (floor_steps, floors) = ages_of(timing), timing.floors
    # Present before the batch: ts >= low. Too old after it: ts < high.
    for o in range(len(stored.known)):
        ts = stored.ts[o]
        if ts < low or ts >= high or not stored.known[o] or np.isnan(stored.x[o]):
            continue
        r = accepted.first[o]
        if r >= 0 and rows.step[r] <= expiry(ts, ages, floor_steps, floors):
            continue
        if used == len(found):
            more = np.empty(2 * used, np.int32)
            more[:used] = found
            found = more
        found[used] = o
        used += 1
    return found[:used]


@kernel
def remove_objects(events: Transitions, why: Array, last: int) -> tuple[Array, Array, Array]:
    """Remove objects in the last step: after their events of that step they have no place.

    Args:
        events: The events.
        why: int8 (objects,), nonzero for removed objects.
        last: The last step.

    Returns:
        The new nx and ny of all events, and which removed objects have an event in that step, bool
            (objects,).
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
    """Return the version of each object after a step, int32 (n,), -1 for none; known: bool (n,)."""
    current = np.full(len(known), -1, np.int32)
    for o in range(len(known)):
        if known[o]:
            current[o] = o
    for k in range(len(events.step)):
        # The arrivals of an object are in order; disconnections do not change the version, so skip them.
        if events.step[k] <= step and events.old[k] != events.new[k]:
            current[events.obj[k]] = events.new[k]
    return current


@kernel
def places_at(
    versions: Array, step: int, rows: RowArrays, stored: StoredArrays, timing: BatchTiming
) -> tuple[Array, Array]:
    """Return the places of the versions' objects at a step, float64 (n,) each; NaN if not present."""
    return places_after(versions, np.full(1, step, np.int64), rows, stored, timing)


@kernel
def places_after(
    versions: Array, steps: Array, rows: RowArrays, stored: StoredArrays, timing: BatchTiming
) -> tuple[Array, Array]:
    """Return `places_at` with a separate step for each version, int64 (n,), or one step for all, int64 (1,).

    Arrays are bound to local names, because reading an array from a tuple in a loop counts references in each
    iteration.
    """
    x, y = np.full(len(versions), np.nan), np.full(len(versions), np.nan)
    row_x, row_y, row_ts = rows.x, rows.y, rows.ts
    old_x, old_y, old_ts = stored.x, stored.y, stored.ts
    objects, each, limited = len(old_x), np.int64(len(steps) > 1), len(timing.floors.step) > 0
    report, tick = timing.report, timing.tick
    since = report + (1 - timing.base) * tick
    for i in range(len(versions)):
        version, row = versions[i], versions[i] - objects
        least = steps[i * each] * tick - since if report >= 0 else -NEVER  # see `expiry`
        if limited:
            least = least_at(steps[i * each], timing)
        if row >= 0:
            if row_ts[row] >= least:
                x[i], y[i] = row_x[row], row_y[row]
        elif version >= 0 and old_ts[version] >= least:
            x[i], y[i] = old_x[version], old_y[version]
    return x, y


@kernel
def places_around(
    versions: Array, box: Box, step: Int, rows: RowArrays, stored: StoredArrays, timing: BatchTiming
) -> tuple[Array, Array, Array]:
    """Return the versions whose objects are in a box at a step, int32, and their places."""
    count, held = len(versions), np.uint64(0)
    kept, x, y = np.empty(count, np.int32), np.empty(count), np.empty(count)
    row_x, row_y, row_ts = rows.x, rows.y, rows.ts
    old_x, old_y, old_ts = stored.x, stored.y, stored.ts
    objects, least = len(old_x), least_at(step, timing)
    for i in range(np.uint64(count)):
        version, row = versions[i], versions[i] - objects
        if row >= 0:
            place_x, place_y, ts = row_x[row], row_y[row], row_ts[row]
        elif version >= 0:
            place_x, place_y, ts = old_x[version], old_y[version], old_ts[version]
        else:
            continue
        kept[held], x[held], y[held] = version, place_x, place_y
        is_around = (box.x1 <= place_x) & (place_x <= box.x2) & (box.y1 <= place_y) & (place_y <= box.y2)
        held += np.uint64(is_around & (ts >= least))
    return kept[:held], x[:held], y[:held]
