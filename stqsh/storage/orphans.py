"""The processes that own sessions and subscriptions, and cleanup after owners that were killed."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from stqsh.errors import HomeError
from stqsh.storage import processes
from stqsh.storage.catalogue import owned_queries
from stqsh.storage.catalogue_writer import drop_if_live
from stqsh.storage.control_log import ControlDb, get_meta, set_meta
from stqsh.storage.engine_info import is_alive, read_engine, runs_elsewhere
from stqsh.storage.home import list_sessions, remove_home

_OWNER = "owner"


def claim_session(db: ControlDb) -> None:
    """Record that the session ends with this process."""
    set_meta(db, _OWNER, processes.identity())


def is_orphaned(db: ControlDb) -> bool:
    """Return whether the process that owns the session is gone, so that the engine should stop."""
    owner = get_meta(db, _OWNER)
    return owner is not None and not processes.is_running(owner)


def drop_orphans(db: ControlDb) -> None:
    """Drop the subscriptions of clients that no longer exist."""
    for query in owned_queries(db):
        if query.owner is not None and not processes.is_running(query.owner):
            drop_if_live(db, query)


def remove_orphans(root: Path) -> None:
    """Remove the temporary homes of clients that no longer exist, once their engines have ended."""
    for info in list_sessions(root):
        is_running = is_alive(read_engine(info.home)) or runs_elsewhere(info.home)
        if info.home.temporary and not is_running and _is_left(info.home.path):
            remove_home(info.home)


def _is_left(path: Path) -> bool:
    try:
        with closing(ControlDb(path)) as db:
            return is_orphaned(db)
    except HomeError:
        return False  # it is being created or removed right now
