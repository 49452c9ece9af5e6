"""Event streams: every record is a separate object, which is kept for KEEP and then removed.

Objects are indices as for moving streams, so the code for moving objects also applies to events. Two things
differ: keys do not identify objects, because a key may be reused once its event has expired; and indices
change when expired events are removed. A table that keeps object indices across batches must declare that
they refer to objects, see `stqsh.core.state.table`; nothing else is required.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.base.clock import BatchTiming
from stqsh.core.objects.stored_columns import as_run
from stqsh.core.state.columns import DTYPES
from stqsh.core.state.interner import Interner
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import add_reference, derived, referenced, renumber
from stqsh.spec.stream import StreamSpec

_MINUTE, _HOUR = 60_000_000, 3_600_000_000
_SPARE = 1024
"""The most expired events that may exist before the table is compacted."""

LET_GO = "let_go"
"""The entry of the header with the number of events of each stream that the slot has moved to its archive."""

RENUMBERED = "renumbered"
"""The entry of the header that counts how often the objects of each stream were renumbered."""


class EventKeyColumn:
    """The keys of a stream's events in order of arrival, in place of an `Interner`.

    Array `{prefix}/key`: codes of the stream's pool int32, or whole numbers int64 or int32.
    """

    def __init__(self, state: SlotState, prefix: str, spec: StreamSpec, pool: Interner) -> None:
        self._state, self._name, self._pool = state, f"{prefix}/key", pool
        self._kind: str = spec.types[spec.key]
        if self._name not in state:
            state.create(self._name, DTYPES[self._kind])
            if self._kind == "STRING":
                add_reference(state, self._name, "strings")

    def __len__(self) -> int:
        return len(self._values)

    @property
    def _values(self) -> Array:
        return self._state.array(self._name)

    def intern(self, keys: pa.Array[Any], hashes: Array | None = None) -> npt.NDArray[np.int32]:
        """Create a new object for each key, and return their indices, int32 (n,), ascending."""
        before = len(self)
        text = self._kind == "STRING"
        values = self._pool.intern(keys, hashes) if text else keys.to_numpy(zero_copy_only=False)
        self._state.append(self._name, values)
        return np.arange(before, len(self), dtype=np.int32)

    def find(self, keys: pa.Array[Any]) -> npt.NDArray[np.int32]:
        """Return the latest event with each key, expired or not, int32 (n,); -1 if no event is stored.

        This reads all events once.
        """
        sought = self._pool.find(keys) if self._kind == "STRING" else keys.to_numpy(zero_copy_only=False)
        distinct, position = np.unique(sought, return_inverse=True)
        at = np.flatnonzero(np.isin(self._values, distinct))
        latest = np.full(len(distinct), -1, np.int32)
        latest[np.searchsorted(distinct, self._values[at])] = at  # ascending: the last of equal keys remains
        return latest[position]

    def take(self, objects: Array, kind: pa.DataType) -> pa.Array[Any]:
        """Return the keys of objects, (n,), in an Arrow type."""
        values = self._values[objects]
        return self._pool.take(values, kind) if self._kind == "STRING" else pa.array(values).cast(kind)


def forget_expired(state: SlotState, stream: int, timing: BatchTiming) -> int:
    """Forget expired events once they are more than half of all; return how many have not expired.

    Each batch costs one pass over all times. Removing events copies the events that stay, and at least as
    many are removed.
    """
    if not timing.expires:
        return len(state.array(f"s{stream}/objects/ts"))
    stay = _kept(state, stream, timing)
    there = int(np.count_nonzero(stay))
    if _is_worth_it(len(stay), there):
        stay |= referenced(state, "objects", stream, len(stay))
        if _is_worth_it(len(stay), int(np.count_nonzero(stay))):
            make_room(state, stream, stay)
    return there


def count_kept(state: SlotState, stream: int, timing: BatchTiming) -> int:
    """Return how many events have not expired."""
    return int(np.count_nonzero(_kept(state, stream, timing)))


def _kept(state: SlotState, stream: int, timing: BatchTiming) -> Array:
    """Return which events have not expired, bool (n,)."""
    kept: Array = state.array(f"s{stream}/objects/ts") >= timing.least(timing.last)
    return kept


def let_go(state: SlotState, stream: int, timing: BatchTiming, *, at_once: bool) -> Array:
    """Return which events move to an archive now, bool (n,): expired events that nothing refers to.

    Moving events costs a pass over all events. So unless `at_once`, it waits for the end of a minute in which
    more than a sixteenth of the events has expired, or for the end of an hour.
    """
    expired = ~_kept(state, stream, timing)
    minute, hour = (_ends(timing, length) for length in (_MINUTE, _HOUR))
    if not (at_once or hour or (minute and 16 * np.count_nonzero(expired) > len(expired))):
        return np.zeros(len(expired), np.bool_)
    return expired & ~referenced(state, "objects", stream, len(expired))


def count_let_go(state: SlotState, stream: int, count: int) -> None:
    """Count events that move to the archive."""
    state.entry(LET_GO)[str(stream)] = let_go_so_far(state, stream) + count


def let_go_so_far(state: SlotState, stream: int) -> int:
    """Return how many events of a stream a slot has moved to the archive so far."""
    return int(state.header.get(LET_GO, {}).get(str(stream), 0))


def _ends(timing: BatchTiming, length_us: int) -> bool:
    """Return whether a multiple of a length is within the batch or at its end."""
    return bool(timing.at(timing.last + 1) // length_us > timing.at(timing.first) // length_us)


def forget_all(state: SlotState, stream: int) -> None:
    """Forget all events."""
    make_room(state, stream, np.zeros(len(state.array(f"s{stream}/objects/ts")), np.bool_))


def _is_worth_it(count: int, left: int) -> bool:
    return count - left > max(count // 2, _SPARE)


def times_renumbered(state: SlotState, stream: int) -> int:
    """Return how often the objects of a stream were renumbered; numbers are stable while this is constant."""
    return int(state.header.get(RENUMBERED, {}).get(str(stream), 0))


def make_room(state: SlotState, stream: int, stay: Array) -> None:
    """Keep only the objects marked in `stay`, bool (n,), and renumber the arrays that refer to objects."""
    renumber(state, "objects", stream, stay)
    state.entry(RENUMBERED)[str(stream)] = times_renumbered(state, stream) + 1
    own, keys = f"s{stream}/objects/", f"s{stream}/objects/keys"
    if f"{keys}/table" in state:
        Interner(state, keys).keep(np.flatnonzero(stay))
    kept = as_run(np.flatnonzero(stay))  # usually the last objects
    for name in state.names(own):
        if not name.startswith(f"{keys}/"):
            state.shrink(name, state.array(name)[kept])
    for folder in derived(state, "objects", stream):
        state.release(f"{folder}/")
