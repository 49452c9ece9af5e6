"""The staging of a savepoint: a session's files as they are between two batches, set aside in its home.

A client creates `saving/TOKEN/` in the home with a request that names the client's process. The planner
serves the request between two batches: it copies a consistent state of control.db, and makes hard links to
all other files there, so that files deleted or replaced later are still available to the savepoint. That
takes some milliseconds. Files that are appended to in place are copied. The file `staged` is written last.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
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

log = logging.getLogger("stqsh.engine")

SAVING = "saving"
"""The folder of a home in which savepoints are staged; it exists while a savepoint is made."""
_REQUEST, _HELD, _STAGED = "request", "held", "staged"
_FILES = "files"
_PARTS = ("streams", "tables", "sinks")
"""The folders of a home that belong to the session, in addition to the update log and `_OF_SLOTS`."""
_OF_SLOTS = ("checkpoint", "state")
"""The folders of the slots and their last batch; on a cluster the engine makes them for a savepoint."""
_COPIED = 1 << 20
"""Files with fewer bytes than this are copied, because some of them are appended to in place."""
_CONTINUED = (".lines", ".jsonl")
"""The suffixes of files that are appended to in place, whatever their size."""
_INDEXES = ("manifest.json", "taken.jsonl", "end")
"""Files that refer to others of their folder; they are copied first, because those exist before them."""
_ATTEMPTS = 5


class _MovedError(Exception):
    """Files were removed or replaced while they were staged."""


@dataclass(frozen=True, slots=True)
class Staging:
    """The folder of one savepoint in the making."""

    folder: Path

    @property
    def files(self) -> Path:
        """The folder with the session's files."""
        return self.folder / _FILES

    def answer(self) -> StagedSession | None:
        """Return the engine's description of what it has staged; None if it is not finished."""
        try:
            return msgspec.json.decode((self.folder / _STAGED).read_bytes(), type=StagedSession)
        except FileNotFoundError:
            return None


@contextmanager
def requested(home: SessionHome) -> Iterator[Staging]:
    """Ask the session's engine to stage a savepoint; the context removes the staged files at its end."""
    remove_left(home)
    folder = home.path / SAVING / secrets.token_hex(8)
    folder.mkdir(mode=0o700, parents=True)
    try:
        atomic_write(folder / _REQUEST, processes.identity().encode())
        yield Staging(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # another client may be saving the session at the same time
            folder.parent.rmdir()


def remove_left(home: SessionHome) -> None:
    """Remove the staging folders of clients that are gone."""
    for folder in (home.path / SAVING).glob("*"):
        try:
            owner = (folder / _REQUEST).read_text(encoding="ascii")
        except FileNotFoundError:  # it was just created or removed
            continue
        if not processes.is_running(owner):
            shutil.rmtree(folder, ignore_errors=True)


def hold_requested(home: SessionHome) -> bool:
    """Tell the engine that no batch runs; return whether it has yet to stage savepoints.

    The planner of a cluster calls this between two batches, and plans none while the result is true.
    """
    folders = [folder for folder in (home.path / SAVING).glob("*") if _is_waiting(folder)]
    for folder in folders:
        with suppress(FileNotFoundError):  # the client is gone
            (folder / _HELD).touch()
    return bool(folders)


def stage_requested(home: SessionHome, control: ControlDb, describe: Callable[[Path], StagedSession]) -> None:
    """Stage the savepoints that clients have requested; called between two batches.

    Args:
        home: the session's home.
        control: its control log.
        describe: returns the description of a staged folder; raises an error if that is not a complete
            session.
    """
    for folder in (home.path / SAVING).glob("*"):
        if _is_waiting(folder):
            _answer(home, control, Staging(folder), describe, (*_OF_SLOTS, *_PARTS))


def stage_held(home: SessionHome, control: ControlDb, describe: Callable[[Path], StagedSession]) -> None:
    """Stage the savepoints for which the planner holds back batches; see `hold_requested`.

    The arguments are those of `stage_requested`; `describe` also adds the checkpoint and the slots.
    """
    for folder in (home.path / SAVING).glob("*"):
        if _is_waiting(folder) and (folder / _HELD).exists():
            _answer(home, control, Staging(folder), describe, _PARTS)


def _is_waiting(folder: Path) -> bool:
    """Return whether a client waits for a savepoint that has not been staged yet."""
    return (folder / _REQUEST).exists() and Staging(folder).answer() is None


def _answer(
    home: SessionHome,
    control: ControlDb,
    staging: Staging,
    describe: Callable[[Path], StagedSession],
    parts: Sequence[str],
) -> None:
    try:
        _stage(home, control, staging.files, parts)
        staged = describe(staging.files)
    except Exception as error:  # a failed savepoint must not stop the engine
        log.warning("a savepoint cannot be staged", exc_info=True)
        shutil.rmtree(staging.files, ignore_errors=True)
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        staged = StagedSession(problem=reason.splitlines()[0] if reason else type(error).__name__)
    with suppress(FileNotFoundError):  # the client is gone
        atomic_write(staging.folder / _STAGED, msgspec.json.encode(staged))


def _stage(home: SessionHome, control: ControlDb, target: Path, parts: Sequence[str]) -> None:
    for attempt in range(1, _ATTEMPTS + 1):
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(mode=0o700)
        try:
            _stage_once(home, control, target, parts)
        except (_MovedError, FileNotFoundError):
            if attempt == _ATTEMPTS:
                raise
        else:
            return


def _stage_once(home: SessionHome, control: ControlDb, target: Path, parts: Sequence[str]) -> None:
    base = read_base(control).batch
    with closing(sqlite3.connect(target / "control.db")) as copy:
        control.connection().backup(copy)
    for part in parts:
        if (home.path / part).is_dir():
            _pin_folder(home.path / part, target / part)
    is_kept = _of_log(base)
    _pin_folder(home.updates, target / "updates", is_kept)
    if read_base(control).batch != base:
        raise _MovedError


def _of_log(base: int) -> Callable[[str], bool]:
    """Return a predicate for the names of files that belong to an update log folded up to batch `base`."""
    own = base_path(Path(), base).stem

    def is_kept(name: str) -> bool:
        stem = name.partition(".")[0]
        return stem == own if stem.startswith("base-") else stem.isdigit() and int(stem) > base

    return is_kept


def _pin_folder(source: Path, target: Path, is_kept: Callable[[str], bool] = lambda _: True) -> None:
    """Link the files of a folder into another folder, beginning with those that refer to others."""
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
    """Return whether a file is incomplete, or contains no data."""
    return name.endswith(".lock") or (name.startswith(".") and not name.endswith(".crc"))


def _pin(source: Path, target: Path) -> None:
    if source.suffix not in _CONTINUED and source.stat().st_size >= _COPIED:
        with suppress(OSError):  # some file systems have no hard links
            os.link(source, target)
            return
    shutil.copyfile(source, target)
