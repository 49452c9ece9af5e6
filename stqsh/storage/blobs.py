"""Blobs: sealed, immutable, uniquely named files of a session below a URI that every host can reach.

By default the URI is that of the session's home, and blobs are the home's own files under their usual names.
Otherwise it is a folder in a file system that hosts share, in an object store, or in HDFS. A process opens a
blob by name and gets exactly the content that was written, or an error. Credentials come from the environment
and from files that the clients of these stores read, never from the URI.
"""

from __future__ import annotations

import hashlib
import logging
import os
import random
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import SplitResult, parse_qs, quote_from_bytes, unquote, unquote_to_bytes, urlsplit

from stqsh.checksums import Buffer, DamagedFileError, Seal, Sealer
from stqsh.errors import StqshError
from stqsh.fs import atomic_write, file_lock, replacing

if TYPE_CHECKING:  # processes that only list files of a home do without pyarrow
    import pyarrow as pa
    from pyarrow.fs import FileSystem

log = logging.getLogger("stqsh.engine")
T = TypeVar("T")

SCHEMES = ("file", "s3", "gs", "abfs", "abfss", "hdfs")
"""The supported URI schemes; a `file` folder is visible to every host of the session."""
_CHECKPOINT_PLACE = "checkpoint.uri"
"""The file of a home that contains the place of Spark's checkpoint, if that is elsewhere."""
_CHECKPOINT, _LATER = "checkpoint", "checkpoints/"
"""The folders of the first checkpoint and of its successors, which are named by their first batches."""
BEFORE_FIRST = "initial"
"""The file of a successor's folder with the offset before its first batch; it is written last."""
RETRY_S = 60.0
"""How long a request to a failing store is repeated, in seconds."""
_WAIT_S, _LONGEST_WAIT_S = 0.1, 5.0
_REQUEST_S, _CONNECT_S = 30.0, 5.0
_RENAMING = ("hdfs",)
"""Stores that show a file to others while it is written; a file gets its name by renaming when complete."""
_HOPELESS = ("ACCESS_DENIED", "NO_SUCH_BUCKET", "INVALID_ACCESS_KEY", "SIGNATURE_DOES_NOT_MATCH")
"""Parts of object stores' error messages for which a retry is pointless."""
_SCRATCH = ("SPARK_EXECUTOR_DIRS", "LOCAL_DIRS", "SPARK_LOCAL_DIRS")
"""Variables in which Spark's masters name an executor's folders; those that only executors have are first."""
_SPARE_BYTES = 1 << 30
"""Free space in bytes below which a host's cache deletes its least recently used files."""


class StorageError(StqshError):
    """A session's storage refuses a request, or a URI names no storage."""


class StorageAwayError(StorageError):
    """A session's storage fails or does not answer at the moment."""


