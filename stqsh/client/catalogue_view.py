"""The catalogue as lang.bind asks for it, over control.db."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from stqsh.profile import Profile
from stqsh.spec.stream import AreaSpec, StreamSpec, TableSpec
from stqsh.storage.catalogue import find_area, find_query, find_stream, find_table
from stqsh.storage.control_log import ControlDb
from stqsh.storage.rows import Spec
from stqsh.storage.session_settings import session_settings

_NAMES = {
    "stream": "SELECT name FROM streams WHERE dropped_seq IS NULL ORDER BY id",
    "table": "SELECT name FROM tables WHERE dropped_seq IS NULL ORDER BY id",
    "region": "SELECT name FROM areas WHERE dropped_seq IS NULL ORDER BY id",
    "query": (
        "SELECT name FROM (SELECT id, name FROM queries WHERE state IN ('active', 'paused')"
        " ORDER BY id DESC LIMIT 10000) ORDER BY id"  # who looks for a near name looks at each
    ),
}


class SessionCatalogue:
    """The names in use in a session and what they stand for, always as they are now."""

    def __init__(self, db: ControlDb, profile: Profile) -> None:
        self._db = db
        self._profile = profile

    def stream(self, name: str) -> StreamSpec | None:
        """The StreamSpec of a live stream."""
        found = find_stream(self._db, name)
        return found.spec if found else None

    def table(self, name: str) -> TableSpec | None:
        """The TableSpec of a live table."""
        found = find_table(self._db, name)
        return found.spec if found else None

    def area(self, name: str) -> AreaSpec | None:
        """The AreaSpec of a live region or set of regions."""
        found = find_area(self._db, name)
        return found.spec if found else None

    def query(self, name: str) -> Spec | None:
        """The QuerySpec of a live query."""
        found = find_query(self._db, name)
        return found.spec if found and found.live else None

    def names(self, kind: str) -> Collection[str]:
        """The names in use of a kind, in the order of their making; of very many queries the last ones."""
        return [row[0] for row in self._db.query(_NAMES[kind])]

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings in force, by dotted key."""
        return {key: found.value for key, found in session_settings(self._db, self._profile).items()}
