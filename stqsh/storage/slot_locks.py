"""The locks of a slot's arena: one writer, or readers.

Writers keep each other out by `NAME.writer`. A writer also holds `NAME.lock` alone, which readers share. Both
pass `NAME.gate` on the way to the lock, so that a series of readers never keeps a writer out.

A stopped reader keeps a writer waiting for `READERS_S` only. Then the writer puts a new gate and a
new lock in place of the old ones, and goes on with copies of the arrays; the reader keeps what it has mapped.
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
"""How long to wait for a writer: longer than any batch takes."""

READERS_S = 1.0
"""How long a writer waits for readers."""

POLL_S = 0.0005
"""How long to sleep between two looks at what is awaited."""


class ArenaBusyError(SlotStateError):
    """Another process has held a slot's arena for too long."""


def writer_lock(folder: Path, name: str) -> Path:
    """Return the file by which the writers of an arena exclude each other."""
    return folder / f"{name}.writer"


@contextmanager
def reading(folder: Path, name: str, until: float) -> Iterator[Callable[[], bool]]:
    """Hold a slot's arena together with other readers.

    Yields:
        Whether it is still held: a writer does not wait long for a stopped reader.

    Raises:
        ArenaBusyError: a writer has not released it at the monotonic time `until`.
    """
    with ExitStack() as held:
        lock = _take(folder / f"{name}.lock", held, folder / f"{name}.gate", fcntl.LOCK_SH, until)
        yield lambda: _is_in_place(lock, folder / f"{name}.lock")


@contextmanager
def writing(folder: Path, name: str) -> Iterator[bool]:
    """Hold a slot's arena alone; the locks of a dead process are released.

    Yields:
        Whether readers had to be left behind: they still read the arrays, which must not be changed.

    Raises:
        ArenaBusyError: another writer has not released it within `PATIENCE_S`.
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
    """Pass the gate and take the lock, in the place of which there may be new ones by then."""
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
    """Open a file to be locked, made if needed, for as long as the stack lasts."""
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
