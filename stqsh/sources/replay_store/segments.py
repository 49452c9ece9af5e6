"""The segments of a replay store: Arrow files, each with an index of ticks.

A segment `seg-000000.arrow` is an Arrow IPC file with one record batch: the declared columns and `_tick`,
int64, non-decreasing over the whole store. Its index `seg-000000.ticks.npy`, int64 (m, 2), contains each tick
and the number of rows in the whole store up to that tick's end.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.checksums import DamagedFileError, Seal, Sealer
from stqsh.fs import settle
from stqsh.sources.replay_store.manifest import Segment, stored_name
from stqsh.storage.blobs import Blobs

T = TypeVar("T")

TICK = "_tick"
SEGMENT, STATE = "seg-", "state-"
"""The beginnings of the names of segments, and of a generator's state."""
DAMAGED = "damaged"
"""A file with this name in a store means that a reader has found the store to be damaged."""
_HINT = "\\restart prepares the stream again, if its source still gives the same records"
_checked: set[tuple[str, int, int]] = set()
"""The files that this process has verified: path, inode and time of change in ns."""
_OPEN_SEGMENTS = 16
"""The number of segments that one reader keeps mapped."""


def segment_name(number: int) -> str:
    """Return the file name of the store's segment with this number, from 0."""
    return f"{SEGMENT}{number:06d}.arrow"


def ticks_path(segment: Path) -> Path:
    """Return the path of the index that belongs to a segment file."""
    return segment.with_suffix(".ticks.npy")


def state_path(directory: Path, step: int) -> Path:
    """Return the path of the state from which a generator continues an endless stream after a step."""
    return directory / f"{STATE}{step:012d}.npz"


def write_segment(path: Path, batch: pa.RecordBatch, rows_before: int) -> Segment:
    """Write one segment and its index; `rows_before` counts the rows of the segments before it.

    `batch` holds the declared columns and `_tick`, at least one row.
    """
    with path.open("wb") as file:
        sink = _SealingFile(file)
        with pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        seal = sink.sealer.seal
    settle(path)
    ticks = batch.column(TICK).to_numpy()
    ticks_seal = write_index(path, tick_index(ticks, rows_before))
    return Segment(path.name, len(ticks), int(ticks[0]), int(ticks[-1]), seal, ticks_seal)


def write_index(segment: Path, index: NDArray[np.int64]) -> Seal:
    """Write the index that belongs to a segment file; return its seal."""
    content = io.BytesIO()
    np.save(content, index)
    ticks_path(segment).write_bytes(content.getbuffer())
    settle(ticks_path(segment))
    return Seal.of(content.getbuffer())


class _SealingFile(io.RawIOBase):
    """A file to which Arrow writes, and which computes its seal meanwhile."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file, self.sealer = file, Sealer()

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, piece: Any) -> int:
        """Write the next piece."""
        self.sealer.add(piece)
        return self._file.write(piece)


def tick_index(ticks: NDArray[np.int64], rows_before: int) -> NDArray[np.int64]:
    """Return the index (m, 2) of a segment: each distinct tick of `ticks` (n,) and the rows up to its end."""
    last = np.flatnonzero(np.append(ticks[1:] != ticks[:-1], True))
    return np.column_stack([ticks[last], last + 1 + rows_before])


def joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of several batches as one batch; a single batch is not copied."""
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).combine_chunks()
    return table.to_batches()[0] if table.num_rows else batches[0]


class SegmentReader:
    """Maps segments of a store, or only their ticks; the most recently used ones stay mapped."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._rows: OrderedDict[str, pa.RecordBatch] = OrderedDict()
        self._ticks: OrderedDict[str, NDArray[np.int64]] = OrderedDict()

    def rows(self, segment: Segment) -> pa.RecordBatch:
        """Return a segment's rows, which refer to the mapped file.

        Raises:
            DamagedFileError: the file differs from what was written; the store is marked as damaged.
        """
        return _kept(self._rows, segment.file, lambda: self._map_rows(segment))

    def ticks(self, segment: Segment) -> NDArray[np.int64]:
        """Return a segment's ticks (m, 2), mapped likewise, without accessing its rows.

        Raises:
            DamagedFileError: the file differs from what was written; the store is marked as damaged.
        """
        return _kept(self._ticks, segment.file, lambda: self._map_ticks(segment))

    def _map_rows(self, segment: Segment) -> pa.RecordBatch:
        path = self._sound(segment.file, segment.seal)
        with pa.memory_map(str(path)) as mapped:
            return pa.ipc.open_file(mapped).get_batch(0)

    def _map_ticks(self, segment: Segment) -> NDArray[np.int64]:
        path = self._sound(ticks_path(Path(segment.file)).name, segment.ticks_seal)
        ticks: NDArray[np.int64] = np.load(path, mmap_mode="r")
        return ticks

    def _sound(self, name: str, seal: Seal | None) -> Path:
        """Return the path of a file after verifying it."""
        try:
            path = self._blobs.local(name, seal)
            _check_file(path, seal, f"{self._blobs.within}{name}", content=True)
        except DamagedFileError as error:
            error.hint = _HINT
            mark_damaged(self._blobs)
            raise
        return path


def _kept(mapped: OrderedDict[str, T], name: str, map_file: Callable[[], T]) -> T:
    """Return a mapped file, mapping it if necessary."""
    if name not in mapped:
        mapped[name] = map_file()
        if len(mapped) > _OPEN_SEGMENTS:
            mapped.popitem(last=False)
    mapped.move_to_end(name)
    return mapped[name]


def mark_damaged(blobs: Blobs) -> None:
    """Record that the engine has to check a store when it next starts its query."""
    blobs.put(DAMAGED, [b""])


def check_segment(directory: Path, segment: Segment, *, content: bool = True) -> None:
    """Verify a segment's files, by their sizes and by their content.

    Without `content`, only their sizes are verified. A process does not read a verified file again.

    Raises:
        DamagedFileError: a file is missing, truncated or damaged.
    """
    path = directory / segment.file
    for file, seal in ((path, segment.seal), (ticks_path(path), segment.ticks_seal)):
        _check_file(file, seal, stored_name(directory, file.name), content=content)


def _check_file(file: Path, seal: Seal | None, name: str, *, content: bool) -> None:
    try:
        found = file.stat()
    except FileNotFoundError:
        raise DamagedFileError(name, "is gone", _HINT) from None
    if seal is None:
        return
    if found.st_size < seal.size:
        raise DamagedFileError(
            name, f"is cut short: {found.st_size} of its {seal.size} bytes are left", _HINT
        )
    state = (str(file), found.st_ino, found.st_mtime_ns)
    if content and state not in _checked:
        with pa.memory_map(str(file)) as mapped:
            seal.check(memoryview(mapped.read_buffer()), name)
        _checked.add(state)
