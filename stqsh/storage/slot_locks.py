"""The locks of a slot's arena: one writer, or several readers.

Writers exclude each other by `NAME.writer`. A writer also holds `NAME.lock` exclusively; readers share it.
Both have to lock `NAME.gate` before they lock `NAME.lock`, so that a stream of readers cannot starve a
writer.

A stopped reader delays a writer for at most `READERS_S`. The writer then replaces the gate and the lock by
new files, and continues with copies of the arrays; the reader keeps its mappings.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from stqsh.errors import SlotStateError
from stqsh.storage.private_files import open_private

PATIENCE_S = 60.0
"""How long to wait for a writer; this is longer than any batch."""

READERS_S = 1.0
"""How long a writer waits for readers."""

POLL_S = 0.0005
"""How long to sleep between two attempts to lock."""


class ArenaBusyError(SlotStateError):
    """Another process has held a slot's arena for too long."""


def writer_lock(folder: Path, name: str) -> Path:
    """Return the lock file by which the writers of an arena exclude each other."""
    return folder / f"{name}.writer"


@contextmanager
def reading(folder: Path, name: str, until: float) -> Iterator[Callable[[], bool]]:
    """Lock a slot's arena together with other readers.

    Yields:
        A function that returns whether the lock is still held: a writer does not wait long for a stopped
        reader.

    Raises:
        ArenaBusyError: a writer has not released the lock by the monotonic time `until`.
    """
    with ExitStack() as held:
        lock = _take(folder / f"{name}.lock", held, folder / f"{name}.gate", fcntl.LOCK_SH, until)
        yield lambda: _is_in_place(lock, folder / f"{name}.lock")


@contextmanager
def writing(folder: Path, name: str) -> Iterator[bool]:
    """Lock a slot's arena exclusively; the system releases the locks of a dead process.

    Yields:
        Whether the writer went on without waiting for readers, which still read the arrays: they must not be
        changed then.

    Raises:
        ArenaBusyError: another writer has not released the lock within `PATIENCE_S`.
    """
    lock, gate = folder / f"{name}.lock", folder / f"{name}.gate"
    with ExitStack() as held:
        _flock(_opened(writer_lock(folder, name), held), fcntl.LOCK_EX, time.monotonic() + PATIENCE_S)
        try:
            _take(lock, held, gate, fcntl.LOCK_EX, time.monotonic() + READERS_S)
        except ArenaBusyError:
            for file in (lock, gate):
                new = file.with_suffix(".next")
                new.unlink(missing_ok=True)
                _flock(_opened(new, held), fcntl.LOCK_EX, time.monotonic())
                new.replace(file)
            yield True
        else:
            yield False


def _take(lock: Path, held: ExitStack, gate: Path, mode: int, until: float) -> int:
    """Pass the gate and take the lock; start over if a writer has replaced the files in the meantime."""
    while True:
        with ExitStack() as passing:
            _flock(_opened(gate, passing), mode, until)
            taken = passing.enter_context(ExitStack())
            descriptor = _opened(lock, taken)
            _flock(descriptor, mode, until)
            if _is_in_place(descriptor, lock):
                held.enter_context(taken.pop_all())
                return descriptor


def _is_in_place(descriptor: int, path: Path) -> bool:
    try:
        return os.fstat(descriptor).st_ino == os.stat(path).st_ino  # noqa: PTH116 - faster than pathlib's
    except FileNotFoundError:
        return False


def _opened(file: Path, stack: ExitStack) -> int:
    """Open a lock file until the stack is closed; create it if needed."""
    descriptor = open_private(file, os.O_RDWR | os.O_CREAT)
    stack.callback(os.close, descriptor)
    return descriptor


def _flock(file: int, mode: int, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(file, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ArenaBusyError("another process holds this slot's arena") from None
            time.sleep(POLL_S)
        else:
            return
