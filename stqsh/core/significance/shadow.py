"""The shadow table: who was dropped by load shedding, and what each query lacks by that (SOLE section 6.5).

SOLE's table has the identifiers only; here the last place and its time are beside, so that a query's shed
objects are counted as it moves, and those that fell silent are not counted for ever.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stqsh.core.clock import Timing
from stqsh.core.kernels.events import Events
from stqsh.core.objects.events import KeyColumn
from stqsh.core.slot.pool import pool_of
from stqsh.core.slot.state import SlotState

Array = npt.NDArray[Any]
Spec = dict[str, Any]

_PLACE: dict[str, Any] = {"x": np.float64, "y": np.float64, "ts": np.int64}


def shadow_size(state: SlotState, stream: int) -> int:
    """How many objects a stream's shadow table has."""
    name = f"s{stream}/shadow/x"
    return len(state.array(name)) if name in state else 0


class ShadowTable:
    """Dropped objects, each once and in no order that matters. Arrays beneath `s{id}/shadow/`: key, as in
    `KeyColumn`, x, y float64 and ts int64 µs.
    """

    def __init__(self, state: SlotState, spec: Spec) -> None:
        self._state, self._prefix = state, f"s{spec['id']}/shadow"
        self._keys = KeyColumn(state, self._prefix, spec, pool_of(state, spec["id"]))
        if f"{self._prefix}/x" not in state:
            for name, kind in _PLACE.items():
                state.create(f"{self._prefix}/{name}", kind)

    def __len__(self) -> int:
        return len(self["x"])

    def __getitem__(self, name: str) -> Array:
        return self._state.array(f"{self._prefix}/{name}")

    def find(self, keys: pa.Array[Any]) -> npt.NDArray[np.int32]:
        """The rows of keys, -1 for those that are not there. int32 (n,)."""
        return self._keys.find(keys)

    def add(self, keys: pa.Array[Any], x: Array, y: Array, ts: Array) -> None:
        """Note objects that are not there yet, with where they were when; (n,) each."""
        self._keys.intern(keys)
        for name, values in zip(_PLACE, (x, y, ts), strict=True):
            self._state.append(f"{self._prefix}/{name}", values)

    def keep(self, stay: Array) -> None:
        """Forget all rows but those that stay, bool (n,)."""
        if not stay.all():
            for name in ("key", *_PLACE):
                self._state.replace(f"{self._prefix}/{name}", self[name][stay])

    def connected(self, timing: Timing) -> Array:
        """Which have been heard of within REPORT EVERY of the last step; bool (n,)."""
        fresh: Array = self["ts"] >= timing.at(timing.last) - timing.report
        return fresh

    def arrivals(self, step: int) -> Events:
        """All rows as events of a step that brought them in; versions are -1."""
        count = len(self)
        nowhere, none = np.full(count, np.nan), np.full(count, -1, np.int32)
        rows = np.arange(count, dtype=np.int32)
        steps = np.full(count, step, np.int64)
        return Events(steps, rows, none, none, nowhere, nowhere, self["x"].copy(), self["y"].copy())
