"""Find keys that occur again, whole columns at a time, over any number of batches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stqsh.core.kernels.jit import frozen, kernel
from stqsh.core.state.interner import Interner
from stqsh.core.state.slot_state import SlotState
from stqsh.sources.formats.pyarrow_typing import Array
from stqsh.sources.formats.record_schema import RecordSchema

Mask = NDArray[np.bool_]
_NEVER = np.iinfo(np.int64).min


class SeenKeys:
    """The keys that have been seen so far."""

    def __init__(self) -> None:
        self._interner = Interner(SlotState.fresh(0), "keys")

    def __len__(self) -> int:
        return len(self._interner)

    def places(self, keys: Array) -> NDArray[np.int32]:
        """Return the number of each key (n,), in the order in which keys were first seen, from 0."""
        return self._interner.intern(keys)

    def seen(self, keys: Array) -> Mask:
        """Mark the keys (n,) that were seen before, in earlier calls or in this array; keep all of them."""
        known = len(self)
        places = self.places(keys)
        newest = np.maximum.accumulate(np.append(known - 1, places[:-1]))
        return places <= newest

    def keep(self, kept: NDArray[np.int64]) -> None:
        """Forget all keys but those with these numbers, ascending, which become 0, 1, 2, …."""
        self._interner.keep(kept)


_FORGET_KEYS = 1 << 20
"""Keys that are no longer kept are forgotten once there are so many, and half of them are not kept."""


class KeptEventKeys:
    """The kept keys of an event stream; the first of several records with the same key stays.

    A record is a duplicate if an accepted one of its key is kept at the start of the record's tick, that is,
    not older than `KEEP` then (language.md). With `KEEP NONE`, an accepted one is kept during its own tick.
    """

    def __init__(self, layout: RecordSchema) -> None:
        self._layout, self._keys = layout, SeenKeys()
        self._latest = np.zeros(0, np.int64)

    def duplicates(self, keys: Array, times: NDArray[np.int64], ticks: NDArray[np.int64]) -> Mask:
        """Mark the duplicates among records (n,), which come in replay order over all calls.

        keys: as stored. times: their times in µs. ticks: the ticks at which they are replayed.
        """
        if self._layout.keep_us is None:
            return self._keys.seen(keys)
        places = self._keys.places(keys)
        more = len(self._keys) - len(self._latest)
        self._latest = np.concatenate([self._latest, np.full(more, _NEVER)])
        kept_from = ticks * self._layout.tick_us - self._layout.keep_us
        if self._layout.keep_us == 0:
            times = ticks * self._layout.tick_us
        found = find_duplicates(frozen(places), frozen(times), frozen(kept_from), self._latest)
        if len(ticks) and len(self._latest) > _FORGET_KEYS:
            self._forget(int(kept_from[-1]))
        return found

    def _forget(self, kept_from: int) -> None:
        """Forget the keys whose records are older than a time, if they are many."""
        kept = np.flatnonzero(self._latest >= kept_from)
        if 2 * len(kept) < len(self._latest):
            self._keys.keep(kept)
            self._latest = self._latest[kept]


@kernel
def find_duplicates(
    places: NDArray[np.int32],
    times: NDArray[np.int64],
    kept_from: NDArray[np.int64],
    latest: NDArray[np.int64],
) -> Mask:
    """Mark the records, in replay order, whose key is still kept, bool (n,).

    places: int32 (n,), the numbers of their keys. times: int64 (n,), µs. kept_from: int64 (n,), the least
    time that is kept when a record comes. latest: int64 (keys,), the latest time accepted of each key, the
    least int64 where there is none; brought up to date.
    """
    out = np.zeros(len(places), np.bool_)
    for i in range(len(places)):
        place = places[i]
        if latest[place] >= kept_from[i]:
            out[i] = True
        elif latest[place] < times[i]:
            latest[place] = times[i]
    return out
