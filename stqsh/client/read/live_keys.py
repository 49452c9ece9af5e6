"""The keys of the objects that are present now, for those who choose one: completion after AROUND.

Read from the slots' published state as a snapshot is, but never by way of the log, and hardly waited for:
where a batch is under way for longer, what was found last stands.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from stqsh.client.connection import Connection
from stqsh.spec.stream import StreamSpec
from stqsh.storage.catalogue import find_stream
from stqsh.storage.control_log import get_meta

if TYPE_CHECKING:
    from stqsh.core.state.slot_state import SlotState
    from stqsh.storage.rows import Spec
    from stqsh.storage.slot_files import PublishedSlots

MOST = 50
"""So many keys are offered at the most."""
FRESH_S = 2.0
"""What was found is taken for true for so long."""
PATIENCE_S = 0.2
"""So long the slots may be busy."""


def warm_up() -> None:
    """Import what looking keys up takes: a second or so, which nobody should wait for at a key."""
    import stqsh.core.snapshots.select
    import stqsh.lang.syntax.parse
    import stqsh.storage.slot_files  # noqa: F401


class LiveKeys:
    """The keys of one session's objects; for any thread."""

    def __init__(self, link: Connection) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._published: PublishedSlots | None = None
        self._found: dict[tuple[str, str], tuple[float, tuple[str, ...]]] = {}

    def starting(self, stream: str, prefix: str) -> tuple[str, ...]:
        """The first keys of a stream's present objects that begin with a prefix, in order of key."""
        with self._lock:
            at, keys = self._found.get((stream, prefix), (0.0, ()))
            if time.monotonic() - at < FRESH_S:
                return keys
            keys = self._read(stream, prefix, keys)
            if len(self._found) > 100:
                self._found.clear()
            self._found[stream, prefix] = time.monotonic(), keys
            return keys

    def _read(self, stream: str, prefix: str, before: tuple[str, ...]) -> tuple[str, ...]:
        from stqsh.storage.slot_files import NotPublishedError, PublishedSlots

        row, slots = find_stream(self._link.db, stream), get_meta(self._link.db, "slots")
        folder = self._link.home.arena()
        if row is None or slots is None or not folder.is_dir():
            return ()
        self._published = self._published or PublishedSlots(folder, int(slots))
        try:
            return self._published.read(lambda states: _keys(states, row.spec, prefix), 0, lambda: PATIENCE_S)
        except NotPublishedError:
            return before


def _keys(states: list[SlotState], stream: StreamSpec, prefix: str) -> tuple[str, ...]:
    """The answer of `SELECT key FROM stream WHERE key LIKE 'prefix%' LIMIT …` on the slots' states."""
    from stqsh.core.snapshots.select import nothing, part, whole

    spec = _snapshot(stream, prefix)
    shares = [share for share in (part(state, spec) for state in states) if share is not None]
    found = whole(shares or [nothing(stream, spec)], spec).column(0).to_pylist()
    return tuple(key for key in map(str, found) if key.startswith(prefix))[:MOST]


def _snapshot(stream: StreamSpec, prefix: str) -> Spec:
    from stqsh.lang.binder.bind import bind
    from stqsh.lang.catalogue import Catalogue
    from stqsh.lang.syntax.parse import parse

    key = '"' + stream.key.replace('"', '""') + '"'
    name = '"' + stream.name.replace('"', '""') + '"'
    types = stream.types
    like = types[stream.key] == "STRING" and prefix and not set(prefix) & set("%_\\")
    condition = f" WHERE {key} LIKE '" + prefix.replace("'", "''") + "%'" if like else ""
    limit = f" LIMIT {MOST}" if like or not prefix else ""
    [statement] = parse(f"SELECT {key} FROM {name}{condition}{limit}")
    spec: Spec = bind(statement, Catalogue({stream.name: stream})).spec
    return spec
