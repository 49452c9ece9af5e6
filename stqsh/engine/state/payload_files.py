"""The spool: pass large payloads between processes by name, in files or in blobs.

Through Spark a payload is copied and packed five times between two operators: Arrow, Java's rows, the
shuffle's files, and back. Instead, a payload of some kB is written once, into a file, and its chunk
carries a reference (`stqsh.spec.payload_refs`), which the receiver maps. Where driver and workers share a
machine, files in transit are beside the arena, in memory if there is room. The update log's own payloads
("rows" and "updates") are written to their final folder, the home's `updates/`, under a hidden name until
Deliver puts them in place. On a cluster all are blobs of the session's storage, one or two per task, so that
only references pass through the driver, and Deliver downloads the update log's own payloads into the home.

Processor time of a million records in batches of a million, `bench range`, measured in pairs under load: at
100 000 rectangles Java takes 4.7 s without the spool and 1.4 s with it, workers 3.3 s and 1.7 s; at 10 000
rectangles Java takes 2.9 s and 1.5 s, workers 1.3 s and 0.9 s. A part of this gain comes from logs that refer
to records (`stqsh.engine.ingest.record_replay`).

Nothing stale is ever read: each attempt at a task writes a file with a unique name, and references only come
from attempts that Spark accepted. A batch that Spark repeats writes all payloads again, so files in transit
are needed only until the batch is delivered; the next engine deletes the files of a dead one. If a file
cannot be written, the payload stays in its chunk; a blob that cannot be written fails the task.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from stqsh.checksums import Seal
from stqsh.engine.config import TUNING
from stqsh.fs import settle
from stqsh.spec.chunk import Chunk
from stqsh.spec.payload_refs import ENDING, PayloadReader, Reference, reference_in
from stqsh.storage.blobs import Blobs, open_blobs
from stqsh.storage.home import SessionHome

#: Payloads begin at multiples of this, because their columns require alignment.
_ALIGNMENT = 64
_LOGGED = ("rows", "updates")
#: Payloads of at most this many bytes are copied, because a view of one keeps its whole file alive.
_COPIED_BYTES = 64 << 10
#: A blob in transit is written when it reaches this many bytes, and the next one begins.
_LARGE_BLOB = 64 << 20
#: Maximum gap between two payloads that are read together: a separate request would take longer.
_GAP = 256 << 10
#: The maximum number of concurrent requests to storage.
_AT_ONCE = 8
#: The clock stays inside the update log's file of a batch, however many snapshots it contains.
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
    def place(self) -> str:
        """The argument with which `open_spool` reopens this spool."""
        return str(self.transit)

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

    def files(self, name: str) -> dict[bool, PayloadFile]:
        """Return the files of a task for payloads in transit (False) and for those that stay (True)."""
        unique = uuid.uuid4().hex
        return {
            False: _File(self.transit / f"{name}.{unique}{ENDING}", self.reserve),
            True: _File(self.log / f".{name}.{unique}{ENDING}", 0),
        }

    def read(self, chunks: Iterable[Chunk]) -> Callable[[Chunk, Reference], Any]:
        """Return a function that reads the payloads to which chunks refer."""
        folders = {False: PayloadReader(self.transit), True: PayloadReader(self.log)}
        return lambda chunk, reference: folders[chunk.kind in _LOGGED].read(reference)

    def bring(self, chunks: pa.Table) -> None:
        """Do nothing: the payloads of the update log are in their final folder."""


@dataclass(frozen=True, slots=True)
class PayloadBlobs:
    """The blobs of a session's large payloads, on a cluster.

    Attributes:
        blobs: the blobs in transit.
        log: the folder of the update log, for the payloads that stay there; on the driver's host only.
        least: smaller payloads (bytes) go through Spark as they are.
    """

    blobs: Blobs
    log: Path
    least: int
    ahead: ClassVar[None] = None

    @property
    def place(self) -> str:
        """The argument with which `open_spool` reopens this spool."""
        return self.blobs.uri

    def clear(self) -> None:
        """Delete the blobs in transit, in the background: their batch is delivered."""
        names = self.blobs.names()
        threading.Thread(target=self.blobs.delete, args=(names,), name="payloads", daemon=True).start()

    def prepare(self) -> None:
        """Delete what an earlier engine left unfinished."""
        self.clear()
        for file in self.log.glob(".*"):
            file.unlink(missing_ok=True)

    def files(self, name: str) -> dict[bool, PayloadFile]:
        """Return the blobs of a task for payloads in transit (False) and for those that stay (True)."""
        return {stays: _Blob(self.blobs, name, stays) for stays in (False, True)}

    def read(self, chunks: Iterable[Chunk]) -> Callable[[Chunk, Reference], Any]:
        """Return a function that reads the payloads to which chunks refer; all are fetched at once.

        Raises:
            DamagedFileError: a blob is missing.
        """
        references = [found for chunk in chunks if (found := reference_in(chunk.payload)) is not None]
        spans = [*_spans(references)]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            contents = pool.map(lambda span: self.blobs.read_range(*span), spans)
            read = dict(zip(spans, contents, strict=True))

        def payload(chunk: Chunk, reference: Reference) -> Any:
            [(span, content)] = [
                (span, content)
                for span, content in read.items()
                if span.file == reference.file and 0 <= reference.at - span.at < span.size
            ]
            found = content.slice(reference.at - span.at, reference.size)
            if reference.checksum is not None:
                Seal(reference.size, reference.checksum).check(memoryview(found), reference.file)
            return found

        return payload

    def bring(self, chunks: pa.Table) -> None:
        """Download the payloads of the update log into their final folder, under hidden names.

        Raises:
            DamagedFileError: a payload is missing or damaged.
        """
        logged = chunks.filter(pc.is_in(chunks.column("kind"), value_set=pa.array(_LOGGED)))
        files: dict[str, list[Reference]] = {}
        for payload in logged.column("payload").to_pylist():
            if (reference := reference_in(payload)) is not None:
                files.setdefault(reference.file, []).append(reference)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for _ in pool.map(self._bring, files.items()):
                pass

    def _bring(self, file: tuple[str, list[Reference]]) -> None:
        name, references = file
        content = self.blobs.read(name.lstrip("."))
        for reference in references:
            assert reference.checksum is not None, "payloads that stay have one"
            part = memoryview(content)[reference.at : reference.at + reference.size]
            Seal(reference.size, reference.checksum).check(part, name)
        (self.log / name).write_bytes(memoryview(content))
        settle(self.log / name)


Spool: TypeAlias = "PayloadFolders | PayloadBlobs"
"""The location of a session's large payloads."""


