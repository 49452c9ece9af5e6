"""The regions of recent snapshots: what SSTD calls query distribution statistics (section 4.1.1).

A routing can only be planned for snapshots if somebody remembers them, because slots do not see them: on one
machine clients read the slots' arrays. So clients append a row for each snapshot to a small file of the
session. If two clients shorten it at once, some rows are lost, which only makes the statistics less exact.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from stqsh.arrays import Floats
from stqsh.fs import atomic_write
from stqsh.storage.home import SessionHome

MOST = 4096
"""The most snapshots that are remembered, of all streams together; the file has up to twice as many."""

KINDS = ("range", "nearest", "terms")
"""SSTD's kinds of snapshot queries: SRQ, SKQ and STQ."""

_NEIGHBOURS = 256
"""What a row multiplies the number of neighbours by, to keep it with the kind."""
_ROW = np.dtype([("stream", "<i8"), ("step", "<i8"), ("kind", "<i8"), ("box", "<f8", (4,))])


@dataclass(frozen=True)
class AskedSnapshots:
    """Recent snapshots of a stream.

    Attributes:
        kind: int64 (n,), the position of each one's kind in `KINDS`.
        boxes: float64 (n, 4), a box around the region of each; may be infinite. For nearest neighbours, their
            place twice.
        k: int64 (n,), how many neighbours each asks for; 0 if it is of another kind, or noted by an older
            version.
    """

    kind: np.ndarray[tuple[int], np.dtype[np.int64]]
    boxes: Floats
    k: np.ndarray[tuple[int], np.dtype[np.int64]]

    @staticmethod
    def none() -> AskedSnapshots:
        """Return no snapshots."""
        return AskedSnapshots(np.empty(0, np.int64), np.empty((0, 4)), np.empty(0, np.int64))


def note_snapshot(
    home: SessionHome, stream: int, step: int, kind: str, box: tuple[float, float, float, float], k: int = 0
) -> None:
    """Remember a snapshot; a home that cannot be written remembers none.

    Args:
        home: the session's home.
        stream: its stream.
        step: the step whose state it showed.
        kind: its kind, one of `KINDS`.
        box: a box around its region; for nearest neighbours, their place twice.
        k: how many neighbours it asks for.
    """
    row = np.array((stream, step, KINDS.index(kind) + _NEIGHBOURS * k, box), _ROW)
    with suppress(OSError):
        file = os.open(home.asked, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, row.tobytes())
            is_long = os.fstat(file).st_size >= 2 * MOST * _ROW.itemsize
        finally:
            os.close(file)
        if is_long:
            atomic_write(home.asked, _rows(home)[-MOST:].tobytes())


def recent_snapshots(home: SessionHome, stream: int, since: int) -> AskedSnapshots:
    """Return the last snapshots of a stream that showed a step from `since` on."""
    rows = _rows(home)[-MOST:]
    mine = rows[(rows["stream"] == stream) & (rows["step"] >= since)]
    k, kind = np.divmod(mine["kind"].astype(np.int64), _NEIGHBOURS)
    return AskedSnapshots(kind, mine["box"].astype(np.float64), k)


def _rows(home: SessionHome) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    try:
        content = home.asked.read_bytes()
    except OSError:
        content = b""
    return np.frombuffer(content[: len(content) // _ROW.itemsize * _ROW.itemsize], _ROW)
