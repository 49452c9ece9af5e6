"""Sort parsed records into replay order, in memory or through sorted runs on disk, and write them to a store.

Records arrive in order of file and place, so a stable sort by order key gives the replay order. Records that
do not fit in memory are sorted in runs, which are files in the store's folder until they are merged. A block
of the result is a slice of each run; a binary search over the keys finds the ends of the slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.core.kernels.events.size_floors import KeyRecords
from stqsh.core.objects.kept_keys import KeptEventKeys
from stqsh.core.objects.kept_sizes import KeptSizes, SizedRecords, record_sizes
from stqsh.core.state.slot_state import SlotState
from stqsh.sources.formats.record_parser import ParsedRecords
from stqsh.sources.formats.record_schema import RecordSchema
from stqsh.sources.replay_store.segments import TICK
from stqsh.sources.replay_store.store import SEGMENT_ROWS, StoreWriter

RUN_BYTES = 256 << 20
"""A run is sorted and written to disk when it has this many bytes of records."""


class OrderKeys:
    """The keys by which records are replayed; records with equal keys are ordered by file and place.

    By time: the time in µs. By arrival: the latest tick so far in the file, across all of its parts.
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
    """Return the ticks (m,) of order keys (m,)."""
    return keys // layout.tick_us if layout.order == "time" else keys


@dataclass(frozen=True)
class SortedRun:
    """Records in replay order.

    Attributes:
        keys: Their order keys, int64 (n,), ascending.
        rows: The declared columns; in replay order unless `order` says where each record is, int64 (n,).
    """

    keys: NDArray[np.int64]
    rows: pa.Table
    order: NDArray[np.int64] | None = None

    def slice(self, start: int, stop: int) -> pa.Table:
        """Return the records start <= i < stop."""
        if self.order is None:
            return self.rows.slice(start, stop - start)
        return self.rows.take(self.order[start:stop])


def write_sorted(
    parts: Iterable[ParsedRecords],
    layout: RecordSchema,
    writer: StoreWriter,
    scratch: Path,
    run_bytes: int,
) -> int:
    """Sort the records of all parts, which arrive in order of file and place, and write them to a store.

    Args:
        parts: The records.
        layout: Their columns, and how they are ordered.
        writer: Receives the sorted records.
        scratch: The folder for sorted runs, if they do not fit in memory.
        run_bytes: The size of a run.

    Returns:
        The number of dropped duplicates: records of an event stream whose key already exists.
    """
    runs, duplicates = list(_sorted_runs(parts, layout, scratch, run_bytes)), 0
    events = _KeptEvents(layout) if layout.event else None
    for batch in merge_runs(runs, layout):
        if events is not None:
            again = events.duplicates(batch)
            batch = batch.filter(pa.array(~again)) if again.any() else batch  # noqa: PLW2901
            duplicates += int(again.sum())
        writer.append(batch)
    return duplicates


