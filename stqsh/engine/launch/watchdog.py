"""The watchdog: kill parts of the engine that hang within a batch, after logging the stacks of all threads.

A batch hangs if it has taken much longer than the last one and its Python workers use no processor time, or,
after a multiple of that, even if they do. Its workers are killed first: Spark retries their tasks in new
ones. If the batch still hangs, their daemon is killed, too, and then Java, after which the engine is
restarted. Each stage waits twice as long as the one before. On a cluster the workers are on other hosts,
where Spark watches them: a long batch is logged with the stacks of this host, and nothing is killed.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from stqsh.engine.config import STACKS_SIGNAL, TUNING, EngineTuning
from stqsh.engine.spark.spark_internals import INTERNAL_CONFIGURATION
from stqsh.storage import processes

log = logging.getLogger("stqsh.engine")

_DAEMON = INTERNAL_CONFIGURATION["spark.python.daemon.module"]


class EngineParts(Protocol):
    """The processes that work on a batch."""

    def worked_s(self) -> float:
        """Return the processor seconds that the living workers have used so far."""

    def print_stacks(self) -> None:
        """Print the stacks of all threads of all parts to the log."""

    def end(self, strike: int) -> str:
        """Kill parts that may hang, more with each strike 1, 2, ...; return what was killed, or ""."""


@dataclass(slots=True)
class _Batch:
    """A batch in progress; times are in seconds of the monotonic clock.

    Attributes:
        number: Spark's number.
        begun: when it started.
        waited_since: when it started, or when parts were last killed.
        limit_s: how long it may take from `waited_since` on.
        worked_s: the workers' processor time at the last check.
        worked_at: when the workers were last found working.
        strikes: how often parts were to be killed; on a cluster there are none that this host could kill.
        has_ended: whether any part was killed.
        is_logged: whether the stacks were logged since the last strike.
    """

    number: int
    begun: float
    waited_since: float
    limit_s: float
    worked_s: float = 0.0
    worked_at: float = 0.0
    strikes: int = 0
    has_ended: bool = False
    is_logged: bool = False


class Watchdog:
    """Watches the batches of an engine, in a thread."""

    def __init__(
        self,
        parts: EngineParts,
        tuning: EngineTuning = TUNING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts, self._tuning, self._clock = parts, tuning, clock
        self._last_s = 0.0
        self._batch: _Batch | None = None
        self._stopped = threading.Event()

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()

    @contextmanager
    def batch(self, number: int) -> Iterator[None]:
        """Watch a batch while the context lasts."""
        now, tuning = self._clock(), self._tuning
        limit = max(tuning.hung_batch_s, tuning.hung_batch_times * self._last_s)
        self._batch = batch = _Batch(number, now, now, limit)
        try:
            yield
        finally:
            self._batch = None
            if not batch.has_ended:
                self._last_s = self._clock() - now

    def look(self) -> None:
        """Check the batch in progress; log and kill parts that hang."""
        batch, now, tuning = self._batch, self._clock(), self._tuning
        if batch is None or now - batch.waited_since < batch.limit_s - tuning.hung_idle_s:
            return
        worked_s = self._parts.worked_s()
        if worked_s - batch.worked_s > tuning.hung_share * tuning.watch_look_s or worked_s < batch.worked_s:
            batch.worked_at = now
        batch.worked_s = worked_s
        waited = now - batch.waited_since
        if waited < batch.limit_s:
            return
        if not batch.is_logged:
            batch.is_logged = True
            log.warning(
                "batch %d has taken %.0f s: the stacks of all threads follow", batch.number, now - batch.begun
            )
            self._parts.print_stacks()
        is_idle = now - batch.worked_at >= tuning.hung_idle_s
        # The batch may have finished during the check; the workers then work on another one.
        if self._batch is batch and (is_idle or waited > tuning.hung_busy_times * batch.limit_s):
            self._strike(batch, now)

    def _strike(self, batch: _Batch, now: float) -> None:
        batch.strikes += 1
        if ended := self._parts.end(batch.strikes):
            batch.has_ended = True
            log.error("batch %d hangs after %.0f s: %s", batch.number, now - batch.begun, ended)
        batch.waited_since, batch.limit_s, batch.is_logged = now, 2 * batch.limit_s, False

    def _run(self) -> None:
        while not self._stopped.wait(self._tuning.watch_look_s):
            try:
                self.look()
            except Exception:  # a watchdog that has failed once should still watch
                log.exception("the watchdog failed")


class LocalParts:
    """The parts of an engine on one machine: this process, Java, and the workers that Java has started."""

    def __init__(self, java: Callable[[], int | None]) -> None:
        self._java = java

    def worked_s(self) -> float:
        """Return the processor seconds that the living workers have used so far."""
        return sum(
            processes.processor_s(pid) for daemon in self._daemons() for pid in processes.children_of(daemon)
        )

    def print_stacks(self) -> None:
        """Print the stacks of all threads of all parts to the log."""
        faulthandler.dump_traceback(sys.stderr, all_threads=True)
        for daemon in self._daemons():
            for pid in (daemon, *processes.children_of(daemon)):
                _send(pid, STACKS_SIGNAL)
        if (java := self._java()) is not None:
            _send(java, signal.SIGQUIT)

    def end(self, strike: int) -> str:
        """Kill the workers, then also the daemons that fork them, then Java; return what was killed."""
        java = self._java()
        if strike > 2 and java is not None:
            return "Spark's Java process is ended" if processes.kill(java) else ""
        daemons = list(self._daemons())
        ended = [pid for daemon in daemons for pid in processes.children_of(daemon) if processes.kill(pid)]
        if strike > 1:
            ended += [daemon for daemon in daemons if processes.kill(daemon)]
        if not ended:
            return ""
        count = "1 Python process is" if len(ended) == 1 else f"{len(ended)} Python processes are"
        return f"{count} ended ({', '.join(map(str, ended))})"

    def _daemons(self) -> Iterator[int]:
        java = self._java()
        for pid in [] if java is None else processes.children_of(java):
            if _DAEMON in processes.command_line(pid):
                yield pid


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it has just exited
