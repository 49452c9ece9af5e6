"""Remove dropped streams from a slot, and after each batch everything that is no longer referred to."""

from __future__ import annotations

import numpy as np

from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.objects.event_objects import forget_expired
from stqsh.core.state.retention_mode import forget_memory
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.string_dictionary import vacuum
from stqsh.core.texts.term_table import tidy


def make_room(batch: StreamBatch) -> int:
    """Make room after a batch; return how many objects have a record, or how many events are not expired."""
    stream, table = batch.spec.id, batch.objects.table
    stored = len(table)
    if batch.spec.is_event:
        there = forget_expired(batch.state, stream, batch.timing)
    else:
        there = int(np.count_nonzero(table.stored.known))
    if vacuum(batch.state, stream, now=len(table) < stored and batch.spec.is_event):
        tidy(batch.state, stream)
    return there


def forget(state: SlotState, stream: int) -> None:
    """Remove everything that a slot stores about a dropped stream."""
    state.release(f"s{stream}/")
    del state.entry("streams")[str(stream)]
    forget_memory(state, stream)
    templates = state.entry("templates")
    for prefix in [prefix for prefix in templates if prefix.startswith(f"s{stream}/")]:
        del templates[prefix]
