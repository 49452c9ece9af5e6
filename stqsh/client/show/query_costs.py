"""The cost of queries for SHOW QUERIES: the current update rate, and the share of the engine's work."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from stqsh.client.connection import Connection
from stqsh.client.read.slot_states import SlotStates
from stqsh.spec.chunk import unpack
from stqsh.spec.payload_refs import PayloadReader
from stqsh.storage.control_log import wall_clock_us

if TYPE_CHECKING:
    from stqsh.core.state.slot_state import SlotState

RECENT_S = 10.0
"""The time over which updates per second are counted."""
PATIENCE_S = 0.5
"""How long to wait for busy slots before giving up; then no share is shown."""
_MOST_BATCHES = 200
_DRIFT_S = 1.0
"""The maximum difference between the times of files and the order in which they were written."""


def update_rates(connection: Connection, now_us: int | None = None) -> dict[int, float]:
    """Return each query's updates per second over the last `RECENT_S` by wall clock, from the update log.

    Queries that sent nothing are left out. A query's first answer and the removals of a DROP count too.
    """
    later_s = (now_us or wall_clock_us()) / 1e6
    since_s = later_s - RECENT_S
    counted: Counter[int] = Counter()
    newest = connection.progress().batch
    for batch in range(newest, max(-1, newest - _MOST_BATCHES), -1):
        file = connection.home.updates / f"{batch:012d}.arrow"
        try:
            written_s = file.stat().st_mtime
            if not since_s <= written_s <= later_s + _DRIFT_S:
                break  # too old, or from before the clock was set back
            later_s = written_s
            counted.update(_updates_in(file))
        except FileNotFoundError:
            continue  # a batch without updates
    return {query: count / RECENT_S for query, count in counted.items()}


def _updates_in(file: Path) -> Counter[int]:
    """Return the number of updates of each query in a batch's file."""
    with pa.memory_map(str(file)) as source:
        chunks = pa.ipc.open_file(source).read_all()
    counted: Counter[int] = Counter()
    kinds, bulk = chunks.column("kind").to_pylist(), PayloadReader(file.parent)
    for kind, payload in zip(kinds, chunks.column("payload"), strict=True):
        if kind == "updates" and payload.is_valid:
            updates = unpack(bulk.payload(payload))
            ids, counts = np.unique(updates.column("query").to_numpy(), return_counts=True)
            counted.update(dict(zip(ids.tolist(), counts.tolist(), strict=True)))
    return counted


def work_shares(connection: Connection) -> dict[int, float]:
    """Return each query's share of all candidates tested so far, 0 to 1, from the slots' published state.

    EXPLAIN ANALYZE shows the same for one query. Empty if the state is not on this host or the slots are
    busy.
    """
    tested = SlotStates(connection).read(_tested, lambda: PATIENCE_S) or Counter[int]()
    everything = sum(tested.values())
    return {query: count / everything for query, count in tested.items()} if everything else {}


def _tested(states: list[SlotState]) -> Counter[int]:
    """Return the candidates of each query so far, over all streams, kinds and slots."""
    counted: Counter[int] = Counter()
    for state in states:
        for name in state.header.get("lengths", ()):
            if not name.endswith("/tested") or name.count("/") != 2:
                continue
            ids: Any = state.array(f"{name.removesuffix('/tested')}/id")
            for query, count in zip(ids.tolist(), state.array(name).tolist(), strict=False):
                if query >= 0:
                    counted[query] += count
    return counted
