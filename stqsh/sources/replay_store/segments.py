"""The segments of a replay store: Arrow files with an index of ticks beside each.

A segment `seg-000000.arrow` is an Arrow IPC file with one record batch: the declared columns and `_tick`,
int64, non-decreasing over the whole store. Its index `seg-000000.ticks.npy`, int64 (m, 2), has each tick and
the number of rows of the whole store up to its end.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.sources.replay_store.manifest import Segment

TICK = "_tick"
_OPEN_SEGMENTS = 16
"""The number of segments that stay mapped in one reader."""


def segment_name(number: int) -> str:
    """Return the file name of a store's segment with this number, from 0."""
    return f"seg-{number:06d}.arrow"


def ticks_path(segment: Path) -> Path:
    """Return the path of the index that belongs to a segment file."""
    return segment.with_suffix(".ticks.npy")


def write_segment(path: Path, batch: pa.RecordBatch, rows_before: int) -> Segment:
    """Write one segment and its index; `rows_before` counts the rows of the segments before it.

    `batch` holds the declared columns and `_tick`, at least one row.
    """
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    ticks = batch.column(TICK).to_numpy()
    index = tick_index(ticks, rows_before)
    np.save(ticks_path(path), index)
    return Segment(path.name, len(ticks), int(ticks[0]), int(ticks[-1]))


def tick_index(ticks: NDArray[np.int64], rows_before: int) -> NDArray[np.int64]:
    """Return the index (m, 2) of a segment: each tick of `ticks` (n,), once, and the rows seen after it."""
    last = np.flatnonzero(np.append(ticks[1:] != ticks[:-1], True))
    return np.column_stack([ticks[last], last + 1 + rows_before])


def joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of one or more batches as one batch; a single one is not copied."""
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).combine_chunks()
    return table.to_batches()[0] if table.num_rows else batches[0]


class MappedSegment(NamedTuple):
    """A segment that points into its mapped files: its rows, and its ticks (m, 2)."""

    rows: pa.RecordBatch
    ticks: NDArray[np.int64]


class SegmentReader:
    """Map segments of a store; those that were used last stay mapped."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: OrderedDict[str, MappedSegment] = OrderedDict()

    def segment(self, name: str) -> MappedSegment:
        """Map the segment in a file."""
        if name in self._open:
            self._open.move_to_end(name)
            return self._open[name]
        path = self._directory / name
        with pa.memory_map(str(path)) as mapped:
            batch = pa.ipc.open_file(mapped).get_batch(0)
        self._open[name] = MappedSegment(batch, np.load(ticks_path(path), mmap_mode="r"))
        if len(self._open) > _OPEN_SEGMENTS:
            self._open.popitem(last=False)
        return self._open[name]
