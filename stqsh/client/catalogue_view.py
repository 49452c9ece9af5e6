"""The catalogue that `lang.bind` needs, from control.db."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from stqsh.errors import StqshError
from stqsh.extensions import FUNCTIONS, ExtensionError, find_extension
from stqsh.lang.binder.functions import is_function
from stqsh.profile import Profile
from stqsh.sources.session_regions import SessionRegions
from stqsh.spec.expression import FunctionSpec
from stqsh.spec.query import QuerySpec
from stqsh.spec.query_stream import QueryStreamSpec
from stqsh.spec.sink import SinkSpec
from stqsh.spec.stream import StreamSpec, TableSpec
from stqsh.spec.view import ViewSpec
from stqsh.storage.catalogue import (
    find_query,
    find_stream,
    find_table,
    find_view,
    kind_named,
    known_functions,
    known_views,
)
from stqsh.storage.control_log import ControlDb
from stqsh.storage.layouts import IS_ALERT, LIVE
from stqsh.storage.queries.query_streams import find_query_stream
from stqsh.storage.session_settings import session_settings
from stqsh.storage.sinks.sink_catalogue import find_alert, find_sink

_NAMES = {
    "stream": "SELECT name FROM streams WHERE dropped_seq IS NULL ORDER BY id",
    "table": "SELECT name FROM tables WHERE dropped_seq IS NULL ORDER BY id",
    "region": "SELECT name FROM areas WHERE dropped_seq IS NULL ORDER BY id",
    "query stream": "SELECT name FROM query_streams WHERE dropped_seq IS NULL ORDER BY id",
    "sink": f"SELECT name FROM sinks WHERE NOT {IS_ALERT} AND dropped_seq IS NULL ORDER BY id",
    "alert": f"SELECT name FROM sinks WHERE {IS_ALERT} AND dropped_seq IS NULL ORDER BY id",
    "query": (
        f"SELECT name FROM (SELECT id, name FROM queries WHERE {LIVE}"
        " ORDER BY id DESC LIMIT 10000) ORDER BY id"  # a search for similar names compares all of them
    ),
}


class SessionCatalogue(SessionRegions):
    """The names in use in a session and their definitions, always current."""

    def __init__(self, db: ControlDb, profile: Profile) -> None:
        super().__init__(db)
        self._profile = profile

    def stream(self, name: str) -> StreamSpec | None:
        """Return the StreamSpec of a live stream."""
        found = find_stream(self._db, name)
        return found.spec if found else None

    def table(self, name: str) -> TableSpec | None:
        """Return the TableSpec of a live table."""
        found = find_table(self._db, name)
        return found.spec if found else None

    def query(self, name: str) -> QuerySpec | None:
        """Return the QuerySpec of a live query."""
        found = find_query(self._db, name)
        return found.spec if found and found.live else None

    def query_stream(self, name: str) -> QueryStreamSpec | None:
        """Return the QueryStreamSpec of a live query stream."""
        found = find_query_stream(self._db, name)
        return found.spec if found else None

    def view(self, name: str) -> ViewSpec | None:
        """Return the ViewSpec of a view."""
        return find_view(self._db, name)

    def sink(self, name: str) -> SinkSpec | None:
        """Return the SinkSpec of a live sink."""
        found = find_sink(self._db, name)
        return found.spec if found else None

    def alert(self, name: str) -> SinkSpec | None:
        """Return the SinkSpec of a live alert."""
        found = find_alert(self._db, name)
        return found.spec if found else None

    def function(self, name: str) -> FunctionSpec | None:
        """Return a function that a user registered or a package adds, by its name in upper case.

        Raises:
            StqshError: a package adds it, but it cannot be used.
        """
        found = known_functions(self._db).get(name)
        return found if found is not None or is_function(name) else added_function(name)

    def kind_of(self, name: str) -> str | None:
        """Return the kind of object that has a name; None if the name is free."""
        return kind_named(self._db, name)

    def names(self, kind: str) -> Collection[str]:
        """Return the names of a kind that are in use, in order of creation; if very many, only the last."""
        if kind == "view":
            return list(known_views(self._db))
        if kind == "function":
            return list(known_functions(self._db))
        return [row[0] for row in self._db.query(_NAMES[kind])]

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings in force, by dotted key."""
        return {key: found.value for key, found in session_settings(self._db, self._profile).items()}


@cache
def added_function(name: str) -> FunctionSpec | None:
    """Return the function that a package adds, by its name in upper case; None if no package adds it.

    Raises:
        StqshError: it cannot be loaded, or is not a function of columns.
    """
    try:
        function = find_extension(FUNCTIONS, name.lower())
    except ExtensionError as error:
        raise StqshError(str(error)) from error
    if function is None:
        return None
    from stqsh.client.functions import function_spec  # pyarrow, cloudpickle

    return function_spec(name, function, None)
