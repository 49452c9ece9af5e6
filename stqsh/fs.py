"""Files that several processes share: atomic replacement, durability, locks, and names as text."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

DURABILITY = "STQSH_DURABILITY"
"""The environment variable in which an engine passes the setting `durability` to its workers."""


@contextmanager
def replacing(path: Path, *, private: bool = False, durable: bool | None = None) -> Iterator[Path]:
    """Yield a hidden path in the folder of `path` for writing; at the end, rename its file to `path`.

    Other processes see either the old file or the complete new one. If the body fails, no file is left
    behind. With durability `disk`, the new file is on the disk before it replaces the old one, and its name
    is on the disk at the end; `durable` overrides the environment. With `private`, only its user can read the
    file, whatever the process's umask is.
    """
    is_forced = is_durable() if durable is None else durable
    hidden = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if private:
            make_private(hidden)
        yield hidden
        if is_forced:
            force(hidden)
        hidden.replace(path)
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise
    if is_forced:
        force(path.parent)


def atomic_write(
    path: Path,
    content: bytes | bytearray | memoryview,
    *,
    private: bool = False,
    durable: bool | None = None,
) -> None:
    """Replace a file atomically: other processes see the old content or the complete new one."""
    with replacing(path, private=private, durable=durable) as hidden:
        hidden.write_bytes(content)


def make_private(path: Path) -> None:
    """Make an empty file that only its user can read, unless the file exists.

    An existing file is not opened, because closing it would release the locks that this process has on it.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def readable_path(path: str | os.PathLike[str]) -> str:
    r"""Return a path as text for any encoder: bytes that are no UTF-8 are escaped, and so are backslashes.

    No two paths give the same text.

    >>> readable_path("in/b\udcfc.csv"), readable_path(r"in\b.csv")
    ('in/b\\xfc.csv', 'in\\\\b.csv')
    """
    return os.fsencode(path).replace(b"\\", b"\\\\").decode(errors="backslashreplace")


def is_durable() -> bool:
    """Return whether files must survive a crash of the machine, not only of all processes."""
    return os.environ.get(DURABILITY) == "disk"


def settle(path: Path) -> None:
    """Force a file that was written in place, and its name, to the disk if durability asks for it."""
    if is_durable():
        force(path)
        force(path.parent)


def force(path: Path) -> None:
    """Force the content of a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def file_lock(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold an exclusive lock on a file, created if missing; the death of the process releases it.

    Raises:
        BlockingIOError: another process holds it; only without `wait`.
    """
    make_private(path)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
