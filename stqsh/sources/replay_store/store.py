"""The replay store: a prepared source, on disk, in replay order.

A directory holds `manifest.json` and segments that are only ever appended. A segment `seg-000000.arrow` is an
Arrow IPC file with one record batch: the declared columns and `_tick` int64, non-decreasing over the whole
store. Beside it stands `seg-000000.ticks.npy`, int64 (m, 2): a tick and how many rows of the whole store have
been seen after it. The manifest is replaced in one go, so a reader sees whole segments or none. The first
segments of a stream without an end go once nobody needs them any more; rows keep their numbers. The store of
an event stream also tells where its records lie, for routing: bounds, and a sample of their places.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.errors import SourceError
from stqsh.sources.replay_store.manifest import MANIFEST, Manifest, Segment, read_manifest, write_manifest
from stqsh.spec.chunk import columns_schema

DEAD_LETTERS = "dead_letters.jsonl"
TICK = "_tick"
#: A segment is written once so many rows or bytes have come together.
SEGMENT_ROWS = 1 << 20
SEGMENT_BYTES = 128 << 20
#: So many segments stay mapped in one reader.
_OPEN_SEGMENTS = 16


# -- writing -------------------------------------------------------------------------------------------------


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


class StoreWriter:
    """Write batches that come in replay order as the segments of a new store, to be seen once published."""

    def __init__(self, directory: Path, columns: Iterable[Iterable[str]]) -> None:
        self._directory = directory
        self._columns = tuple((name, kind) for name, kind in columns)
        self._schema = columns_schema(self._columns).append(pa.field(TICK, pa.int64()))
        self._segments: list[Segment] = []
        self._rows = 0
        self._waiting: list[pa.RecordBatch] = []
        directory.mkdir(parents=True, exist_ok=True)

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rows: the declared columns in order and `_tick`, none earlier than what came before."""
        step = max(1, min(SEGMENT_ROWS, batch.num_rows * SEGMENT_BYTES // max(1, batch.nbytes)))
        for start in range(0, batch.num_rows, step):
            self._waiting.append(batch.slice(start, step))
            rows = sum(waiting.num_rows for waiting in self._waiting)
            if rows >= SEGMENT_ROWS or sum(waiting.nbytes for waiting in self._waiting) >= SEGMENT_BYTES:
                self.flush()

    def flush(self) -> None:
        """End the segment that is being collected."""
        if not self._waiting:
            return
        batch = joined([waiting.cast(self._schema) for waiting in self._waiting])
        path = self._directory / segment_name(len(self._segments))
        self._segments.append(write_segment(path, batch, self._rows))
        self._rows += batch.num_rows
        self._waiting = []

    def finish(self, *, complete: bool = True, dead: int = 0, duplicates: int = 0) -> Manifest:
        """Write what is left, and give the manifest, which is not written yet."""
        self.flush()
        segments = tuple(self._segments)
        return Manifest(self._columns, segments, complete, dead, duplicates=duplicates)

    def publish(self, *, complete: bool = True, dead: int = 0, duplicates: int = 0) -> Manifest:
        """Write what is left and the manifest: the store is there."""
        manifest = self.finish(complete=complete, dead=dead, duplicates=duplicates)
        write_manifest(self._directory, manifest)
        return manifest


def joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of one or more batches as one batch; a single one is not copied."""
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).combine_chunks()
    return table.to_batches()[0] if table.num_rows else batches[0]


# -- reading -------------------------------------------------------------------------------------------------


class ReplayStore:
    """Read a replay store by row number and tick; the columns point into memory-mapped files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: OrderedDict[str, tuple[pa.RecordBatch, NDArray[np.int64]]] = OrderedDict()
        self._stamp: tuple[int, int] | None = None
        self._load()

    @property
    def rows(self) -> int:
        """Count the rows that have come by now."""
        return self._manifest.rows

    @property
    def row_bytes(self) -> float:
        """Return how many bytes a row has in the last segment, its share of everything; 0 without a row."""
        return self._row_bytes

    @property
    def first_tick(self) -> int:
        """Return the tick of the first row; 0 while there is none."""
        return self._manifest.first_tick or 0

    @property
    def last_tick(self) -> int:
        """The tick of the last row; 0 while there is none."""
        return self._manifest.segments[-1].last_tick if self.rows else 0

    @property
    def complete(self) -> bool:
        """Return whether the source has come to its end: nothing will be appended."""
        return self._manifest.complete

    @property
    def dead(self) -> int:
        """Count the records that could not be read; they are in dead_letters.jsonl."""
        return self._manifest.dead

    @property
    def manifest(self) -> Manifest:
        """Return what the store says of itself."""
        return self._manifest

    def refresh(self) -> None:
        """See what was appended since; costs one look at the manifest's date, nothing once `complete`."""
        if not self.complete and self._stamp != self._manifest_stamp():
            self._load()

    def rows_until(self, tick: int) -> int:
        """Count the rows whose `_tick` is at most `tick`."""
        segment = bisect_right(self._first_ticks, tick) - 1
        if segment < 0:
            return self._manifest.gone_rows
        index = self._segment(segment)[1]
        at = int(np.searchsorted(index[:, 0], tick, side="right"))
        return int(index[at - 1, 1])

    def tick_of_row(self, row: int) -> int:
        """Return the `_tick` of a row, 0 <= row < rows, that is not gone."""
        if not self._manifest.gone_rows <= row < self.rows:
            raise IndexError(f"row {row} of {self._manifest.gone_rows} to {self.rows}")
        index = self._segment(bisect_right(self._ends, row))[1]
        return int(index[np.searchsorted(index[:, 1], row, side="right"), 0])

    def read(self, start: int, stop: int) -> pa.RecordBatch:
        """Return the rows start <= row < stop: declared columns and `_tick`; no copy within one segment.

        Raises:
            IndexError: some of them are gone.
        """
        stop = min(stop, self.rows)
        if start >= stop:
            return self._empty()
        if start < self._manifest.gone_rows:
            raise IndexError(f"rows from {start} on; those before {self._manifest.gone_rows} are gone")
        pieces = []
        for number in range(bisect_right(self._ends, start), bisect_left(self._ends, stop) + 1):
            before = self._ends[number] - self._manifest.segments[number].rows
            batch = self._segment(number)[0]
            pieces.append(
                batch.slice(
                    max(0, start - before), min(stop - before, batch.num_rows) - max(0, start - before)
                )
            )
        return joined(pieces)

    def _empty(self) -> pa.RecordBatch:
        schema = columns_schema(self._manifest.columns).append(pa.field(TICK, pa.int64()))
        return pa.RecordBatch.from_pylist([], schema)

    def _manifest_stamp(self) -> tuple[int, int]:
        found = (self._directory / MANIFEST).stat()
        return found.st_mtime_ns, found.st_ino

    def _load(self) -> None:
        self._stamp = self._manifest_stamp()
        manifest = read_manifest(self._directory)
        if manifest is None:
            raise FileNotFoundError(self._directory / MANIFEST)
        self._manifest = manifest
        sizes = [segment.rows for segment in manifest.segments]
        self._ends = list((np.cumsum(sizes, dtype=np.int64) + manifest.gone_rows).tolist())
        self._first_ticks = [segment.first_tick for segment in manifest.segments]
        self._row_bytes = 0.0
        if manifest.segments:
            last = manifest.segments[-1]
            self._row_bytes = (self._directory / last.file).stat().st_size / last.rows

    def _segment(self, number: int) -> tuple[pa.RecordBatch, NDArray[np.int64]]:
        """Map a segment: its rows and its index (m, 2)."""
        name = self._manifest.segments[number].file
        if name in self._open:
            self._open.move_to_end(name)
            return self._open[name]
        path = self._directory / name
        with pa.memory_map(str(path)) as mapped:
            batch = pa.ipc.open_file(mapped).get_batch(0)
        self._open[name] = batch, np.load(ticks_path(path), mmap_mode="r")
        if len(self._open) > _OPEN_SEGMENTS:
            self._open.popitem(last=False)
        return self._open[name]


def open_store(directory: Path | str) -> ReplayStore:
    """Open a replay store that has a manifest.

    Raises:
        SourceError: there is no store, or it is not readable.
    """
    try:
        return ReplayStore(Path(directory))
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise SourceError(f"no replay store in {directory}: {problem}") from problem
