"""The counters of queries that a slot has released: what it did for them still counts in EXPLAIN."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import ArraySpec, StateTable


class ReleasedQueries(StateTable):
    """Queries that go on elsewhere, a row for each time that they were released.

    `stqsh.core.snapshots.query_cost` adds up the counters of all tables of a stream that have these columns.
    """

    id = ArraySpec(np.int64)
    tested = ArraySpec(np.int64)
    matched = ArraySpec(np.int64)
    sent = ArraySpec(np.int64)

    @staticmethod
    def of(state: SlotState, stream: int) -> ReleasedQueries:
        """Return the released queries of a stream, by its id."""
        return ReleasedQueries(state, _prefix(stream))


def forget_released(state: SlotState, stream: int, ids: Iterable[int]) -> None:
    """Forget queries of a stream that are dropped."""
    if f"{_prefix(stream)}/id" in state:
        released = ReleasedQueries.of(state, stream)
        released.keep(~np.isin(released.id, list(ids)))


def _prefix(stream: int) -> str:
    return f"s{stream}/released"