class _KeptEvents:
    """The events that are kept while records are replayed; duplicates of their keys are dropped."""

    def __init__(self, layout: RecordSchema) -> None:
        state = SlotState.fresh(0)
        self._layout, self._keys = layout, KeptEventKeys(state, "kept", layout.keep_us)
        self._sizes = None if layout.keep_bytes is None else KeptSizes(state, "sizes")

    def duplicates(self, records: pa.RecordBatch) -> NDArray[np.bool_]:
        """Mark the records, which are in replay order over all calls, whose key is kept; bool (n,)."""
        layout, sizes, limit = self._layout, self._sizes, self._layout.keep_bytes
        times = records.column(layout.time).cast(pa.int64()).to_numpy()
        ticks = records.column(TICK).to_numpy()
        keys, begins = records.column(layout.key), ticks * layout.tick_us
        if sizes is None or limit is None:
            return self._keys.duplicates(keys, times, begins)
        counted = record_sizes(records, layout.columns)
        arriving = SizedRecords(ticks, times // layout.tick_us, counted)

        def find(keys: KeyRecords, latest: NDArray[np.int64]) -> NDArray[np.bool_]:
            return sizes.find_duplicates(keys, latest, arriving, limit, layout.tick_us)

        return self._keys.duplicates(keys, times, begins, find=find)


def _sorted_runs(
    parts: Iterable[ParsedRecords], layout: RecordSchema, scratch: Path, run_bytes: int
) -> Iterator[SortedRun]:
    """Yield sorted runs: all but the last are mapped from files that are already unlinked."""
    order_keys, size = OrderKeys(layout), 0
    keys: list[NDArray[np.int64]] = []
    tables: list[pa.Table] = []
    for part in parts:
        if not len(part.times):
            continue
        if size >= run_bytes:
            yield _spilled(_sorted(keys, tables), scratch / ".run.arrow")
            keys, tables, size = [], [], 0
        keys.append(order_keys.of(part))
        tables.append(pa.Table.from_arrays(part.columns, schema=layout.schema))
        size += tables[-1].nbytes + keys[-1].nbytes
    if tables:
        yield _sorted(keys, tables)


def _sorted(keys: Sequence[NDArray[np.int64]], tables: Sequence[pa.Table]) -> SortedRun:
    all_keys = np.concatenate(keys)
    order = np.argsort(all_keys, kind="stable")
    return SortedRun(all_keys[order], pa.concat_tables(tables).combine_chunks(), order)


def _spilled(run: SortedRun, path: Path) -> SortedRun:
    """Write a run to disk, and return it mapped from there; the file is unlinked at once."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, run.rows.schema) as writer:
        for start in range(0, len(run.keys), SEGMENT_ROWS):
            writer.write_table(run.slice(start, start + SEGMENT_ROWS))
    mapped = pa.memory_map(str(path))
    path.unlink()
    return SortedRun(run.keys, pa.ipc.open_file(mapped).read_all())


def merge_runs(runs: Sequence[SortedRun], layout: RecordSchema) -> Iterator[pa.RecordBatch]:
    """Yield all records in replay order with their `_tick`, `SEGMENT_ROWS` at a time.

    Among equal keys, those of an earlier run come first.
    """
    schema = layout.schema.append(pa.field(TICK, pa.int64()))
    starts = [0] * len(runs)
    for end in range(SEGMENT_ROWS, sum(len(run.keys) for run in runs) + SEGMENT_ROWS, SEGMENT_ROWS):
        stops = cut_runs([run.keys for run in runs], end)
        slices = [(run, a, b) for run, a, b in zip(runs, starts, stops, strict=True) if a < b]
        starts = stops
        keys = np.concatenate([run.keys[a:b] for run, a, b in slices])
        rows = pa.concat_tables([run.slice(a, b) for run, a, b in slices])
        if len(slices) > 1:
            order = np.argsort(keys, kind="stable")
            keys, rows = keys[order], rows.take(order)
        columns = [column.combine_chunks() for column in rows.columns]
        yield pa.RecordBatch.from_arrays([*columns, pa.array(ticks_of(keys, layout))], schema=schema)


def cut_runs(keys: Sequence[NDArray[np.int64]], count: int) -> list[int]:
    """Return how many records of each run are among the first `count` of all runs, at most all of them.

    It searches for the smallest key that has at least `count` records up to it; a binary search over the
    values of keys, with one search in each run for each step.

    Args:
        keys: The keys of each run, int64 (n,), ascending. Among equal keys, those of an earlier run come
            first.
        count: The number of records.

    Example:
        >>> cut_runs([np.array([1, 3, 3]), np.array([2, 3])], 4)
        [3, 1]
    """
    if count >= sum(len(run) for run in keys):
        return [len(run) for run in keys]
    low, high = min(int(run[0]) for run in keys), max(int(run[-1]) for run in keys)
    while low < high:  # finds the smallest key that has `count` records up to it
        middle = (low + high) // 2
        enough = sum(int(np.searchsorted(run, middle, side="right")) for run in keys) >= count
        low, high = (low, middle) if enough else (middle + 1, high)
    stops = [int(np.searchsorted(run, low, side="left")) for run in keys]
    rest = count - sum(stops)
    for number, run in enumerate(keys):
        more = min(rest, int(np.searchsorted(run, low, side="right")) - stops[number])
        stops[number] += more
        rest -= more
    return stops
