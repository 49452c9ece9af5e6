"""The spool: large payloads are passed between processes by name, where driver and workers share a machine.

Through Spark a payload is copied and packed five times between two operators: Arrow, Java's rows, the
shuffle's files, and back. Instead, a payload of some kB is written once, into a file, and its chunk
carries a reference (`stqsh.spec.payload_refs`), which the receiver maps. Files in transit are beside the
arena, in memory where there is room. The update log's own ("rows" and "updates") are written where they stay,
in the home's `updates/`, under a hidden name until Deliver puts them in place.

Processor time of a million records in batches of a million, `bench range`, measured in pairs under load: at
100 000 rectangles Java takes 4.7 s without the spool and 1.4 s with it, workers 3.3 s and 1.7 s; at 10 000
rectangles Java takes 2.9 s and 1.5 s, workers 1.3 s and 0.9 s. A part of this gain comes from logs that name
records (`stqsh.engine.ingest.record_replay`).

Nothing stale is ever read: each attempt at a task writes a file of its own name, and references only come
from attempts that Spark accepted. A batch that Spark repeats makes all payloads again, so files in transit
are needed until the batch is delivered, and no longer; the next engine deletes what a dead one left.
Where a file cannot be written the payload stays in its chunk.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from stqsh.checksums import Seal
from stqsh.engine.config import TUNING
from stqsh.fs import settle
from stqsh.spec.chunk import Chunk
from stqsh.spec.payload_refs import ENDING, PayloadReader, Reference, reference_in
from stqsh.storage.home import SessionHome

#: Payloads begin at multiples of this, as the columns within require.
_ALIGNMENT = 64
_LOGGED = ("rows", "updates")
#: Payloads of at most this many bytes are copied: as long as a view of one lives, so does its whole file.
_COPIED_BYTES = 64 << 10
#: The update log's file of a batch holds the clock itself, however many snapshots it asks for.
_ALWAYS_WITHIN = ("clock",)


@dataclass(frozen=True, slots=True)
class PayloadFolders:
    """The folders of a session's large payloads.

    Attributes:
        home: the session's directory.
        transit: the folder for payloads in transit.
        least: smaller payloads (bytes) go through Spark as they are.
        reserve: bytes that stay free on the disk of `transit`.
    """

    home: Path
    transit: Path
    least: int
    reserve: int = TUNING.payload_reserve_bytes

    @property
    def log(self) -> Path:
        """The folder of the update log, for the payloads that stay there."""
        return SessionHome(self.home).updates

    @property
    def ahead(self) -> Path:
        """The folder for messages that are read ahead."""
        return self.transit.parent / "ahead"

    def clear(self) -> None:
        """Delete the files in transit: their batch is delivered."""
        for file in self.transit.glob(f"*{ENDING}"):
            file.unlink(missing_ok=True)

    def prepare(self) -> None:
        """Make the folders, and delete what an earlier engine left unfinished."""
        for folder in (self.transit.parent, self.transit):  # private to this user
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.clear()
        for file in self.log.glob(".*"):
            file.unlink(missing_ok=True)


@contextmanager
def open_writer(spool: PayloadFolders | None, name: str) -> Iterator[PayloadWriter]:
    """Open a writer for a task's payloads; `name` (operator and slot) is part of the files' names."""
    outgoing = PayloadWriter(spool, name)
    try:
        yield outgoing
    finally:
        outgoing.close()


class PayloadWriter:
    """Writes payloads into files, one for each folder; without a spool all stay in their chunks."""

    def __init__(self, spool: PayloadFolders | None, name: str) -> None:
        self._spool, self._files = spool, {}
        if spool is not None:
            unique = uuid.uuid4().hex
            self._files = {
                False: _File(spool.transit / f"{name}.{unique}{ENDING}", spool.reserve),
                True: _File(spool.log / f".{name}.{unique}{ENDING}", 0),
            }

    def put(self, chunk: Chunk, again: Any = None) -> Chunk:
        """Return the chunk with its payload put into a file, or unchanged if that does not pay or work.

        `again` is JSON from which the receiver can make the payload again, see `Reference`.
        """
        size = len(chunk.payload)
        if self._spool is None or size < self._spool.least or chunk.kind in _ALWAYS_WITHIN:
            return chunk
        stays = chunk.kind in _LOGGED
        file = self._files[stays]
        at = file.append(chunk.payload)
        if at is None:
            return chunk
        checksum = Seal.of(chunk.payload).checksum if stays else None
        return replace(chunk, payload=Reference(file.path.name, at, size, again, checksum).packed())

    def close(self) -> None:
        """Close the files; those that stay are on the disk, if durability asks for it."""
        for stays, file in self._files.items():
            file.close()
            if stays and file.is_made:
                settle(file.path)


class _File:
    """A file that is made with its first payload, and is closed to others once one did not fit."""

    def __init__(self, path: Path, room_left: int) -> None:
        self.path, self._room_left = path, room_left
        self._descriptor: int | None = None
        self._end, self._is_full = 0, False

    def append(self, payload: bytes) -> int | None:
        """Write a payload, and return its offset; None if it cannot be written."""
        at = -(-self._end // _ALIGNMENT) * _ALIGNMENT
        try:
            if self._is_full or not self._fits(len(payload)):
                return None
            _write_all(self._open(), payload, at)
        except OSError:
            self._is_full = True
            return None
        self._end = at + len(payload)
        return at

    @property
    def is_made(self) -> bool:
        """Whether a payload has been written."""
        return self._descriptor is not None

    def close(self) -> None:
        """Close the file, if it was made."""
        if self._descriptor is not None:
            os.close(self._descriptor)

    def _open(self) -> int:
        if self._descriptor is None:
            self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        return self._descriptor

    def _fits(self, size: int) -> bool:
        if not self._room_left:
            return True
        found = os.statvfs(self.path.parent)
        return found.f_bavail * found.f_frsize > size + self._room_left


def _write_all(descriptor: int, payload: bytes, at: int) -> None:
    view = memoryview(payload)
    while view:
        written = os.pwrite(descriptor, view, at)
        view, at = view[written:], at + written


def load_payloads(chunks: Iterable[Chunk], spool: PayloadFolders | None) -> list[Chunk]:
    """Return chunks with their payloads instead of references; large payloads are views of mapped files.

    Raises:
        ValueError: there is a reference, and no spool to look it up in.
        DamagedFileError: a file is gone.
    """
    folders = {} if spool is None else {False: PayloadReader(spool.transit), True: PayloadReader(spool.log)}
    return [_load_payload(chunk, folders) for chunk in chunks]


def _load_payload(chunk: Chunk, folders: dict[bool, PayloadReader]) -> Chunk:
    reference = reference_in(chunk.payload)
    if reference is None:
        return chunk
    if not folders:
        raise ValueError(f"a chunk of kind {chunk.kind!r} refers to a file, and there is no spool")
    payload: Any = memoryview(folders[chunk.kind in _LOGGED].read(reference))
    if reference.size <= _COPIED_BYTES:
        copy: Any = memoryview(pa.allocate_buffer(reference.size))  # aligned, as columns require
        copy[:] = payload
        payload = copy
    return replace(chunk, payload=payload)