@dataclass(frozen=True, slots=True)
class Blobs:
    """The blobs below a URI. It can be pickled, and opens its store in each process on first use.

    Attributes:
        uri: the URI, without a slash at its end; options of the store follow after `?`.
        cache: the folder for this host's copies, private to the user; "" for one that Spark provides.
        at_home: whether these are the files of the session's home, some of which are written in place.
        within: the prefix of names in error messages, with a slash at its end.
    """

    uri: str
    cache: str = ""
    at_home: bool = False
    within: str = ""

    @property
    def folder(self) -> Path | None:
        """The folder of blobs that are files; None if they are in a store, from which hosts copy them."""
        parts = urlsplit(self.uri)
        return Path(os.fsdecode(unquote_to_bytes(parts.path))) if parts.scheme == "file" else None

    def below(self, name: str) -> Blobs:
        """Return the blobs in a folder; the result omits the folder's name from theirs."""
        base, mark, options = self.uri.partition("?")
        return replace(self, uri=f"{base}/{_quoted(name)}{mark}{options}", within=f"{self.within}{name}/")

    def put(self, name: str, pieces: Iterable[Buffer | pa.Buffer]) -> Seal:
        """Write a blob atomically, and return its seal.

        Raises:
            StorageError: the store fails for longer than `RETRY_S`.
            OSError: the file cannot be written, for instance because the disk is full.
        """
        views = (memoryview(piece) for piece in pieces)
        sealer, folder = Sealer(), self.folder
        if folder is None:
            content = [*sealer.through(views)]  # keep all of it, so that the write can be retried
            self._try(name, lambda store, path: _write(store, path, content, self._is_renaming))
            return sealer.seal
        path = folder / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(path) as hidden, hidden.open("wb") as file:
            file.writelines(sealer.through(views))
        return sealer.seal

    def read(self, name: str, seal: Seal | None = None) -> pa.Buffer:
        """Return the content of a blob; a file is memory-mapped.

        Raises:
            DamagedFileError: the blob is missing or differs from what was written.
            StorageError: the store fails for longer than `RETRY_S`.
        """
        folder = self.folder
        content = self._try(name, _read) if folder is None else _map(folder / name, self.within + name)
        if seal is not None:
            with suppress(DamagedFileError):
                seal.check(memoryview(content), name)
                return content
            content = content if folder else self._try(name, _read)  # the transfer may have been cut short
            seal.check(memoryview(content), self.within + name)
        return content

    def read_range(self, name: str, start: int, size: int) -> pa.Buffer:
        """Return `size` bytes of a blob from `start` on.

        Raises:
            DamagedFileError: the blob is missing or too short.
            StorageError: the store fails for longer than `RETRY_S`.
        """
        if (folder := self.folder) is not None:
            found = _map(folder / name, self.within + name)[start : start + size]
        else:
            found = self._try(name, partial(_read, start=start, size=size))
        if found.size < size:
            raise DamagedFileError(
                self.within + name, f"is cut short: it has no {size} bytes from {start} on"
            )
        return found

    def local(self, name: str, seal: Seal | None = None) -> Path:
        """Return the path of a file with the content of a blob: the blob's own file, or this host's copy.

        A copy is verified once, when it is made; a blob's own file is not verified.

        Raises:
            DamagedFileError: the blob is missing or differs from what was written.
            StorageError: the store fails for longer than `RETRY_S`.
        """
        if (folder := self.folder) is not None:
            return folder / name
        at, _, file = f"{self.uri}/{name}".rpartition("/")
        copy = host_cache(self.cache) / hashlib.sha256(at.encode()).hexdigest()[:24] / file
        try:
            os.utime(copy)  # marks it as recently used
        except FileNotFoundError:
            self._copy(name, seal, copy)
        return copy

    def names(self, prefix: str = "") -> list[str]:
        """Return the names of all blobs that begin with a prefix, sorted.

        Raises:
            StorageError: the store fails for longer than `RETRY_S`.
        """
        within = prefix.rpartition("/")[0]
        if (folder := self.folder) is not None:
            found = [path.relative_to(folder).as_posix() for path in _files(folder / within)]
        else:
            found = self._try(within, _list)
            found = [f"{within}/{name}" if within else name for name in found]
        is_hidden = (name.rpartition("/")[2].startswith(".") for name in found)
        return sorted(
            name
            for name, hides in zip(found, is_hidden, strict=True)
            if name.startswith(prefix) and not hides
        )

    def delete(self, names: Iterable[str]) -> None:
        """Delete blobs; missing ones are ignored.

        Raises:
            StorageError: the store fails for longer than `RETRY_S`.
        """
        folder = self.folder
        for name in names:
            with suppress(FileNotFoundError, DamagedFileError):
                if folder is not None:
                    (folder / name).unlink()
                else:
                    self._try(name, lambda store, path: store.delete_file(path))

    @property
    def _is_renaming(self) -> bool:
        return urlsplit(self.uri).scheme in _RENAMING

    def _copy(self, name: str, seal: Seal | None, copy: Path) -> None:
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with file_lock(copy.with_name(f".{copy.name}.lock")):  # one process of the host copies it
            if copy.exists():
                return
            content = self.read(name, seal)
            _make_room(copy.parent.parent, content.size)
            with replacing(copy, private=True, durable=False) as hidden:
                hidden.write_bytes(memoryview(content))

    def _try(self, name: str, ask: Callable[[FileSystem, str], T]) -> T:
        """Send a request for a blob to the store, and repeat it for up to `RETRY_S` if it fails."""
        from pyarrow import ArrowException

        parts = urlsplit(self.uri)
        until, wait = time.monotonic() + RETRY_S, _WAIT_S
        while True:
            try:
                store, base = _open_store(self.uri, os.getpid())
                return ask(store, f"{base}/{name}" if name else base)
            except FileNotFoundError:
                raise DamagedFileError(self.within + name, "is gone") from None
            except (OSError, RuntimeError, ArrowException) as error:
                is_hopeless = isinstance(error, PermissionError) or any(
                    part in str(error) for part in _HOPELESS
                )
                if is_hopeless or time.monotonic() + wait > until:
                    raise (StorageError if is_hopeless else StorageAwayError)(
                        f"the session's storage {parts.scheme}://{parts.netloc} fails: {_said(error)}",
                        hint="look at session.storage, at the store, and at what it logs",
                    ) from error
                log.warning("the session's storage fails, and is asked again: %s", _said(error))
            time.sleep(wait * random.uniform(0.5, 1.0))
            wait = min(2 * wait, _LONGEST_WAIT_S)


