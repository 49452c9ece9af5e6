"""What stands in for the files of slots: their durable state and their arrays, in this process's memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any
from unittest import mock

import orjson
from numpy.typing import NDArray

from stqsh.core.state.slot_state import HeapAllocator
from stqsh.engine.ingest.record_replay import first_rows
from stqsh.engine.operators import local_operators, slot_task
from stqsh.engine.state.file_store import SlotMeta
from stqsh.spec.chunk import Chunk
from stqsh.storage.blobs import Blobs
from stqsh.storage.slot_files import HeadFile

Array = NDArray[Any]


@dataclass(frozen=True)
class Kept:
    """A slot after a batch, as it is kept for good."""

    batch: int = -1
    meta: SlotMeta = field(default_factory=SlotMeta)
    snapshot: tuple[bytes, ...] = ()
    log: tuple[list[Chunk], ...] = ()


@dataclass
class MemorySlots:
    """The stores of slots by operator and slot, and what their arenas hold by name."""

    kept: dict[str, list[Kept]] = field(default_factory=dict)
    arrays: dict[str, tuple[HeadFile, Mapping[str, Array]]] = field(default_factory=dict)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Let operators find these, and no files."""
        store = mock.patch.object(local_operators, "FileStore", MemoryFiles(self.kept))
        arena = mock.patch.object(slot_task, "Arena", self.arena)
        with store, arena:
            yield

    def arena(self, folders: tuple[Path, ...], name: str) -> MemoryArena:
        return MemoryArena(self.arrays, folders, name)


@dataclass
class MemoryFiles:
    """Makes what stands in for a `FileStore`."""

    kept: dict[str, list[Kept]]

    def beside_head(self, blobs: Blobs, name: str, batch: int, after: int) -> MemoryStore:
        return MemoryStore(self.kept, name, batch, after)


class MemoryStore:
    """What is kept of a slot, as batch `batch` finds and leaves it; a `SlotStore`.

    Every other slot says that its log is long, so it takes a snapshot after each second batch.
    """

    def __init__(self, kept: dict[str, list[Kept]], slot: str, batch: int, after: int) -> None:
        self._kept, self._slot, self._batch = kept, slot, batch
        self._before = next((one for one in kept.get(slot, ()) if one.batch < batch), Kept())
        assert self._before.batch == after
        self._snapshot, self._log = self._before.snapshot, self._before.log

    def read_meta(self) -> SlotMeta:
        return self._before.meta

    def write_meta(self, meta: SlotMeta) -> None:
        self._kept[self._slot] = [Kept(self._batch, meta, self._snapshot, self._log), self._before]

    def append(self, version: int, chunks: list[Chunk]) -> int:
        self._log = (*self._log, chunks)
        return 1 << 40 if int(self._slot.rpartition("-")[2]) % 2 else 1

    def replace(self, version: int, pieces: Iterable[bytes]) -> int:
        self._snapshot, self._log = tuple(bytes(piece) for piece in pieces), ()
        return sum(map(len, self._snapshot))

    def read_snapshot(self) -> list[memoryview]:
        return [memoryview(piece) for piece in self._snapshot]

    def read_log(self) -> Iterator[list[Chunk]]:
        yield from self._log

    def logged_rows(self) -> dict[int, int]:
        return first_rows(chain(*self._before.log, *self._log))


class MemoryArena(HeapAllocator):
    """The arrays of a slot, as an `Arena` has them."""

    lock = Path(__file__)

    def __init__(
        self, kept: dict[str, tuple[HeadFile, Mapping[str, Array]]], folders: tuple[Path, ...], name: str
    ) -> None:
        self._kept, self.folders, self.name = kept, folders, name

    @contextmanager
    def held(self) -> Iterator[bool]:
        yield False

    def read_head(self) -> HeadFile | None:
        return self._kept[self.name][0] if self.name in self._kept else None

    def load(self, head: HeadFile) -> dict[str, Array]:
        return dict(self._kept[self.name][1])

    def begin(self) -> None:
        self._kept.pop(self.name, None)

    def trim(self, name: str, array: Array, capacity: int) -> Array:
        return array[:capacity].copy()

    def commit(self, stamp: str, header: object, arrays: Mapping[str, Array]) -> None:
        """The header as JSON keeps it: what it cannot hold would be missed by who loads it."""
        header = orjson.loads(orjson.dumps(header, option=orjson.OPT_NON_STR_KEYS))
        self._kept[self.name] = HeadFile(stamp, header, {}), dict(arrays)

    def clear(self) -> None:
        self.begin()
