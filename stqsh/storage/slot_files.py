"""The slots' published state: the files of an arena, and a reader of all slots at one step.

An arena holds a slot's arrays as memory-mapped files beside a few small ones. `NAME.head` describes the state
in the arrays and lists each array's file; it does not exist while the arrays change. It contains file names,
not paths, and a mark of each file's last change: a file that has changed since then is not used.
`stqsh.storage.slot_locks` has the locks.

`PublishedSlots` is the reading side (architecture.md). It maps only the arrays that an answer needs and
copies nothing, so an answer costs only its evaluation. The writing side is the engine's
`stqsh.engine.state.arena`. A mapping keeps no file descriptor open, because a system may allow only 1024 of
them and a slot has two arrays for each column.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import orjson
from numpy.typing import NDArray

from stqsh.arrays import Array
from stqsh.checksums import DamagedFileError, with_seal, without_seal
from stqsh.core.state.slot_state import SlotState
from stqsh.errors import NotPublishedError, SlotStateError
from stqsh.storage import processes
from stqsh.storage.private_files import check_private_folder, open_private
from stqsh.storage.slot_locks import POLL_S, reading

FORMAT = 3
"""The version of head files; files of other versions are not used."""

_POPULATE = getattr(mmap, "MAP_POPULATE", 0)
"""The flag with which arrays that have grown are mapped, so that all pages are loaded at once.

Loading them one by one cost a tenth more processor time in a batch of 300,000 posts. Other arrays may not be
touched at all, and are mapped without the flag.
"""
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int64,
)
_LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_FAILED = ctypes.c_void_p(-1).value
MOST_MAPPED = 32_000
"""The most files that a process maps: half of Linux's default limit, because there are other mappings."""

T = TypeVar("T")


class StaleFileError(SlotStateError):
    """A file of an arena differs from its head: the arrays have to be rebuilt."""


class FileMark(NamedTuple):
    """The state in which a file was left; any change of its content by another program changes the mark.

    In shared memory, changes through a mapping do not. They are only made by a process that has the slot's
    lock.
    """

    inode: int
    size: int
    changed_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileMark:
        """Return the mark of a file by its status."""
        return cls(status.st_ino, status.st_size, status.st_ctime_ns)


class ArrayFile(NamedTuple):
    """An array and the file that holds it.

    Attributes:
        folder: the index of the file's folder among the folders of the arena.
        file: the file's name in that folder.
        dtype: the array's dtype in numpy's notation.
        length: the array's length.
        mark: the state in which the file was left.
    """

    folder: int
    file: str
    dtype: str
    length: int
    mark: FileMark


@dataclass(frozen=True, slots=True)
class HeadFile:
    """The content of a head file.

    Attributes:
        stamp: identifies the state.
        header: the core's own header.
        arrays: the file of each array, by the array's name.
    """

    stamp: str
    header: Any
    arrays: dict[str, ArrayFile]


def slot_name(operator: str, slot: int) -> str:
    """Return the name of the files of one slot of an operator."""
    return f"{operator}-{slot}"


def dealer_name(stream: int) -> str:
    """Return the name of the operator that deals the records of a stream."""
    return f"deal{stream}"


def read_head(folder: Path, name: str) -> HeadFile | None:
    """Return the head; None if there is none, or the arrays cannot be trusted."""
    file = f"{name}.head"
    try:
        with os.fdopen(open_private(folder / file, os.O_RDONLY), "rb") as content:
            value = orjson.loads(without_seal(content.read(), file))
    except (OSError, DamagedFileError, SlotStateError):
        return None
    if value.pop("format", None) != FORMAT or value.pop("boot") != boot_id():
        return None
    return msgspec.convert(value, HeadFile)


def write_head(folder: Path, name: str, head: HeadFile) -> None:
    """Replace the head."""
    arrays = {name: [*file[:-1], list(file.mark)] for name, file in head.arrays.items()}
    value = {
        "format": FORMAT,
        "stamp": head.stamp,
        "boot": boot_id(),
        "header": head.header,
        "arrays": arrays,
    }
    new = folder / f"{name}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with os.fdopen(open_private(new, flags), "wb") as file:
        file.write(with_seal(orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)))
    new.replace(folder / f"{name}.head")


