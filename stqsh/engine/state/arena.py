"""The arena: memory-mapped files with the arrays of a slot's state, from which any process can continue.

It is a cache of the slot's store and never authoritative. A slot's head file identifies the state in the
arrays by a stamp. A process uses them only if the store has the same stamp, and if no file has changed since.
The head is removed before the arrays change and rewritten afterwards, so a process that dies in between
leaves no head, and the state is rebuilt. `stqsh.storage.slot_files`, which reads an arena for snapshots,
describes the head.
"""

from __future__ import annotations

import errno
import logging
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stqsh.arrays import Array
from stqsh.storage import processes
from stqsh.storage.disk_space import free_bytes
from stqsh.storage.private_files import make_private_folder, open_private
from stqsh.storage.slot_files import (
    ArrayFile,
    FileMark,
    HeadFile,
    StaleFileError,
    as_array,
    check_mark,
    file_path,
    map_file,
    read_head,
    write_head,
)
from stqsh.storage.slot_locks import ArenaBusyError, writer_lock, writing

__all__ = ["Arena", "ArenaBusyError", "HeadFile", "StaleFileError"]

_HEADS_BYTES = 16 << 20
"""Space that arrays leave free in the first folder, so that heads can always be written."""
_log = logging.getLogger("stqsh.engine")


@dataclass(frozen=True, slots=True)
class _Mapping:
    """A mapped file of the arena: the index of its folder, its path and its content."""

    folder: int
    path: Path
    array: NDArray[np.uint8]


