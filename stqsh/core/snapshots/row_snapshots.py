"""Snapshot SELECTs over rows that no stream holds: rows of a file, or of the answer of another query.

For such a snapshot, a batch of rows corresponds to a slot of a stream: each batch yields a share, and
`stqsh.core.snapshots.select.whole` forms the answer from the shares. So batches may have any size, and only
rows that may be in the answer are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from stqsh.core.conditions.region_test import reach_of
from stqsh.core.conditions.resolver import Resolver
from stqsh.core.contract.snapshot_selection import PresentObjects, SnapshotSelection
from stqsh.core.kernels.index.scan import EVER
from stqsh.core.objects.row_table import RowTable
from stqsh.core.snapshots.select import noting_failures, share_of, whole
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.query import SnapshotSpec
from stqsh.spec.region import Place
from stqsh.spec.stream import StreamSpec


def answer_over_rows(
    batches: Iterable[pa.RecordBatch],
    spec: SnapshotSpec,
    stream: StreamSpec,
    *,
    now_us: int,
    state: SlotState | None = None,
) -> pa.Table:
    """Return the answer of a snapshot over rows: the select list's named columns, in order.

    Args:
        batches: the rows; at least one batch, possibly empty, with the columns of `stream` in their declared
            Arrow types and its key. Keys are distinct, and order rows that have no other order.
        spec: the snapshot; its `lookup` is ignored, and it has no focal object.
        stream: the names and roles of the columns; `x` and `y` are empty if rows have no places.
        now_us: the value of NOW, µs.
        state: contains the tables and areas that the snapshot refers to.
    """
    resolver = Resolver(SlotState.fresh(0) if state is None else state, stream)
    nowhere = np.nan if spec.region.is_nearest else np.inf
    reach = reach_of(spec.region, resolver, None)
    shares = [
        share_of(SnapshotSelection(PresentObjects(table, resolver, now_us, EVER), spec, reach))
        for table in (RowTable(stream, rows, nowhere) for rows in batches)
    ]
    return whole(shares, spec)


def shares_over_events(
    batches: Iterable[pa.RecordBatch],
    spec: SnapshotSpec,
    stream: StreamSpec,
    *,
    now_us: int,
    place: Place | None,
    state: SlotState,
) -> Iterator[pa.RecordBatch]:
    """Yield a share, like that of a slot by `part`, for each batch of events that no slot stores any more.

    Args:
        batches: the events, with the columns that the snapshot reads, key, location and time.
        spec: a snapshot of the past.
        stream: the stream of the events.
        now_us: the value of NOW, µs.
        place: the place of the region's focal object, None while it is absent.
        state: contains the tables and areas that the snapshot refers to.
    """
    resolver = Resolver(state, stream)
    reach, window_us = reach_of(spec.region, resolver, place), spec.timing.window_us
    for rows in batches:
        # As in a slot, an event without a place is in no answer.
        present = PresentObjects(RowTable(stream, rows, np.nan, is_timed=True), resolver, now_us, EVER)
        if window_us is not None:
            present = present.within(window_us)
        share = noting_failures(partial(share_of, SnapshotSelection(present, spec, reach)))
        assert share is not None, "all rows are looked at"
        yield share
