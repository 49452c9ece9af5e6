"""What a dead engine left behind: how it ended, and the lines of its log that matter."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from stqsh.storage import processes

if TYPE_CHECKING:
    from stqsh.storage.engine_info import EngineInfo
    from stqsh.storage.home import SessionHome

_LINES = 5
_FRAMES = ("\tat ", "    at ", "  File ", "    ", "\t...", "Traceback (most recent")
_USUAL = (
    "WARNING: Using incubator modules",
    "Setting default log level",
    "To adjust logging level",
    "Streaming TransformWithState",
    "BrokenPipeError",  # from the remaining processes of a killed engine
    "ConnectionResetError",
    "Identifier: ",  # from here on: Spark's description of a query
    "Current ",
    "Thread State: ",
    "Logical Plan:",
    "~",
    "+- ",
)
"""Lines that do not explain why an engine has ended."""
_AFTERWARDS = ("Py4J", "Error while sending a command")
"""What Java logs once the engine's Python process has gone, which explains nothing either."""
_INFO = " INFO "
"""The level of lines that report success."""
_MEMORY = ("OutOfMemory", "MemoryError")
_REAPED_S = 1.0
"""How long the exit code of a dead process may take: its threads end one by one."""


def last_words(home: SessionHome, info: EngineInfo) -> str:
    """Return why the engine has ended, as far as known: a line, and the lines of its log that matter."""
    if info.state == "failed" and info.message:
        return f"the engine failed: {info.message}"
    ending, lines = _ending(info.pid), telling_lines(home.engine_log)
    if ending:  # what its parts log about that is not the cause
        lines = [line for line in lines if any(word in line for word in _MEMORY)]
    return "\n  ".join([f"the engine (pid {info.pid}) is not running any more{ending}", *lines])


def _ending(pid: int) -> str:
    """Return how a process ended, if this process started it and a signal ended it."""
    child = processes.children.get(pid)
    if child is None:
        return ""
    try:
        code = child.wait(_REAPED_S)
    except subprocess.TimeoutExpired:
        return ""
    if code == -signal.SIGKILL:
        return ": it was killed (SIGKILL); if nobody did that, the machine ran out of memory (stqsh doctor)"
    names = {number.value: number.name for number in signal.Signals}
    return f": {names.get(-code, -code)} ended it" if code < 0 else ""


def telling_lines(log: Path) -> list[str]:
    """Return the last lines of a log that name an error, else its last lines.

    Each line is returned once, and stack frames are left out.
    """
    try:
        text = log.read_bytes()[-65536:].decode(errors="replace")
    except OSError:
        return []
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    skipped = (*_AFTERWARDS, _INFO)
    telling = [line for line in lines if not line.startswith((*_FRAMES, *_USUAL))]
    telling = [line for line in telling if not any(words in line for words in skipped)]
    errors = [line for line in telling if "Error" in line or "Exception" in line or "rror:" in line]
    return [line[:300] for line in dict.fromkeys(errors or telling)][-_LINES:]