def open_spool(home: Path, place: str, least: int) -> Spool:
    """Return the folders or blobs of a session's payloads.

    Args:
        home: the session's directory.
        place: the folder for payloads in transit, or the URI for blobs.
        least: smaller payloads (bytes) go through Spark as they are.
    """
    if "://" in place:
        return PayloadBlobs(open_blobs(place), SessionHome(home).updates, least)
    return PayloadFolders(home, Path(place), least)


class Span(NamedTuple):
    """A range of a blob that is read in one request."""

    file: str
    at: int
    size: int


def _spans(references: Iterable[Reference]) -> Iterator[Span]:
    """Yield the ranges of references, with neighbouring ranges merged."""
    span: Span | None = None
    for reference in sorted(references, key=lambda one: (one.file, one.at)):
        end = reference.at + reference.size
        if span is not None and span.file == reference.file and reference.at - span.at - span.size <= _GAP:
            span = span._replace(size=max(span.size, end - span.at))
            continue
        if span is not None:
            yield span
        span = Span(reference.file, reference.at, reference.size)
    if span is not None:
        yield span


@contextmanager
def open_writer(spool: Spool | None, name: str) -> Iterator[PayloadWriter]:
    """Open a writer for a task's payloads; `name` (operator and slot) is part of the files' names."""
    outgoing = PayloadWriter(spool, name)
    try:
        yield outgoing
    finally:
        outgoing.close()


