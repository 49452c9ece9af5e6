"""Arenas in shared memory: create them under names that nobody can foresee, and remove lost ones.

A session that ends removes its arena together with its home. A killed session does not, and neither does a
user who deletes a home. The next engine that starts on this machine removes such arenas.
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
    """Create a session's arena if it does not exist, and return its folder.

    An existing arena keeps its content and its name in shared memory, so that all processes of a session use
    the same one. If its folder is not private to this user, a new arena is made. The arena records the home
    that owns it.
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
    """Choose an arena name for a session on a cluster, if it has none; each host places the arena itself."""
    if home.arena.folder.parent == home.path:
        home.arena.choose_name()


def host_folders(arena: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the folders of an arena on this host.

    The folders of a session on one machine are returned unchanged. On a cluster an arena has only a name; its
    folders are in the host's shared memory, if that has room, and on the disk that Spark gives an executor.
    """
    if arena[0].is_absolute():
        return arena
    shared, disk = homes.SHM / arena[0], host_cache("") / arena[0]
    is_shared = shared.is_dir() or homes.has_room(homes.SHM)
    return shared if is_shared else disk / "arena", disk / "arena-on-disk"


def _remove_open_folders(home: SessionHome) -> None:
    """Remove arena folders within the home that other users can access, as in a copy made without modes."""
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
    """Choose a place for an arena, and record it in the home."""
    if homes.has_room(homes.SHM):
        return home.arena.choose_name()
    home.arena.name_file.unlink(missing_ok=True)
    return home.arena.folder


def remove_lost_arenas(shared: Path | None = None) -> int:
    """Remove the user's arenas in shared memory whose home is gone, and return how many were removed.

    An arena that names no home stays for a day after its last use: it may just be in the making, or belong to
    a session whose home is on another host. Arenas of earlier versions never named a home.
    """
    folders = (shared or homes.SHM).glob(f"stqsh-{os.getuid()}-*")
    lost = [folder for folder in folders if _is_lost(folder)]
    for folder in lost:
        shutil.rmtree(folder, ignore_errors=True)
    return len(lost)


def _is_lost(folder: Path) -> bool:
    """Return whether a folder is an arena of this user whose home is gone or uses another arena."""
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
