"""The keys of the objects that are present now, for those who choose one: completion after AROUND.

Read from the slots' published state as a snapshot is, but never by way of the log, and hardly waited for:
where a batch is under way for longer, what was found last stands.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from stqsh.client.connection import Connection
from stqsh.storage.catalogue import find_stream
from stqsh.storage.control_log import get_meta

if TYPE_CHECKING:
    from stqsh.storage.slot_files import PublishedSlots

MOST = 50
"""So many keys are offered at the most."""
FRESH_S = 2.0
"""What was found is taken for true for so long."""
PATIENCE_S = 0.2
"""So long the slots may be busy."""


def warm_up() -> None:
    """Import what looking keys up takes: a second or so, which nobody should wait for at a key."""
    import stqsh.client.read.key_lookup  # noqa: F401


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
        from stqsh.client.read.key_lookup import NotPublishedError, PublishedSlots, first_keys

        row, slots = find_stream(self._link.db, stream), get_meta(self._link.db, "slots")
        folder = self._link.home.arena()
        if row is None or slots is None or not folder.is_dir():
            return ()
        self._published = self._published or PublishedSlots(folder, int(slots))
        try:
            return self._published.read(
                lambda states: first_keys(states, row.spec, prefix, MOST), 0, lambda: PATIENCE_S
            )
        except NotPublishedError:
            return before
