"""Run several readers in threads, slightly ahead of their consumer, and yield their items in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Full, Queue
from threading import Event
from typing import Generic, NamedTuple, TypeVar

Item = TypeVar("Item")
_ITEMS_AHEAD = 4
"""How many items each reader may be ahead of the consumer."""
_PUT_S = 0.1
"""How often a blocked reader checks whether it is still needed, in seconds."""


class ReadItem(NamedTuple, Generic[Item]):
    """An item, and the number of its reader, from 0."""

    reader: int
    item: Item


class _End(NamedTuple):
    """The end of a reader: the error that ended it, or None."""

    error: Exception | None


def read_in_threads(
    readers: Sequence[Callable[[], Iterator[Item]]], threads: int
) -> Iterator[ReadItem[Item]]:
    """Yield the items of all readers, in order of the readers.

    At most `threads` readers run ahead of the current one, so memory use is bounded however slowly items
    are consumed.

    Args:
        readers: Each returns an iterator, which is run in one thread.
        threads: How many of them run at once.

    Raises:
        Exception: an error of a reader, after the items before it; the other readers are stopped.
    """
    stopped = Event()
    waiting: deque[Queue[Item | _End]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for number in range(len(readers)):
                for later in readers[number + len(waiting) : number + threads + 1]:
                    waiting.append(Queue(_ITEMS_AHEAD))
                    pool.submit(_run, later, waiting[-1], stopped)
                queue = waiting.popleft()
                while not isinstance(item := queue.get(), _End):
                    yield ReadItem(number, item)
                if item.error is not None:
                    raise item.error
        finally:
            stopped.set()


def _run(reader: Callable[[], Iterator[Item]], queue: Queue[Item | _End], stopped: Event) -> None:
    """Put the items of a reader and its end into a queue, until they are no longer needed."""
    end = _End(None)
    try:
        for item in reader():
            if not _put(item, queue, stopped):
                return
    except Exception as error:  # it is raised in the consumer
        end = _End(error)
    _put(end, queue, stopped)


def _put(item: Item | _End, queue: Queue[Item | _End], stopped: Event) -> bool:
    """Put an item into a queue once there is room; return whether the reader is still needed."""
    while not stopped.is_set():
        try:
            queue.put(item, timeout=_PUT_S)
        except Full:
            continue
        return True
    return False
