"""The arena: memory-mapped files with the arrays of a slot's state, which any process can continue to use.

It is a cache of the slot's store and never the truth. A slot's head file names the state that the arrays hold
by a stamp; a process uses them only if the store has the same stamp. The head is removed before
the arrays change and restored after, so a process that dies in between leaves no head, and the state is
rebuilt. `stqsh.storage.slot_files`, which reads an arena for snapshots, describes the head and the locks.
"""

from __future__ import annotations

import mmap
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from stqsh.storage.slot_files import FORMAT, ArenaBusyError, HeadFile, as_array, boot_id, locked, read_head

__all__ = ["Arena", "ArenaBusyError", "HeadFile"]

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Mapping:
    path: Path
    array: NDArray[np.uint8]


class Arena:
    """The files of one slot of one operator; the core's Allocator.

    Args:
        folders: where files are put, in the first one with room; the first also holds head and lock.
        name: identifies slot and operator, as in `evaluate-0`.
    """

    def __init__(self, folders: tuple[Path, ...], name: str) -> None:
        self.folders, self.name = folders, name
        self._maps: dict[str, _Mapping] = {}
        for folder in folders:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    # A batch: `held` around all of it, then `load`, `begin`, changes, `commit`.

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes out; the lock is released when a process dies.

        Raises:
            ArenaBusyError: another process did not release the lock within a minute.
        """
        with locked(self.folders[0], self.name, shared=False):
            yield

    def read_head(self) -> HeadFile | None:
        """Return the head, None if the arrays are not to be trusted (or there are none)."""
        return read_head(self.folders[0], self.name)

    def load(self, head: HeadFile) -> dict[str, Array]:
        """Map the arrays that a head names, to be changed in place.

        Raises:
            FileNotFoundError: a file is gone; the state has to be rebuilt.
        """
        self._maps = {name: _map_file(Path(file)) for name, (file, _, _) in head.arrays.items()}
        return {
            name: as_array(self._maps[name].array, np.dtype(dtype), length)
            for name, (_, dtype, length) in head.arrays.items()
        }

    def begin(self) -> None:
        """Mark the arrays as changing."""
        with suppress(FileNotFoundError):
            self._path("head").unlink()

    def allocate(self, name: str, dtype: np.dtype[Any], capacity: int) -> Array:
        """Make an array of `capacity` zeros in a file; the earlier one of that name is kept until `commit`.

        Raises:
            MemoryError: no folder has room.
        """
        mapping = _new_file(self.folders, self.name, max(1, capacity * dtype.itemsize))
        self._maps[name] = mapping
        return as_array(mapping.array, dtype, capacity)

    def trim(self, name: str, array: Array, capacity: int) -> Array:
        """Cut an array and its file to `capacity` elements; the memory behind is free at once.

        A process that has mapped the file before reads no further than the next head says.
        """
        if not self._holds(name, array):
            return array
        path, size = self._maps[name].path, max(1, capacity * array.itemsize)
        os.truncate(path, size)
        self._maps[name] = _Mapping(path, self._maps[name].array[:size])
        return as_array(self._maps[name].array, array.dtype, capacity)

    def release(self, name: str) -> None:
        """Forget an array; its file is deleted with the next `commit`."""
        self._maps.pop(name, None)

    def commit(self, stamp: str, header: object, arrays: Mapping[str, Array]) -> None:
        """Record that the arrays hold the state `stamp`; arrays outside files are copied into one."""
        for name, array in arrays.items():
            if not self._holds(name, array):
                self.allocate(name, array.dtype, len(array))[:] = array
        for name in self._maps.keys() - arrays.keys():
            del self._maps[name]
        value = {
            "format": FORMAT,
            "stamp": stamp,
            "boot": boot_id(),
            "header": header,
            "arrays": {
                name: [str(self._maps[name].path), array.dtype.str, len(array)]
                for name, array in arrays.items()
            },
        }
        new = self._path("new")
        new.write_bytes(orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS))
        new.replace(self._path("head"))
        _remove_dead(self.folders, self.name, {mapping.path for mapping in self._maps.values()})

    def clear(self) -> None:
        """Forget everything, as before a rebuild."""
        self.begin()
        self._maps = {}
        _remove_dead(self.folders, self.name, {mapping.path for mapping in self._maps.values()})

    # Files.

    def _path(self, ending: str) -> Path:
        return self.folders[0] / f"{self.name}.{ending}"

    def _holds(self, name: str, array: Array) -> bool:
        """Return whether an array is the content of the file under its name, from its beginning."""
        mapping = self._maps.get(name)
        return (
            mapping is not None
            and array.flags.c_contiguous
            and array.nbytes <= mapping.array.nbytes
            and array.__array_interface__["data"][0] == mapping.array.__array_interface__["data"][0]
        )


def _new_file(folders: tuple[Path, ...], name: str, size: int) -> _Mapping:
    """Make and map a file of zeros in the first folder with room."""
    for folder in folders:
        path = folder / f"{name}.{uuid.uuid4().hex}.array"
        try:
            _make_file(path, size)
        except OSError:
            path.unlink(missing_ok=True)
            continue
        return _map_file(path)
    raise MemoryError(f"no room for {size} bytes of slot state in {', '.join(map(str, folders))}")


def _remove_dead(folders: tuple[Path, ...], name: str, live: set[Path]) -> None:
    """Delete the array files of a slot that are not in `live`."""
    for folder in folders:
        for path in folder.glob(f"{name}.*.array"):
            if path not in live:
                path.unlink(missing_ok=True)


def _make_file(path: Path, size: int) -> None:
    """Make a file of zeros with its space allocated: a sparse one kills the process when memory runs out."""
    with path.open("xb") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)


def _map_file(path: Path) -> _Mapping:
    with path.open("r+b") as file:
        return _Mapping(path, np.frombuffer(mmap.mmap(file.fileno(), 0), np.uint8))
