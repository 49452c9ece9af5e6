"""engine.json: the engine's report about itself, and the process that owns a session.

The engine writes it when it starts, each second after that, and when it stops. A client trusts it only if
the pid is still the same process and the heartbeat is recent.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

from stqsh.fs import atomic_write
from stqsh.storage import processes
from stqsh.storage.control_log import ControlDb, get_meta, set_meta
from stqsh.storage.home import SessionHome

EngineState = Literal["starting", "ready", "stopping", "failed"]

_CLOCK_SLACK_US = 5_000_000
_OWNER = "owner"


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """The content of engine.json; times in microseconds since the epoch."""

    pid: int
    started_us: int
    heartbeat_us: int
    state: EngineState
    message: str = ""


def read_engine(home: SessionHome) -> EngineInfo | None:
    """Return what the session's engine last wrote, or None if there has never been one."""
    try:
        return EngineInfo(**json.loads(home.engine_json.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):  # a damaged one is replaced each second by an engine
        return None


def write_engine(home: SessionHome, info: EngineInfo) -> None:
    """Replace engine.json atomically."""
    atomic_write(home.engine_json, json.dumps(asdict(info)).encode())


def is_alive(info: EngineInfo | None) -> bool:
    """Return whether the engine that wrote this still runs; it may be starting or stopping."""
    if info is None or not processes.exists(info.pid):
        return False
    began = processes.started_us(info.pid)
    # A process that began after the last heartbeat has only inherited the pid.
    return began is None or began <= info.heartbeat_us + _CLOCK_SLACK_US


def claim_session(db: ControlDb) -> None:
    """Record that the session lives only as long as this process."""
    set_meta(db, _OWNER, processes.identity())


def is_orphaned(db: ControlDb) -> bool:
    """Return whether the process that claimed the session is gone, so that its engine should stop."""
    owner = get_meta(db, _OWNER)
    return owner is not None and not processes.is_running(owner)
