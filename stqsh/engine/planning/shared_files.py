"""The files of a session that workers open: the planner has them ready before a task names them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stqsh.spec.stream import StreamSpec
from stqsh.storage.blobs import Blobs
from stqsh.storage.home import SessionHome


class SharedFiles:
    """What the planner has made ready for workers.

    Args:
        home: the session's home.
        blobs: where workers find its files.
    """

    def __init__(self, home: SessionHome, blobs: Blobs) -> None:
        self._home, self._blobs = home, blobs
        self._previous: set[int] = set()

    def keep_previous(self, ids: Iterable[int], streams: Mapping[int, StreamSpec]) -> None:
        """Have a file with the row before each row of replayed streams, by id; see `previous_rows`."""
        for stream in ids:
            spec = streams[stream]
            if stream in self._previous or spec.needs_dealer:
                continue
            from stqsh.sources.replay_store.previous_rows import keep_previous_rows  # numba: when needed

            keep_previous_rows(self._home.stream(stream), spec.key, spec.time)
            self._previous.add(stream)
