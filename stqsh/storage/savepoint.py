"""Savepoints at a URI: the sealed files of a session, with a manifest that is written last.

Small files share blobs, because a store needs as long for a small blob as for one of some MB. An interrupted
SAVE leaves blobs and a mark but no manifest: that is not a savepoint, and the next SAVE to the URI replaces
it. Nothing else at a URI is ever overwritten.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path, PurePosixPath

import msgspec
import pyarrow as pa

from stqsh.checksums import DamagedFileError, Seal, split_seal, with_seal, without_seal
from stqsh.errors import HomeError, StqshError
from stqsh.spec.savepoint import FORMAT, SavedFile, Savepoint, StagedSession
from stqsh.storage.blobs import Blobs, home_blobs, open_blobs
from stqsh.storage.control_log import ControlDb, get_meta, set_meta, wall_clock_us
from stqsh.storage.control_mirror import forget_mirror
from stqsh.storage.home import SessionHome
from stqsh.storage.layouts import SCHEMA_VERSION

_MANIFEST, _BEGUN = "savepoint.json", "begun"
_SMALL, _TOGETHER = 1 << 20, 32 << 20
"""Files smaller than the first size share blobs of at most the second size, in bytes."""
_MARK = b"sealed "
_LAST = "savepoint"
"""The key of a session's last savepoint."""
_OF_THE_FIRST = ("owner", "uuid")
"""The keys of metadata that a restored session does not share with the saved one: the process with which a
temporary session ends, and the name of its files in a storage."""


class SavepointError(StqshError):
    """A savepoint cannot be written or read."""


@dataclass(frozen=True, slots=True)
class SaveProgress:
    """The progress of a savepoint's copying, in bytes."""

    copied: int
    whole: int


def savepoint_blobs(uri: str) -> Blobs:
    """Return the blobs at the URI of a savepoint; a path means a `file` URI.

    Raises:
        StqshError: the URI names no known store.
    """
    return open_blobs(uri) if "://" in uri else home_blobs(Path(uri).expanduser())


def check_free(blobs: Blobs, uri: str) -> None:
    """Check that a savepoint may be written to a URI, and remove the rest of an interrupted one.

    Raises:
        SavepointError: the URI already holds a savepoint or other files.
    """
    found = blobs.names()
    if _MANIFEST in found:
        raise SavepointError(f"there is a savepoint at {uri} already", hint="give another URI, or remove it")
    if found and _BEGUN not in found:
        raise SavepointError(
            f"{uri} holds files that are no savepoint, the first is {found[0]}",
            hint="give a URI at which there is nothing",
        )
    blobs.delete([name for name in found if name != _BEGUN])


def write_savepoint(
    blobs: Blobs, session: str, files: Path, staged: StagedSession
) -> Iterator[SaveProgress | Savepoint]:
    """Copy a staged session to a free URI; yield the progress, and finally the savepoint.

    Raises:
        DamagedFileError: a file of the session differs from what was written; no savepoint is made then.
    """
    blobs.put(_BEGUN, [b""])
    found = sorted(path for path in files.rglob("*") if path.is_file())
    whole, copied = sum(path.stat().st_size for path in found), 0
    saved: list[SavedFile] = []
    for number, group in enumerate(_groups(found)):
        blob, start = f"files/{number:06d}", 0
        pieces = []
        for path in group:
            name = path.relative_to(files).as_posix()
            content = _content(path)
            seal = _checked(content, name, staged.seals.get(name))
            saved.append(SavedFile(name, blob, start, seal))
            pieces.append(content)
            start += seal.size
        blobs.put(blob, pieces)
        copied += start
        yield SaveProgress(copied, whole)
    manifest = Savepoint(
        FORMAT, version("stqsh"), session, wall_clock_us(), staged, SCHEMA_VERSION, tuple(saved)
    )
    blobs.put(_MANIFEST, [with_seal(msgspec.json.encode(manifest))])
    blobs.delete([_BEGUN])
    yield manifest


