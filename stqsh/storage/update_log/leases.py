"""Leases: a reader of the update log records how far it has read, and later batches are kept for it.

A lease is a file in the home's `readers/`, named after the reader's process, with the number of the last
batch read. The lease of a dead process has no effect; that of a sink (`sink-ID`) holds until the sink is
dropped or falls too far behind (`sinks.keep`). Leases are created and the log is folded under the same lock,
so the batches that exist when a reader gets its lease stay.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stqsh.fs import atomic_write, file_lock
from stqsh.storage import processes
from stqsh.storage.home import SessionHome

_EVERY_S = 1.0
"""The longest time by which a lease may lag behind its reader."""
_LOOK_S = 0.1
"""How often to check readers that are waited for."""
_SINK = "sink-"
_numbers = itertools.count()


class Lease:
    """Protects all batches after a given one from being folded, until it is released."""

    def __init__(self, home: SessionHome, after: int) -> None:
        with _locked(home):
            self._path = home.readers / f"{processes.identity()}-{next(_numbers)}"
            self._write(after)

    def advance(self, after: int) -> None:
        """Release the batches up to one."""
        if after != self._after and time.monotonic() - self._written >= _EVERY_S:
            self._write(after)

    def release(self) -> None:
        """Release all batches."""
        self._path.unlink(missing_ok=True)

    def _write(self, after: int) -> None:
        atomic_write(self._path, str(after).encode(), private=True)
        self._after, self._written = after, time.monotonic()


def keep_for_sink(home: SessionHome, sink: int, after: int) -> None:
    """Keep the batches after one for a sink, whether or not its process lives."""
    atomic_write(_sink_path(home, sink), str(after).encode(), private=True)


def release_sink(home: SessionHome, sink: int) -> None:
    """Release all batches that are kept for a sink."""
    _sink_path(home, sink).unlink(missing_ok=True)


def kept_for_sink(home: SessionHome, sink: int) -> int | None:
    """Return the batch after which all batches are kept for a sink; None if none are."""
    try:
        return int(_sink_path(home, sink).read_text(encoding="ascii"))
    except FileNotFoundError:
        return None
    except ValueError:
        return -1  # the file is damaged: the sink writes it again


def kept_sinks(home: SessionHome) -> set[int]:
    """Return the numbers of the sinks that have a lease, including dropped ones."""
    return {int(path.name.removeprefix(_SINK)) for path in home.readers.glob(f"{_SINK}[0-9]*")}


def _sink_path(home: SessionHome, sink: int) -> Path:
    return home.readers / f"{_SINK}{sink}"


def read_by_all(home: SessionHome, batch: int) -> int:
    """Return the last batch up to `batch` that every reader has read; remove the leases of dead processes."""
    for path in home.readers.glob("[!.]*"):
        if not _is_held(path):
            path.unlink(missing_ok=True)
            continue
        try:
            after = int(path.read_text(encoding="ascii"))
        except FileNotFoundError:
            continue  # just released
        except ValueError:
            after = -1  # the file is damaged: its reader writes it again
        batch = min(batch, after)
    return batch


@contextmanager
def all_read(home: SessionHome, batch: int, wait_s: float = 0.0) -> Iterator[bool]:
    """Yield whether every reader has read up to a batch; within the context no reader can begin.

    It waits up to `wait_s` for readers that have not, so that many short readers cannot prevent folding.
    """
    deadline = time.monotonic() + wait_s
    while True:
        with _locked(home):
            is_read = read_by_all(home, batch) == batch
            if is_read or time.monotonic() >= deadline:
                yield is_read
                return
        time.sleep(_LOOK_S)


@contextmanager
def without_folding(home: SessionHome) -> Iterator[None]:
    """Prevent the log from being folded within the context."""
    with _locked(home):
        yield


@contextmanager
def _locked(home: SessionHome) -> Iterator[None]:
    home.readers.mkdir(mode=0o700, exist_ok=True)
    with file_lock(home.readers / ".lock"):
        yield


def _is_held(path: Path) -> bool:
    return path.name.startswith(_SINK) or processes.is_running(path.name.rpartition("-")[0])
