"""The engine's heartbeat: engine.json, written each second and with each change of state."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from stqsh.engine.config import TUNING
from stqsh.errors import EngineDeadError
from stqsh.fs import file_lock
from stqsh.storage.control_log import wall_clock_us
from stqsh.storage.engine_info import EngineInfo, EngineState, write_engine
from stqsh.storage.home import SessionHome


class Heartbeat:
    """Writes engine.json; `tell` may be called from any thread."""

    def __init__(self, home: SessionHome) -> None:
        self._home = home
        self._started_us = wall_clock_us()
        self._state: EngineState = "starting"
        self._message = ""
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def start(self) -> None:
        """Start the heartbeat thread."""
        self._beat()
        threading.Thread(target=self._beat_on, name="heart", daemon=True).start()

    def tell(self, state: EngineState, message: str = "") -> None:
        """Write what the engine is doing now."""
        self._state, self._message = state, message
        self._beat()

    def stop(self) -> None:
        """Stop; the last state stays in engine.json."""
        self._stopped.set()

    def _beat_on(self) -> None:
        while not self._stopped.wait(TUNING.heartbeat_s):
            self._beat()

    def _beat(self) -> None:
        with self._lock:
            info = EngineInfo(os.getpid(), self._started_us, wall_clock_us(), self._state, self._message)
            write_engine(self._home, info)


@contextmanager
def running_alone(home: Path) -> Iterator[None]:
    """Hold the home's lock for the life of an engine; the lock goes with the process.

    Raises:
        EngineDeadError: another engine runs in this home.
    """
    with ExitStack() as held:
        try:
            held.enter_context(file_lock(home / "running.lock", wait=False))
        except BlockingIOError:
            raise EngineDeadError(f"another engine runs in {home}") from None
        yield
