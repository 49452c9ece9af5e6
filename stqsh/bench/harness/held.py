"""Look at what a session holds: memory of its processes, files in its home, sizes of what it keeps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stqsh.bench.harness.cpu import PROC, ProcessTime, tree_of
from stqsh.client.api import Session
from stqsh.storage.engine_info import EngineInfo, read_engine

_MB = 1 << 20
_ROLES = {
    b"stqsh.sinks": "sinks",
    b"stqsh.engine.delivery.log_retention": "helpers",
    b"stqsh.engine.ingest.preparation": "helpers",
}
"""What a process is, by a part of its command line; others below the engine are workers."""
_COUNTED = ("Pss_Anon:", "Pss_Shmem:")
_SQLITE = ("control.db", "control.db-wal")


@dataclass(frozen=True, slots=True)
class HeldNow:
    """What a session holds at an instant.

    Memory is the proportional share (PSS) of processes, in MB: what several of them share counts once. Shared
    memory of the slots is in there, too, where a process has it mapped. Pages of files, such as libraries,
    are not: other sessions on the machine share them, so that this one's part changes as those come and go.

    Attributes:
        java, driver, workers, sinks, parent: memory of Java, of the engine's own process, of the processes
            that Java starts, of the process that writes sinks, and of the engine's parent, MB.
        helpers: memory of the processes that come and go: they fold the update log and prepare streams, MB.
        memory: the sum of these, MB.
        arena: shared memory of the slots, MB.
        control, checkpoint, state, updates, streams: files of the home, MB.
        base: the part of `updates` that holds the answers: what is folded, MB.
        log: the engine's output, MB.
        files: the files and folders of the home.
        open: open files of all processes.
    """

    java: float
    driver: float
    workers: float
    sinks: float
    parent: float
    helpers: float
    memory: float
    arena: float
    control: float
    checkpoint: float
    state: float
    updates: float
    base: float
    streams: float
    log: float
    files: int
    open: int


def held_now(session: Session) -> HeldNow:
    """Measure what a session's engine and home hold now; nothing of an engine that does not run."""
    home, engine = session.home, read_engine(session.home)
    tree = tree_of(engine.parent or engine.pid) if engine else {}
    shares = dict.fromkeys(("java", "driver", "workers", "sinks", "parent", "helpers"), 0.0)
    for pid in tree:
        assert engine is not None
        if role := _role(pid, tree, engine):
            shares[role] += _pss_mb(pid)
    return HeldNow(
        **shares,
        memory=sum(shares.values()),
        arena=_size_mb(home.arena.folder),
        control=sum(_file_mb(home.path / name) for name in _SQLITE),
        checkpoint=_size_mb(home.checkpoint),
        state=_size_mb(home.state),
        updates=_size_mb(home.updates),
        base=sum(map(_file_mb, home.updates.glob("base-*"))),
        streams=_size_mb(home.path / "streams"),
        log=_file_mb(home.engine_log),
        files=sum(1 for _ in _below(home.path)),
        open=sum(_open_files(pid) for pid in tree),
    )


def _role(pid: int, tree: dict[int, ProcessTime], engine: EngineInfo) -> str:
    """Return which part of an engine a process of its tree is.

    It is "" for one that Java has just forked to run a command: its memory still is Java's.
    """
    if pid in (engine.pid, engine.parent):
        return "driver" if pid == engine.pid else "parent"
    if tree[pid].is_java:
        return "java"
    try:
        command = (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return "workers"  # it has ended
    if command.partition(b"\0")[0].endswith(b"/java"):
        return ""
    return next((role for word, role in _ROLES.items() if word in command), "workers")


def _pss_mb(pid: int) -> float:
    """Return the PSS of a process without pages of files; 0 for one that has ended."""
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith(_COUNTED)) / 1024


def _open_files(pid: int) -> int:
    try:
        return sum(1 for _ in (PROC / str(pid) / "fd").iterdir())
    except OSError:
        return 0


def _size_mb(folder: Path) -> float:
    """Return the size of all files below a folder; files that vanish do not count."""
    return sum(_file_mb(path) for path in _below(folder))


def _below(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        yield from (Path(where, name) for name in (*folders, *names))


def _file_mb(path: Path) -> float:
    try:
        found = path.lstat()
    except OSError:
        return 0.0
    return 0.0 if path.is_dir() else found.st_size / _MB