def open_blobs(uri: str, cache: str = "") -> Blobs:
    """Return the blobs below a URI, without contacting the store.

    Args:
        uri: `file:///folder`, `s3://bucket/folder`, `gs://…`, `abfs://…` or `hdfs://host:port/folder`.
        cache: the folder for this host's copies, private to the user; "" for one that Spark provides.

    Raises:
        StorageError: the URI names no known store, or contains credentials.
    """
    parts = urlsplit(uri)
    if parts.scheme not in SCHEMES or not (parts.netloc or parts.scheme == "file"):
        raise StorageError(
            f"session.storage '{_without_user(parts)}' names no store",
            hint="file:///folder, s3://bucket/folder, gs://, abfs:// or hdfs://host:port/folder",
        )
    options = parse_qs(parts.query).keys()
    if parts.password is not None or options & {"access_key", "secret_key", "account_key", "sas_token"}:
        raise StorageError(
            f"session.storage '{_without_user(parts)}' has credentials in it",
            hint="give them in the environment or in the files that the store's clients read",
        )
    base, mark, options_text = uri.partition("?")
    return Blobs(f"{base.rstrip('/')}{mark}{options_text}", cache)


def home_blobs(folder: Path, within: str = "") -> Blobs:
    """Return the blobs that are the files of a session's home, or of a folder in it.

    `within` is the prefix of names in error messages.
    """
    uri = f"file://{_quoted(os.fsencode(folder.absolute()))}".rstrip("/")
    return Blobs(uri, at_home=True, within=within)


@dataclass(frozen=True, slots=True)
class S3Access:
    """The way to a server of S3.

    Attributes:
        endpoint: the server's address, perhaps with a scheme; None for Amazon's.
        scheme: the scheme of an address without one.
        region: the region; None if nobody names it.
    """

    endpoint: str | None
    scheme: str
    region: str | None

    @property
    def url(self) -> str:
        """The server's URL; "" for Amazon's."""
        if not self.endpoint or "://" in self.endpoint:
            return self.endpoint or ""
        return f"{self.scheme}://{self.endpoint}"


def s3_access(uri: str) -> S3Access:
    """Return the way to the server of an `s3` URI, from its options and the environment."""
    options = {name: values[-1] for name, values in parse_qs(urlsplit(uri).query).items()}
    environ = os.environ.get
    endpoint = (
        options.get("endpoint_override") or environ("AWS_ENDPOINT_URL_S3") or environ("AWS_ENDPOINT_URL")
    )
    region = options.get("region") or environ("AWS_REGION") or environ("AWS_DEFAULT_REGION")
    return S3Access(endpoint, options.get("scheme", "https"), region)


def checkpoint_blobs(home: Path) -> Blobs:
    """Return the blobs of the Spark checkpoint that a home uses."""
    try:
        place = (home / _CHECKPOINT_PLACE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return home_blobs(home / _CHECKPOINT)
    if "://" not in place:
        return home_blobs(home / place)
    return replace(open_blobs(place), within=f"{_CHECKPOINT}/")


def place_checkpoint(home: Path, blobs: Blobs) -> None:
    """Record in a home without a checkpoint that Spark's checkpoint is in the session's storage."""
    if not any((home / name).exists() for name in (_CHECKPOINT, _CHECKPOINT_PLACE)):
        atomic_write(home / _CHECKPOINT_PLACE, blobs.below(_CHECKPOINT).uri.encode())


def later_checkpoint(blobs: Blobs, batch: int) -> Blobs:
    """Return the blobs of a successor checkpoint that begins with a batch."""
    return blobs.below(f"{_LATER}{batch}")


def place_later_checkpoint(home: Path, blobs: Blobs, batch: int) -> None:
    """Make Spark continue with the successor checkpoint that begins with a batch."""
    place = f"{_LATER}{batch}" if blobs.at_home else later_checkpoint(blobs, batch).uri
    atomic_write(home / _CHECKPOINT_PLACE, place.encode())


def find_checkpoint(home: Path, blobs: Blobs) -> None:
    """Make a new home continue with the last checkpoint in a session's storage."""
    later = [name.split("/")[1] for name in blobs.names(_LATER) if name.endswith(f"/{BEFORE_FIRST}")]
    if later:
        place_later_checkpoint(home, blobs, max(map(int, later)))
    elif blobs.names(f"{_CHECKPOINT}/"):
        place_checkpoint(home, blobs)


@lru_cache(maxsize=8)
def host_cache(folder: str) -> Path:
    """Return the folder for this host's copies of blobs, private to its user (mode 0700).

    Args:
        folder: the folder; "" for one in the executor's folder, or one of this process if Spark provides
            none.
    """
    given = next((os.environ[name].split(",")[0] for name in _SCRATCH if os.environ.get(name)), "")
    if not folder and given:
        folder = str(Path(given) / f"stqsh-blobs-{os.getuid()}")
    path = Path(folder) if folder else Path(tempfile.mkdtemp(prefix="stqsh-"))
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise StorageError(f"the folder {path} for copies of blobs is open to others", hint="chmod 700 it")
    return path


def _quoted(path: str | bytes) -> str:
    return quote_from_bytes(os.fsencode(path), safe="/:=@,+~")


def _without_user(parts: SplitResult) -> str:
    place = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}{parts.path}" if parts.scheme else parts.path


