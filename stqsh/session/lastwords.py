"""What an engine that has gone left behind: how it ended, and the lines of its log that matter."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from stqsh.session import procfs

if TYPE_CHECKING:
    from stqsh.session.home import SessionHome
    from stqsh.session.process import EngineInfo

_LINES = 5
_FRAMES = ("\tat ", "    at ", "  File ", "    ", "\t...")
_USUAL = (
    "WARNING: Using incubator modules",
    "Setting default log level",
    "To adjust logging level",
    "BrokenPipeError",  # what is left of a killed engine says of its end of the pipe
    "ConnectionResetError",
)
"""Lines that say nothing of why an engine has gone."""


def last_words(home: SessionHome, info: EngineInfo) -> str:
    """Why the engine has gone, as far as can be told: a line, and the last lines of its log that matter."""
    if info.state == "failed" and info.message:
        return f"the engine failed: {info.message}"
    gone = f"the engine (pid {info.pid}) is not running any more{_ending(info.pid)}"
    return "\n  ".join([gone, *telling_lines(home.engine_log)])


def _ending(pid: int) -> str:
    """How a process ended, where this one started it and a signal did it."""
    child = procfs.children.get(pid)
    code = None if child is None else child.poll()
    if code is None or code >= 0:
        return ""
    if -code == signal.SIGKILL:
        return ": it was killed (SIGKILL); if nobody did that, the machine ran out of memory (stqsh doctor)"
    name = str(-code)
    with suppress(ValueError):
        name = signal.Signals(-code).name
    return f": {name} ended it"


def telling_lines(log: Path) -> list[str]:
    """The last lines of a log that name an error, else its last lines; each once, and no stack frames."""
    try:
        text = log.read_bytes()[-65536:].decode(errors="replace")
    except OSError:
        return []
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith((*_FRAMES, *_USUAL))]
    errors = [line for line in telling if "Error" in line or "Exception" in line or "rror:" in line]
    return [line[:300] for line in dict.fromkeys(errors or telling)][-_LINES:]
