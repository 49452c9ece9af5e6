"""Run one sink: read new updates in the log, write them, and record the position."""

from __future__ import annotations

import logging
import random
import threading
import time
from contextlib import suppress

from stqsh.checksums import DamagedFileError
from stqsh.client.connection import Connection
from stqsh.errors import StqshError
from stqsh.sinks.sink_reader import SinkPart, SinkReader
from stqsh.sinks.target import SinkTarget, TargetBusyError, TargetRefusedError
from stqsh.storage import processes
from stqsh.storage.control_log import wall_clock_us
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import read_progress
from stqsh.storage.rows import SinkRow
from stqsh.storage.sinks.sink_position import (
    SinkPosition,
    SinkReport,
    SinkState,
    read_position,
    write_position,
    write_report,
)
from stqsh.storage.update_log.files import LogCompactedError
from stqsh.storage.update_log.leases import keep_for_sink, kept_for_sink

log = logging.getLogger("stqsh.sinks")

POLL_S = 0.05
"""How often the log is checked."""
WAIT_S, LONGEST_WAIT_S = 0.5, 30.0
"""The wait after the first error, which doubles with each further error, and its maximum."""
_LEASE_S = 1.0
"""The maximum lag of the lease behind the position, in time."""


class TooFarBehindError(StqshError):
    """The log beyond a sink's position is no longer kept."""

    def __init__(self) -> None:
        super().__init__(
            "it fell further behind than sinks.keep: what it has not written is no longer kept",
            hint="DROP SINK, and create it again: it begins with the answers as they stand then",
        )


class SinkRunner:
    """Runs one sink until it is asked to stop."""

    def __init__(
        self,
        connection: Connection,
        sink: SinkRow,
        target: SinkTarget,
        stopping: threading.Event | None = None,
    ) -> None:
        self._connection, self._sink, self._target = connection, sink, target
        self._stopping = stopping or threading.Event()
        self._reader = SinkReader(connection, sink, target.rows)
        self._position = SinkPosition()
        self._is_open = False
        self._failures = 0
        self._kept = (-2, 0.0)
        self._report = SinkReport()

    @property
    def home(self) -> SessionHome:
        """The session's home."""
        return self._connection.home

    def run(self) -> None:
        """Write updates until the sink is stopped or cannot continue."""
        seen = -1
        try:
            while not self._stopping.is_set():
                version = self._connection.db.version()
                if version == seen or self.step():
                    seen = version
                    self._stopping.wait(POLL_S)
        except (TargetRefusedError, TooFarBehindError, DamagedFileError) as error:
            log.error("sink %s stops: %s", self._sink.name, error)
            self._tell("stopped", error)
        finally:
            self._target.close()

    def step(self) -> bool:
        """Write all available updates; return False if that failed, after the wait before the next attempt.

        Raises:
            TargetRefusedError: the target will never accept a part.
            TooFarBehindError: the log beyond the position is no longer kept.
            DamagedFileError: a file of the session is damaged.
        """
        try:
            self._write_all()
        except (TargetRefusedError, TooFarBehindError, DamagedFileError):
            raise
        except LogCompactedError as error:
            raise TooFarBehindError from error
        except Exception as error:
            self._is_open = False
            self._failed(error)
            return False
        self._failures = 0
        self._tell("running")
        return True

    def _write_all(self) -> None:
        if kept_for_sink(self.home, self._sink.id) is None:
            raise TooFarBehindError
        if not self._is_open:
            self._open()
        up_to = read_progress(self._connection.db).batch
        for part in self._reader.parts(self._position, up_to):
            if self._stopping.is_set():
                return
            self._write(part)

    def _open(self) -> None:
        """Begin at the last process's position; the target may have a newer one than the file."""
        recorded = read_position(self.home, self._sink.id)
        self._position = self._target.open(recorded)
        if self._position.order > recorded.order:
            write_position(self.home, self._sink.id, self._position)
        self._is_open = True
        self._keep()

    def _write(self, part: SinkPart) -> None:
        position = self._target.write(part) if part.updates else part.reached
        write_position(self.home, self._sink.id, position)
        self._target.settle(position)
        self._position = position
        self._failures = 0
        self._keep()

    def _keep(self) -> None:
        """Release the written part of the log."""
        after = self._position.after if self._position.begun else -1
        now = time.monotonic()
        if after > self._kept[0] and now - self._kept[1] >= _LEASE_S:
            if kept_for_sink(self.home, self._sink.id) is None:
                raise TooFarBehindError
            keep_for_sink(self.home, self._sink.id, after)
            self._kept = after, now

    def _failed(self, error: Exception) -> None:
        """Report an error, and wait before the next attempt."""
        if not isinstance(error, StqshError):
            log.exception("sink %s", self._sink.name)
        longest = min(LONGEST_WAIT_S, WAIT_S * 2 ** min(self._failures, 16))
        asked = error.wait_s if isinstance(error, TargetBusyError) else 0.0
        self._failures += 1
        self._tell("waiting", error)
        self._stopping.wait(max(min(asked, LONGEST_WAIT_S), longest * random.uniform(0.5, 1.0)))

    def _tell(self, state: SinkState, error: Exception | None = None) -> None:
        text = ""
        if error is not None:
            text = error.message if isinstance(error, StqshError) else f"{type(error).__name__}: {error}"
        report = SinkReport(processes.identity(), state, text, wall_clock_us() if text else 0)
        if (report.state, report.error) != (
            self._report.state,
            self._report.error,
        ) or not self._report.process:
            with suppress(OSError):  # the sink may wait because of a full disk; a later report will state it
                write_report(self.home, self._sink.id, report)
                self._report = report
