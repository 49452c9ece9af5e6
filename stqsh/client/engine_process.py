"""The engine process of a session: start it, check that it is alive, stop it, and report why it ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import stqsh
from stqsh.errors import EngineDeadError
from stqsh.fs import file_lock, make_private
from stqsh.program import program
from stqsh.storage import processes
from stqsh.storage.engine_info import (
    EngineInfo,
    has_parent,
    has_process,
    is_alive,
    is_written_since,
    read_engine,
    runs_elsewhere,
    write_engine,
)
from stqsh.storage.home import SessionHome, kept_log

OnProgress = Callable[[str], None]
"""Called with short texts about the start ("starting Spark… 3 s")."""

SILENT_S = 60
"""An engine without a heartbeat for this long hangs, even if its process exists."""
_BEAT_S = 3.0
"""How long to wait for a heartbeat before reporting a hang: the machine may just have woken from sleep."""
START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 20.0


def has_engine(home: SessionHome) -> bool:
    """Return whether an engine of the session runs."""
    return is_alive(read_engine(home))


def check_alive(home: SessionHome) -> EngineInfo:
    """Return the engine's own report if it is alive and responsive.

    Raises:
        EngineDeadError: it is not; the text is the reason that it reported, or the relevant lines of its log.
    """
    info = read_engine(home)
    if info is None:
        raise EngineDeadError("no engine was started for this session")
    lives = is_alive(info)
    if not lives and _current(home, info) != info:  # it wrote its last report after we had read `info`
        return check_alive(home)
    if info.state == "stopping" and not lives:
        raise EngineDeadError("the engine was stopped")
    if info.state == "failed" or not lives:
        raise EngineDeadError(last_words(home, info), hint=f"the engine's log is {kept_log(home)}")
    silent = (processes.uptime_us() - info.heartbeat_us) // 1_000_000
    if silent > SILENT_S and not _beats(home, info):
        raise EngineDeadError(
            f"the engine (pid {info.pid}) has not answered for {silent} s",
            hint=f"{program()} stop {home.name} ends it; the next statement starts it again where it stopped",
        )
    return info


def _beats(home: SessionHome, info: EngineInfo) -> bool:
    """Wait briefly, and return whether the engine has written a heartbeat since `info`."""
    deadline = time.monotonic() + _BEAT_S
    while time.monotonic() < deadline:
        if _current(home, info).heartbeat_us != info.heartbeat_us:
            return True
        time.sleep(0.05)
    return False


def ensure_engine(home: SessionHome, command: Sequence[str] | None = None) -> EngineInfo:
    """Start the session's engine unless it runs already; return at once (see `wait_until_ready`).

    Two clients that call this concurrently start only one engine. `command` replaces the usual start command;
    `--home DIR` is appended.

    Raises:
        EngineDeadError: the process cannot be started, or the engine runs on another host.
    """
    with file_lock(home.path / "engine.lock"):
        _check_is_here(home)
        info = _settled(home)
        if info is not None and info.state != "failed" and is_alive(info):
            return info
        if info is not None:
            _clear_remains(info)
        return _spawn(home, command or (sys.executable, "-m", "stqsh.engine.launch.parent"))


def wait_until_ready(
    home: SessionHome, on_progress: OnProgress | None = None, timeout_s: float = START_TIMEOUT_S
) -> EngineInfo:
    """Wait until the engine is ready for batches.

    Raises:
        EngineDeadError: it fails or takes too long.
    """
    began, last_text = time.monotonic(), ""
    while True:
        info = check_alive(home)
        if info.state == "ready" and has_process(info):
            return info
        waited = time.monotonic() - began
        if waited > timeout_s:
            raise EngineDeadError(
                f"the engine was not ready after {timeout_s:.0f} s", hint=f"see {kept_log(home)}"
            )
        text = f"{info.message or 'starting Spark'}… {waited:.0f} s"
        if on_progress is not None and text != last_text:
            on_progress(text)
            last_text = text
        time.sleep(0.05)


def stop_engine(home: SessionHome, timeout_s: float = STOP_TIMEOUT_S) -> bool:
    """Stop the session's engine between two batches; kill it after `timeout_s`.

    Returns:
        Whether one was running.

    Raises:
        EngineDeadError: it runs on another host.
    """
    _check_is_here(home)
    info = read_engine(home)
    if info is None or not is_alive(info):
        return False
    _ask_to_stop(info)
    if not _wait_gone(info, timeout_s):
        for pid in (info.parent or info.pid, _current(home, info).pid):
            processes.kill_group(pid, processes.uptime_us())
        _wait_gone(info, timeout_s)
    _clear_remains(_current(home, info))
    return True


def _check_is_here(home: SessionHome) -> None:
    if host := runs_elsewhere(home):
        raise EngineDeadError(
            f"the engine of this session runs on the host {host}",
            hint="use the session there, or stop its engine there",
        )


def _ask_to_stop(info: EngineInfo) -> None:
    try:
        os.kill(info.parent if has_parent(info) else info.pid, signal.SIGTERM)
    except ProcessLookupError:
        return  # it has just ended


def _settled(home: SessionHome) -> EngineInfo | None:
    """Return the engine's last report, once the engine is no longer about to end."""
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while (info := read_engine(home)) is not None and is_alive(info):
        ends = info.state == "stopping" or _has_lost_parent(info)
        if not ends or time.monotonic() > deadline:
            break
        time.sleep(0.02)
    return info