def _groups(files: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield the files of each blob: large ones alone, small ones together."""
    together: list[Path] = []
    size = 0
    for path in files:
        own = path.stat().st_size
        if own >= _SMALL:
            yield [path]
            continue
        if together and size + own > _TOGETHER:
            yield together
            together, size = [], 0
        together.append(path)
        size += own
    if together:
        yield together


def _content(path: Path) -> pa.Buffer:
    if not path.stat().st_size:
        return pa.py_buffer(b"")
    with pa.memory_map(str(path)) as mapped:
        return mapped.read_buffer()


def _checked(content: pa.Buffer, name: str, known: Seal | None) -> Seal:
    """Return the seal of a file's content, after checking the content against a known seal, if any."""
    view = memoryview(content)  # pyright: ignore
    if known is not None:
        known.check(view, name)
        return known
    if bytes(view[: len(_MARK)]) == _MARK:
        split_seal(bytes(view), name)
    return Seal.of(view)


def read_savepoint(blobs: Blobs, uri: str) -> Savepoint:
    """Return the manifest of the savepoint at a URI.

    Raises:
        SavepointError: there is none, or it is incomplete, damaged, or from a newer version.
    """
    found = blobs.names()
    if _MANIFEST not in found:
        if _BEGUN in found:
            raise SavepointError(
                f"the savepoint at {uri} is incomplete: SAVE was interrupted", hint="SAVE the session again"
            )
        raise SavepointError(f"there is no savepoint at {uri}", hint="SAVE TO 'uri'; makes one")
    try:
        content = without_seal(bytes(memoryview(blobs.read(_MANIFEST))), _MANIFEST)  # pyright: ignore
        written = msgspec.json.decode(content, type=_Head)
        if written.format <= FORMAT and written.layout <= SCHEMA_VERSION:
            return msgspec.json.decode(content, type=Savepoint)
    except (DamagedFileError, msgspec.DecodeError) as error:
        raise SavepointError(
            f"the savepoint at {uri} is damaged: {_MANIFEST} is not what was written"
        ) from error
    raise SavepointError(
        f"the savepoint at {uri} was written by a newer stqsh ({written.version})",
        hint="install that version",
    )


class _Head(msgspec.Struct):
    """The part of a manifest that every version can read."""

    format: int
    version: str
    layout: int


def restore_savepoint(
    blobs: Blobs,
    uri: str,
    savepoint: Savepoint,
    home: SessionHome,
    adapt: Callable[[SessionHome, ControlDb], None] = lambda *_: None,
) -> None:
    """Create the home of a session from a savepoint, atomically.

    Args:
        blobs: the blobs of the savepoint.
        uri: its URI, for errors.
        savepoint: its manifest.
        home: the place of the new session.
        adapt: changes the session before the home appears in its place.

    Raises:
        HomeError: the session already exists.
        SavepointError: a file of the savepoint is missing or damaged.
        OtherVersionError: it is from a version from which this one cannot continue.
    """
    if home.path.exists():
        raise HomeError(
            f"there is a session {home.name} already",
            hint="restore it under another name, or remove that one",
        )
    making = home.path.parent / ".restoring" / secrets.token_hex(8)
    making.mkdir(mode=0o700, parents=True)
    try:
        _write_files(blobs, uri, savepoint, making)
        for folder in ("updates", "streams"):
            (making / folder).mkdir(mode=0o700, exist_ok=True)
        _make_own(SessionHome(making), uri, adapt)
        making.rename(home.path)
    finally:
        shutil.rmtree(making, ignore_errors=True)
        with suppress(OSError):  # another session may be restored at the same time
            making.parent.rmdir()


def _write_files(blobs: Blobs, uri: str, savepoint: Savepoint, target: Path) -> None:
    blob, content = "", pa.py_buffer(b"")
    for file in savepoint.files:
        if PurePosixPath(file.path).is_absolute() or ".." in PurePosixPath(file.path).parts:
            raise SavepointError(f"the savepoint at {uri} names a file outside of the session: {file.path}")
        path = target / file.path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            if file.blob != blob:
                blob, content = file.blob, blobs.read(file.blob)
            mine = memoryview(content)[file.start : file.start + file.seal.size]  # pyright: ignore
            file.seal.check(mine, file.path)
        except DamagedFileError as error:
            raise SavepointError(
                f"the savepoint at {uri} is damaged: {error.file} is gone or not what was written",
                hint="restore from another savepoint",
            ) from error
        path.touch(mode=0o600)
        path.write_bytes(mine)


def _make_own(home: SessionHome, uri: str, adapt: Callable[[SessionHome, ControlDb], None]) -> None:
    """Migrate control.db to this version, and release the session from its owning process."""
    with closing(ControlDb(home.path)) as control:
        with control.transaction() as connection:
            connection.executemany("DELETE FROM meta WHERE key = ?", [(key,) for key in _OF_THE_FIRST])
        forget_mirror(control)
        set_meta(control, "restored", uri)
        adapt(home, control)
        control.connection().execute("PRAGMA wal_checkpoint(TRUNCATE)")


class KnownSavepoint(msgspec.Struct, frozen=True):
    """The last savepoint of a session, as recorded in the session."""

    uri: str
    step: int
    saved_us: int


def remember_savepoint(control: ControlDb, uri: str, savepoint: Savepoint) -> None:
    """Record the last savepoint of a session, so that errors about lost files can name it."""
    place = uri if "://" in uri else str(Path(uri).expanduser().absolute())
    known = KnownSavepoint(place, savepoint.staged.step, savepoint.saved_us)
    set_meta(control, _LAST, msgspec.json.encode(known).decode())


def last_savepoint(control: ControlDb) -> KnownSavepoint | None:
    """Return the last savepoint of a session; None if it has none."""
    known = get_meta(control, _LAST)
    return None if known is None else msgspec.json.decode(known, type=KnownSavepoint)
