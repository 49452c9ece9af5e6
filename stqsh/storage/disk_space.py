"""Disk space checks: an engine stops reading records while little space is left, so that it can keep running.

Without new records it needs little space: for the control log, for heartbeats, and to replace a larger update
log with a smaller one. Unread records wait at their source, as with any lag.
"""

from __future__ import annotations

import os
from pathlib import Path

from stqsh.errors import StqshError
from stqsh.units import format_size

RESERVE = 256 << 20
"""Bytes that stay free; this is more than a large batch writes."""

RESERVE_FILES = 128
"""Files that can still be created; this is more than a batch creates."""


class DiskFullError(StqshError):
    """The disk of a session's home has too little space for the streams to advance."""

    def __init__(self, home: Path, *, is_temporary: bool = False) -> None:
        free, needed = format_size(free_bytes(home)), format_size(RESERVE)
        files = free_files(home)
        if files is not None and files < RESERVE_FILES:
            free, needed = f"{files} files (inodes)", f"{RESERVE_FILES}"
        super().__init__(
            f"only {free} are free on the disk of {home}, but a session needs {needed}",
            hint="free some space, and run the script again"
            if is_temporary
            else "the streams wait, and go on by themselves once there is room",
        )


def free_bytes(home: Path) -> int:
    """Return the number of free bytes on the disk of a home."""
    found = os.statvfs(home)
    return found.f_bavail * found.f_frsize


def free_files(home: Path) -> int | None:
    """Return how many more files the disk of a home can hold; None if there is no limit."""
    found = os.statvfs(home)
    return found.f_favail if found.f_files else None


def is_full(home: Path) -> bool:
    """Return whether less than `RESERVE` or `RESERVE_FILES` is free on the disk of a home."""
    files = free_files(home)
    return free_bytes(home) < RESERVE or (files is not None and files < RESERVE_FILES)