class PayloadWriter:
    """Writes payloads into files or blobs; without a spool all stay in their chunks."""

    def __init__(self, spool: Spool | None, name: str) -> None:
        self._spool = spool
        self._files = {} if spool is None else spool.files(name)

    def put(self, chunk: Chunk, again: Any = None) -> Chunk:
        """Return the chunk with its payload moved to a file, or unchanged if that is not worthwhile or fails.

        `again` is JSON from which the receiver can remake the payload, see `Reference`.
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
        return replace(chunk, payload=Reference(file.name, at, size, again, checksum).packed())

    def close(self) -> None:
        """Close the files; sync those that stay, if durability requires it.

        Raises:
            StorageError: a blob cannot be written.
        """
        for file in self._files.values():
            file.close()


class PayloadFile(Protocol):
    """The payloads of a task, one after the other."""

    @property
    def name(self) -> str:
        """The file name in references."""

    def append(self, payload: bytes) -> int | None:
        """Write a payload, and return its offset; None if it cannot be written."""

    def close(self) -> None:
        """Make the written payloads readable to others."""


class _Blob:
    """A blob, written when it is closed, or, in transit, when it is large enough."""

    def __init__(self, blobs: Blobs, task: str, stays: bool) -> None:
        self._blobs, self._task, self._stays = blobs, task, stays
        self._begin()

    def _begin(self) -> None:
        hides = "." if self._stays else ""  # the update log hides files that are not in place
        self.name = f"{hides}{self._task}.{uuid.uuid4().hex}{ENDING}"
        self._pieces: list[bytes] = []
        self._end = 0

    def append(self, payload: bytes) -> int:
        """Buffer a payload, and return its offset."""
        if self._end >= _LARGE_BLOB and not self._stays:
            self.close()
        at = -(-self._end // _ALIGNMENT) * _ALIGNMENT
        self._pieces += [bytes(at - self._end), payload]
        self._end = at + len(payload)
        return at

    def close(self) -> None:
        """Write the blob, if it has payloads."""
        if self._pieces:
            self._blobs.put(self.name.lstrip("."), self._pieces)
            self._begin()


class _File:
    """A file that is created for its first payload, and accepts no more once one did not fit.

    With `room_left` it is in transit and leaves that much space free on its disk; otherwise it stays.
    """

    def __init__(self, path: Path, room_left: int) -> None:
        self.path, self._room_left = path, room_left
        self.name = path.name
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

    def close(self) -> None:
        """Close the file, if it was created; sync it if it stays and durability requires it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            if not self._room_left:
                settle(self.path)

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


def load_payloads(chunks: list[Chunk], spool: Spool | None) -> list[Chunk]:
    """Return chunks with their payloads instead of references; large payloads are views of mapped files.

    Raises:
        ValueError: there is a reference but no spool.
        DamagedFileError: a file is missing.
    """
    if all(reference_in(chunk.payload) is None for chunk in chunks):
        return chunks
    if spool is None:
        raise ValueError("a chunk refers to a file, and there is no spool")
    read = spool.read(chunks)
    return [_load_payload(chunk, read) for chunk in chunks]


def _load_payload(chunk: Chunk, read: Callable[[Chunk, Reference], Any]) -> Chunk:
    reference = reference_in(chunk.payload)
    if reference is None:
        return chunk
    payload: Any = memoryview(read(chunk, reference))
    if reference.size <= _COPIED_BYTES:
        copy: Any = memoryview(pa.allocate_buffer(reference.size))  # aligned, because columns require it
        copy[:] = payload
        payload = copy
    return replace(chunk, payload=payload)
