"""A RUN under way, which can be waited for, inspected and stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from stqsh.client.connection import Connection
from stqsh.spec.log import RunSpec, RunStopped
from stqsh.storage.control_log import append
from stqsh.storage.rows import Progress


@dataclass(frozen=True, slots=True)
class RunHandle:
    """The outcome of RUN: `seq` is its number in the control log, `spec` what it requests.

    The streams advance whether or not anybody waits.

    >>> [handle] = session.execute("RUN 5 STEPS;")
    >>> handle.wait().step, handle.finished
    (35, True)
    """

    seq: int
    spec: RunSpec
    connection: Connection = field(repr=False)

    @property
    def finished(self) -> bool:
        """Whether all steps of this RUN have been delivered."""
        return self.connection.progress().run_done >= self.seq

    def wait(self, on_progress: Callable[[Progress], None] | None = None) -> Progress:
        """Wait until the RUN is done, and return the progress; `on_progress` is called at each poll.

        Raises:
            EngineDeadError: the engine dies during the wait.
            SourceError: a stream cannot be read.
        """
        for progress in self.connection.watch():
            if on_progress is not None:
                on_progress(progress)
            if progress.run_done >= self.seq:
                self.connection.check_streams()  # a failure may be newer than the last check
                return progress
        raise AssertionError("unreachable: watch has no end")

    def cancel(self) -> None:
        """Stop the streams after the current batch; completed steps are kept."""
        if not self.finished:
            append(self.connection.db, RunStopped(self.seq))
