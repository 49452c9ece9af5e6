"""A disk that keeps only what was forced to it: what a home looks like after the machine has died.

`Disk` records the events of a run under a folder: each fsync, rename and deletion that Python does, and each
transaction of control.db. `Disk.cut(n, target)` builds the folder as a disk shows it that has kept of the
first n events only what was forced: the content of a file as of its last fsync, a name as of the last fsync
of its folder, and of control.db the last commit that was forced; deletions and renames that were not forced
are undone. With `eager` it is the other extreme: all files are as they were, and only control.db lacks what
was not forced. Real disks are between the two.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stqsh.storage.control_log import ControlDb

Names = dict[str, int]
"""The files (by inode) or folders of a folder, by name."""


@dataclass
class Disk:
    """What has been forced to the disk, event by event.

    Attributes:
        folder: the folder whose fate it follows.
        events: what happened, in order, for messages.
    """

    folder: Path
    events: list[str] = field(default_factory=list)
    _content: list[dict[int, bytes]] = field(default_factory=lambda: [{}])
    _names: list[dict[Path, Names]] = field(default_factory=lambda: [{}])
    _database: list[bytes | None] = field(default_factory=lambda: [None])
    _there: list[dict[Path, bytes]] = field(default_factory=lambda: [{}])

    def cut(self, events: int, target: Path, *, eager: bool = False) -> None:
        """Build the folder as it is after a power failure behind the first `events` events."""
        if eager:
            for name, found in self._there[events].items():
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                (target / name).write_bytes(found)
        else:
            self._build(self.folder, target, self._names[events], self._content[events])
        target.mkdir(exist_ok=True)
        database = self._database[events]
        if database is not None:
            (target / "control.db").write_bytes(database)

    def _build(self, source: Path, target: Path, names: dict[Path, Names], content: dict[int, bytes]) -> None:
        target.mkdir()
        for name, inode in names.get(source, {}).items():
            if source / name in names or (source / name).is_dir():
                self._build(source / name, target / name, names, content)
            elif not name.startswith("control.db"):
                (target / name).write_bytes(content.get(inode, b""))

    def _note(
        self,
        event: str,
        content: dict[int, bytes] | None = None,
        names: dict[Path, Names] | None = None,
        database: bytes | None = None,
    ) -> None:
        self.events.append(event)
        self._content.append({**self._content[-1], **(content or {})})
        self._names.append({**self._names[-1], **(names or {})})
        self._database.append(database or self._database[-1])
        files = (path for path in self.folder.rglob("*") if path.is_file() and path.stem != "control")
        self._there.append({path.relative_to(self.folder): path.read_bytes() for path in files})

    def forced(self, descriptor: int) -> None:
        """Note an fsync."""
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if not path.is_relative_to(self.folder):
            return
        if path.is_dir():
            inside = {entry.name: entry.inode() for entry in os.scandir(path)}
            self._note(f"force {path.name}/", names={path: inside})
        elif path.name == "control.db-wal":
            self._note("force control.db", database=database_at(self.folder / "control.db"))
        else:
            self._note(f"force {path.name}", content={os.fstat(descriptor).st_ino: path.read_bytes()})

    def committed(self, control: ControlDb) -> None:
        """Note the end of a transaction."""
        forced = control.query("PRAGMA synchronous")[0][0] == 2
        self._note("commit", database=database_at(control.path) if forced else None)

    def moved(self, event: str) -> None:
        """Note a rename or deletion, which nothing has forced yet."""
        self._note(event)


def database_at(path: Path) -> bytes:
    """Return a database with all that is committed as one file."""
    with sqlite3.connect(path) as source, sqlite3.connect(":memory:") as copy:
        source.backup(copy)
        content = copy.serialize()
    source.close()
    return content


@contextmanager
def recorded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """Record what happens to the files of a folder."""
    disk = Disk(folder)
    fsync, replace, unlink, transaction = os.fsync, os.replace, os.unlink, ControlDb.transaction

    def forcing(descriptor: int) -> None:
        fsync(descriptor)
        disk.forced(descriptor)

    def replacing(source: str, target: str, **more: int) -> None:
        replace(source, target, **more)
        disk.moved(f"{Path(source).name} becomes {Path(target).name}")

    def unlinking(path: str, **more: int) -> None:
        unlink(path, **more)
        disk.moved(f"{Path(path).name} goes")

    @contextmanager
    def committing(control: ControlDb, *, queries_only: bool = False) -> Iterator[sqlite3.Connection]:
        is_outer = not control.connection().in_transaction
        with transaction(control, queries_only=queries_only) as connection:
            yield connection
        if is_outer and control.path.parent == folder:
            disk.committed(control)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", forcing)
        patched.setattr(os, "replace", replacing)
        patched.setattr(os, "unlink", unlinking)
        patched.setattr(ControlDb, "transaction", committing)
        yield disk
