"""Arenas in shared memory: each session's has a name that nobody can foresee, and names its home.

A session that ends removes its own arena with its home. A killed session cannot, nor can a home that a user
deletes; the next engine that starts on this machine cleans up after them.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from stqsh.errors import SlotStateError
from stqsh.storage import home as homes
from stqsh.storage.blobs import host_cache
from stqsh.storage.home import SessionHome
from stqsh.storage.private_files import check_private_folder, make_private_folder

_OWNER = "home"
_NAMELESS_S = 24 * 3600.0


def claim_arena(home: SessionHome) -> Path:
    """Make a session's arena if it does not exist, and return its folder.

    An existing one is kept, and its name in shared memory, so that all processes of a session agree, unless
    the folder is not this user's alone. It says whose home it belongs to.
    """
    _remove_open_folders(home)
    folder = home.arena.folder
    try:
        check_private_folder(folder)
    except FileNotFoundError:
        if folder.parent == home.path or not homes.has_room(homes.SHM):
            folder = _new_arena(home)
    except SlotStateError:
        folder = _new_arena(home)
    make_private_folder(folder)
    (folder / _OWNER).write_text(str(home.path.absolute()), encoding="utf-8")
    return folder


def name_arena(home: SessionHome) -> None:
    """Give a session on a cluster a name for its arena, if it has none: each host has a place of its own."""
    if home.arena.folder.parent == home.path:
        home.arena.choose_name()


def host_folders(arena: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the folders of an arena on this host.

    Those of a session on one machine are what they are. On a cluster an arena has only a name: its folders
    are in the shared memory of the host, if that has room, and on the disk that Spark gives an executor.
    """
    if arena[0].is_absolute():
        return arena
    shared, disk = homes.SHM / arena[0], host_cache("") / arena[0]
    is_shared = shared.is_dir() or homes.has_room(homes.SHM)
    return shared if is_shared else disk / "arena", disk / "arena-on-disk"


def _remove_open_folders(home: SessionHome) -> None:
    """Remove folders of arenas within the home that others can use, as in a copy made without modes."""
    for folder in (home.path / "arena", home.path / "arena-on-disk"):
        try:
            check_private_folder(folder)
        except FileNotFoundError:
            continue
        except SlotStateError:
            if folder.is_symlink():
                folder.unlink()
            else:
                shutil.rmtree(folder)


def _new_arena(home: SessionHome) -> Path:
    """Choose a place for an arena, and note it in the home."""
    if homes.has_room(homes.SHM):
        return home.arena.choose_name()
    home.arena.name_file.unlink(missing_ok=True)
    return home.arena.folder


def remove_lost_arenas(shared: Path | None = None) -> int:
    """Remove the user's arenas in shared memory whose home is gone, and return how many there were.

    An arena that names no home stays for a day after its last use: it may just be in the making, or be that
    of a session whose home is on another host. Those of earlier versions never named one.
    """
    folders = (shared or homes.SHM).glob(f"stqsh-{os.getuid()}-*")
    lost = [folder for folder in folders if _is_lost(folder)]
    for folder in lost:
        shutil.rmtree(folder, ignore_errors=True)
    return len(lost)


def _is_lost(folder: Path) -> bool:
    """Return whether a folder is an arena of this user's, of a home that is gone or has another one."""
    try:
        check_private_folder(folder)
        home = SessionHome(Path((folder / _OWNER).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return _is_old(folder)
    except (OSError, SlotStateError):
        return False
    if not home.control_db.exists():
        return True
    return home.arena.name_file.exists() and home.arena.folder.name != folder.name


def _is_old(folder: Path) -> bool:
    """Return whether nothing has been added to a folder for a day."""
    with suppress(FileNotFoundError):
        return time.time() - folder.stat().st_mtime > _NAMELESS_S
    return False
