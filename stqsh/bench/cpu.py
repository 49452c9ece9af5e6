"""The processor time of an engine's processes, Java's and Python's: what can be compared on a busy machine.

Read from /proc: utime and stime of each process of the tree, and what its children that have ended took with
them (cutime, cstime), so that a worker that ends in between is not lost. Where there is no /proc, nothing is
measured.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from stqsh.session.client import Session
from stqsh.session.process import read_engine

CPU = {"cpu_java_s": "Java CPU s/M", "cpu_python_s": "Python CPU s/M"}
"""Columns of processor seconds a million records."""

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Spent:
    """Processor seconds so far of Java's processes and of all others."""

    java: float
    python: float


class Meter:
    """Measures the processor time that a session's engine spends from now on."""

    def __init__(self, session: Session) -> None:
        engine = read_engine(session.home)
        self._pid = None if engine is None else engine.pid
        self._before = self._now()

    def spent(self) -> Spent | None:
        """Processor seconds since the beginning; None: unknown."""
        before, now = self._before, self._now()
        if before is None or now is None:
            return None
        return Spent(now.java - before.java, now.python - before.python)

    def per_million(self, records: int) -> dict[str, float | None]:
        """Processor seconds since the beginning, a million records, by the keys of `CPU`; None: unknown."""
        found = self.spent()
        if found is None:
            return dict.fromkeys(CPU)
        million = max(records, 1) / 1e6
        return {key: seconds / million for key, seconds in zip(CPU, (found.java, found.python), strict=True)}

    def _now(self) -> Spent | None:
        return None if self._pid is None else spent(self._pid)


@dataclass(frozen=True, slots=True)
class _Process:
    parent: int
    is_java: bool
    own: int
    of_children: int


def spent(root: int, proc: Path = PROC) -> Spent | None:
    """Sum up what the process `root` and its descendants have taken; None where `proc` does not tell."""
    all_of_them = {int(path.name): _read(path) for path in proc.glob("[0-9]*")} if proc.is_dir() else {}
    processes = {pid: process for pid, process in all_of_them.items() if process is not None}
    if root not in processes:
        return None
    tree = _descendants(root, processes)
    per_second = os.sysconf("SC_CLK_TCK")
    java = sum(processes[pid].own for pid in tree if processes[pid].is_java)
    everything = sum(processes[pid].own + processes[pid].of_children for pid in tree)
    return Spent(java / per_second, (everything - java) / per_second)


def processes_of(root: int, proc: Path = PROC) -> dict[int, bool]:
    """Give the process `root` and its descendants: whether each is Java's, by pid; none where unknown."""
    all_of_them = {int(path.name): _read(path) for path in proc.glob("[0-9]*")} if proc.is_dir() else {}
    processes = {pid: process for pid, process in all_of_them.items() if process is not None}
    tree = _descendants(root, processes) if root in processes else set()
    return {pid: processes[pid].is_java for pid in sorted(tree)}


def _descendants(root: int, processes: dict[int, _Process]) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    tree, ahead = set[int](), [root]
    while ahead:
        pid = ahead.pop()
        tree.add(pid)
        ahead += children.get(pid, [])
    return tree


def _read(folder: Path) -> _Process | None:
    """Read a process's `stat`: the name stands in brackets and may hold blanks (proc(5))."""
    try:
        text = (folder / "stat").read_text()
    except OSError:
        return None  # it has ended
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    parent = int(fields[1])
    own, of_children = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    return _Process(parent, name == "java", own, of_children)
