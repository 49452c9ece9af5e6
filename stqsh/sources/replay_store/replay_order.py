"""Sort parsed records that fit in memory into replay order, and write them to a store."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.sources.formats.record_parser import ParsedRecords
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.replay_store.duplicate_keys import KeptEventKeys
from stqsh.sources.replay_store.segments import TICK
from stqsh.sources.replay_store.store import SEGMENT_ROWS, StoreWriter


class OrderKeys:
    """The keys by which records are replayed; equal keys are ordered by file and place.

    By time: the time in µs. By arrival: the latest tick so far in the file, over all its parts.
    """

    def __init__(self, layout: RecordSchema) -> None:
        self._layout = layout
        self._file, self._latest = -1, 0

    def of(self, part: ParsedRecords) -> NDArray[np.int64]:
        """Return the keys of a part's records, (m,); parts come in order of file and place."""
        return part.times if self._layout.order == "time" else self._arrivals(part)

    def _arrivals(self, part: ParsedRecords) -> NDArray[np.int64]:
        ticks = part.times // self._layout.tick_us
        cuts = np.flatnonzero(np.diff(part.files)) + 1
        for start, stop in zip([0, *cuts], [*cuts, len(ticks)], strict=True):
            if start == stop:
                continue
            if part.files[start] == self._file:
                ticks[start] = max(ticks[start], self._latest)
            ticks[start:stop] = np.maximum.accumulate(ticks[start:stop])
            self._file, self._latest = int(part.files[start]), int(ticks[stop - 1])
        return ticks


def ticks_of(keys: NDArray[np.int64], layout: RecordSchema) -> NDArray[np.int64]:
    """Return the ticks (m,) that belong to order keys (m,)."""
    return keys // layout.tick_us if layout.order == "time" else keys


def write_sorted(parts: Sequence[ParsedRecords], layout: RecordSchema, writer: StoreWriter) -> int:
    """Sort the records of all parts, which come in order of file and place, and write them.

    Returns:
        The number of duplicates that were dropped: records of an event stream whose key is there.
    """
    if not parts:
        return 0
    order_keys = OrderKeys(layout)
    all_keys = np.concatenate([order_keys.of(part) for part in parts])
    order = np.argsort(all_keys, kind="stable")
    ticks = ticks_of(all_keys, layout)
    table = pa.concat_tables(
        [pa.Table.from_arrays(part.columns, schema=layout.schema) for part in parts]
    ).combine_chunks()
    schema = layout.schema.append(pa.field(TICK, pa.int64()))
    events, duplicates = KeptEventKeys(layout) if layout.event else None, 0
    for start in range(0, len(order), SEGMENT_ROWS):
        chosen = order[start : start + SEGMENT_ROWS]
        rows = [column.combine_chunks() for column in table.take(chosen).columns]
        batch = pa.RecordBatch.from_arrays([*rows, pa.array(ticks[chosen])], schema=schema)
        if events is not None:
            times = batch.column(layout.time).cast(pa.int64()).to_numpy()
            again = events.duplicates(batch.column(layout.key), times, ticks[chosen])
            batch = batch.filter(pa.array(~again)) if again.any() else batch
            duplicates += int(again.sum())
        writer.append(batch)
    return duplicates
