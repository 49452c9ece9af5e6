"""Shell completion of the command line: names of sessions, profiles and formats."""

from __future__ import annotations

from stqsh.docs import TOPICS
from stqsh.errors import StqshError
from stqsh.profile import profile_folders
from stqsh.settings import FORMATS
from stqsh.storage.home import list_sessions


def session_names(incomplete: str) -> list[str]:
    """Return the names of the sessions that begin with `incomplete`."""
    try:
        found = list_sessions()
    except StqshError:  # a home that cannot be read: there is nothing to offer
        return []
    return [one.home.name for one in found if one.home.name.startswith(incomplete)]


def profile_names(incomplete: str) -> list[str]:
    """Return the names of the profiles that begin with `incomplete`."""
    names = {path.stem for folder in profile_folders() for path in folder.glob("*.yaml")}
    return sorted(name for name in names if name.startswith(incomplete))


def format_names(incomplete: str) -> list[str]:
    """Return the names of the output formats that begin with `incomplete`."""
    return [name for name in FORMATS if name.startswith(incomplete)]


def document_names(incomplete: str) -> list[str]:
    """Return the names of the documents that begin with `incomplete`."""
    return [name for name in TOPICS if name.startswith(incomplete)]
