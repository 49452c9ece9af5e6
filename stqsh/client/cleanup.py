"""Cleanup after clients that were killed: subscriptions, temporary homes, engines."""

from __future__ import annotations

from pathlib import Path

from stqsh.errors import HomeError
from stqsh.storage import catalogue_writer, processes
from stqsh.storage.catalogue import owned_queries
from stqsh.storage.control_log import ControlDb
from stqsh.storage.engine_info import is_alive, is_orphaned, read_engine
from stqsh.storage.home import list_sessions, remove_home


def drop_orphans(db: ControlDb) -> None:
    """Drop the subscriptions of clients that are gone."""
    for query in owned_queries(db):
        if query.owner is not None and not processes.is_running(query.owner):
            catalogue_writer.change_query(db, "drop", f"DROP QUERY {query.name};", query)


def remove_orphans(root: Path) -> None:
    """Remove the temporary homes of clients that are gone, once their engines have ended."""
    for info in list_sessions(root):
        if info.home.temporary and not is_alive(read_engine(info.home)) and _is_left(info.home.path):
            remove_home(info.home)


def _is_left(path: Path) -> bool:
    try:
        db = ControlDb(path)
    except HomeError:
        return False  # it is just being made or removed
    try:
        return is_orphaned(db)
    finally:
        db.close()
