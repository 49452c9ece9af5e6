"""What to do about a file that cannot be read or written."""

from __future__ import annotations

import difflib
import errno
from pathlib import Path


def remedy(error: OSError, name: str) -> str | None:
    """What to do about what the system said of the file `name`; None where there is nothing to add."""
    path = Path(name).expanduser()
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return _of_missing(path)
    return {
        errno.EISDIR: "name a file in it",
        errno.EACCES: "give it other permissions, or name another",
        errno.EPERM: "give it other permissions, or name another",
        errno.EROFS: "name a place that can be written to",
        errno.ENOSPC: "make room, or name another place",
        errno.EDQUOT: "make room, or name another place",
    }.get(error.errno or 0)


def _of_missing(path: Path) -> str:
    """The folder that is not there, or a file beside it whose name is near."""
    folder = path.parent
    if not folder.is_dir():
        return f"there is no folder {folder}"
    near = difflib.get_close_matches(path.name, [file.name for file in folder.iterdir()], n=1)
    return f"maybe you meant {folder / near[0]}" if near else f"looked in {folder.absolute()}"
