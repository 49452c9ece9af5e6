"""Leases: a reader of the update log records how far it has read, and what is after that is kept.

A lease is a file in the home's `readers/`, named after its process and holding the last batch that was read.
The lease of a dead process has no effect; that of a sink (`sink-ID`) is held until the sink is dropped, or
has fallen too far behind (`sinks.keep`). The log is folded under the lock with which a lease is taken: what
a reader finds when it has its lease stays.
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
"""Maximum time by which a lease is behind its reader."""
_LOOK_S = 0.1
"""How often readers that are waited for are looked at."""
_SINK = "sink-"
_numbers = itertools.count()


class Lease:
    """Keeps the batches after one from being folded, until it is released."""

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
    """Keep the batches after one for a sink, whether its process lives or not."""
    atomic_write(_sink_path(home, sink), str(after).encode(), private=True)


def release_sink(home: SessionHome, sink: int) -> None:
    """Release all batches that were kept for a sink."""
    _sink_path(home, sink).unlink(missing_ok=True)


def kept_for_sink(home: SessionHome, sink: int) -> int | None:
    """Return the batch after which all are kept for a sink; None if none are."""
    try:
        return int(_sink_path(home, sink).read_text(encoding="ascii"))
    except FileNotFoundError:
        return None
    except ValueError:
        return -1  # damaged: the sink writes it again


def kept_sinks(home: SessionHome) -> set[int]:
    """Return the sinks for which anything is kept, dropped or not."""
    return {int(path.name.removeprefix(_SINK)) for path in home.readers.glob(f"{_SINK}[0-9]*")}


def _sink_path(home: SessionHome, sink: int) -> Path:
    return home.readers / f"{_SINK}{sink}"


def read_by_all(home: SessionHome, batch: int) -> int:
    """Return the last batch up to `batch` that every reader has read; removes leases of dead processes."""
    for path in home.readers.glob("[!.]*"):
        if not _is_held(path):
            path.unlink(missing_ok=True)
            continue
        try:
            after = int(path.read_text(encoding="ascii"))
        except FileNotFoundError:
            continue  # just released
        except ValueError:
            after = -1  # damaged: its reader writes it again
        batch = min(batch, after)
    return batch


@contextmanager
def all_read(home: SessionHome, batch: int, wait_s: float = 0.0) -> Iterator[bool]:
    """Yield whether every reader has read up to a batch; within the context no reader begins.

    Readers that have not are waited for, so that many short ones do not keep a log from being folded.
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
    """Keep the log as it is within the context."""
    with _locked(home):
        yield


@contextmanager
def _locked(home: SessionHome) -> Iterator[None]:
    home.readers.mkdir(mode=0o700, exist_ok=True)
    with file_lock(home.readers / ".lock"):
        yield


def _is_held(path: Path) -> bool:
    return path.name.startswith(_SINK) or processes.is_running(path.name.rpartition("-")[0])
