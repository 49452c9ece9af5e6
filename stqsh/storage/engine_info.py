"""engine.json: the engine's report on its own state.

The engine writes it at its start, every second after that, and when it stops. A client trusts the report only
if the pid still belongs to the same process and the heartbeat is recent.
"""

from __future__ import annotations

import errno
import json
import os
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from stqsh.fs import atomic_write
from stqsh.storage import processes

if TYPE_CHECKING:  # the engine's parent process imports this module and little else
    from stqsh.storage.home import SessionHome

EngineState = Literal["starting", "ready", "stopping", "failed"]

_FRESH_S = 30.0
"""A younger report is that of a running engine: it writes one each second, and hosts' clocks may differ."""
_FULL = (errno.ENOSPC, errno.EDQUOT)

COMPILING = "compiling kernels, only once"
"""The beginning of the message of an engine that already runs batches while it compiles kernels."""


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """The content of engine.json; times in microseconds since the machine's boot.

    Attributes:
        pid: the engine's process, or its parent while no engine runs.
        started_us: when that process began.
        heartbeat_us: when this report was written.
        state: the state of the engine.
        message: details of the state, or the reason for a failure.
        parent: the process that restarts the engine after a crash; 0 if there is none.
        restarts: how often the parent has restarted the engine.
        last_crash: the reason for the last crash.
        boot: the machine's boot to which the times refer; "" in files of earlier versions.
        host: the host of the processes; "" in files of earlier versions.
        cluster: whether the slots are in the executors of a cluster, so that clients cannot map their arrays.
    """

    pid: int
    started_us: int
    heartbeat_us: int
    state: EngineState
    message: str = ""
    parent: int = 0
    restarts: int = 0
    last_crash: str = ""
    boot: str = ""
    cluster: bool = False
    host: str = ""

    @staticmethod
    def now(pid: int, state: EngineState, message: str = "", started_us: int | None = None) -> EngineInfo:
        """Return a report of an engine, or of its parent, as of now; by default it also starts now."""
        now = processes.uptime_us()
        started = now if started_us is None else started_us
        return EngineInfo(pid, started, now, state, message, boot=processes.boot_id(), host=processes.host())

    @property
    def restarted(self) -> str:
        """How often and why the engine was restarted, such as `2 times, last: it was killed`; "" if never."""
        times = f"{self.restarts} time{'s' * (self.restarts > 1)}"
        return f"{times}, last: {self.last_crash}" if self.restarts else ""


def read_engine(home: SessionHome) -> EngineInfo | None:
    """Return the last report of the session's engine, or None if there has never been one."""
    try:
        return EngineInfo(**json.loads(home.engine_json.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):  # a running engine replaces a damaged file each second
        return None


def write_engine(home: SessionHome, info: EngineInfo) -> None:
    """Replace engine.json atomically; on a full disk, overwrite its content in place.

    Overwriting needs no more space. An engine that could not write its heartbeat would be considered hung.
    """
    content = json.dumps(asdict(info)).encode()
    try:
        atomic_write(home.engine_json, content, private=True)
    except OSError as error:
        if error.errno not in _FULL or not home.engine_json.exists():
            raise
        with home.engine_json.open("r+b", buffering=0) as file:
            file.write(content.ljust(os.fstat(file.fileno()).st_size))  # one write: no reader sees half of it


def runs_elsewhere(home: SessionHome) -> str:
    """Return the host on which the engine of a shared home runs; "" if that is this host, or no engine runs.

    The pids of another host mean nothing here. Its engine runs if its last report is at most `_FRESH_S`
    seconds old.
    """
    info = read_engine(home)
    if info is None or not _is_of_another_host(info) or info.state not in ("starting", "ready"):
        return ""
    return info.host if time.time() - home.engine_json.stat().st_mtime < _FRESH_S else ""


def has_died(info: EngineInfo | None) -> bool:
    """Return whether an engine ended without reporting it: it neither stopped nor gave a reason."""
    return info is not None and info.state in ("starting", "ready") and not is_alive(info)


def is_alive(info: EngineInfo | None) -> bool:
    """Return whether the engine that wrote a report still runs; it may be starting or stopping.

    A crashed engine counts as running while its parent lives, because the parent is about to restart it.
    """
    return info is not None and (has_process(info) or has_parent(info))


def has_process(info: EngineInfo) -> bool:
    """Return whether the engine's own process runs."""
    return _is_of_this_boot(info) and processes.runs(info.pid, info.heartbeat_us)


def has_parent(info: EngineInfo) -> bool:
    """Return whether the parent, which restarts the engine, runs."""
    is_known = info.parent != 0 and _is_of_this_boot(info)
    return is_known and processes.runs(info.parent, info.heartbeat_us)


def is_written_since(info: EngineInfo, uptime_us: int) -> bool:
    """Return whether a report was written after a given time of the machine's current boot."""
    return _is_of_this_boot(info) and info.heartbeat_us > uptime_us


def _is_of_this_boot(info: EngineInfo) -> bool:
    return info.boot == processes.boot_id() and not _is_of_another_host(info)


def _is_of_another_host(info: EngineInfo) -> bool:
    return info.host not in ("", processes.host())
