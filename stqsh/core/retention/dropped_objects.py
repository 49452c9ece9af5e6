"""The shadow table: who was dropped by load shedding, and what each query lacks by that (SOLE section 6.5).

SOLE's table has the identifiers only. Here the last place is beside, so that a query's shed objects are
counted as it moves, the step in which the object falls silent, so that it is not counted for ever, and how
many queries ask for it, so that S can tell of those that were dropped, too. Of the identifier there is the
hash: a row takes 29 bytes, whatever its key is, and no text stays for its sake.

If the keys of two objects have one hash, and one of them is dropped while the other reports, that report
takes the row of the first away: each query that lacks the first counts one object too few as shed, until
the first reports again, so for REPORT EVERY at most. Its accuracy is told too high by that one object, and
it may be found not to be locked, and lose one object more than its minimum allows; nothing else follows
from rows. With 64 bits, that befalls any of a million dropped objects among a million that report with a
probability of 1 : 18 million.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stqsh.core.base.clock import BatchTiming
from stqsh.core.kernels.events.transitions import Transitions
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import ArraySpec, Specs, StateTable

Array = npt.NDArray[Any]
Spec = dict[str, Any]

MOST = 64
"""Where S ends: objects with so many references or more are counted together."""


def shadow_size(state: SlotState, stream: int) -> int:
    """How many objects a stream's shadow table has."""
    name = f"s{stream}/shadow/hash"
    return len(state.array(name)) if name in state else 0


def shadow_refs(state: SlotState, stream: int) -> Array:
    """How many queries ask for each object in a stream's shadow table; uint8 (n,)."""
    name = f"s{stream}/shadow/refs"
    return state.array(name) if name in state else np.empty(0, np.uint8)


class DroppedObjects(StateTable):
    """Dropped objects, each once, ascending by hash."""

    specs: ClassVar[Specs] = {
        "hash": ArraySpec(np.uint64),  # `hash_keys` of the key
        "x": ArraySpec(np.float64),
        "y": ArraySpec(np.float64),
        "end": ArraySpec(np.uint32),  # the step from which on the object is silent, modulo 2**32
        "refs": ArraySpec(np.uint8),  # in how many queries' extended regions it is, `MOST` for more
    }

    def __init__(self, state: SlotState, spec: Spec) -> None:
        super().__init__(state, f"s{spec['id']}/shadow")

    def find(self, keys: pa.Array[Any]) -> npt.NDArray[np.int32]:
        """The rows of keys, -1 for those that are not there. int32 (n,)."""
        sought, own = hash_keys(keys), self["hash"]
        if not len(own):
            return np.full(len(sought), -1, np.int32)
        at = np.minimum(np.searchsorted(own, sought), len(own) - 1)
        return np.where(own[at] == sought, at, -1).astype(np.int32)

    def add(self, keys: pa.Array[Any], what: tuple[Array, Array, Array, Array]) -> None:
        """Note objects that are not there yet: where they were, x and y, from which steps on they are silent,
        and their references.
        """
        hashes = hash_keys(keys)
        order = np.argsort(hashes, kind="stable")
        at = np.searchsorted(self["hash"], hashes[order])
        x, y, ends, refs = what
        columns: tuple[Array, ...] = (hashes, x, y, ends.astype(np.uint32), np.minimum(refs, MOST))
        self.store(
            {
                name: np.insert(self[name], at, values[order])
                for name, values in zip(self.specs, columns, strict=True)
            }
        )

    def count(self, refs: Array) -> None:
        """Note the references of all rows, int64 (n,)."""
        self["refs"][:] = np.minimum(refs, MOST)

    def connected(self, timing: BatchTiming) -> Array:
        """Which have been heard of within REPORT EVERY of the last step; bool (n,).

        Rows go in the step in which their objects fall silent, so that no end lies far enough ahead, or
        behind, to be taken for another one.
        """
        ahead: Array = (self["end"] - np.uint32(timing.last & 0xFFFFFFFF)).view(np.int32)
        return ahead > 0

    def arrivals(self, step: int) -> Transitions:
        """All rows as events of a step that brought them in; versions are -1."""
        count = len(self)
        nowhere, none = np.full(count, np.nan), np.full(count, -1, np.int32)
        rows = np.arange(count, dtype=np.int32)
        steps = np.full(count, step, np.int64)
        return Transitions(steps, rows, none, none, nowhere, nowhere, self["x"].copy(), self["y"].copy())
