"""The engine's heartbeat: engine.json, written each second and with each change of state."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from stqsh.engine.config import TUNING
from stqsh.errors import EngineDeadError
from stqsh.fs import file_lock
from stqsh.storage import processes
from stqsh.storage.engine_info import EngineInfo, EngineState, write_engine
from stqsh.storage.home import SessionHome

_log = logging.getLogger("stqsh.engine")


@dataclass(frozen=True, slots=True)
class Origin:
    """Data from the engine's parent: its pid, and how often and why it restarted the engine.

    The pid is 0 if the engine was started without a parent.
    """

    parent: int = 0
    restarts: int = 0
    last_crash: str = ""


class Heartbeat:
    """Writes engine.json; `tell` may be called from any thread.

    `on_lost` is called once, with the reason, if the parent has ended before the engine, or if the session
    was deleted or moved.

    Attributes:
        cluster: whether the slots are in the executors of a cluster.
    """

    def __init__(
        self,
        home: SessionHome,
        origin: Origin | None = None,
        on_lost: Callable[[str], None] = lambda why: None,
    ) -> None:
        self._home = home
        self._origin = origin or Origin()
        self._on_lost = on_lost
        self._control_db = _inode(home.control_db)
        self._started_us = processes.uptime_us()
        self._state: EngineState = "starting"
        self._message = ""
        self.cluster = False
        self._is_written = True
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    @property
    def has_parent(self) -> bool:
        """Whether a parent restarts this engine after a crash."""
        return self._origin.parent != 0

    def start(self) -> None:
        """Start the heartbeat thread."""
        self._beat()
        threading.Thread(target=self._beat_on, name="heart", daemon=True).start()

    def tell(self, state: EngineState, message: str = "") -> None:
        """Write the engine's state. A stopping engine stays so even if a part becomes ready."""
        with self._lock:
            if (self._state, state) == ("stopping", "ready"):
                return
            self._state, self._message = state, message
        self._beat()

    def stop(self) -> None:
        """Stop; the last state stays in engine.json."""
        self._stopped.set()

    def _beat_on(self) -> None:
        lost = ""
        while not self._stopped.wait(TUNING.heartbeat_s):
            if not lost and (lost := self._lost()):
                self._on_lost(lost)
            self._beat()

    def _lost(self) -> str:
        """Return what essential part the engine has lost, or ""."""
        if self.has_parent and os.getppid() != self._origin.parent:
            return "the process that restarts this engine has ended"
        with suppress(OSError):  # a disk that fails for a moment
            # If it was deleted, a connection to SQLite may have made a new one.
            if _inode(self._home.control_db) != self._control_db:
                return f"{self._home.path} was deleted or moved"
        return ""

    def _beat(self) -> None:
        """Write the engine's state. A failure is logged once and has no other effect."""
        with self._lock:
            info = EngineInfo.now(os.getpid(), self._state, self._message, self._started_us)
            try:
                write_engine(self._home, replace(info, **asdict(self._origin), cluster=self.cluster))
            except OSError as error:  # a disk that fails for a moment: the next beat may be written
                if self._is_written:
                    _log.error("the engine's state cannot be written: %s", error)
                self._is_written = False
            else:
                self._is_written = True


def _inode(path: Path) -> int:
    """Return the inode of a file, or 0 if there is none."""
    return path.stat().st_ino if path.exists() else 0


@contextmanager
def running_alone(home: Path) -> Iterator[None]:
    """Hold the home's lock for the life of an engine; the lock is released when the process exits.

    Raises:
        EngineDeadError: another engine runs in this home.
    """
    with ExitStack() as held:
        try:
            held.enter_context(file_lock(home / "running.lock", wait=False))
        except BlockingIOError:
            raise EngineDeadError(f"another engine runs in {home}") from None
        yield
