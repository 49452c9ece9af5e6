"""One piece of a batch of a significant stream: who is of interest, who goes, and what is left."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.retention.focal_cleanup import forget_focals
from stqsh.core.retention.interest_counts import InterestTracker
from stqsh.core.retention.object_retention import forget, judge
from stqsh.core.retention.object_shedding import shed
from stqsh.core.retention.step_runs import follow_stretch, is_stretch
from stqsh.core.state.retention_mode import memory_of

Array = npt.NDArray[Any]


def take_out(batch: StreamBatch) -> Array | None:
    """Count references, and take the objects that do not stay out of the batch, before the kinds see it.

    Either `follow_stretch`, or in order: `InterestTracker.follow`, the judgement by reference counts, `shed`,
    and `Movement.take_out`. Returns who stays after the last step, bool (objects,). None, and nothing
    happens, for a stream that keeps all, or is dropped; and where there are no steps.
    """
    timing = batch.timing
    if not batch.spec.is_significant or batch.commands.stream_dropped or timing.last < timing.first:
        return None
    memory = memory_of(batch.state, batch.spec.id)
    interest = InterestTracker(batch, memory)
    if is_stretch(batch):
        kept = follow_stretch(batch, interest)
        interest.mark(interest.focals())
        return kept
    interest.follow()
    verdict = shed(batch, interest, judge(batch, interest), memory)
    interest.mark(verdict.focal)
    interest.leave(np.flatnonzero(verdict.why).astype(np.int32))
    batch.objects.take_out(verdict.why)
    return verdict.kept


def close(batch: StreamBatch, kept: Array | None) -> None:
    """Forget whoever did not stay, when tables hold the state after the piece; make room where it is due."""
    if kept is not None:
        forget(batch, kept)
        forget_focals(batch)
