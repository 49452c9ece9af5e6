"""The latest of what a source gives, read in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")
_JOIN_S = 2.0


class LatestState(Generic[T]):
    """Goes through a source without end until `close`, and holds what it gave last."""

    def __init__(self, source: Iterator[T]) -> None:
        self._source = source
        self._value: T | None = None
        self._error: BaseException | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="latest", daemon=True)
        self._thread.start()

    def get(self) -> T | None:
        """The latest value, `None` before the first. Raises what ended the source."""
        if self._error is not None:
            raise self._error
        return self._value

    def close(self) -> None:
        """Stop reading."""
        self._is_closed = True
        self._thread.join(_JOIN_S)

    def _work(self) -> None:
        try:
            for value in self._source:
                self._value = value
                if self._is_closed:
                    return
        except BaseException as error:  # raised where the value is asked for
            self._error = error
