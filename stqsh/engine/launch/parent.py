"""The parent of a session's engine, which restarts it after a crash.

Start it with `python -m stqsh.engine.launch.parent --home DIR`; SIGTERM stops engine and parent in order.

A crash is the death of the engine's process or of Spark's Java process, or a silence: the engine no longer
writes its heartbeat. An engine that stops in order, or that reports why it cannot run, is not restarted. This
process runs as long as the engine and imports few modules, so that it uses little memory.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType

from stqsh.engine.config import CRASHED, STACKS_SIGNAL, TUNING, EngineTuning
from stqsh.engine.spark.spark_internals import last_commit
from stqsh.storage import processes
from stqsh.storage.blobs import StorageError, checkpoint_blobs
from stqsh.storage.engine_info import EngineInfo, EngineState, read_engine, write_engine
from stqsh.storage.home import SessionHome

_ENGINE = (sys.executable, "-m", "stqsh.engine.launch.main")
_TOO_OFTEN = "it crashed {times} times without a batch in between; the last time: {why}"


class Restarts:
    """Decides how often an engine is restarted, and how long to wait before that.

    Batches are counted by their numbers. The first one after a start only records the start, so two show that
    the engine makes progress.
    """

    def __init__(self, tuning: EngineTuning = TUNING) -> None:
        self.count = 0
        self._tuning = tuning
        self._failures = 0

    def wait_s(self, batches: int, lived_s: float) -> float | None:
        """Return the seconds to wait before the restart; None to give the engine up.

        Args:
            batches: the number of batches since the last start.
            lived_s: the time since then, in seconds.
        """
        if batches > 1 or lived_s > self._tuning.restart_calm_s:
            self._failures = 0
        self._failures += 1
        if self._failures > self._tuning.restarts:
            return None
        self.count += 1
        if self._failures == 1:
            return 0.0
        doubled: float = self._tuning.restart_wait_s * 2 ** (self._failures - 2)
        return min(doubled, self._tuning.restart_wait_most_s)


class Parent:
    """Runs one engine at a time until it is stopped or given up."""

    def __init__(self, home: Path, command: Sequence[str] = _ENGINE, tuning: EngineTuning = TUNING) -> None:
        self._home = SessionHome(home)
        self._command = command
        self._tuning = tuning
        self._restarts = Restarts(tuning)
        self._last_crash = ""
        self._engine: subprocess.Popen[bytes] | None = None
        self._stopping = False
        self._commit = -1
        self._silence = (0, 0)  # the last heartbeat, and the number of checks without a change

    def run(self) -> int:
        """Run the engine until it is stopped, gives up or is given up, and return its exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGALRM, self._look)
        signal.setitimer(signal.ITIMER_REAL, self._tuning.silence_look_s, self._tuning.silence_look_s)
        while True:
            begun, batch = time.monotonic(), self._last_commit()
            code = self._run_engine()
            crashed = code < 0 or code == CRASHED
            is_gone = not self._home.control_db.exists()  # the session was deleted or moved
            if self._stopping or is_gone or not crashed:
                return max(code, 0)
            self._last_crash = self._reason(code)
            print(f"the engine crashed: {self._last_crash}", file=sys.stderr, flush=True)
            batches = self._last_commit() - batch
            wait_s = self._restarts.wait_s(batches, time.monotonic() - begun)
            if wait_s is None:
                times = self._tuning.restarts + 1
                self._tell("failed", _TOO_OFTEN.format(times=times, why=self._last_crash))
                return 1
            self._tell("starting", f"restarting: {self._last_crash}")
            self._rest(wait_s)
            if self._stopping:
                self._tell("stopping")
                return 0

    def _last_commit(self) -> int:
        """Return the last complete batch, or the one known before if the session's storage fails."""
        try:
            self._commit = last_commit(checkpoint_blobs(self._home.path))
        except StorageError as error:
            print(f"batches cannot be counted: {error.message}", file=sys.stderr, flush=True)
        return self._commit

    def _run_engine(self) -> int:
        """Run the engine to its end, and return its exit code (negative: the signal)."""
        arguments = ["--parent", str(os.getpid()), "--restarts", str(self._restarts.count)]
        command = [*self._command, "--home", str(self._home.path), *arguments]
        if self._last_crash:
            command += ["--last-crash", self._last_crash]
        self._engine = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        if self._stopping:
            self._send(signal.SIGTERM)
        # Until the dead engine is reaped, no other process can get its pid or its group's.
        os.waitid(os.P_PID, self._engine.pid, os.WEXITED | os.WNOWAIT)
        processes.kill_group(self._engine.pid, processes.uptime_us())
        return self._engine.wait()

    def _reason(self, code: int) -> str:
        if code == CRASHED:
            info = read_engine(self._home)
            return (info.message if info is not None else "").partition("\n")[0] or "it failed"
        if self._silence[1] >= self._tuning.silence_looks:
            return "it hung"
        if code == -signal.SIGKILL:
            return "it was killed (SIGKILL)"
        names = {number.value: number.name for number in signal.Signals}
        return f"{names.get(-code, -code)} ended it"

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True
        self._send(signal.SIGTERM)

    def _look(self, number: int, frame: FrameType | None) -> None:
        """Kill an engine without a heartbeat, after logging its threads' stacks if possible."""
        info = read_engine(self._home)
        if info is None or self._engine is None or info.pid != self._engine.pid:
            self._silence = (0, 0)
            return
        last, looks = self._silence
        self._silence = (info.heartbeat_us, looks + 1 if info.heartbeat_us == last else 0)
        if looks + 1 == self._tuning.silence_looks - 1:
            self._send(STACKS_SIGNAL)
        elif looks + 1 >= self._tuning.silence_looks:
            self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        """Send the engine a signal, unless it has been reaped.

        In a signal handler, `Popen` would reap an engine that has just exited, before the code that waits for
        it could.
        """
        if self._engine is not None and self._engine.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self._engine.pid, number)

    def _rest(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self._stopping and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, 0.2))

    def _tell(self, state: EngineState, message: str = "") -> None:
        """Write engine.json in place of the engine, which has exited."""
        info, last = EngineInfo.now(os.getpid(), state, message), read_engine(self._home)
        known = replace(
            info,
            parent=info.pid,
            restarts=self._restarts.count,
            last_crash=self._last_crash,
            cluster=last is not None and last.cluster,
        )
        try:
            write_engine(self._home, known)
        except OSError as error:  # a full disk, or a home that was deleted
            print(f"engine.json cannot be written: {error}", file=sys.stderr, flush=True)


def main() -> int:
    """Run the engine of the session in `--home DIR`, and return its exit code."""
    os.umask(0o077)
    _, *given = sys.argv
    if given[:1] != ["--home"] or len(given) != 2:
        print("usage: python -m stqsh.engine.launch.parent --home DIR", file=sys.stderr)
        return 2
    return Parent(Path(given[1]).absolute()).run()


if __name__ == "__main__":
    sys.exit(main())
