"""Files that several processes share: atomic replacement, and locks."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a hidden path beside `path` to write to; at the end its file takes the place of `path`.

    Other processes see the old file or the whole new one. Nothing is left behind where the body fails.
    """
    hidden = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield hidden
        hidden.replace(path)
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise


def atomic_write(path: Path, content: bytes | bytearray | memoryview) -> None:
    """Replace a file in one go: other processes see the old content or the whole new one."""
    with replacing(path) as hidden:
        hidden.write_bytes(content)


def force(path: Path) -> None:
    """Force the content of a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def file_lock(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold an exclusive lock on a file, which is created if need be; a process that dies lets go.

    Raises:
        BlockingIOError: another process holds it; only without `wait`.
    """
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
