"""The row before each row of a replay store: the object's previous record.

CheetahGIS keeps the last tuple of each object in an operator of its own, the Transformer (section IV). The
information that it adds to a record depends only on the stream, so here it is stored in a file beside the
store's segments: nothing is kept in memory, and a record that is read again gets the same previous row. The
file is a cache. The driver writes it when a stream is first routed by space, and again if it cannot be read
or the store has changed. A worker that cannot read it computes the rows itself, and writes nothing.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.checksums import DamagedFileError, Seal
from stqsh.core.kernels.events.record_keys import find_previous
from stqsh.core.kernels.jit import frozen
from stqsh.core.state.interner import Interner
from stqsh.core.state.slot_state import SlotState
from stqsh.fs import replacing
from stqsh.sources.replay_store.manifest import Manifest, manifest_seal, store_blobs
from stqsh.sources.replay_store.store import ReplayStore, open_store
from stqsh.storage.blobs import Blobs

Rows = NDArray[np.int64]

_FILE = "previous.npy"
_AT_ONCE = 1 << 18
"""The number of rows that are read at a time."""


def previous_rows(store: ReplayStore, place: Path | Blobs, key: str, time: str) -> Rows:
    """Return the previous row of each row of a store, int64 (rows,), in a worker.

    It is -1 for the first record of a key. For a stale record, which is older than the one before it, it is
    -2 minus the row of that record.

    Args:
        store: the store.
        place: its files.
        key, time: the columns of the stream.
    """
    blobs = store_blobs(place)
    state = manifest_seal(blobs)
    try:
        found = _find(blobs.local(previous_name(blobs, state)), state)
    except DamagedFileError:
        found = None
    if found is None or len(found) != store.rows:
        known = blobs, state
        if known not in _made:
            _made.clear()
            _made[known] = _computed(store, store.manifest, key, time)
        found = _made[known]
    return found


_made: dict[tuple[Blobs, str], Rows] = {}
"""The rows that this process had to compute itself: those of one store, with its manifest's seal."""


def keep_previous_rows(directory: Path, key: str, time: str) -> Path:
    """Compute the previous row of each row of a home's store unless a file has them; return the file's path.

    Args:
        directory: the folder of the store.
        key, time: the columns of the stream.
    """
    path, state, store = directory / _FILE, manifest_seal(directory), open_store(directory)
    found = _find(path, state)
    if found is None or len(found) != store.rows:
        _write(path, state, _computed(store, store.manifest, key, time))
    return path


def previous_name(blobs: Blobs, state: str) -> str:
    """Return the name of the file for a manifest of a store; outside the home each manifest has its own."""
    return _FILE if blobs.at_home else f"previous-{state}.npy"


def _computed(store: ReplayStore, manifest: Manifest, key: str, time: str) -> Rows:
    keys = Interner(SlotState.fresh(0), "keys")
    latest, since = np.empty(0, np.int64), np.empty(0, np.int64)
    previous = np.full(store.rows, -1, np.int64)
    for start in range(manifest.gone_rows, store.rows, _AT_ONCE):
        rows = store.read(start, min(start + _AT_ONCE, store.rows))
        numbers = keys.intern(rows.column(key))
        more = len(keys) - len(latest)
        latest, since = np.append(latest, np.full(more, -1)), np.append(since, np.zeros(more, np.int64))
        times = rows.column(time).view(pa.int64()).to_numpy()
        part = previous[start : start + rows.num_rows]
        find_previous(frozen(numbers), frozen(times), start, latest, since, part)
    return previous


def _write(path: Path, state: str, rows: Rows) -> None:
    """Write the rows after a line with the seals of the store's manifest and of the rows."""
    seal = Seal.of(rows.data)
    with replacing(path) as hidden, hidden.open("wb") as file:
        file.write(_line(state, seal))
        file.write(rows.data)


def _line(state: str, seal: Seal) -> bytes:
    line = f"{state} {seal.size} {seal.checksum:016x}"
    return f"{line:<63}\n".encode()


def _find(path: Path, state: str) -> Rows | None:
    """Map the file if it is complete and belongs to this state of the store; each file is checked once."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return _mapped(path, state, (found.st_ino, found.st_mtime_ns))


@lru_cache(maxsize=64)
def _mapped(path: Path, state: str, file: tuple[int, int]) -> Rows | None:
    del file
    try:
        mapped = np.memmap(path, np.uint8, mode="r")
    except (OSError, ValueError):
        return None
    rows: Rows = mapped[64:].view(np.int64) if len(mapped) % 8 == 0 else np.empty(0, np.int64)
    whole = bytes(mapped[:64]) == _line(state, Seal.of(rows.data))
    return rows if whole else None
