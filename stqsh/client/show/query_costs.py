"""What queries cost: how much each sends now, and its share of the engine's work. For SHOW QUERIES."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from stqsh.client.connection import Connection
from stqsh.spec.chunk import unpack
from stqsh.storage.control_log import get_meta, wall_clock_us
from stqsh.storage.payload_refs import PayloadReader
from stqsh.storage.slot_files import NotPublishedError, PublishedSlots

if TYPE_CHECKING:
    from stqsh.core.state.slot_state import SlotState

RECENT_S = 10.0
"""Updates a second are those of so many seconds."""
PATIENCE_S = 0.5
"""So long the slots may be busy; then there is no share to tell."""
_MOST_BATCHES = 200


def update_rates(link: Connection, now_us: int | None = None) -> dict[int, float]:
    """Updates a second of each query over the last `RECENT_S`, from the update log, by wall clock.

    Queries that sent nothing are left out. A query's first answer and what a DROP takes back count too.
    """
    since_s = (now_us or wall_clock_us()) / 1e6 - RECENT_S
    counted: Counter[int] = Counter()
    newest = link.progress().batch
    for batch in range(newest, max(-1, newest - _MOST_BATCHES), -1):
        file = link.home.updates / f"{batch:012d}.arrow"
        try:
            if file.stat().st_mtime < since_s:
                break
            counted.update(_updates_in(file))
        except FileNotFoundError:
            continue  # a batch without updates
    return {query: count / RECENT_S for query, count in counted.items()}


def _updates_in(file: Path) -> Counter[int]:
    """How many updates of each query a batch's file holds."""
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


def work_shares(link: Connection) -> dict[int, float]:
    """Each query's share of all candidates that were tested so far, 0 to 1, from the slots' published state.

    That is what EXPLAIN ANALYZE tells of one query. Empty where the state is not here or the slots are busy.
    """
    slots, folder = get_meta(link.db, "slots"), link.home.arena()
    if slots is None or not folder.is_dir():
        return {}
    try:
        tested = PublishedSlots(folder, int(slots)).read(_tested, 0, lambda: PATIENCE_S)
    except NotPublishedError:
        return {}
    everything = sum(tested.values())
    return {query: count / everything for query, count in tested.items()} if everything else {}


def _tested(states: list[SlotState]) -> Counter[int]:
    """The candidates of each query so far, over all streams, kinds and slots."""
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
