"""What a sink writes to: the protocol that files, HTTP and Kafka implement."""

from __future__ import annotations

from typing import Protocol

from stqsh.errors import StqshError
from stqsh.sinks.sink_reader import SinkPart
from stqsh.storage.sinks.sink_position import SinkPosition


class TargetBusyError(StqshError):
    """A target that may take the same part later; `wait_s` is how long it asks to wait, 0 for no wish."""

    def __init__(self, message: str, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.wait_s = wait_s


class TargetRefusedError(StqshError):
    """A target that will never take the part: repeating it makes no sense."""


class SinkTarget(Protocol):
    """Writes the parts of one sink.

    The runner calls `open` before the first part and after each error, `write` for each part, then records
    the position that it returns, then calls `settle`. A process may die between any two of these, and its
    successor begins again with `open`.
    """

    rows: int
    """The maximum number of updates in a part."""

    def open(self, position: SinkPosition) -> SinkPosition:
        """Connect, complete what a predecessor has left, and return how far has been written in truth."""

    def write(self, part: SinkPart) -> SinkPosition:
        """Write a part, and return the position to record.

        Raises:
            TargetBusyError: it may be repeated.
            TargetRefusedError: it may not.
        """

    def settle(self, position: SinkPosition) -> None:
        """Complete what could not be completed before the position was recorded."""

    def close(self) -> None:
        """Leave; it may be opened again."""
