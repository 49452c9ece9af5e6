"""engine.json: the engine's report about itself.

The engine writes it when it starts, each second after that, and when it stops. A client trusts it only if
the pid is still the same process and the heartbeat is recent.
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

if TYPE_CHECKING:  # the engine's parent process reads this module and nothing larger
    from stqsh.storage.home import SessionHome

EngineState = Literal["starting", "ready", "stopping", "failed"]

_FRESH_S = 30.0
"""An engine that runs writes its report each second; clocks of hosts may differ."""
_FULL = (errno.ENOSPC, errno.EDQUOT)

COMPILING = "compiling kernels, only once"
"""How the message of an engine begins that takes batches already, while kernels are compiled beside them."""


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """The content of engine.json; times in microseconds since the machine's boot.

    Attributes:
        pid: the engine's process, or its parent while there is none.
        started_us: when it began.
        heartbeat_us: when this was written.
        state: what it is doing.
        message: details of that, or the reason of a failure.
        parent: the process that restarts the engine after a crash; 0 if there is none.
        restarts: how often it has done so.
        last_crash: why it last did so.
        boot: the machine's boot to which the times belong; "" in files of earlier versions.
        host: the host to whose processes the pids belong; "" in files of earlier versions.
        cluster: whether the slots are in the executors of a cluster, so that no client can map their arrays.
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
        """Return what an engine, or its parent, says of itself now; by default it begins now."""
        now = processes.uptime_us()
        started = now if started_us is None else started_us
        return EngineInfo(pid, started, now, state, message, boot=processes.boot_id(), host=processes.host())

    @property
    def restarted(self) -> str:
        """How often the engine was restarted and why, such as `2 times, last: it was killed`; else ""."""
        times = f"{self.restarts} time{'s' * (self.restarts > 1)}"
        return f"{times}, last: {self.last_crash}" if self.restarts else ""


def read_engine(home: SessionHome) -> EngineInfo | None:
    """Return what the session's engine last wrote, or None if there has never been one."""
    try:
        return EngineInfo(**json.loads(home.engine_json.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):  # a damaged one is replaced each second by an engine
        return None


def write_engine(home: SessionHome, info: EngineInfo) -> None:
    """Replace engine.json atomically; on a full disk its content, which takes no more room than before.

    An engine that could not write for a while would be taken for one that hangs.
    """
    content = json.dumps(asdict(info)).encode()
    try:
        atomic_write(home.engine_json, content, private=True)
    except OSError as error:
        if error.errno not in _FULL or not home.engine_json.exists():
            raise
        with home.engine_json.open("r+b", buffering=0) as file:
            file.write(content.ljust(os.fstat(file.fileno()).st_size))  # a reader never sees half of it


def runs_elsewhere(home: SessionHome) -> str:
    """Return the host on which the engine of a home on a shared file system runs; "" for this one, or none.

    Its pids say nothing here. It runs if it has written its report in the last `_FRESH_S` seconds.
    """
    info = read_engine(home)
    if info is None or not _is_of_another_host(info) or info.state not in ("starting", "ready"):
        return ""
    return info.host if time.time() - home.engine_json.stat().st_mtime < _FRESH_S else ""


def has_died(info: EngineInfo | None) -> bool:
    """Return whether an engine has ended without a word: not stopped, and without a reason of its own."""
    return info is not None and info.state in ("starting", "ready") and not is_alive(info)


def is_alive(info: EngineInfo | None) -> bool:
    """Return whether the engine that wrote this still runs; it may be starting or stopping.

    One that has crashed counts as running while its parent lives, which is about to restart it.
    """
    return info is not None and (has_process(info) or has_parent(info))


def has_process(info: EngineInfo) -> bool:
    """Return whether the engine's own process runs."""
    return _is_of_this_boot(info) and processes.runs(info.pid, info.heartbeat_us)


def has_parent(info: EngineInfo) -> bool:
    """Return whether the engine's parent, which restarts it, runs."""
    is_known = info.parent != 0 and _is_of_this_boot(info)
    return is_known and processes.runs(info.parent, info.heartbeat_us)


def is_written_since(info: EngineInfo, uptime_us: int) -> bool:
    """Return whether this was written later than a time of the machine's present boot."""
    return _is_of_this_boot(info) and info.heartbeat_us > uptime_us


def _is_of_this_boot(info: EngineInfo) -> bool:
    return info.boot == processes.boot_id() and not _is_of_another_host(info)


def _is_of_another_host(info: EngineInfo) -> bool:
    return info.host not in ("", processes.host())
