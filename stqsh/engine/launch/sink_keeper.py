"""Run the process of a session's sinks while there are any, restart it if it dies, and give up slow sinks."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

from stqsh.engine.config import TUNING, EngineTuning
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import SessionHome
from stqsh.storage.session_settings import session_settings
from stqsh.storage.sinks.sink_catalogue import live_sinks, release_dropped
from stqsh.storage.sinks.sink_position import remove_dropped
from stqsh.storage.update_log.files import logged_files
from stqsh.storage.update_log.leases import kept_for_sink, release_sink
from stqsh.units import format_size, parse_size

log = logging.getLogger("stqsh.engine")

_PROCESS = (sys.executable, "-m", "stqsh.sinks.main")


class SinkKeeper:
    """Watches the sinks' process in a thread of the engine."""

    def __init__(
        self,
        home: SessionHome,
        control: ControlDb,
        command: Sequence[str] = _PROCESS,
        tuning: EngineTuning = TUNING,
    ) -> None:
        self._home, self._control, self._command, self._tuning = home, control, command, tuning
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = threading.Event()
        self._failures, self._begun, self._looked = 0, 0.0, 0.0

    def start(self) -> None:
        """Start watching."""
        threading.Thread(target=self._run, name="sinks", daemon=True).start()

    def stop(self) -> None:
        """Stop the process; each sink completes the part that it is writing."""
        self._stopped.set()
        process = self._process  # the thread may be in a check
        if process is not None:
            process.terminate()
            try:
                process.wait(self._tuning.stop_wait_s)
            except subprocess.TimeoutExpired:
                process.kill()

    def look(self) -> None:
        """Start the process if it is due, give up slow sinks, and release the log kept for dropped ones."""
        sinks = [sink.id for sink in live_sinks(self._control)]
        if time.monotonic() - self._looked >= self._tuning.log_look_s:
            self._looked = time.monotonic()
            for sink in sinks:
                self._give_up(sink)
            release_dropped(self._control)
        if self._process is not None and self._process.poll() is None:
            return
        now = time.monotonic()
        if self._process is not None and self._process.returncode != 0:
            lived_s = now - self._begun
            self._failures = 0 if lived_s > self._tuning.restart_calm_s else self._failures + 1
            log.warning("the process of the sinks ended with %d", self._process.returncode)
        if self._process is not None:
            self._process = None
        if not sinks:
            remove_dropped(self._home, sinks)  # their process may have died before removing them
        elif now - self._begun >= self._wait_s():
            self._begun = now
            command = [*self._command, "--home", str(self._home.path)]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def _wait_s(self) -> float:
        """Return the minimum time between two starts of the process, in seconds."""
        if self._failures <= 1:
            return 0.0
        doubled: float = self._tuning.restart_wait_s * 2 ** min(self._failures - 2, 16)
        return min(doubled, self._tuning.restart_wait_most_s)

    def _give_up(self, sink: int) -> None:
        """Stop keeping the log for a sink whose unread part exceeds `sinks.keep`."""
        after = kept_for_sink(self._home, sink)
        if after is None:
            return
        waiting = sum(file.total for file in logged_files(self._control, after))
        if waiting > (most := parse_size(session_settings(self._control).text("sinks.keep"))):
            release_sink(self._home, sink)
            log.warning("sink %d is %s behind, beyond %s", sink, format_size(waiting), format_size(most))

    def _run(self) -> None:
        while not self._stopped.wait(self._tuning.sinks_look_s):
            try:
                self.look()
            except Exception:
                log.exception("the sinks are not watched for a moment")
