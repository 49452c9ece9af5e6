"""Who is in each query's circle, from batch to batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stqsh.core.objects.event_objects import holds_objects
from stqsh.core.state.slot_state import SlotState

Array = npt.NDArray[Any]


class MemberTable:
    """The members of queries' circles that satisfy the conditions, by position of the query, in no order.

    Arrays beneath `prefix`: roster_start int64 (queries + 1,) and roster_obj int32: query q's members are
    roster_obj[roster_start[q] : roster_start[q + 1]].
    """

    def __init__(self, state: SlotState, prefix: str) -> None:
        self._state = state
        self._names = f"{prefix}/roster_start", f"{prefix}/roster_obj"
        if self._names[0] not in state:
            state.create(self._names[0], np.int64, 1)
            state.create(self._names[1], np.int32)
            holds_objects(state, self._names[1])

    @property
    def _start(self) -> Array:
        return self._state.array(self._names[0])

    @property
    def _obj(self) -> Array:
        return self._state.array(self._names[1])

    def append(self, count: int) -> None:
        """Empty lists for so many new queries."""
        self._state.append(self._names[0], np.full(count, self._start[-1]))

    def remove(self, positions: Array) -> None:
        """Forget the queries at these positions; the positions of others change."""
        staying = np.delete(np.arange(len(self._start) - 1), positions)
        self._store(*self.of(staying))

    def of(self, positions: Array) -> tuple[Array, Array]:
        """The members of some queries: start int64 (n + 1,), and objects."""
        return _lists(self._start[positions], self._start[positions + 1], self._obj)

    def replace(self, positions: Array, start: Array, obj: Array) -> None:
        """Put other lists in the place of those of these queries; arguments as `of` gives them."""
        known = len(self._obj)
        begin, end = self._start[:-1].copy(), self._start[1:].copy()
        begin[positions], end[positions] = known + start[:-1], known + start[1:]
        self._store(*_lists(begin, end, np.concatenate([self._obj, obj])))

    def _store(self, start: Array, obj: Array) -> None:
        self._state.replace(self._names[0], start)
        self._state.replace(self._names[1], obj)


def _lists(begin: Array, end: Array, pool: Array) -> tuple[Array, Array]:
    """Stretches of a pool laid end to end: where each begins, int64 (n + 1,), and their elements."""
    lengths = end - begin
    start = np.zeros(len(begin) + 1, np.int64)
    np.cumsum(lengths, out=start[1:])
    return start, pool[np.repeat(begin - start[:-1], lengths) + np.arange(start[-1])]
