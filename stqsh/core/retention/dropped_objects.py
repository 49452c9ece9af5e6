"""The objects that load shedding dropped: SOLE's shadow table (section 6.5).

SOLE's table contains only identifiers. Here a row also contains the object's last place, so that a query's
dropped objects are counted as the query moves; the step in which the object becomes silent, so that it is not
counted for ever; and the number of queries that need it, so that the histogram S covers dropped objects, too.
The identifier is a hash: a row takes 29 bytes for any key, and stores no text.

Suppose the keys of two objects have the same hash, and one object is dropped while the other reports. The
report then removes the row of the dropped object. Each query that lacks this object counts one dropped object
too few until the object reports again, which is after REPORT EVERY at the latest. The query's reported
accuracy is too high by that one object, and it may lose one object more than its minimum allows; rows have no
other effect. With 64 bits, the probability that this happens to any of a million dropped objects among a
million that report is 1 : 18 million.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.base.clock import BatchTiming
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import ArraySpec, StateTable
from stqsh.spec.stream import StreamSpec

MOST = 64
"""The end of the histogram S: objects with at least this many references are counted together."""


def dropped_count(state: SlotState, stream: int) -> int:
    """Return how many dropped objects a stream has."""
    name = f"s{stream}/shadow/hash"
    return len(state.array(name)) if name in state else 0


def dropped_references(state: SlotState, stream: int) -> Array:
    """Return how many queries need each dropped object of a stream; uint8 (n,)."""
    name = f"s{stream}/shadow/refs"
    return state.array(name) if name in state else np.empty(0, np.uint8)


class DroppedObjects(StateTable):
    """Dropped objects, in ascending order of hash, without repeats."""

    hash = ArraySpec(np.uint64)  # `hash_keys` of the key
    x = ArraySpec(np.float64)
    y = ArraySpec(np.float64)
    end = ArraySpec(np.uint32)  # the step from which on the object is silent, modulo 2**32
    refs = ArraySpec(np.uint8)  # the number of queries whose extended regions contain it, at most `MOST`

    def __init__(self, state: SlotState, spec: StreamSpec) -> None:
        super().__init__(state, f"s{spec.id}/shadow")

    def find(self, keys: pa.Array[Any]) -> npt.NDArray[np.int32]:
        """Return the rows of keys, int32 (n,); -1 for unknown ones."""
        sought, own = hash_keys(keys), self.hash
        if not len(own):
            return np.full(len(sought), -1, np.int32)
        at = np.minimum(np.searchsorted(own, sought), len(own) - 1)
        return np.where(own[at] == sought, at, -1).astype(np.int32)

    def add(self, keys: pa.Array[Any], what: tuple[Array, Array, Array, Array]) -> None:
        """Add objects that are not in the table.

        Args:
            keys: Their keys.
            what: The places x and y, the steps from which the objects are silent, and their references.
        """
        hashes = hash_keys(keys)
        order = np.argsort(hashes, kind="stable")
        at = np.searchsorted(self.hash, hashes[order])
        x, y, ends, refs = what
        columns: tuple[Array, ...] = (hashes, x, y, ends.astype(np.uint32), np.minimum(refs, MOST))
        self.store(
            **{
                name: np.insert(self.array(name), at, values[order])
                for name, values in zip(self.specs, columns, strict=True)
            }
        )

    def count(self, refs: Array) -> None:
        """Store the references of all rows, int64 (n,)."""
        self.refs[:] = np.minimum(refs, MOST)

    def connected(self, timing: BatchTiming) -> Array:
        """Return which objects have reported within REPORT EVERY of the last step; bool (n,).

        A row is removed in the step in which its object becomes silent, so ends modulo 2**32 are unambiguous.
        """
        ahead: Array = (self.end - np.uint32(timing.last & 0xFFFFFFFF)).view(np.int32)
        return ahead > 0

    def arrivals(self, step: int) -> Transitions:
        """Return all rows as events of their arrival in a step; versions are -1."""
        count = len(self)
        nowhere, none = np.full(count, np.nan), np.full(count, -1, np.int32)
        rows = np.arange(count, dtype=np.int32)
        steps = np.full(count, step, np.int64)
        return Transitions(steps, rows, none, none, nowhere, nowhere, self.x.copy(), self.y.copy())
