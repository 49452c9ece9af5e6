"""Processes by pid: check whether the same process still runs, although pids are reused.

Times are in microseconds since the machine's boot, the clock in which the kernel records when a process
began. The wall clock is useless here, because a change of it would shift the apparent start of all processes.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

_PROC = Path("/proc")
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_CLOCK_SLACK_US = 1_000_000
"""Tolerance when a process's start is compared with the last time at which it was seen."""
children: dict[int, subprocess.Popen[bytes]] = {}
"""Child processes of this one, kept so that a dead child is reaped and not considered alive."""


class StopRequest:
    """A stop request that a signal handler can make safely.

    The thread that the handler interrupts may hold the lock of a `threading.Event`, and would then deadlock.
    A `SimpleQueue` allows `put` in a signal handler.
    """

    def __init__(self) -> None:
        self._made: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        """Make the request."""
        self._made.put(None)

    def is_set(self) -> bool:
        """Return whether the request has been made."""
        return not self._made.empty()

    def wait(self, seconds: float) -> bool:
        """Wait for the request for at most some seconds; return whether it has been made."""
        try:
            self._made.get(timeout=seconds)
        except Empty:
            return False
        self._made.put(None)
        return True


def uptime_us() -> int:
    """Return the time since the machine's boot in microseconds; this clock cannot be set."""
    return time.clock_gettime_ns(_CLOCK) // 1000


def boot_id() -> str:
    """Return an id of the machine's current boot, "" if it is unknown."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def host() -> str:
    """Return the name of this host or container; pids of another host mean nothing on this one."""
    return socket.gethostname()


def identity(pid: int | None = None) -> str:
    """Return a name for a running process (by default this one) that no later process will have."""
    number = os.getpid() if pid is None else pid
    return f"{number}:{_start_ticks(number) or 0}"


def is_running(name: str) -> bool:
    """Return whether the process that `identity` named still runs."""
    pid, _, ticks = name.partition(":")
    return exists(int(pid)) and str(_start_ticks(int(pid)) or 0) == ticks


def exists(pid: int) -> bool:
    """Return whether a live process has this pid; a zombie is dead."""
    if pid in children and children[pid].poll() is not None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _state(pid) not in ("Z", "X")


def started_us(pid: int) -> int | None:
    """Return when a process began, accurate to about 10 ms; None if unknown."""
    ticks = _start_ticks(pid)
    return None if ticks is None else ticks * 1_000_000 // os.sysconf("SC_CLK_TCK")


def runs(pid: int, last_seen_us: int) -> bool:
    """Return whether the process that had this pid at `last_seen_us` still runs."""
    return exists(pid) and not _began_after(pid, last_seen_us)


def kill_group(leader: int, last_seen_us: int) -> None:
    """Kill the processes of a group that existed at `last_seen_us`, even if the group's leader has ended.

    The number of an empty group can be reused, so processes that began later are not killed. Without /proc no
    start times are known, and the group is killed only while its leader lives.
    """
    if runs(leader, last_seen_us):
        try:
            os.killpg(leader, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return  # it ended in the meantime
        return
    for pid in _members(leader):
        if not _began_after(pid, last_seen_us):
            kill(pid)


def kill(pid: int) -> bool:
    """Kill a process; return whether it existed and could be killed."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def children_of(parent: int) -> list[int]:
    """Return the pids of a process's living children."""
    return [pid for pid, fields in _living() if int(fields[1]) == parent]


def parent_of(pid: int) -> int:
    """Return the pid of a process's parent; 0 if there is no such process."""
    fields = _fields(pid)
    return int(fields[1]) if fields else 0


def command_line(pid: int) -> list[str]:
    """Return the words of a process's command line; empty if there is no such process."""
    try:
        return (_PROC / str(pid) / "cmdline").read_text(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def processor_s(pid: int) -> float:
    """Return the processor seconds that a process has used; 0 if there is no such process."""
    fields = _fields(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def _began_after(pid: int, last_seen_us: int) -> bool:
    began = started_us(pid)
    return began is not None and began > last_seen_us + _CLOCK_SLACK_US


def _members(group: int) -> Iterator[int]:
    """Yield the pids of a process group's living processes."""
    return (pid for pid, fields in _living() if int(fields[2]) == group)


def _living() -> Iterator[tuple[int, list[str]]]:
    """Yield the pid and the fields of `stat` (see `_fields`) of each living process."""
    for entry in _PROC.glob("[0-9]*"):
        fields = _fields(int(entry.name))
        if fields is not None and fields[0] not in ("Z", "X"):
            yield int(entry.name), fields


def _state(pid: int) -> str | None:
    fields = _fields(pid)
    return fields[0] if fields else None


def _start_ticks(pid: int) -> int | None:
    fields = _fields(pid)
    return int(fields[19]) if fields else None


def _fields(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the command's name (which may contain spaces)."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def allow_many_files() -> int:
    """Raise this process's limit of open files to the maximum and return it; each slot has a lock file."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # the real maximum may be below the reported one
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
