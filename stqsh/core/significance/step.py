"""One piece of a batch of a significant stream: who is of interest, who goes, and what is left."""

from __future__ import annotations

import numpy as np

from stqsh.core.kinds.protocol import StreamBatch
from stqsh.core.matching.queries import QueryTable
from stqsh.core.significance.followed import forget_focals
from stqsh.core.significance.interest import Interest
from stqsh.core.significance.keeping import Verdict, forget, judge
from stqsh.core.significance.settings import is_significant, memory_of
from stqsh.core.significance.shedding import shed
from stqsh.core.slot.state import SlotState


def take_out(batch: StreamBatch) -> Verdict | None:
    """Count references, and take the objects that do not stay out of the batch, before the kinds see it.

    In order: `Interest.follow`, the judgement by reference counts, `shed`, and `Movement.take_out`. None, and
    nothing happens, for a stream that keeps all, or is dropped; and where there are no steps.
    """
    timing = batch.timing
    if not is_significant(batch.spec) or batch.commands.stream_dropped or timing.last < timing.first:
        return None
    memory = memory_of(batch.state, batch.spec["id"])
    interest = Interest(batch, memory)
    interest.follow()
    verdict = shed(batch, interest, judge(batch, interest), memory)
    interest.mark(verdict.focal)
    interest.leave(np.flatnonzero(verdict.why).astype(np.int32))
    batch.objects.take_out(verdict.why)
    return verdict


def is_watched(state: SlotState, stream: int) -> bool:
    """Whether it matters at which of the steps in which nothing comes an object is forgotten.

    It does for kNN queries, whose circles follow from the step before, and for what waits for `dwell`, which
    is told of a record that is there or not; but not once nobody is kept.
    """
    known = f"s{stream}/objects/known"
    if known not in state or not state.array(known).any():
        return False
    asked = bool((QueryTable(state, f"s{stream}/range")["dwell"] > 0).any())
    return asked or len(QueryTable(state, f"s{stream}/nearest")) > 0


def close(batch: StreamBatch, verdict: Verdict | None) -> None:
    """Forget whoever did not stay, when tables hold the state after the piece; make room where it is due."""
    if verdict is not None:
        forget(batch, verdict.kept)
        forget_focals(batch)
