"""Retention of objects after a step: insignificant and silent ones are forgotten, and their rows removed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stqsh.arrays import Array
from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.kernels.events.updates import LEFT
from stqsh.core.kernels.retention.reference_counts import present_after
from stqsh.core.matching.moving_index import laid, lay_cells
from stqsh.core.objects.batch_objects import silent_from
from stqsh.core.objects.event_objects import make_room
from stqsh.core.retention.interest_counts import InterestTracker
from stqsh.core.state.table import referenced

_SPARE = 1024
"""Rows of objects without a record that may remain in any case."""


@dataclass(frozen=True)
class RetentionDecision:
    """Which objects stay after the last step of a piece, (objects,) each.

    Attributes:
        present: Whether the object is connected and has a location, bool.
        why: For present objects that are removed, a position in `stqsh.spec.chunk.WHY` (LEFT if no query
            needs them, SHED if load shedding drops them), 0 for others; int8.
        focal: The focal objects of active queries, which always stay, bool.
    """

    present: Array
    why: Array
    focal: Array

    @property
    def kept(self) -> Array:
        """The objects that stay; bool (objects,)."""
        kept: Array = self.present & (self.why == 0)
        return kept


def decide(batch: StreamBatch, interest: InterestTracker) -> RetentionDecision:
    """Decide to remove the objects that no query needs (SOLE Definition 2)."""
    # A known object was kept, so it was present; and a piece is one step, or a run of quiet ones.
    present = present_after(batch.objects.events, batch.objects.stored.known)
    focal = interest.focals()
    lost = present & (interest.refs == 0) & ~focal
    return RetentionDecision(present, np.where(lost, LEFT, 0).astype(np.int8), focal)


def forget(batch: StreamBatch, kept: Array) -> None:
    """Forget all records except those kept, bool (objects,), once the table holds the state after.

    Rows of forgotten objects are removed once they exceed an eighth of the others.
    """
    batch.objects.table.stored.known[~kept] = False
    compact(batch, int(np.count_nonzero(kept)) // 8)


def forget_silent(batch: StreamBatch) -> None:
    """Forget objects that have been silent for `REPORT EVERY`: keys that never return take no memory.

    They are in no answer until they report again, and neither would be a record older than theirs, so no
    update differs. They are forgotten once they are most of those stored; what queries refer to stays.
    """
    table, timing = batch.objects.table, batch.timing
    if timing.report < 0:
        return
    stored = table.stored
    silent = stored.known & (silent_from(stored.ts, timing) <= timing.last)
    if np.count_nonzero(silent) <= len(silent) // 2 + _SPARE:
        return
    silent &= ~referenced(batch.state, "objects", batch.spec.id, len(silent))
    if np.count_nonzero(silent) > len(silent) // 2 + _SPARE:
        table.forget(np.flatnonzero(silent))
        compact(batch, len(silent) // 2)


def compact(batch: StreamBatch, most: int) -> None:
    """Remove the rows and keys of objects without a record once there are clearly more than `most`.

    Rows referred to by frozen answers of paused queries, or by changes that wait for `dwell`, stay until
    nothing refers to them; they are taken back by their keys alone, for the reason `left`. Cells are rebuilt
    at once, so that they count as memory.
    """
    state, stream, table = batch.state, batch.spec.id, batch.objects.table
    kept = table.stored.known
    if len(table) - np.count_nonzero(kept) <= most + _SPARE:
        return
    stay = kept | referenced(state, "objects", stream, len(table))
    if len(table) - np.count_nonzero(stay) > most + _SPARE:
        grids = laid(state, stream)
        make_room(state, stream, stay)
        x, y, ts, known = (state.array(f"s{stream}/objects/{name}") for name in ("x", "y", "ts", "known"))
        timing = batch.timing
        lasts = known if timing.report < 0 else known & (silent_from(ts, timing) > timing.last)
        places = np.where(lasts, x, np.nan), np.where(lasts, y, np.nan)
        for folder, lattice in grids.items():
            lay_cells(state, folder, lattice, places)
