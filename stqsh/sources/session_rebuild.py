"""Rebuild a session's home from its storage, on a host that does not have it.

Below the URI of `session.storage` there is a folder for each session, named by its uuid; `sessions/NAME`
contains the uuid of the session with that name. The home gets the control log, the update log, the replay
stores and the tables; Spark's checkpoint and the slots' states are read from the storage.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from stqsh.checksums import DamagedFileError, with_seal, without_seal
from stqsh.fs import atomic_write
from stqsh.sources.live.line_spool import SPOOL, WHOLE
from stqsh.sources.replay_store.manifest import MANIFEST, published_manifests
from stqsh.storage.blobs import Blobs, find_checkpoint, open_blobs
from stqsh.storage.control_mirror import restore_control
from stqsh.storage.home import SessionHome

_NAMES = "sessions/"


def publish_name(storage: Blobs, name: str, session: str) -> None:
    """Record in a storage which session, by its uuid, has a name."""
    storage.put(f"{_NAMES}{name}", [with_seal(session.encode())])


def forget_name(storage: Blobs, name: str, session: str) -> None:
    """Delete all content of a storage for a session that is removed."""
    if _session_of(storage, name) == session:
        storage.delete([f"{_NAMES}{name}"])
    files = storage.below(session)
    files.delete(files.names())


def rebuild_home(home: SessionHome, uri: str, cache: str = "") -> bool:
    """Create a new home from the session of its name in a storage; return whether there is one.

    Raises:
        DamagedFileError: a file in the storage is missing or damaged.
        StorageError: the storage does not answer.
    """
    if home.control_db.exists() and home.control_db.stat().st_size:
        return False
    storage = open_blobs(uri, cache)
    session = _session_of(storage, home.name)
    if session is None:
        return False
    blobs = storage.below(session)
    _fetch_stores(home, blobs)
    find_checkpoint(home.path, blobs)
    return restore_control(home, blobs)


def _session_of(storage: Blobs, name: str) -> str | None:
    try:
        sealed = storage.read(f"{_NAMES}{name}")
    except DamagedFileError:
        return None
    return without_seal(bytes(memoryview(sealed)), f"{_NAMES}{name}").decode()


def _fetch_stores(home: SessionHome, blobs: Blobs) -> None:
    """Copy the parts of replay stores and tables that batches have read into a home."""
    for folder in sorted({PurePosixPath(name).parts[:2] for name in blobs.names("streams/")}):
        files, directory = blobs.below("/".join(folder)), home.path.joinpath(*folder)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        manifests = published_manifests(files)
        for name in files.names():
            if "/" not in name and name not in manifests:
                atomic_write(directory / name, memoryview(files.read(name)))
        _fetch_spool(directory / SPOOL, files.below(SPOOL))
        if manifests:
            atomic_write(directory / MANIFEST, memoryview(files.read(manifests[-1])))
    for name in blobs.names("tables/"):
        (home.path / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        atomic_write(home.path / name, memoryview(blobs.read(name)))


def _fetch_spool(spool: Path, parts: Blobs) -> None:
    """Make a spool of the parts that batches have read, in order, because the last one has its end."""
    names = parts.names()
    whole = [name.removesuffix(WHOLE) for name in names if name.endswith(f"/{WHOLE}")]
    for name in (name for name in names if name.startswith(tuple(whole)) and not name.endswith(f"/{WHOLE}")):
        spool.mkdir(mode=0o700, exist_ok=True)
        atomic_write(spool / PurePosixPath(name).name, memoryview(parts.read(name)), private=True)
