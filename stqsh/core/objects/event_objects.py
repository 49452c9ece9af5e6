"""Event streams: every record is an object of its own, kept for KEEP and then forgotten.

Objects are indices as everywhere, so whatever holds for moving objects holds for events. Only two things are
different: keys tell nothing of identity, for a key may come again when its event has expired; and indices
change when expired events make room. Whoever keeps indices of objects from batch to batch says so, by
`holds_objects` or `follows_objects`, and need do nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stqsh.core.base.clock import BatchTiming
from stqsh.core.state.columns import DTYPES
from stqsh.core.state.interner import Interner
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.string_dictionary import holds_codes
from stqsh.spec.stream import StreamSpec

Array = npt.NDArray[Any]

_SPARE = 1024
"""Expired events that are not worth the work of making room."""


class EventKeyColumn:
    """The keys of a stream's events in the order of their arrival; takes the place of an `Interner`.

    Array `{prefix}/key`: codes of the stream's pool int32, or whole numbers int64 or int32.
    """

    def __init__(self, state: SlotState, prefix: str, spec: StreamSpec, pool: Interner) -> None:
        self._state, self._name, self._pool = state, f"{prefix}/key", pool
        self._kind: str = spec.types[spec.key]
        if self._name not in state:
            state.create(self._name, DTYPES[self._kind])
            if self._kind == "STRING":
                holds_codes(state, spec.id, self._name)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def _values(self) -> Array:
        return self._state.array(self._name)

    def intern(self, keys: pa.Array[Any], hashes: Array | None = None) -> npt.NDArray[np.int32]:
        """Make each key a new object: their indices, ascending. int32 (n,)."""
        before = len(self)
        text = self._kind == "STRING"
        values = self._pool.intern(keys, hashes) if text else keys.to_numpy(zero_copy_only=False)
        self._state.append(self._name, values)
        return np.arange(before, len(self), dtype=np.int32)

    def find(self, keys: pa.Array[Any]) -> npt.NDArray[np.int32]:
        """The latest event with each key, expired or not; -1 where none is stored. int32 (n,).

        Looks at all events once.
        """
        sought = self._pool.find(keys) if self._kind == "STRING" else keys.to_numpy(zero_copy_only=False)
        distinct, position = np.unique(sought, return_inverse=True)
        at = np.flatnonzero(np.isin(self._values, distinct))
        latest = np.full(len(distinct), -1, np.int32)
        latest[np.searchsorted(distinct, self._values[at])] = at  # ascending: the last of equal keys stays
        return latest[position]

    def take(self, objects: Array, kind: pa.DataType) -> pa.Array[Any]:
        """The keys of objects, (n,), in an Arrow type."""
        values = self._values[objects]
        return self._pool.take(values, kind) if self._kind == "STRING" else pa.array(values).cast(kind)


def holds_objects(state: SlotState, name: str) -> None:
    """Note that an array consists of indices of its stream's objects, -1 for none.

    The stream is that of the name, `s{id}/…`. An event that such an array names is kept though it has
    expired, and the array's elements follow when indices change.
    """
    _note(state, "object_arrays", name)


def follows_objects(state: SlotState, prefix: str) -> None:
    """Note that the arrays beneath `s{id}/…/` follow from the stream's objects.

    They are released when indices change; their owner finds them missing and makes them anew.
    """
    _note(state, "object_folders", prefix)


def _note(state: SlotState, list_: str, name: str) -> None:
    names = state.header.setdefault(list_, [])
    if name not in names:
        names.append(name)


def noted(state: SlotState, list_: str, stream: int) -> list[str]:
    """What the header's list "object_arrays" or "object_folders" says of a stream."""
    return [name for name in state.header.get(list_, []) if name.startswith(f"s{stream}/")]


def forget_notes(state: SlotState, stream: int) -> None:
    """Forget what was noted for a stream that is dropped."""
    for list_ in ("object_arrays", "object_folders"):
        gone = noted(state, list_, stream)
        state.header[list_] = [name for name in state.header.get(list_, []) if name not in gone]


def forget_expired(state: SlotState, stream: int, timing: BatchTiming) -> int:
    """Forget expired events once they are more than half of those stored; how many have not expired.

    One look at all times a batch; making room costs each event that stays a copy, and as many have gone.
    """
    ts = state.array(f"s{stream}/objects/ts")
    if timing.report < 0:
        return len(ts)
    stay = ts >= timing.at(timing.last) - timing.report
    there = int(np.count_nonzero(stay))
    if _is_worth_it(len(stay), there):
        stay |= held_by_arrays(state, stream, len(stay))
        if _is_worth_it(len(stay), int(np.count_nonzero(stay))):
            make_room(state, stream, stay)
    return there


def held_by_arrays(state: SlotState, stream: int, count: int) -> Array:
    """Which of so many objects are named by arrays that hold objects; bool (count,)."""
    held = np.zeros(count, np.bool_)
    for name in _holders(state, stream):
        objects = state.array(name)
        held[objects[objects >= 0]] = True
    return held


def _holders(state: SlotState, stream: int) -> list[str]:
    return [name for name in noted(state, "object_arrays", stream) if name in state]


def _is_worth_it(count: int, left: int) -> bool:
    return count - left > max(count // 2, _SPARE)


def make_room(state: SlotState, stream: int, stay: Array) -> None:
    """Forget all objects but those that stay, bool (n,), and let arrays with their indices follow."""
    index = np.where(stay, np.cumsum(stay) - 1, -1).astype(np.int32)
    for name in _holders(state, stream):
        objects = state.array(name)
        objects[:] = np.where(objects >= 0, index[objects], -1)
    own, keys = f"s{stream}/objects/", f"s{stream}/objects/keys"
    if f"{keys}/table" in state:
        Interner(state, keys).keep(np.flatnonzero(stay))
    for name in [name for name in state.header["lengths"] if name.startswith(own)]:
        if not name.startswith(f"{keys}/"):
            state.shrink(name, state.array(name)[stay])
    for folder in noted(state, "object_folders", stream):
        state.release(f"{folder}/")
