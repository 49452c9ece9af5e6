"""The target of a sink: the protocol that files, HTTP and Kafka implement."""

from __future__ import annotations

from typing import Protocol

from stqsh.errors import StqshError
from stqsh.sinks.sink_reader import SinkPart
from stqsh.storage.sinks.sink_position import SinkPosition


class TargetBusyError(StqshError):
    """The target may accept the same part later; `wait_s` is the requested wait, 0 for none."""

    def __init__(self, message: str, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.wait_s = wait_s


class TargetRefusedError(StqshError):
    """The target will never accept the part, so it must not be repeated."""


class SinkTarget(Protocol):
    """Writes the parts of one sink.

    The runner calls `open` before the first part and after each error. For each part it calls `write`,
    records the returned position, and then calls `settle`. A process may die between any two of these calls;
    its successor starts with `open`.
    """

    rows: int
    """The maximum number of updates in a part."""

    def open(self, position: SinkPosition) -> SinkPosition:
        """Connect, complete a predecessor's work, and return the position that has actually been written."""

    def write(self, part: SinkPart) -> SinkPosition:
        """Write a part, and return the position to record.

        Raises:
            TargetBusyError: the write may be repeated.
            TargetRefusedError: the write must not be repeated.
        """

    def settle(self, position: SinkPosition) -> None:
        """Complete the work that depends on the recorded position."""

    def close(self) -> None:
        """Close the target; it may be opened again."""
