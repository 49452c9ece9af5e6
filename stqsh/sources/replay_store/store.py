"""The replay store: a prepared source on disk, in replay order.

A directory contains `manifest.json` and segments, which are only ever appended; see `segments`. The manifest
is replaced atomically, so a reader sees complete segments or none. The first segments of an endless stream
are deleted once they are no longer needed; rows keep their numbers. For routing, the manifest of an event
stream also contains bounds and a sample of its records' places.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.errors import SourceError
from stqsh.sources.replay_store.manifest import (
    MANIFEST,
    Manifest,
    Segment,
    read_manifest,
    store_blobs,
    write_manifest,
)
from stqsh.sources.replay_store.segments import (
    TICK,
    SegmentReader,
    joined,
    segment_name,
    write_segment,
)
from stqsh.spec.chunk import columns_schema
from stqsh.storage.blobs import Blobs

SEGMENT_ROWS = 1 << 20
SEGMENT_BYTES = 128 << 20
"""The number of rows, and of bytes, at which a segment is written."""
_MOST_KNOWN = 16
"""The number of stores that a worker keeps open."""


class StoreWriter:
    """Writes batches in replay order as the segments of a new store, which `publish` makes visible."""

    def __init__(self, directory: Path, columns: Iterable[Iterable[str]]) -> None:
        self._directory = directory
        self._columns = tuple((name, kind) for name, kind in columns)
        self._schema = columns_schema(self._columns).append(pa.field(TICK, pa.int64()))
        self._segments: list[Segment] = []
        self._rows = 0
        self._waiting: list[pa.RecordBatch] = []
        directory.mkdir(parents=True, exist_ok=True)

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rows: the declared columns in order and `_tick`, none earlier than the rows before."""
        step = max(1, min(SEGMENT_ROWS, batch.num_rows * SEGMENT_BYTES // max(1, batch.nbytes)))
        for start in range(0, batch.num_rows, step):
            self._waiting.append(batch.slice(start, step))
            rows = sum(waiting.num_rows for waiting in self._waiting)
            if rows >= SEGMENT_ROWS or sum(waiting.nbytes for waiting in self._waiting) >= SEGMENT_BYTES:
                self.flush()

    def flush(self) -> None:
        """Write the segment that is being collected."""
        if not self._waiting:
            return
        batch = joined([waiting.cast(self._schema) for waiting in self._waiting])
        path = self._directory / segment_name(len(self._segments))
        self._segments.append(write_segment(path, batch, self._rows))
        self._rows += batch.num_rows
        self._waiting = []

    def finish(self, *, complete: bool = True, dead: int = 0, duplicates: int = 0) -> Manifest:
        """Write the remaining rows, and return the manifest without writing it."""
        self.flush()
        segments = tuple(self._segments)
        return Manifest(self._columns, segments, complete, dead, duplicates=duplicates)

    def publish(self, *, complete: bool = True, dead: int = 0, duplicates: int = 0) -> Manifest:
        """Write the remaining rows and the manifest, which makes the store visible."""
        manifest = self.finish(complete=complete, dead=dead, duplicates=duplicates)
        write_manifest(self._directory, manifest)
        return manifest


class ReplayStore:
    """Reads a replay store by row number and tick; the columns refer to memory-mapped files.

    Attributes:
        row_bytes: The size of the last segment's file divided by its number of rows; 0 without rows.
    """

    def __init__(self, place: Path | Blobs) -> None:
        self.row_bytes = 0.0
        self._blobs = store_blobs(place)
        self._segments = SegmentReader(self._blobs)
        self._load()

    @property
    def rows(self) -> int:
        """The number of rows so far."""
        return self._manifest.rows

    @property
    def first_tick(self) -> int:
        """The tick of the first row; 0 while there is no row."""
        return self._manifest.first_tick or 0

    @property
    def last_tick(self) -> int:
        """The tick of the last row; 0 while there is no row."""
        return self._manifest.segments[-1].last_tick if self.rows else 0

    @property
    def complete(self) -> bool:
        """Whether the source has ended, so that nothing will be appended."""
        return self._manifest.complete

    @property
    def manifest(self) -> Manifest:
        """The manifest as last read."""
        return self._manifest

    def refresh(self) -> None:
        """Read the manifest again if it has changed; checks only its date, and nothing once `complete`."""
        if not self.complete and (not self._blobs.at_home or self._stamp != _stamp(self._blobs)):
            self._load()

    def rows_until(self, tick: int) -> int:
        """Return the number of rows whose `_tick` is at most `tick`."""
        segment = bisect_right(self._first_ticks, tick) - 1
        if segment < 0:
            return self._manifest.gone_rows
        index = self._segments.ticks(self._manifest.segments[segment])
        at = int(np.searchsorted(index[:, 0], tick, side="right"))
        return int(index[at - 1, 1])

    def tick_of_row(self, row: int) -> int:
        """Return the `_tick` of a row. Raises `IndexError` if the row is deleted or does not exist yet."""
        if not self._manifest.gone_rows <= row < self.rows:
            raise IndexError(f"row {row} of {self._manifest.gone_rows} to {self.rows}")
        index = self._segments.ticks(self._manifest.segments[bisect_right(self._ends, row)])
        return int(index[np.searchsorted(index[:, 1], row, side="right"), 0])

    def read(self, start: int, stop: int) -> pa.RecordBatch:
        """Return the rows start <= row < stop, with declared columns and `_tick`.

        Rows of a single segment are not copied.

        Raises:
            IndexError: some of the rows are deleted.
        """
        stop = min(stop, self.rows)
        if start >= stop:
            return _no_rows(self._manifest)
        if start < self._manifest.gone_rows:
            raise IndexError(f"rows from {start} on; those before {self._manifest.gone_rows} are gone")
        pieces = []
        for number in range(bisect_right(self._ends, start), bisect_left(self._ends, stop) + 1):
            segment = self._manifest.segments[number]
            before = self._ends[number] - segment.rows
            batch = self._segments.rows(segment)
            pieces.append(
                batch.slice(
                    max(0, start - before), min(stop - before, batch.num_rows) - max(0, start - before)
                )
            )
        return joined(pieces)

    def take(self, rows: NDArray[np.int64], columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Return rows by their numbers, in any order; `columns` limits the result to some columns.

        Raises:
            IndexError: some of the rows are deleted.
        """
        if len(rows) and int(rows.min()) < self._manifest.gone_rows:
            raise IndexError(f"row {rows.min()}; those before {self._manifest.gone_rows} are gone")
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        numbers = np.searchsorted(self._ends, ordered, side="right")
        none = _no_rows(self._manifest)
        pieces = [none if columns is None else none.select(columns)]
        for number in np.unique(numbers).tolist():
            segment = self._manifest.segments[number]
            mine = ordered[numbers == number] - (self._ends[number] - segment.rows)
            whole = self._segments.rows(segment)
            some = whole if columns is None else whole.select(columns)
            pieces.append(some.take(mine))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return joined(pieces).take(place)

    def _load(self) -> None:
        self._stamp = _stamp(self._blobs)
        manifest = read_manifest(self._blobs)
        if manifest is None:
            raise FileNotFoundError(f"{self._blobs.within}{MANIFEST}")
        self._manifest = manifest
        sizes = [segment.rows for segment in manifest.segments]
        self._ends = list((np.cumsum(sizes, dtype=np.int64) + manifest.gone_rows).tolist())
        self._first_ticks = [segment.first_tick for segment in manifest.segments]
        self.row_bytes = 0.0
        if manifest.segments:
            last, folder = manifest.segments[-1], self._blobs.folder
            if self._blobs.at_home and folder is not None:
                self.row_bytes = (folder / last.file).stat().st_size / last.rows
            elif last.seal is not None:
                self.row_bytes = last.seal.size / last.rows


def _stamp(blobs: Blobs) -> tuple[int, int]:
    """Return a value that changes with each replacement of a home's manifest."""
    if not blobs.at_home or blobs.folder is None:
        return 0, 0
    found = (blobs.folder / MANIFEST).stat()
    return found.st_mtime_ns, found.st_ino


def _no_rows(manifest: Manifest) -> pa.RecordBatch:
    schema = columns_schema(manifest.columns).append(pa.field(TICK, pa.int64()))
    return pa.RecordBatch.from_pylist([], schema)


def open_store(place: Path | str | Blobs) -> ReplayStore:
    """Open a replay store that has a manifest.

    Raises:
        SourceError: there is no store, or it is not readable.
    """
    try:
        return ReplayStore(place if isinstance(place, Blobs) else Path(place))
    except (OSError, ValueError, KeyError, TypeError) as problem:
        where = place.within.rstrip("/") if isinstance(place, Blobs) else place
        raise SourceError(f"no replay store in {where}: {problem}") from problem


_known: dict[Blobs, ReplayStore] = {}


def open_store_with(blobs: Blobs, stop: int) -> ReplayStore:
    """Open a replay store that has the rows before `stop`, in a worker.

    A store outside the home stays open, with its mapped segments, because opening it again takes two requests
    to the storage.

    Raises:
        SourceError: there is no store, or it is not readable.
    """
    if blobs.at_home:
        return open_store(blobs)
    found = _known.pop(blobs, None)
    if found is None or not (found.complete or found.rows >= stop):
        found = open_store(blobs)
    _known[blobs] = found
    if len(_known) > _MOST_KNOWN:
        del _known[next(iter(_known))]
    return found
