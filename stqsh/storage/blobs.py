"""Blobs: sealed, immutable, uniquely named files of a session below a URI, which every host can reach.

By default the URI is that of the session's home, so that blobs are the home's own files under their usual
names. Elsewhere it is a folder of a file system that hosts share, of an object store, or of HDFS. A process
opens what it needs by name, and gets what was written or one error. Credentials come from the environment
and from files that the clients of these stores know, never from the URI.
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
"""The schemes of URIs; `file` is a folder that all hosts of a session see, or one of the only host."""
_CHECKPOINT_PLACE = "checkpoint.uri"
"""The file of a home that says where Spark's checkpoint is, if it is elsewhere."""
_CHECKPOINT, _LATER = "checkpoint", "checkpoints/"
"""The folders of the first checkpoint, and of those that go on from others, named by their first batches."""
BEFORE_FIRST = "initial"
"""The file of such a folder that has the offset before its first batch; it comes last."""
RETRY_S = 60.0
"""How long a store that fails is asked again, in seconds."""
_WAIT_S, _LONGEST_WAIT_S = 0.1, 5.0
_REQUEST_S, _CONNECT_S = 30.0, 5.0
_RENAMING = ("hdfs",)
"""Stores in which others see a file while it is written: it gets its name by renaming."""
_HOPELESS = ("ACCESS_DENIED", "NO_SUCH_BUCKET", "INVALID_ACCESS_KEY", "SIGNATURE_DOES_NOT_MATCH")
"""Parts of the messages of object stores that another attempt does not change."""
_SCRATCH = ("SPARK_EXECUTOR_DIRS", "LOCAL_DIRS", "SPARK_LOCAL_DIRS")
"""Variables by which Spark's masters name the folders of an executor, first the ones that only it has."""
_SPARE_BYTES = 1 << 30
"""Free space below which a host's cache forgets what was used longest ago."""


class StorageError(StqshError):
    """A session's storage that does not answer, or a URI that names none."""


@dataclass(frozen=True, slots=True)
class Blobs:
    """The blobs below a URI. It can be pickled, and opens its store in each process when it is needed.

    Attributes:
        uri: the URI, without a slash at its end; options of the store follow behind `?`.
        cache: the folder for this host's copies, private to the user; "" for one that Spark gives.
        at_home: whether these are the files of the session's home itself, some of which are written in place.
        within: what stands before names in errors, with a slash at its end.
    """

    uri: str
    cache: str = ""
    at_home: bool = False
    within: str = ""

    @property
    def folder(self) -> Path | None:
        """The folder of blobs that are files; None for those of a store, which hosts copy."""
        parts = urlsplit(self.uri)
        return Path(os.fsdecode(unquote_to_bytes(parts.path))) if parts.scheme == "file" else None

    def below(self, name: str) -> Blobs:
        """Return the blobs whose names begin with a folder's, which are named without it."""
        base, mark, options = self.uri.partition("?")
        return replace(self, uri=f"{base}/{_quoted(name)}{mark}{options}", within=f"{self.within}{name}/")

    def put(self, name: str, pieces: Iterable[Buffer | pa.Buffer]) -> Seal:
        """Write a blob, whole or not at all, and return its seal.

        Raises:
            StorageError: the store fails for longer than `RETRY_S`.
            OSError: the file cannot be written, for instance as the disk is full.
        """
        views = (memoryview(piece) for piece in pieces)
        sealer, folder = Sealer(), self.folder
        if folder is None:
            content = [*sealer.through(views)]  # all of it, to try again
            self._try(name, lambda store, path: _write(store, path, content, self._is_renaming))
            return sealer.seal
        path = folder / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(path) as hidden, hidden.open("wb") as file:
            file.writelines(sealer.through(views))
        return sealer.seal

    def read(self, name: str, seal: Seal | None = None) -> pa.Buffer:
        """Return the content of a blob; that of a file is mapped.

        Raises:
            DamagedFileError: it is gone, or not what was written.
            StorageError: the store fails for longer than `RETRY_S`.
        """
        folder = self.folder
        content = self._try(name, _read) if folder is None else _map(folder / name, self.within + name)
        if seal is not None:
            with suppress(DamagedFileError):
                seal.check(memoryview(content), name)
                return content
            content = content if folder else self._try(name, _read)  # it may have been cut on its way
            seal.check(memoryview(content), self.within + name)
        return content

    def read_range(self, name: str, start: int, size: int) -> pa.Buffer:
        """Return `size` bytes of a blob from `start` on.

        Raises:
            DamagedFileError: the blob is gone or too short.
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
        """Return the path of a file with the content of a blob: a file itself, or this host's copy of a blob.

        A copy is checked once, when it is made; a file is not looked at.

        Raises:
            DamagedFileError: the blob is gone, or not what was written.
            StorageError: the store fails for longer than `RETRY_S`.
        """
        if (folder := self.folder) is not None:
            return folder / name
        at, _, file = f"{self.uri}/{name}".rpartition("/")
        copy = host_cache(self.cache) / hashlib.sha256(at.encode()).hexdigest()[:24] / file
        try:
            os.utime(copy)  # says that it is used
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
        """Delete blobs; those that are gone are no error.

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
        """Ask the store for a blob, and again for a while if it fails."""
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
                    raise StorageError(
                        f"the session's storage {parts.scheme}://{parts.netloc} fails: {_said(error)}",
                        hint="look at session.storage, at the store, and at what it logs",
                    ) from error
                log.warning("the session's storage fails, and is asked again: %s", _said(error))
            time.sleep(wait * random.uniform(0.5, 1.0))
            wait = min(2 * wait, _LONGEST_WAIT_S)


