"""Arenas in shared memory: each names its home, so that those of deleted homes can be removed.

A session that ends removes its own arena with its home. A killed session cannot, nor can a home that a user
deletes; the next engine that starts on this machine cleans up after them.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from stqsh.storage.home import SHM, SessionHome

_OWNER = "home"


def claim_arena(home: SessionHome) -> None:
    """Make a session's arena if it does not exist, and write its home into it."""
    folder = home.arena()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / _OWNER).write_text(str(home.path.absolute()), encoding="utf-8")


def remove_lost_arenas(shared: Path = SHM) -> int:
    """Remove the user's arenas in shared memory whose home is gone, and return how many there were.

    An arena that names no home stays: it may just be in the making.
    """
    lost = [folder for folder in shared.glob(f"stqsh-{os.getuid()}-*") if _is_lost(folder)]
    for folder in lost:
        shutil.rmtree(folder, ignore_errors=True)
    return len(lost)


def _is_lost(folder: Path) -> bool:
    try:
        home = (folder / _OWNER).read_text(encoding="utf-8")
    except OSError:
        return False
    return not SessionHome(Path(home)).control_db.exists()