def _said(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


@lru_cache(maxsize=16)
def _open_store(uri: str, process: int) -> tuple[FileSystem, str]:
    """Open the store of a URI, separately in each forked process; return it and the URI's path in it."""
    del process
    from pyarrow import fs

    parts = urlsplit(uri)
    path = unquote(parts.path).rstrip("/")
    if parts.scheme == "s3":
        return _open_s3(uri), f"{parts.netloc}{path}"
    if parts.scheme == "hdfs":
        return _open_hdfs(parts), path
    return fs.FileSystem.from_uri(uri)


def _open_s3(uri: str) -> FileSystem:
    from pyarrow import fs

    access = s3_access(uri)
    region = access.region
    known: dict[str, Any] = {"scheme": access.scheme}
    known["allow_delayed_open"] = True  # a blob of some MB is one request
    if region is None and not access.endpoint:
        region = fs.resolve_s3_region(urlsplit(uri).netloc)
    return fs.S3FileSystem(
        region=region,
        endpoint_override=access.endpoint,
        connect_timeout=_CONNECT_S,
        request_timeout=_REQUEST_S,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1),  # `Blobs` does the retries
        **known,
    )


def _open_hdfs(parts: SplitResult) -> FileSystem:
    from pyarrow import fs

    try:
        from hdfs_native.fsspec import HdfsFileSystem
    except ImportError as error:
        raise StorageError("HDFS needs one more package", hint="pip install 'stqsh[hdfs]'") from error
    handler: Any = fs.FSSpecHandler  # the stubs declare it abstract
    return fs.PyFileSystem(handler(HdfsFileSystem(host=parts.hostname, port=parts.port)))


def _write(store: FileSystem, path: str, pieces: list[memoryview], is_renaming: bool) -> None:
    if not is_renaming:
        with store.open_output_stream(path) as stream:
            for piece in pieces:
                stream.write(piece)
        return
    folder, _, name = path.rpartition("/")
    hidden = f"{folder}/.{name}.{uuid.uuid4().hex}"
    store.create_dir(folder, recursive=True)
    with store.open_output_stream(hidden) as stream:
        for piece in pieces:
            stream.write(piece)
    [found] = store.get_file_info([path])
    if found.is_file:  # an earlier attempt succeeded without a reply
        store.delete_file(path)
    store.move(hidden, path)


def _read(store: FileSystem, path: str, start: int = 0, size: int | None = None) -> pa.Buffer:
    with store.open_input_file(path) as file:
        file.seek(start)
        return file.read_buffer(file.size() - start if size is None else size)


def _list(store: FileSystem, path: str) -> list[str]:
    from pyarrow.fs import FileSelector

    found = store.get_file_info(FileSelector(path, allow_not_found=True, recursive=True))
    return [info.path[len(path) :].lstrip("/") for info in found if info.is_file]


def _map(path: Path, name: str) -> pa.Buffer:
    from pyarrow import memory_map

    try:
        with memory_map(str(path)) as mapped:
            return mapped.read_buffer()
    except FileNotFoundError:
        raise DamagedFileError(name, "is gone") from None


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _make_room(cache: Path, size: int) -> None:
    """Delete a host's least recently used copies until its disk has room for `size` bytes to spare."""
    known = sorted(
        (path for path in _files(cache) if path.suffix != ".lock"), key=lambda p: p.stat().st_mtime
    )
    for path in known:
        found = os.statvfs(cache)
        if found.f_bavail * found.f_frsize > size + _SPARE_BYTES:
            return
        path.unlink(missing_ok=True)