class _Mapping:
    """Mapped bytes of a file, for as long as an array refers to them.

    Python's own `mmap` would keep a descriptor open for each mapping.

    Attributes:
        count: the number of mappings in this process.
    """

    count = 0

    def __init__(self, descriptor: int, size: int, flags: int) -> None:
        self._address, self._size = None, size
        address = _LIBC.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, descriptor, 0)
        if address == _FAILED:
            code = ctypes.get_errno()
            if code == errno.ENOMEM:
                raise MemoryError(f"{size} bytes of slot state cannot be mapped: {os.strerror(code)}")
            raise OSError(code, os.strerror(code))
        self._address = address
        _Mapping.count += 1
        self.__array_interface__ = {
            "data": (address, False),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        if self._address is not None:
            _LIBC.munmap(self._address, self._size)
            _Mapping.count -= 1


def map_file(
    path: Path, *, mark: FileMark | None = None, shared: bool = False, at_once: bool = False
) -> NDArray[np.uint8]:
    """Map a whole file, after checking it against `mark`; no descriptor stays open.

    Args:
        path: the file.
        mark: the state in which the file was left; None for no check.
        shared: whether writes to the array go to the file; otherwise they stay within this process.
        at_once: whether all of the file will be read and written, see `_POPULATE`.

    Raises:
        StaleFileError: the file has changed, is empty, or cannot be opened.
        StaleFileError: it is not, or cannot be opened.
        MemoryError: the system allows this process no more mappings.
    """
    try:
        descriptor = open_private(path, os.O_RDWR if shared else os.O_RDONLY)
    except FileNotFoundError as error:
        raise StaleFileError(f"{path} is gone") from error
    except OSError as error:
        raise StaleFileError(f"{path} cannot be opened: {error.strerror}") from error
    try:
        found = FileMark.of(os.fstat(descriptor))
        if found.size == 0 or (mark is not None and found != mark):
            raise StaleFileError(f"{path} has changed")
        flags = (mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE) | (_POPULATE if at_once else 0)
        return np.asarray(_Mapping(descriptor, found.size, flags))
    finally:
        os.close(descriptor)


def mapped_files() -> int:
    """Return the number of files that this process has mapped."""
    return _Mapping.count


def check_mark(path: Path, mark: FileMark) -> None:
    """Check that a file has not changed since it was left.

    Raises:
        StaleFileError: it has changed.
    """
    try:
        found = FileMark.of(path.stat())
    except OSError as error:
        raise StaleFileError(f"{path} is gone") from error
    if found != mark:
        raise StaleFileError(f"{path} has changed")


def file_path(folders: tuple[Path, ...], array: ArrayFile) -> Path:
    """Return the path of an array's file.

    Raises:
        StaleFileError: the path would be outside the arena's folders.
    """
    if array.folder not in range(len(folders)) or Path(array.file).name != array.file:
        raise StaleFileError(f"{array.file} is not a file of an arena")
    return folders[array.folder] / array.file


def boot_id() -> str:
    """Return an id of the machine's current boot; older files may be half written after a power failure."""
    return processes.boot_id() or str(round((time.time() - time.monotonic()) / 60))


def as_array(content: NDArray[np.uint8], dtype: np.dtype[Any], length: int) -> Array:
    """View the beginning of a file's content as an array."""
    return content[: length * dtype.itemsize].view(dtype)


class _MappedArrays(dict[str, Array]):
    """The arrays of a head, by name; each is mapped on first access.

    A process that has mapped `MOST_MAPPED` files copies further arrays instead. Writes to the arrays stay
    within this process. Nothing here writes, but numba would compile kernels again for read-only arrays.

    Args:
        folders: the folders of the arena.
        head: lists the arrays.
        known: the mappings of an earlier head's arrays, by file; files that have grown since are mapped
            again.
    """

    def __init__(
        self, folders: tuple[Path, ...], head: HeadFile, known: dict[str, NDArray[np.uint8]]
    ) -> None:
        super().__init__()
        self._folders, self._head = folders, head
        files = {array.file for array in head.arrays.values()}
        self.maps = {file: content for file, content in known.items() if file in files}

    def __missing__(self, name: str) -> Array:
        place = self._head.arrays[name]
        dtype = np.dtype(place.dtype)
        content = self.maps.get(place.file)
        if content is None or place.length * dtype.itemsize > len(content):
            content = map_file(file_path(self._folders, place), mark=place.mark)
            if mapped_files() > MOST_MAPPED:
                content = content[: place.length * dtype.itemsize].copy()
            else:
                self.maps[place.file] = content
        array = self[name] = as_array(content, dtype, place.length)
        return array


class _SlotReader:
    """One slot's last published state; mappings are kept while their files do not change."""

    def __init__(self, folders: tuple[Path, ...], name: str) -> None:
        self._folders, self._name, self._head = folders, name, f"{folders[0]}/{name}.head"
        self._seen: tuple[int, int] | None = None
        self._arrays: _MappedArrays | None = None
        self._state: SlotState | None = None

    def state(self) -> SlotState:
        """Return the state; the caller must hold the slot's lock now and whenever it accesses an array.

        Raises `NotPublishedError`.
        """
        try:
            status = os.stat(self._head)  # noqa: PTH116 - many times faster than pathlib's
        except FileNotFoundError:
            raise NotPublishedError(f"{self._name} has no head") from None
        seen = (status.st_ino, status.st_mtime_ns)
        if self._state is None or self._seen != seen:
            self._state, self._seen = self._read(), seen
        return self._state

    def _read(self) -> SlotState:
        head = read_head(self._folders[0], self._name)
        if head is None:
            raise NotPublishedError(f"the head of {self._name} cannot be trusted")
        known = {} if self._arrays is None else self._arrays.maps
        self._arrays = _MappedArrays(self._folders, head, known)
        return SlotState(head.header, self._arrays)


class PublishedSlots:
    """The slots of a session whose arena is in `folders` on this host; not thread-safe.

    `slots` is the number of slots, or the numbers of those to read.
    """

    def __init__(self, folders: tuple[Path, ...], slots: int | Iterable[int]) -> None:
        processes.allow_many_files()  # a reader holds a lock for each slot
        self._folder = folders[0]
        numbers = range(slots) if isinstance(slots, int) else slots
        self._names = [slot_name("evaluate", slot) for slot in numbers]
        self._readers = [_SlotReader(folders, name) for name in self._names]

    def read(self, use: Callable[[list[SlotState]], T], least: int, patience_s: Callable[[], float]) -> T:
        """Apply `use` to the states of all slots at one step, at least `least`, and return the result.

        `use` must not keep the states. `patience_s` returns how long to wait for the current batch; it is
        called only if waiting is needed.

        Raises:
            NotPublishedError: the states are not available in time: they are on another host, lost in a
                restart, or half written because a process died.
        """
        begun, deadline = time.monotonic(), 0.0
        while True:
            try:
                with self._shared(deadline) as is_held:
                    states = [reader.state() for reader in self._readers]
                    # If a writer has gone on without this reader, its existing mappings still do not change.
                    if is_held() and _step_of(states) >= least:
                        return use(states)
                reason = NotPublishedError("the slots are at different steps")
            except NotPublishedError as error:
                reason = error
            except FileNotFoundError as error:
                raise NotPublishedError(str(error)) from None
            except SlotStateError as error:
                reason = NotPublishedError(error.message)
            deadline = deadline or begun + patience_s()
            if time.monotonic() > deadline:
                raise reason
            time.sleep(POLL_S * 4)

    @contextmanager
    def _shared(self, deadline: float) -> Iterator[Callable[[], bool]]:
        check_private_folder(self._folder)
        with ExitStack() as stack:
            held = [stack.enter_context(reading(self._folder, name, deadline)) for name in self._names]
            yield lambda: all(is_held() for is_held in held)


def _step_of(states: list[SlotState]) -> int:
    """Return the common step of all slots, -1 if they differ."""
    steps = {state.header.get("clock", {}).get("step", -1) for state in states}
    return steps.pop() if len(steps) == 1 else -1