def open_blobs(uri: str, cache: str = "") -> Blobs:
    """Return the blobs below a URI; the store is not asked yet.

    Args:
        uri: `file:///folder`, `s3://bucket/folder`, `gs://…`, `abfs://…` or `hdfs://host:port/folder`.
        cache: the folder for this host's copies, private to the user; "" for one that Spark gives.

    Raises:
        StorageError: the URI names no store that is known, or has credentials.
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

    `within` stands before names in errors.
    """
    uri = f"file://{_quoted(os.fsencode(folder.absolute()))}".rstrip("/")
    return Blobs(uri, at_home=True, within=within)


def checkpoint_blobs(home: Path) -> Blobs:
    """Return the files in which Spark keeps how far the session of a home has come."""
    try:
        place = (home / _CHECKPOINT_PLACE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return home_blobs(home / _CHECKPOINT)
    if "://" not in place:
        return home_blobs(home / place)
    return replace(open_blobs(place), within=f"{_CHECKPOINT}/")


def place_checkpoint(home: Path, blobs: Blobs) -> None:
    """Have Spark keep in a session's storage how far it has come, which a home of no batch yet remembers."""
    if not any((home / name).exists() for name in (_CHECKPOINT, _CHECKPOINT_PLACE)):
        atomic_write(home / _CHECKPOINT_PLACE, blobs.below(_CHECKPOINT).uri.encode())


def later_checkpoint(blobs: Blobs, batch: int) -> Blobs:
    """Return the files of a checkpoint that begins with a batch, as it goes on from another one."""
    return blobs.below(f"{_LATER}{batch}")


def place_later_checkpoint(home: Path, blobs: Blobs, batch: int) -> None:
    """Have Spark go on with a checkpoint that begins with a batch."""
    place = f"{_LATER}{batch}" if blobs.at_home else later_checkpoint(blobs, batch).uri
    atomic_write(home / _CHECKPOINT_PLACE, place.encode())


def find_checkpoint(home: Path, blobs: Blobs) -> None:
    """Have a new home go on with what a session's storage has of checkpoints, that is, with the last one."""
    later = [name.split("/")[1] for name in blobs.names(_LATER) if name.endswith(f"/{BEFORE_FIRST}")]
    if later:
        place_later_checkpoint(home, blobs, max(map(int, later)))
    elif blobs.names(f"{_CHECKPOINT}/"):
        place_checkpoint(home, blobs)


@lru_cache(maxsize=8)
def host_cache(folder: str) -> Path:
    """Return the folder for this host's copies of blobs, which is private to its user (mode 0700).

    Args:
        folder: the folder, "" for one of the executor, or of this process where Spark gives none.
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
    """Open the store of a URI; a forked process opens its own. Return it with the path of the URI in it."""
    del process
    from pyarrow import fs

    parts = urlsplit(uri)
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    path = unquote(parts.path).rstrip("/")
    if parts.scheme == "s3":
        return _open_s3(parts.netloc, options), f"{parts.netloc}{path}"
    if parts.scheme == "hdfs":
        return _open_hdfs(parts), path
    return fs.FileSystem.from_uri(uri)


def _open_s3(bucket: str, options: dict[str, str]) -> FileSystem:
    from pyarrow import fs

    endpoint = options.get("endpoint_override") or os.environ.get("AWS_ENDPOINT_URL_S3")
    endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL")
    region = options.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region is None and not endpoint:
        region = fs.resolve_s3_region(bucket)
    known: dict[str, Any] = {"scheme": options["scheme"]} if "scheme" in options else {}
    known["allow_delayed_open"] = True  # a blob of some MB is one request
    return fs.S3FileSystem(
        region=region,
        endpoint_override=endpoint,
        connect_timeout=_CONNECT_S,
        request_timeout=_REQUEST_S,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1),  # `Blobs` tries again
        **known,
    )


def _open_hdfs(parts: SplitResult) -> FileSystem:
    from pyarrow import fs

    try:
        from hdfs_native.fsspec import HdfsFileSystem
    except ImportError as error:
        raise StorageError("HDFS needs one more package", hint="pip install 'stqsh[hdfs]'") from error
    handler: Any = fs.FSSpecHandler  # whose stubs call it abstract
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
    if found.is_file:  # an attempt before has arrived, although it was not said
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
    """Delete the copies of a host that were used longest ago while its disk is nearly full."""
    known = sorted(
        (path for path in _files(cache) if path.suffix != ".lock"), key=lambda p: p.stat().st_mtime
    )
    for path in known:
        found = os.statvfs(cache)
        if found.f_bavail * found.f_frsize > size + _SPARE_BYTES:
            return
        path.unlink(missing_ok=True)