class Arena:
    """The files of one slot of one operator; the core's Allocator.

    Args:
        folders: the folders for files; each file goes to the first one with room; the first also holds head
            and lock.
        name: identifies slot and operator, as in `evaluate-0`.

    Attributes:
        lock: a file that exists until the arena's stream is dropped.
    """

    def __init__(self, folders: tuple[Path, ...], name: str) -> None:
        processes.allow_many_files()
        self.folders, self.name = folders, name
        self.lock = writer_lock(folders[0], name)
        self._maps: dict[str, _Mapping] = {}
        self._dead: list[Path] | None = None
        for folder in folders:
            make_private_folder(folder)

    # The calls of a batch: `held` around all of it, then `load`, `begin`, changes, `commit`.

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Lock out other processes; the lock is released if a process dies.

        Yields:
            Whether a stopped reader still uses the arrays: then `part` must be called before they change.

        Raises:
            ArenaBusyError: another writer did not release the lock within a minute.
        """
        with writing(self.folders[0], self.name) as has_readers:
            yield has_readers

    def read_head(self) -> HeadFile | None:
        """Return the head, None if the arrays cannot be trusted or do not exist."""
        return read_head(self.folders[0], self.name)

    def load(self, head: HeadFile) -> dict[str, Array]:
        """Map the arrays that a head lists, to be changed in place; mapped files stay mapped.

        Raises:
            StaleFileError: a file is missing or has changed; the state has to be rebuilt.
        """
        known = {mapping.path: mapping for mapping in self._maps.values()}
        self._maps, self._dead = {}, None
        self._maps = {name: _open_file(self.folders, array, known) for name, array in head.arrays.items()}
        return {
            name: as_array(self._maps[name].array, np.dtype(array.dtype), array.length)
            for name, array in head.arrays.items()
        }

    def part(self, arrays: dict[str, Array]) -> None:
        """Replace arrays by copies in new files, so that readers can keep the old files.

        Raises:
            MemoryError: no folder has room.
        """
        for name, array in arrays.items():
            arrays[name] = self.allocate(name, array.dtype, len(array))
            arrays[name][:] = array

    def begin(self) -> None:
        """Mark the arrays as being changed."""
        with suppress(FileNotFoundError):
            (self.folders[0] / f"{self.name}.head").unlink()

    def allocate(self, name: str, dtype: np.dtype[Any], capacity: int) -> Array:
        """Allocate an array of `capacity` zeros in a file; keep the previous one of that name until `commit`.

        Raises:
            MemoryError: no folder has room.
        """
        mapping = _new_file(self.folders, self.name, max(1, capacity * dtype.itemsize))
        self.release(name)
        self._maps[name] = mapping
        return as_array(mapping.array, dtype, capacity)

    def grow(self, name: str, array: Array, length: int) -> Array:
        """Extend an array's file by at least an eighth, without copying.

        The array is copied into a new file if it is not in a file, or if its folder is full.

        Raises:
            MemoryError: no folder has room.
        """
        capacity = max(length, len(array) + len(array) // 8)
        mapping = self._maps.get(name)
        if mapping is not None and _holds(mapping, array):
            with suppress(OSError):
                mapping = _extended(mapping, array.nbytes, capacity * array.itemsize)
                self._maps[name] = mapping
                return as_array(mapping.array, array.dtype, capacity)
        grown = self.allocate(name, array.dtype, capacity)
        grown[: len(array)] = array
        return grown

    def trim(self, name: str, array: Array, capacity: int) -> Array:
        """Truncate an array and its file to `capacity` elements; the memory beyond is freed at once.

        A process that has mapped the file before reads only up to the length in the next head.
        """
        if not _holds(self._maps.get(name), array):
            return array
        mapping, size = self._maps[name], max(1, capacity * array.itemsize)
        os.truncate(mapping.path, size)
        self._maps[name] = replace(mapping, array=mapping.array[:size])
        return as_array(self._maps[name].array, array.dtype, capacity)

    def release(self, name: str) -> None:
        """Forget an array; its file is deleted with the next `commit`."""
        mapping = self._maps.pop(name, None)
        if mapping is not None and self._dead is not None:
            self._dead.append(mapping.path)

    def commit(self, stamp: str, header: object, arrays: Mapping[str, Array]) -> None:
        """Record that the arrays hold the state `stamp`; arrays outside files are copied into one.

        If files were deleted, or there is no room for a head, nothing is recorded, and the next batch
        rebuilds the state.
        """
        for name, array in arrays.items():
            if not _holds(self._maps.get(name), array):
                self.allocate(name, array.dtype, len(array))[:] = array
        for name in self._maps.keys() - arrays.keys():
            self.release(name)
        try:
            places = {name: _place(self._maps[name], array) for name, array in arrays.items()}
            write_head(self.folders[0], self.name, HeadFile(stamp, header, places))
        except OSError as error:
            _log.info("the state of %s is not recorded, and is built again: %s", self.name, error)
        # The first time, also delete files left by another process.
        dead = _unmapped_files(self.folders, self.name, self._maps) if self._dead is None else self._dead
        _remove(dead)
        self._dead = []

    def clear(self) -> None:
        """Discard all arrays, before a rebuild."""
        self.begin()
        self._maps, self._dead = {}, []
        _remove(_unmapped_files(self.folders, self.name, self._maps))


def _unmapped_files(folders: tuple[Path, ...], name: str, maps: Mapping[str, _Mapping]) -> list[Path]:
    """Return the files of arrays that are not in use."""
    live = {mapping.path for mapping in maps.values()}
    found = (path for folder in folders for path in folder.glob(f"{name}.*.array"))
    return [path for path in found if path not in live]


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _holds(mapping: _Mapping | None, array: Array) -> bool:
    """Return whether an array is the content of a mapped file, from its beginning."""
    return (
        mapping is not None
        and array.flags.c_contiguous
        and array.nbytes <= mapping.array.nbytes
        and array.__array_interface__["data"][0] == mapping.array.__array_interface__["data"][0]
    )


def _open_file(folders: tuple[Path, ...], array: ArrayFile, known: Mapping[Path, _Mapping]) -> _Mapping:
    """Map an existing file, to be changed in place, unless it is mapped already."""
    path = file_path(folders, array)
    mapping = known.get(path)
    if mapping is not None and mapping.array.nbytes == array.mark.size:
        check_mark(path, array.mark)
        return mapping
    return _Mapping(array.folder, path, map_file(path, mark=array.mark, shared=True))


def _new_file(folders: tuple[Path, ...], name: str, size: int) -> _Mapping:
    """Make and map a file of zeros in the first folder with room."""
    for index, folder in enumerate(folders):
        path = folder / f"{name}.{uuid.uuid4().hex}.array"
        try:
            _leave_room(folder, index, size)
            _reserve(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, size)
        except OSError:
            path.unlink(missing_ok=True)
            continue
        return _Mapping(index, path, map_file(path, shared=True, at_once=True))
    raise MemoryError(f"there is no room for {size} bytes of slot state in {', '.join(map(str, folders))}")


def _extended(mapping: _Mapping, used: int, size: int) -> _Mapping:
    """Map a file with zeros after its first `used` bytes, up to a size.

    Raises:
        OSError: there is no room, or the file is missing.
    """
    mapping.array[used:] = 0
    _leave_room(mapping.path.parent, mapping.folder, size - mapping.array.nbytes)
    _reserve(mapping.path, os.O_RDWR, size)
    return replace(mapping, array=map_file(mapping.path, shared=True, at_once=True))


def _leave_room(folder: Path, index: int, size: int) -> None:
    """Raise `OSError` if an array would leave no room for heads, which are only in the first folder."""
    if index == 0 and free_bytes(folder) - size < _HEADS_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def _place(mapping: _Mapping, array: Array) -> ArrayFile:
    """Return the position of an array, and the current mark of its file."""
    mark = FileMark.of(os.stat(mapping.path))  # noqa: PTH116 - many times faster than pathlib's
    return ArrayFile(mapping.folder, mapping.path.name, array.dtype.str, len(array), mark)


def _reserve(path: Path, flags: int, size: int) -> None:
    """Extend a file by zeros with allocated space: a sparse file kills the process when memory runs out."""
    descriptor = open_private(path, flags)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            os.ftruncate(descriptor, size)
    finally:
        os.close(descriptor)
