"""Retention of objects after a step: forget insignificant and silent objects, and remove their rows."""

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
"""The number of rows of objects without a record that may always remain."""


@dataclass(frozen=True)
class RetentionDecision:
    """Which objects stay after the last step of a piece, (objects,) each.

    Attributes:
        present: Whether the object is connected and has a location, bool.
        why: The reason why a present object is removed, int8, a position in `stqsh.spec.chunk.WHY`: LEFT if
            no query needs it, SHED if load shedding drops it; 0 for other objects.
        focal: Whether the object is the focal object of an active query; focal objects always stay; bool.
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
    # A known object was kept, so it was present; and a piece is one step or a run of steps without records.
    present = present_after(batch.objects.events, batch.objects.stored.known)
    focal = interest.focals()
    lost = present & (interest.refs == 0) & ~focal
    return RetentionDecision(present, np.where(lost, LEFT, 0).astype(np.int8), focal)


def forget(batch: StreamBatch, kept: Array) -> None:
    """Forget all records except those kept, bool (objects,); the table must hold the state after the piece.

    Rows of forgotten objects are removed once they exceed an eighth of the kept ones.
    """
    batch.objects.table.stored.known[~kept] = False
    compact(batch, int(np.count_nonzero(kept)) // 8)


def forget_silent(batch: StreamBatch) -> None:
    """Forget objects that have been silent for `REPORT EVERY`, so that keys that never return take no memory.

    Such objects are in no answer until they report again, and a record older than their last record would not
    be in an answer either, so updates do not change. They are forgotten once they are most of the stored
    objects; objects that queries refer to stay.
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

    A row stays while the frozen answer of a paused query, or a change that waits for `dwell`, refers to it;
    such objects leave answers with their keys alone and the reason `left`. Cells are rebuilt at once, because
    they count as memory.
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
        for folder, frame in grids.items():
            lay_cells(state, folder, frame, places)
