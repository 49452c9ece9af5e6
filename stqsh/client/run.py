"""A RUN under way, which can be waited for, looked at and stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from stqsh.client.connection import Connection
from stqsh.spec.log import RunSpec, RunStopped
from stqsh.storage.control_log import append
from stqsh.storage.rows import Progress


@dataclass(frozen=True, slots=True)
class RunHandle:
    """What RUN answers: `seq` is its number in the control log, `spec` what it asks for.

    The streams advance whether anybody waits or not.

    >>> [handle] = session.execute("RUN 5 STEPS;")
    >>> handle.wait().step, handle.finished
    (35, True)
    """

    seq: int
    spec: RunSpec
    link: Connection = field(repr=False)

    @property
    def finished(self) -> bool:
        """Return whether every step that this RUN asks for is delivered."""
        return self.link.progress().run_done >= self.seq

    def wait(self, on_progress: Callable[[Progress], None] | None = None) -> Progress:
        """Wait until the RUN is done and give the progress then; `on_progress` is told at each poll.

        Raises `EngineDeadError` where the engine dies meanwhile, `SourceError` where a stream cannot be read.
        """
        for progress in self.link.watch():
            if on_progress is not None:
                on_progress(progress)
            if progress.run_done >= self.seq:
                self.link.check_streams()  # what failed may have done so since the last look
                return progress
        raise AssertionError("unreachable: watch has no end")

    def cancel(self) -> None:
        """Ask the streams to stand still after the batch under way; nothing that is done is undone."""
        if not self.finished:
            append(self.link.db, RunStopped(self.seq))
