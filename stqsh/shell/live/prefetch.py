"""Reads updates ahead of who shows them, in a thread of its own, so that no key waits for a large batch.

The reader stops when so many rows wait that memory would grow; the rest waits in the session's update log.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

from stqsh.client.results import SnapshotMark

if TYPE_CHECKING:
    from stqsh.client.read.subscription import OnIdle
    from stqsh.client.results import Updates
    from stqsh.storage.rows import Progress

    Item: TypeAlias = Updates | SnapshotMark
    Source: TypeAlias = Callable[[OnIdle], Iterable[Item]]

AHEAD = 200_000
"""So many rows are read ahead at the most."""
_JOIN_S = 2.0


class _Stopped(Exception):
    """Nobody wants any more."""


class Prefetch:
    """What a source gives, as it comes. `source` is called in the thread with whom to tell the progress."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._items: deque[Item] = deque()
        self._changed = threading.Condition()
        self._waiting = 0
        self._is_closed = self._is_done = False
        self._error: BaseException | None = None
        self.progress: Progress | None = None
        self._thread = threading.Thread(target=self._work, name="feed", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Rows that are read and not taken."""
        return self._waiting

    @property
    def is_full(self) -> bool:
        """Whether more may wait in the log."""
        return self._waiting >= AHEAD

    @property
    def is_over(self) -> bool:
        """Whether all that will ever come has been taken."""
        return self._is_done and not self._items

    def take(self) -> list[Item]:
        """All that has come; where nothing has, raises what ended the source, if that was an error."""
        with self._changed:
            items = list(self._items)
            self._items.clear()
            self._waiting = 0
            self._changed.notify()
        if not items and self._error is not None:
            error, self._error = self._error, None
            raise error
        return items

    def wait(self, seconds: float) -> None:
        """Wait until something has come or the source has ended, so long at the most."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._is_done, seconds)

    def close(self) -> None:
        """Stop reading."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(_JOIN_S)

    def _work(self) -> None:
        try:
            for item in self._source(self._idle):
                self._put(item)
        except _Stopped:
            pass
        except BaseException as error:  # raised where the items are taken
            self._error = error
        with self._changed:
            self._is_done = True
            self._changed.notify()

    def _put(self, item: Item) -> None:
        rows = 0 if isinstance(item, SnapshotMark) else item.table.num_rows
        with self._changed:
            self._changed.wait_for(lambda: self._waiting < AHEAD or self._is_closed)
            self._items.append(item)
            self._waiting += rows
            self._changed.notify()
        self._check()

    def _idle(self, progress: Progress) -> None:
        self.progress = progress
        self._check()

    def _check(self) -> None:
        if self._is_closed:
            raise _Stopped
