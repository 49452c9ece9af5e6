"""The dealer of a live event stream: find duplicates, and deal the other events by location.

Of several events with one key that are kept at the same time, the first counts. So duplicates are found where
all records of a key are: on the slots while events are dealt by key, and in the dealer from the first change
of the routing on. Its state starts with the slots' keys. Events stay where they were dealt.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from stqsh.core.base.clock import NO_FLOORS, BatchTiming, Floors
from stqsh.core.objects.kept_keys import KeptEventKeys
from stqsh.core.objects.kept_sizes import SIZES, KeptSizes
from stqsh.core.state.columns import concatenate
from stqsh.core.state.slot_state import SlotState
from stqsh.engine.ingest.crossing_records import (
    DealtRecords,
    Places,
    coordinates,
    deal_places,
    texts_to_deal,
    with_role,
)
from stqsh.routing.table import RoutingTable
from stqsh.spec.chunk import RecordRole
from stqsh.spec.clock import DealOrder
from stqsh.spec.stream import StreamSpec

_FOR_EVER = -1


def take_in_keys(state: SlotState, spec: StreamSpec, seeds: Sequence[pa.RecordBatch]) -> None:
    """Add the keys, and the counts of bytes, that the slot of the same number had."""
    kept = KeptEventKeys.of(state, spec)
    for some in seeds:
        if SIZES in some.schema.names:
            KeptSizes.of(state, spec).take(some)
        else:
            kept.add(some)


def count_sizes(
    state: SlotState, spec: StreamSpec, order: DealOrder, counted: list[pa.RecordBatch]
) -> Floors:
    """Count the bytes of a batch's records; return the floors, if the stream keeps a number of bytes."""
    if spec.keep_bytes is None:
        return NO_FLOORS
    return KeptSizes.of(state, spec).count(counted, spec.keep_bytes, _timing(spec, order))


def _timing(spec: StreamSpec, order: DealOrder) -> BatchTiming:
    keep = _FOR_EVER if spec.keep_us is None else spec.keep_us
    return BatchTiming(order.first_step, order.last_step, order.base_tick or 0, order.tick_us or 1, keep)


def deal_events(
    state: SlotState,
    spec: StreamSpec,
    order: DealOrder,
    found: Sequence[pa.RecordBatch],
    floors: Floors,
    table: RoutingTable,
) -> DealtRecords:
    """Deal the records of a batch; duplicates are sent, too, and only counted."""
    assert order.base_tick is not None and order.tick_us is not None, "records come in steps"
    records, timing = concatenate(list(found)), _timing(spec, order)._replace(floors=floors)
    again = KeptEventKeys.of(state, spec).duplicates_among(records, spec, timing)
    hashes = records.column("_hash").to_numpy()
    rows = np.arange(records.num_rows)
    places, texts = Places(rows, *coordinates(records, spec), hashes), texts_to_deal(table, records, spec)
    slots = deal_places(table, places, texts)
    roles = np.where(again, RecordRole.STALE, RecordRole.REGULAR)
    return DealtRecords(with_role(records, roles), slots)
