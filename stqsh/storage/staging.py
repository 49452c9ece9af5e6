"""The staging of a savepoint: a session's files as they are between two batches, pinned beside the session.

A client makes `saving/TOKEN/` in the home with a request, which names the client's process. Between two
batches the planner answers it: it copies control.db as of one moment, and gives every other file a second
name there, so that nothing that is deleted or replaced later is lost to the savepoint. That takes some
milliseconds. Files that writers continue in place are copied. `staged` says that all is there.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from stqsh.fs import atomic_write
from stqsh.spec.savepoint import StagedSession
from stqsh.storage import processes
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import SessionHome
from stqsh.storage.update_log.files import base_path, read_base

SAVING = "saving"
"""The folder of a home in which savepoints are staged; it is there while one is taken."""
_REQUEST, _STAGED = "request", "staged"
_FILES = "files"
_PARTS = ("checkpoint", "state", "streams", "tables", "sinks")
"""The folders of a home that belong to the session, besides the update log."""
_COPIED = 1 << 20
"""Files of fewer bytes are copied: some are continued in place."""
_CONTINUED = (".lines", ".jsonl")
"""The endings of files that are continued in place, of whatever size."""
_INDEXES = ("manifest.json", "taken.jsonl", "end")
"""Files that name others of their folder, and come first: what they name is there before them."""
_ATTEMPTS = 5


class _MovedError(Exception):
    """Files have been removed or replaced while they were staged."""


@dataclass(frozen=True, slots=True)
class Staging:
    """The folder of one savepoint that is being taken."""

    folder: Path

    @property
    def files(self) -> Path:
        """The folder with the session's files."""
        return self.folder / _FILES

    def answer(self) -> StagedSession | None:
        """Return what the engine has staged; None as long as it has not."""
        try:
            return msgspec.json.decode((self.folder / _STAGED).read_bytes(), type=StagedSession)
        except FileNotFoundError:
            return None


@contextmanager
def requested(home: SessionHome) -> Iterator[Staging]:
    """Ask the session's engine to stage a savepoint; at the end of the context all of it is removed."""
    remove_left(home)
    folder = home.path / SAVING / secrets.token_hex(8)
    folder.mkdir(mode=0o700, parents=True)
    try:
        atomic_write(folder / _REQUEST, processes.identity().encode())
        yield Staging(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # another client may save the session, too
            folder.parent.rmdir()


def remove_left(home: SessionHome) -> None:
    """Remove what clients that are gone have left of savepoints."""
    for folder in (home.path / SAVING).glob("*"):
        try:
            owner = (folder / _REQUEST).read_text(encoding="ascii")
        except FileNotFoundError:  # it has just been made or removed
            continue
        if not processes.is_running(owner):
            shutil.rmtree(folder, ignore_errors=True)


def stage_requested(home: SessionHome, control: ControlDb, describe: Callable[[Path], StagedSession]) -> None:
    """Stage the savepoints that clients have asked for; called between two batches.

    Args:
        home: the session's home.
        control: its control log.
        describe: says what a staged folder holds, and raises an error where that is no whole session.
    """
    root = home.path / SAVING
    if not root.exists():
        return
    for folder in root.glob("*"):
        staging = Staging(folder)
        if not (folder / _REQUEST).exists() or staging.answer() is not None:
            continue
        try:
            _stage(home, control, staging.files)
            staged = describe(staging.files)
        except Exception as error:  # the engine goes on, whatever becomes of a savepoint
            shutil.rmtree(staging.files, ignore_errors=True)
            reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
            staged = StagedSession(problem=reason.splitlines()[0] if reason else type(error).__name__)
        with suppress(FileNotFoundError):  # the client has left
            atomic_write(folder / _STAGED, msgspec.json.encode(staged))


def _stage(home: SessionHome, control: ControlDb, target: Path) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(mode=0o700)
        try:
            _stage_once(home, control, target)
        except (_MovedError, FileNotFoundError):
            if attempt == _ATTEMPTS:
                raise
        else:
            return


def _stage_once(home: SessionHome, control: ControlDb, target: Path) -> None:
    base = read_base(control).batch
    with closing(sqlite3.connect(target / "control.db")) as copy:
        control.connection().backup(copy)
    for part in _PARTS:
        if (home.path / part).is_dir():
            _pin_folder(home.path / part, target / part)
    is_kept = _of_log(base)
    _pin_folder(home.updates, target / "updates", is_kept)
    if read_base(control).batch != base:
        raise _MovedError


def _of_log(base: int) -> Callable[[str], bool]:
    """Return whether a file of a name belongs to an update log that is folded up to batch `base`."""
    own = base_path(Path(), base).stem

    def is_kept(name: str) -> bool:
        stem = name.partition(".")[0]
        return stem == own if stem.startswith("base-") else stem.isdigit() and int(stem) > base

    return is_kept


def _pin_folder(source: Path, target: Path, is_kept: Callable[[str], bool] = lambda _: True) -> None:
    """Give the files of a folder second names in another, those that name others first."""
    target.mkdir(mode=0o700, exist_ok=True)
    for index in _INDEXES:
        with suppress(FileNotFoundError):
            shutil.copyfile(source / index, target / index)
    with os.scandir(source) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if _is_passing(entry.name) or not is_kept(entry.name) or (target / entry.name).exists():
            continue
        if entry.is_dir(follow_symlinks=False):
            _pin_folder(source / entry.name, target / entry.name)
        else:
            _pin(source / entry.name, target / entry.name)
    for index in _INDEXES:
        if (target / index).exists() and index != "taken.jsonl":
            _check_same(source / index, target / index)


def _check_same(source: Path, target: Path) -> None:
    if source.read_bytes() != target.read_bytes():
        raise _MovedError


def _is_passing(name: str) -> bool:
    """Return whether a file is being written, or says nothing about data."""
    return name.endswith(".lock") or (name.startswith(".") and not name.endswith(".crc"))


def _pin(source: Path, target: Path) -> None:
    if source.suffix not in _CONTINUED and source.stat().st_size >= _COPIED:
        with suppress(OSError):  # file systems without hard links
            os.link(source, target)
            return
    shutil.copyfile(source, target)
