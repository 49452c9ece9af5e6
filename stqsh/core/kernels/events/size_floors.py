"""The times before which events are let go so that the others fit a number of bytes (STAR section 7).

STAR categorizes objects into time slots whose granularity doubles with age, and deletes the oldest slots once
the data exceeds a threshold. Here times are cut into such slots, too: as of a tick, a slot has 2^k ticks,
begins at a multiple of that, and is at least `FINE` times its length old; the slots of younger times have one
tick. So there are few slots of each length, and at once at most about a `FINE`th of the time that is kept is
let go. The slots as of a tick follow from the tick alone, and never depend on when they are merged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.core.base.clock import NEVER
from stqsh.core.kernels.jit import Int, kernel

FINE = 1024
"""The least age of a slot of more than one tick, in lengths of the slot."""

_LONGEST = 40
"""The binary logarithm of the most ticks that a slot may have, and 1."""


class KeptTotal(NamedTuple):
    """What is kept after a tick.

    Attributes:
        floor: Ticks before this one have been let go; -NEVER for none.
        bytes: The bytes of the events that are kept.
    """

    floor: Int
    bytes: Int


class Arriving(NamedTuple):
    """Records as they arrive, (n,) each, int64.

    Attributes:
        tick: The ticks in which they arrive, ascending.
        at: The positions of the ticks of their times in `SizeSlots.ticks`.
        size: Their bytes.
    """

    tick: Array
    at: Array
    size: Array


class SizeSlots(NamedTuple):
    """Where the bytes of records are counted.

    Attributes:
        ticks: The ticks of times, int64 (m,), ascending, distinct.
        sizes: The bytes that are kept of each, int64 (m,); updated.
        limit: The most bytes that are kept.
        tick_us: The length of a tick, µs.
        now: The tick in which the last records before have arrived.
    """

    ticks: Array
    sizes: Array
    limit: int
    tick_us: int
    now: int


class KeyRecords(NamedTuple):
    """Records and their keys, (n,) each, as for `find_duplicates`; `kept_from` is by age alone."""

    places: Array
    times: Array
    kept_from: Array


@kernel
def slot_end(tick: Int, now: Int) -> Int:
    """Return the end of the time slot that holds a tick, as of another tick."""
    end = np.int64(tick + 1)
    for level in range(1, _LONGEST):
        length = np.int64(1) << level
        wider = (tick // length + 1) * length
        if now - wider < FINE * length:
            break
        end = wider
    return end


@kernel
def _let_go(slots: SizeSlots, first: Int, kept: KeptTotal, now: Int) -> tuple[Int, KeptTotal]:
    """Let the oldest slots go until the others fit; return the first entry that stays, and what is kept.

    An entry without bytes is of records that are yet to come, so it is not the oldest.
    """
    ticks, sizes, limit, _, _ = slots
    floor, total = kept
    while total > limit:
        while sizes[first] == 0:
            first += 1
        floor = slot_end(ticks[first], now)
        while first < len(ticks) and ticks[first] < floor:
            total -= sizes[first]
            sizes[first] = 0
            first += 1
    return first, KeptTotal(floor, total)


@kernel
def find_floors(arriving: Arriving, slots: SizeSlots, kept: KeptTotal) -> tuple[Array, Array, KeptTotal]:
    """Count the bytes of events by the tick of their times, and let the oldest slots go after each tick.

    Args:
        arriving: The events.
        slots: Where their bytes are counted.
        kept: What is kept before.

    Returns:
        The ticks after which something is let go, int64 (k,), the floors from then on, in ticks, int64 (k,),
            and what is kept at the end.
    """
    tick, at, size = arriving
    ticks, sizes, limit, _, _ = slots
    floor, total = kept
    when, floors = np.empty(len(tick), np.int64), np.empty(len(tick), np.int64)
    found, first, i = 0, np.int64(0), 0
    while i < len(tick):
        now = tick[i]
        while i < len(tick) and tick[i] == now:
            if ticks[at[i]] >= floor:
                sizes[at[i]] += size[i]
                total += size[i]
            i += 1
        if total > limit:
            first, (floor, total) = _let_go(slots, first, KeptTotal(floor, total), now)
            when[found], floors[found] = now, floor
            found += 1
    return when[:found], floors[:found], KeptTotal(floor, total)


@kernel
def merge_slots(ticks: Array, sizes: Array, now: Int) -> Int:
    """Merge the entries of each time slot as of a tick into its first one, and drop those without bytes.

    `ticks` and `sizes`, int64 (m,), are updated; the number of entries that stay is returned.
    """
    stay, end = 0, np.int64(0)
    for i in range(len(ticks)):
        if sizes[i] == 0:
            continue
        if stay and ticks[i] < end:
            sizes[stay - 1] += sizes[i]
            continue
        end = slot_end(ticks[i], now)
        ticks[stay], sizes[stay] = ticks[i], sizes[i]
        stay += 1
    return stay


@kernel
def find_duplicates_by_size(
    keys: KeyRecords, latest: Array, arriving: Arriving, slots: SizeSlots, kept: KeptTotal
) -> tuple[Array, KeptTotal]:
    """Mark the records whose key is still kept, as `find_duplicates`, where a number of bytes is kept.

    Only the records that are not marked count. The events of a tick are let go once a record of a later one
    comes, because a later call may have more records of the last tick.

    Args:
        keys: The keys of records, in replay order.
        latest: As for `find_duplicates`.
        arriving: The same records.
        slots: Where their bytes are counted.
        kept: What is kept before.

    Returns:
        The marks, bool (n,), and what is kept, before the last tick's events are let go.
    """
    places, times, kept_from = keys
    tick, at, size = arriving
    ticks, sizes, limit, tick_us, now = slots
    floor, total = kept
    out, first = np.zeros(len(places), np.bool_), np.int64(0)
    for i in range(len(places)):
        if total > limit and tick[i] != now:
            first, (floor, total) = _let_go(slots, first, KeptTotal(floor, total), now)
        now, place = tick[i], places[i]
        least = floor * tick_us if floor > -NEVER else floor
        if latest[place] >= max(kept_from[i], least):
            out[i] = True
            continue
        latest[place] = max(latest[place], times[i])
        if ticks[at[i]] >= floor:
            sizes[at[i]] += size[i]
            total += size[i]
    return out, KeptTotal(floor, total)
