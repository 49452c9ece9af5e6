"""The keys of present objects, and values of their columns, for completion.

They are read from the slots' state, like a snapshot, but never through the log and almost without waiting:
during a long batch the last keys found are used.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from stqsh.client.connection import Connection
from stqsh.client.read.slot_states import SlotStates
from stqsh.client.read.snapshots import SnapshotReader
from stqsh.storage.catalogue import find_stream

if TYPE_CHECKING:
    from stqsh.core.state.slot_state import SlotState

MOST = 50
"""Maximum number of keys that are offered."""
FRESH_S = 2.0
"""How long found keys are reused."""
PATIENCE_S = 0.2
"""How long to wait for busy slots."""
LOCATED_S = 0.5
"""How long to wait for slots in the executors of a cluster."""


def warm_up() -> None:
    """Import the modules for key look-ups: it takes about a second, too long for a key press."""
    import stqsh.client.read.slot_answers
    import stqsh.storage.slot_files  # noqa: F401


class LiveKeys:
    """The keys and other values of one session's objects; thread-safe."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._states, self._snapshots = SlotStates(connection), SnapshotReader(connection)
        self._found: dict[tuple[str, str, str], tuple[float, tuple[str, ...]]] = {}

    def starting(self, stream: str, column: str, prefix: str) -> tuple[str, ...]:
        """Return values of a stream's present objects that begin with a prefix.

        For the key these are the first ones in its order, for another column the most frequent ones.
        """
        with self._lock:
            at, keys = self._found.get((stream, column, prefix), (0.0, ()))
            if time.monotonic() - at < FRESH_S:
                return keys
            keys = self._read(stream, column, prefix, keys)
            if len(self._found) > 100:
                self._found.clear()
            self._found[stream, column, prefix] = time.monotonic(), keys
            return keys

    def _read(self, stream: str, column: str, prefix: str, before: tuple[str, ...]) -> tuple[str, ...]:
        from stqsh.client.read.slot_answers import OfferedValues, first_keys, frequent_values

        row = find_stream(self._connection.db, stream)
        if row is None:
            return ()

        def look(states: list[SlotState]) -> tuple[str, ...]:
            if column == row.spec.key:
                return first_keys(states, row.spec, prefix, MOST)
            return frequent_values(states, row.spec, column, prefix, MOST)

        found = self._states.read(look, lambda: PATIENCE_S)
        if found is not None:
            return found
        wanted = OfferedValues(column, prefix, MOST)
        located = self._snapshots.located(wanted.question(row.spec), patience_s=LOCATED_S)
        return before if located is None else wanted.found(located[0], row.spec)
