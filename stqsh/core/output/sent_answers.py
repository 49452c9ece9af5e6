"""The members of answers that queries have sent, as pairs of query id and object."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from stqsh.core.objects.event_objects import holds_objects
from stqsh.core.state.slot_state import SlotState

Array = npt.NDArray[Any]


class SentAnswers:
    """Pairs of queries and objects in a slot's state; the built-in kinds keep those of paused queries.

    Arrays beneath `prefix`: sent_query int64 (ids), sent_obj int32.
    """

    def __init__(self, state: SlotState, prefix: str) -> None:
        self._state = state
        self._names = f"{prefix}/sent_query", f"{prefix}/sent_obj"
        if self._names[0] not in state:
            state.create(self._names[0], np.int64)
            state.create(self._names[1], np.int32)
            holds_objects(state, self._names[1])

    def add(self, queries: Array, objects: Array) -> None:
        """Store members of queries: ids int64 (n,), objects int32 (n,)."""
        self._state.append(self._names[0], queries)
        self._state.append(self._names[1], objects)

    def pop(self, queries: Iterable[int]) -> tuple[Array, Array]:
        """Remove the members of these queries, and return them: ids and objects, (n,) each."""
        ids, objects = (self._state.array(name) for name in self._names)
        mine = np.isin(ids, list(queries))
        popped = ids[mine], objects[mine]
        self._state.replace(self._names[0], ids[~mine])
        self._state.replace(self._names[1], objects[~mine])
        return popped
