"""Event streams: every record is an object of its own, kept for KEEP and then removed.

Objects are indices as everywhere, so the code for moving objects also applies to events. Two things differ:
keys do not identify objects, as a key may be reused once its event has expired; and indices change when
expired events are removed. A table that keeps indices of objects across batches declares that they refer to
objects, see `stqsh.core.state.table`; nothing else is required.
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
"""The most expired events before the table is compacted."""

LET_GO = "let_go"
"""The entry of the header that says how many events of each stream the slot has given to its archive."""

RENUMBERED = "renumbered"
"""The entry of the header that says how often the objects of each stream got other numbers."""


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
        """Make each key a new object, and return their indices, int32 (n,), ascending."""
        before = len(self)
        text = self._kind == "STRING"
        values = self._pool.intern(keys, hashes) if text else keys.to_numpy(zero_copy_only=False)
        self._state.append(self._name, values)
        return np.arange(before, len(self), dtype=np.int32)

    def find(self, keys: pa.Array[Any]) -> npt.NDArray[np.int32]:
        """Return the latest event with each key, expired or not, int32 (n,); -1 if none is stored.

        Reads all events once.
        """
        sought = self._pool.find(keys) if self._kind == "STRING" else keys.to_numpy(zero_copy_only=False)
        distinct, position = np.unique(sought, return_inverse=True)
        at = np.flatnonzero(np.isin(self._values, distinct))
        latest = np.full(len(distinct), -1, np.int32)
        latest[np.searchsorted(distinct, self._values[at])] = at  # ascending: the last of equal keys stays
        return latest[position]

    def take(self, objects: Array, kind: pa.DataType) -> pa.Array[Any]:
        """Return the keys of objects, (n,), in an Arrow type."""
        values = self._values[objects]
        return self._pool.take(values, kind) if self._kind == "STRING" else pa.array(values).cast(kind)


def forget_expired(state: SlotState, stream: int, timing: BatchTiming) -> int:
    """Forget expired events once they are more than half of those stored; return how many are not expired.

    The cost is one pass over all times for each batch. Making room copies each event that stays, and as many
    have been removed.
    """
    if timing.report < 0:
        return len(state.array(f"s{stream}/objects/ts"))
    stay = _kept(state, stream, timing)
    there = int(np.count_nonzero(stay))
    if _is_worth_it(len(stay), there):
        stay |= referenced(state, "objects", stream, len(stay))
        if _is_worth_it(len(stay), int(np.count_nonzero(stay))):
            make_room(state, stream, stay)
    return there


def count_kept(state: SlotState, stream: int, timing: BatchTiming) -> int:
    """Return how many events are not expired."""
    return int(np.count_nonzero(_kept(state, stream, timing)))


def _kept(state: SlotState, stream: int, timing: BatchTiming) -> Array:
    """Return which events are not expired, bool (n,)."""
    kept: Array = state.array(f"s{stream}/objects/ts") >= timing.at(timing.last) - timing.report
    return kept


def let_go(state: SlotState, stream: int, timing: BatchTiming, *, at_once: bool) -> Array:
    """Return which events an archive takes now, bool (n,): expired ones that nothing refers to.

    Letting go costs a pass over all events. So it waits for the end of a minute, and then until a sixteenth
    of the events has expired or an hour ends, unless it has to be `at_once`.
    """
    expired = ~_kept(state, stream, timing)
    minute, hour = (_ends(timing, length) for length in (_MINUTE, _HOUR))
    if not (at_once or hour or (minute and 16 * np.count_nonzero(expired) > len(expired))):
        return np.zeros(len(expired), np.bool_)
    return expired & ~referenced(state, "objects", stream, len(expired))


def count_let_go(state: SlotState, stream: int, count: int) -> None:
    """Count events that go to the archive."""
    state.entry(LET_GO)[str(stream)] = let_go_so_far(state, stream) + count


def let_go_so_far(state: SlotState, stream: int) -> int:
    """Return how many events of a stream a slot has given to the archive so far."""
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
    """Return how often the objects of a stream got other numbers; until the next time they keep theirs."""
    return int(state.header.get(RENUMBERED, {}).get(str(stream), 0))


def make_room(state: SlotState, stream: int, stay: Array) -> None:
    """Keep only the objects marked in `stay`, bool (n,), and renumber the arrays that refer to objects."""
    renumber(state, "objects", stream, stay)
    state.entry(RENUMBERED)[str(stream)] = times_renumbered(state, stream) + 1
    own, keys = f"s{stream}/objects/", f"s{stream}/objects/keys"
    if f"{keys}/table" in state:
        Interner(state, keys).keep(np.flatnonzero(stay))
    kept = as_run(np.flatnonzero(stay))  # mostly the last ones
    for name in state.names(own):
        if not name.startswith(f"{keys}/"):
            state.shrink(name, state.array(name)[kept])
    for folder in derived(state, "objects", stream):
        state.release(f"{folder}/")
