"""One piece of a batch of a significant stream: who is of interest, who goes, and what is left."""

from __future__ import annotations

from stqsh.core.kinds.protocol import StreamBatch
from stqsh.core.significance.interest import Interest
from stqsh.core.significance.keeping import Verdict
from stqsh.core.significance.settings import Memory


def take_out(batch: StreamBatch) -> None:
    """Count references, and take the objects that do not stay out of the batch, before the kinds see it.

    In order: the command "memory", `Interest.follow`, the judgement by reference counts, `shed`, and
    `Movement.take_out` of all whose `Verdict.why` is not 0.
    """
    raise NotImplementedError


def shed(batch: StreamBatch, interest: Interest, verdict: Verdict, memory: Memory) -> Verdict:
    """Where object load shedding plugs in: the verdict with further objects to drop, for the reason SHED.

    Called for each piece, also while k is 1. Whoever drops an object that has references takes it out of
    `Interest.refs` and `held` too, and notes it in the shadow table.
    """
    del batch, interest, memory
    return verdict


def close(batch: StreamBatch) -> None:
    """Forget whoever did not stay, when tables hold the state after the piece; make room where it is due."""
    raise NotImplementedError
