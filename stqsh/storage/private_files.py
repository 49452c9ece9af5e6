"""Private files in memory that all users of a machine share: only this user's own files are opened.

Another user may have created a file beforehand. A foreign file, a link, or a file that others may read or
write is refused, never adopted.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from stqsh.errors import SlotStateError

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class ForeignFileError(SlotStateError):
    """A file or folder that is not private to this user."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is not a private file or folder of this user's",
            hint="remove it, or let its owner do so; the engine makes a new one",
        )


def make_private_folder(folder: Path) -> None:
    """Create a folder, and its parents, for this user alone; an existing folder must already be private.

    Raises:
        ForeignFileError: it belongs to another user, is a link, or is accessible to others.
    """
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        check_private_folder(folder)


def check_private_folder(folder: Path) -> None:
    """Check that a folder is private to this user.

    Raises:
        ForeignFileError: it belongs to another user, is a link, or is accessible to others.
        FileNotFoundError: there is no such folder.
    """
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or not _is_private(found):
        raise ForeignFileError(folder)


def open_private(path: Path, flags: int) -> int:
    """Open a private file of this user, or create it; return its descriptor.

    Raises:
        ForeignFileError: it belongs to another user, is accessible to others, or has a second name.
        OSError: it cannot be opened, for instance because it is a link.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or not _is_private(found):
        os.close(descriptor)
        raise ForeignFileError(path)
    return descriptor


def _is_private(found: os.stat_result) -> bool:
    return found.st_uid == os.geteuid() and not found.st_mode & _OTHERS
