"""Supervise the engine's query: start it, restart it after a failure, stop it between two batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Protocol

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from stqsh.engine.config import TUNING, EngineTuning
from stqsh.engine.operators.data_source import HOLD_FILE
from stqsh.engine.spark.spark_errors import has_late_worker, reason, remedy, waits_for
from stqsh.errors import EngineError
from stqsh.storage.processes import StopRequest

log = logging.getLogger("stqsh.engine")

JVM_DIED = "Spark's Java process died"


class StreamingQuery(Protocol):
    """The part of Spark's StreamingQuery that is used."""

    @property
    def isActive(self) -> bool: ...  # noqa: D102
    @property
    def status(self) -> dict[str, object]: ...  # noqa: D102
    def exception(self) -> Exception | None: ...  # noqa: D102
    def stop(self) -> None: ...  # noqa: D102


class QueryFailedError(EngineError):
    """The query failed repeatedly at the same batch; the text is the reason in one line."""


class JvmDiedError(EngineError):
    """Spark's process has exited."""


class Supervisor:
    """Runs a query until a stop is requested.

    Args:
        home: the session's directory.
        start: starts the query.
        batches: counts the batches delivered so far.
        jvm_alive: returns whether Spark's process is alive.
        on_waiting: called with the reason why a batch waits for a source or the storage, and "" once one is
            delivered.
        tuning: the tunables of the engine.
    """

    def __init__(
        self,
        home: Path,
        start: Callable[[], StreamingQuery],
        *,
        batches: Callable[[], int],
        jvm_alive: Callable[[], bool],
        on_waiting: Callable[[str], None] = lambda _: None,
        tuning: EngineTuning = TUNING,
    ) -> None:
        self._tuning = tuning
        self._hold = home / HOLD_FILE
        self._start, self._batches, self._jvm_alive = start, batches, jvm_alive
        self._on_waiting = on_waiting
        self._waits_after: int | None = None
        self._stopping = StopRequest()
        self._is_outgrown = False

    def outgrown(self) -> None:
        """Request that a new query, made by `start`, continues from this one."""
        self._is_outgrown = True

    def stop(self) -> None:
        """Request a stop between two batches; may be called from a signal handler."""
        self._stopping.set()

    def run(self) -> None:
        """Run until a stop is requested.

        Raises:
            QueryFailedError: a retry is of no use.
            JvmDiedError: Spark's process has exited.
        """
        self._hold.unlink(missing_ok=True)
        try:
            self._run()
        except (OSError, Py4JError) as error:
            # Calls to a Java process that has just died fail in many ways.
            if not self._jvm_stays():
                raise JvmDiedError(JVM_DIED) from error
            raise

    def _run(self) -> None:
        failures, delivered = 0, self._batches()
        while not self._stopping.is_set():
            query = self._start()
            self._watch(query)
            if query.isActive:
                self._stop_between_batches(query)
                if not self._is_outgrown:
                    return
                log.info("another query goes on from this one, with dealers")
                self._is_outgrown = False
                continue
            failures = 1 if self._batches() > delivered else failures + 1
            delivered = self._batches()
            error = query.exception()
            why, hint = reason(error), remedy(error)
            if not self._jvm_alive():
                raise JvmDiedError(JVM_DIED)
            log.warning("the query stopped: %s", why)
            if awaited := waits_for(error):  # no error of ours: retry the same batch until it responds
                failures, self._waits_after = 0, delivered
                self._on_waiting(f"a batch waits: {awaited}")
                self._stopping.wait(self._tuning.source_wait_s)
                continue
            # Errors that users have to fix would recur, unless the start of the query repairs them.
            most = self._tuning.late_attempts if has_late_worker(error) else self._tuning.query_attempts
            if failures >= (2 if hint else most):
                raise QueryFailedError(why, hint=hint)
            self._stopping.wait(0.2 * failures)

    def _watch(self, query: StreamingQuery) -> None:
        """Wait until the query ends by itself or a stop is requested."""
        for look in count():
            if self._stopping.wait(self._tuning.supervisor_look_s) or self._is_outgrown:
                return
            if not self._jvm_alive():
                raise JvmDiedError(JVM_DIED)
            if self._waits_after is not None and self._batches() > self._waits_after:
                self._waits_after = None
                self._on_waiting("")
            if look % self._tuning.looks_per_query_check == 0 and not query.isActive:
                return

    def _jvm_stays(self) -> bool:
        """Return whether the Java process is still alive after a moment."""
        deadline = time.monotonic() + self._tuning.java_death_s
        while self._jvm_alive() and time.monotonic() < deadline:
            time.sleep(self._tuning.supervisor_look_s)
        return self._jvm_alive()

    def _stop_between_batches(self, query: StreamingQuery) -> None:
        """Hold back batches, let the current one finish, then stop: stopping within a batch logs errors."""
        with suppress(OSError):  # on a full disk a batch may be interrupted; it is repeated later
            self._hold.touch()
        deadline = time.monotonic() + self._tuning.stop_wait_s
        quiet = 0
        while query.isActive and quiet < 3 and time.monotonic() < deadline:
            quiet = 0 if query.status["isTriggerActive"] and query.status["isDataAvailable"] else quiet + 1
            time.sleep(0.03)
        query.stop()
        self._hold.unlink(missing_ok=True)
