"""A thread that reads a source ahead of the view, so that no key press waits for a large batch."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from stqsh.client.results import Updates

if TYPE_CHECKING:
    from stqsh.client.read.subscription import OnIdle
    from stqsh.client.results import SnapshotMark
    from stqsh.storage.rows import Progress

    Item: TypeAlias = Updates | SnapshotMark
    Source: TypeAlias = Callable[[OnIdle], Iterable[Item]]

T = TypeVar("T")
AHEAD = 200_000
"""The maximum number of rows read ahead; the rest stays in the session's update log."""
_JOIN_S = 2.0


class _Stopped(Exception):
    """The reader was closed."""


class Prefetch(Generic[T]):
    """Reads the items of a source in a thread.

    Attributes:
        progress: The session's progress as the source last reported it.
    """

    def __init__(self, source: Callable[[OnIdle], Iterable[T]]) -> None:
        """Start reading; `source` is called in the thread with a function that receives the progress."""
        self._source = source
        self._items: deque[T] = deque()
        self._latest: T | None = None
        self._changed = threading.Condition()
        self._waiting = 0
        self._is_closed = self._is_done = False
        self._error: BaseException | None = None
        self.progress: Progress | None = None
        self._thread = threading.Thread(target=self._work, name="prefetch", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of rows that are read but not yet taken."""
        return self._waiting

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached, so that more rows may wait in the log."""
        return self._waiting >= AHEAD

    @property
    def is_over(self) -> bool:
        """Whether all items were taken and no more can arrive."""
        return self._is_done and not self._items

    def take(self) -> list[T]:
        """Return all items that have arrived; if there are none, raise the error that ended the source."""
        with self._changed:
            items = list(self._items)
            self._items.clear()
            self._waiting = 0
            self._changed.notify()
        if not items and self._error is not None:
            error, self._error = self._error, None
            raise error
        return items

    def latest(self) -> T | None:
        """Return the newest item, None before the first; older ones are dropped. Raises as `take`."""
        for item in self.take():
            self._latest = item
        return self._latest

    def wait(self, seconds: float) -> None:
        """Wait until an item has arrived or the source has ended, for at most `seconds`."""
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

    def _put(self, item: T) -> None:
        rows = item.table.num_rows if isinstance(item, Updates) else 0
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
