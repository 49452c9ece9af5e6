"""Measure the processor time of an engine's processes, which is comparable even on a busy machine.

It is read from /proc: utime and stime of each process of the tree, and cutime and cstime of its ended
children, so that the time of a worker that ends is not lost. Without /proc, nothing is measured.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from stqsh.bench.figures import LESS, Better
from stqsh.client.api import Session
from stqsh.storage.engine_info import read_engine

CPU = {"cpu_java_s": "Java CPU s/M", "cpu_python_s": "Python CPU s/M"}
"""The columns with processor seconds a million records."""

CPU_FIGURES: dict[str, Better] = dict.fromkeys(CPU, LESS)
"""The same as figures that `--compare` compares."""

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessorTime:
    """Processor seconds of Java processes and of all others."""

    java: float
    python: float


class ProcessorMeter:
    """Measure the processor time of a session's engine from now on."""

    def __init__(self, session: Session) -> None:
        engine = read_engine(session.home)
        self._pid = None if engine is None else engine.pid
        self._before = self._now()

    def spent(self) -> ProcessorTime | None:
        """Return processor seconds since the beginning, None where unknown."""
        before, now = self._before, self._now()
        return grown(before, now) if before and now else None

    def per_million(self, records: int) -> dict[str, float | None]:
        """Return processor seconds per million records so far, by the keys of `CPU`; None where unknown."""
        found = self.spent()
        if found is None:
            return dict.fromkeys(CPU)
        million = max(records, 1) / 1e6
        return {key: seconds / million for key, seconds in zip(CPU, (found.java, found.python), strict=True)}

    def _now(self) -> Tree:
        return {} if self._pid is None else tree_of(self._pid)


@dataclass(frozen=True, slots=True)
class ProcessTime:
    """A process: the clock ticks of its own, and those of its ended children."""

    parent: int
    is_java: bool
    own: int
    of_children: int


Tree: TypeAlias = dict[int, ProcessTime]


def spent(root: int, proc: Path = PROC) -> ProcessorTime | None:
    """Return the time of the process `root` and its descendants; None where `proc` does not have them."""
    tree = tree_of(root, proc)
    return grown({}, tree) if tree else None


def grown(before: Tree, now: Tree) -> ProcessorTime:
    """Return the processor time of a tree of processes between two samples.

    The time of an ended process is with the process that waited for it, and its earlier part was counted
    before. If no process of the tree waited for it, the time since the first sample is lost.
    """
    counted = dict.fromkeys(now, 0)
    for pid, process in before.items():
        if pid not in now and (heir := _heir(process.parent, before, now)) is not None:
            counted[heir] += process.own + process.of_children
    java = python = 0
    for pid, process in now.items():
        was = before.get(pid, replace(process, own=0, of_children=0))
        own = max(0, process.own - was.own)
        java, python = (java + own, python) if process.is_java else (java, python + own)
        python += max(0, process.of_children - was.of_children - counted[pid])
    per_second = os.sysconf("SC_CLK_TCK")
    return ProcessorTime(java / per_second, python / per_second)


def _heir(pid: int, before: Tree, now: Tree) -> int | None:
    """Return the nearest living ancestor of a process that has ended, from its parent `pid` on."""
    while pid not in now:
        if pid not in before:
            return None
        pid = before[pid].parent
    return pid


def tree_of(root: int, proc: Path = PROC) -> Tree:
    """Return the process `root` and its descendants by pid; empty where `proc` does not have them."""
    all_of_them = {int(path.name): _read(path) for path in proc.glob("[0-9]*")} if proc.is_dir() else {}
    processes = {pid: process for pid, process in all_of_them.items() if process is not None}
    tree = _descendants(root, processes) if root in processes else ()
    return {pid: processes[pid] for pid in tree}


def _descendants(root: int, processes: Tree) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    tree, ahead = set[int](), [root]
    while ahead:
        pid = ahead.pop()
        tree.add(pid)
        ahead += children.get(pid, [])
    return tree


def _read(folder: Path) -> ProcessTime | None:
    """Read a process's `stat`, where the name is in brackets and may contain blanks (proc(5))."""
    try:
        text = (folder / "stat").read_text()
    except OSError:
        return None  # it has ended
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    parent = int(fields[1])
    own, of_children = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    return ProcessTime(parent, name == "java", own, of_children)