def _current(home: SessionHome, info: EngineInfo) -> EngineInfo:
    """Return the engine's last report; its parent may have restarted it since `info`."""
    return read_engine(home) or info


def _has_lost_parent(info: EngineInfo) -> bool:
    """Return whether an engine's parent has been killed; the engine stops as soon as it detects this."""
    return info.parent != 0 and not has_parent(info)


def _spawn(home: SessionHome, command: Sequence[str]) -> EngineInfo:
    source = str(Path(stqsh.__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    began_us = processes.uptime_us()
    try:
        if home.engine_log.exists():
            home.engine_log.replace(home.engine_log.with_suffix(".log.1"))
        make_private(home.engine_log)
        with home.engine_log.open("wb") as log:
            child = subprocess.Popen(
                [*command, "--home", str(home.path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=home.path,
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,
                umask=0o077,
            )
    except OSError as error:
        raise EngineDeadError(f"the engine cannot be started: {error}") from error
    processes.children[child.pid] = child
    said = read_engine(home)
    # The child may have reported, or even ended, already. The time alone proves nothing if boots have no id.
    if said is not None and child.pid in (said.pid, said.parent) and is_written_since(said, began_us):
        return said
    info = replace(EngineInfo.now(child.pid, "starting"), cluster=said is not None and said.cluster)
    write_engine(home, info)
    return info


def _wait_gone(info: EngineInfo, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while is_alive(info):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _clear_remains(info: EngineInfo) -> None:
    """Kill the processes that a dead engine left behind (JVM, workers): they share its process group."""
    same_boot = info.boot == processes.boot_id() and info.host in ("", processes.host())
    for pid in {info.pid, info.parent} - {0}:
        if same_boot and not processes.exists(pid):
            processes.kill_group(pid, info.heartbeat_us)


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
"""Lines that Java logs after the engine's Python process has gone; they explain nothing either."""
_INFO = " INFO "
"""The level of lines that report success."""
_MEMORY = ("OutOfMemory", "MemoryError")
_REAPED_S = 1.0
"""How long to wait for the exit code of a dead process: its threads end one by one."""


def last_words(home: SessionHome, info: EngineInfo) -> str:
    """Return why the engine ended, as far as known: one line, and the relevant lines of its log."""
    if info.state == "failed" and info.message:
        return f"the engine failed: {info.message}"
    ending, lines = _ending(info.pid), telling_lines(home.engine_log)
    if ending:  # what its processes log after the signal is not the cause
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
    """Return the last lines of a log that name an error, or else its last lines.

    Repeated lines are returned once; stack frames are omitted.
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
