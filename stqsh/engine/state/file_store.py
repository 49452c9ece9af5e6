"""The durable state of a slot: files in its session's storage, and a head that lists them.

The state is a snapshot of the slot's arrays, plus the log of the chunks applied since. A batch appends its
chunks to the log. When the log has grown past the snapshot, or would take long to apply again, a new snapshot
replaces both. To restore a state, load the snapshot, apply the logged batches again, and discard their
output.

On one machine the head is a file, replaced as a whole under the slot's lock. Each of Spark's two stateful
operators would take 0.12 s of every batch for features that only a cluster needs: an empty batch took 0.33 s.
The same pipeline without them takes 0.13 s (0.20 s if answers are merged), medians of one run. Spark's
offsets still determine the session's progress: state is kept for the last two batches, and a batch that Spark
repeats finds the state before it. On a cluster the head is a value of Spark's state store, which commits it
with the batch, passes it to exactly one task, and places that task.

Beside the head, in the folder of an operator's slot: `log.V.SUM`, the chunks of version V; `snapshot.V.ID`,
the arrays after it. Names distinguish attempts, so a late one changes no file that a head lists: SUM is the
log's checksum, and ID is random. Names of earlier versions of stqsh end after V. The head also records which
rows of the replay stores the logs refer to, so that other rows can be deleted. Files are synced to the disk,
each before the head that lists it, if the session requires it (`stqsh.fs`). If storage has high latency,
small logs wait in the head until they are worth a file, which then contains the logs of several versions.

All state is verified. A batch names the one that it follows, and finds the slot's state after exactly that
one, or fails. Each file is sealed (`stqsh.checksums`): the head by itself, a snapshot in the head, and a log
by itself, together with the checksum of the previous file; the head has the last one's.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import msgspec

from stqsh.checksums import DamagedFileError, Seal, seal_line, split_seal, with_seal, without_seal
from stqsh.engine.config import TUNING, EngineTuning
from stqsh.engine.ingest.record_replay import first_rows
from stqsh.engine.state.chunk_logs import pack_chunks, unpack_logs
from stqsh.errors import EngineError
from stqsh.fs import atomic_write
from stqsh.spec.chunk import Chunk
from stqsh.storage.blobs import Blobs

#: The name of the file of a head, on one machine.
HEAD = "head"
#: The folder of a session's storage that contains the slots' folders.
STATE = "state"
#: The size of the checksum at the beginning of a log.
_LINK = 8
#: Logs wait in a head in Spark's state store until they have this many bytes.
_WAITING_BYTES = 64 << 10


class StaleBatchError(EngineError):
    """A slot has already stored a later batch: this batch is a late attempt, or Spark's files are older."""

    def __init__(self, slot: str, batch: int, stored: int) -> None:
        super().__init__(
            f"batch {batch} of slot {slot} is too late: the slot has stored batch {stored}",
            hint="if the session's folder comes from a backup, put back all of it, made while no engine ran; "
            "or DUMP what the session defines, for a new one",
        )


@dataclass(frozen=True, slots=True)
class SlotMeta:
    """The position of a slot, and the costs of its log and snapshot.

    Attributes:
        version: the number of its batches.
        stamp: identifies this state, for the arena.
        log_bytes: the size of the log.
        snapshot_bytes: the size of the snapshot.
        replay_us: the time that it took to apply the logged batches, in µs.
        snapshot_us: the time that it took to write the last snapshot, in µs.
    """

    version: int = 0
    stamp: str = ""
    log_bytes: int = 0
    snapshot_bytes: int = 0
    replay_us: int = 0
    snapshot_us: int = 0

    def wants_snapshot(self, tuning: EngineTuning = TUNING) -> bool:
        """Return whether a snapshot should replace the log.

        A log mostly refers to records (`stqsh.engine.ingest.record_replay`), so time usually decides, not
        size.
        """
        slow = self.replay_us > max(tuning.snapshot_replay_us, tuning.snapshot_worth * self.snapshot_us)
        return slow or self.log_bytes > max(tuning.snapshot_log_bytes, self.snapshot_bytes)


class SlotStore(Protocol):
    """The durable state of one slot of one operator.

    `stqsh.engine.state.file_store` implements it. Writes become valid with the batch: a batch that is
    repeated finds the state before it.
    """

    def read_meta(self) -> SlotMeta:
        """Return the slot's position before the batch; zero values before its first batch.

        Call it first, with the slot's lock held.
        """

    def write_meta(self, meta: SlotMeta) -> None:
        """Write the slot's position, after all files to which it refers."""

    def append(self, version: int, chunks: list[Chunk]) -> int:
        """Append the chunks of version `version` to the log, and return their size in bytes."""

    def replace(self, version: int, pieces: Iterable[bytes]) -> int:
        """Replace log and snapshot by a snapshot of version `version`, and return its size in bytes."""

    def read_snapshot(self) -> list[memoryview]:
        """Return the pieces of the last snapshot; an empty list if there is none."""

    def read_log(self) -> Iterator[list[Chunk]]:
        """Return the chunks of each batch since the snapshot, in order."""

    def logged_rows(self) -> dict[int, int]:
        """Return what the log refers to before or after this batch, see `first_rows`."""


class _State(msgspec.Struct, frozen=True, array_like=True):
    """A slot after a batch.

    Attributes:
        batch: Spark's number of the batch; -1 before the first.
        snapshot: the version of the snapshot before its log; 0 for none.
        seal: the snapshot's.
        last: the checksum of the last file, log or snapshot; 0 for none.
        meta: the slot's position and costs.
        rows: what the log refers to, see `first_rows`.
        id: the suffix of the snapshot's name; "" if an earlier version of stqsh wrote it.
        waiting: the logs of the last versions that are not in a file yet.
    """

    batch: int = -1
    snapshot: int = 0
    seal: Seal = Seal(0, 0)
    last: int = 0
    meta: SlotMeta = SlotMeta()
    rows: dict[int, int] = {}
    id: str = ""
    waiting: tuple[bytes, ...] = ()

    @property
    def file(self) -> str:
        """The name of the snapshot's file."""
        return f"snapshot.{self.snapshot}" + (f".{self.id}" if self.id else "")


class SlotHead(Protocol):
    """The location of a slot's head."""

    #: Logs of fewer bytes wait in the head; 0 if each log is a file of its own.
    waiting_bytes: int

    def read(self) -> bytes | None:
        """Return the head; None if there is none."""

    def write(self, content: bytes) -> None:
        """Replace the head."""


class FileHead:
    """The head as a file, for slots on one machine; the slot's lock is held."""

    waiting_bytes = 0

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> bytes | None:
        """Return the file's content; None if there is no file."""
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return None

    def write(self, content: bytes) -> None:
        """Replace the file."""
        atomic_write(self._path, content)


class ValueState(Protocol):
    """The part of Spark's ValueState that is used."""

    def get(self) -> tuple[Any, ...] | None: ...  # noqa: D102
    def update(self, newValue: tuple[Any, ...]) -> None: ...  # noqa: D102


class SparkHead:
    """The head as a value of Spark's state store, which itself restores the value before a repeated batch."""

    waiting_bytes = _WAITING_BYTES

    def __init__(self, value: ValueState) -> None:
        self._value = value

    def read(self) -> bytes | None:
        """Return the value; None if there is none."""
        row = self._value.get()
        return None if row is None else bytes(row[0])

    def write(self, content: bytes) -> None:
        """Replace the value."""
        self._value.update((content,))


class FileStore:
    """The files of one slot of one operator, before and after a batch; a `SlotStore`.

    The slot's lock is held from `read_meta` to `write_meta`.

    Args:
        blobs: the session's storage.
        name: operator and slot, as in `evaluate-0`.
        head: the location of the slot's head.
        batch: Spark's number of the batch.
        after: the number of the slot's previous batch; -1 if this one is its first, and None if Spark
            provides the right head.
    """

    def __init__(self, blobs: Blobs, name: str, head: SlotHead, batch: int, after: int | None) -> None:
        self._blobs, self._slot, self._head, self._batch, self._after = blobs, name, head, batch, after
        self._found: bytes | None = None
        self._before = self._older = self._state = _State()

    @staticmethod
    def beside_head(blobs: Blobs, name: str, batch: int, after: int) -> FileStore:
        """Return the store of a slot on one machine, whose head is a file beside its others."""
        assert blobs.folder is not None, "slots of one machine are in files"
        head = FileHead(blobs.folder / STATE / name / HEAD)
        return FileStore(blobs, name, head, batch, after)

    def read_meta(self) -> SlotMeta:
        """Return the slot's position before the batch; zero values before its first batch.

        Raises:
            StaleBatchError: the slot has stored a later batch.
            DamagedFileError: the state before the batch is missing.
        """
        self._found = self._head.read()
        states = [] if self._found is None else _unpack_head(self._found, self._name(HEAD))
        if states and states[0].batch > self._batch:
            raise StaleBatchError(self._slot, self._batch, states[0].batch)
        earlier = [state for state in states if state.batch < self._batch]
        self._before, self._older, *_ = [*earlier, _State(), _State()]
        if self._after is not None and self._before.batch != self._after:
            raise self._lost()
        self._state = self._before
        return self._before.meta

    def write_meta(self, meta: SlotMeta) -> None:
        """Write the slot's position, and delete files that no state needs any more.

        Raises:
            StaleBatchError: another attempt has written a position since `read_meta`.
        """
        if self._head.read() != self._found:
            raise StaleBatchError(self._slot, self._batch, self._batch)
        state = msgspec.structs.replace(self._state, batch=self._batch, meta=meta)
        before = msgspec.structs.replace(self._before, waiting=())  # only heads in Spark have waiting logs
        self._head.write(with_seal(msgspec.json.encode([state, before])))
        if self._older.snapshot != self._before.snapshot:
            self._remove_before(self._before.snapshot)

    def append(self, version: int, chunks: list[Chunk]) -> int:
        """Write the chunks of version `version`, and return their size in bytes."""
        content = pack_chunks(chunks)
        waiting = (*self._state.waiting, content.to_pybytes()) if self._head.waiting_bytes else (content,)
        rows = merge_least(self._before.rows, first_rows(chunks))
        self._state = msgspec.structs.replace(self._state, rows=rows, waiting=waiting)
        if sum(map(len, waiting)) >= self._head.waiting_bytes:
            self._write_log(version)
        return content.size

    def _write_log(self, version: int) -> None:
        """Write the waiting logs, the last of version `version`, into a file."""
        logs = [memoryview(content) for content in self._state.waiting]
        parts = [memoryview(self._state.last.to_bytes(_LINK, "little")), *logs]
        seal = Seal.of(*parts)
        self._blobs.put(self._name(f"log.{version}.{seal.checksum:016x}"), [seal_line(seal), *parts])
        self._state = msgspec.structs.replace(self._state, last=seal.checksum, waiting=())

    def replace(self, version: int, pieces: Iterable[bytes]) -> int:
        """Write a snapshot of version `version`, from which the log now starts; return its size in bytes."""
        unique = uuid.uuid4().hex[:16]
        seal = self._blobs.put(self._name(f"snapshot.{version}.{unique}"), pieces)
        self._state = _State(snapshot=version, seal=seal, last=seal.checksum, id=unique)
        return seal.size

    def read_snapshot(self) -> list[memoryview]:
        """Return the last snapshot, as one piece; an empty list if there is none.

        Raises:
            DamagedFileError: the snapshot is damaged.
        """
        if not self._before.snapshot:
            return []
        return [memoryview(self._blobs.read(self._name(self._before.file), self._before.seal))]

    def read_log(self) -> Iterator[list[Chunk]]:
        """Return the chunks of each version since the snapshot, in order.

        Raises:
            DamagedFileError: a file of the log is damaged.
        """
        for content in (*self._log_files(), *self._before.waiting):
            yield from unpack_logs(content)

    def logged_rows(self) -> dict[int, int]:
        """Return what the log refers to before or after this batch, see `first_rows`."""
        return merge_least(self._before.rows, self._state.rows)

    def _log_files(self) -> list[bytes | memoryview]:
        """Return the contents of the log's files, in order. Each holds the checksum of the previous one."""
        contents: list[bytes | memoryview] = []
        version, last, file = self._before.meta.version, self._before.last, self._name(HEAD)
        names = {name.rpartition(".")[2]: name for name in self._blobs.names(self._name("log."))}
        while last != self._before.seal.checksum:
            if version == self._before.snapshot:
                raise DamagedFileError(file, "does not belong to the files before it")
            checksum = f"{last:016x}"
            file = names.get(checksum) or names.get(str(version)) or self._name(f"log.{version}.{checksum}")
            seal, content = split_seal(memoryview(self._blobs.read(file)), file)
            if seal.checksum != last:
                raise DamagedFileError(file, "does not belong to the files beside it")
            last = int.from_bytes(content[:_LINK], "little")
            contents.append(content[_LINK:])
            version -= 1
        return contents[::-1]

    def _name(self, file: str) -> str:
        return f"{STATE}/{self._slot}/{file}"

    def _lost(self) -> DamagedFileError:
        """Return the error for a slot whose state before the batch is missing."""
        if self._found is None:
            return DamagedFileError(self._name(HEAD), "is gone")
        return DamagedFileError(
            self._name(HEAD), f"is not what batch {self._batch} follows: it lacks batch {self._after}"
        )

    def _remove_before(self, snapshot: int) -> None:
        """Delete earlier snapshots, and the logs before this one, of all attempts.

        It deletes only files of earlier versions, so a late attempt that calls it does no harm.
        """
        outlived = []
        for name in self._blobs.names(self._name("")):
            what, version, *_ = [*name.rpartition("/")[2].split("."), ""]
            if version.isdigit() and int(version) < snapshot + (what == "log"):
                outlived.append(name)
        self._blobs.delete(outlived)


def first_logged_rows(state: Path) -> dict[int, int]:
    """Return what any slot's log refers to, see `first_rows`, whichever batch is repeated.

    Args:
        state: the folder in which slots keep their state.

    Raises:
        DamagedFileError: a slot does not record the rows of its log.
    """
    heads = [(head.read_bytes(), str(head.relative_to(state.parent))) for head in state.glob(f"*/{HEAD}")]
    return merge_least(*(kept.rows for head in heads for kept in _unpack_head(*head)))


def check_slot(blobs: Blobs, name: str, batch: int, after: int, *, content: bool) -> None:
    """Check that the files of a slot on one machine form the state before a batch.

    Args:
        blobs: the session's storage.
        name: operator and slot, as in `evaluate-0`.
        batch: the number of the batch.
        after: the number of the slot's previous batch.
        content: whether to verify the content of all files; else only the head is read.

    Raises:
        DamagedFileError: they do not form it.
    """
    store = FileStore.beside_head(blobs, name, batch, after)
    store.read_meta()
    if content:
        store.read_snapshot()
        for _ in store.read_log():
            pass


def sealed_files(state: Path) -> dict[str, Seal]:
    """Return the seals of files that heads list with a seal, by their paths within the session's folder.

    Args:
        state: the folder in which slots keep their state, or a copy of it.

    Raises:
        DamagedFileError: a head is damaged.
    """
    seals: dict[str, Seal] = {}
    for head in state.glob(f"*/{HEAD}"):
        folder = head.parent.relative_to(state.parent).as_posix()
        for kept in _unpack_head(head.read_bytes(), f"{folder}/{HEAD}"):
            if kept.snapshot:
                seals[f"{folder}/{kept.file}"] = kept.seal
    return seals


def forget_after(folder: Path, batch: int) -> None:
    """Roll back a slot, whose files are in a folder, to its state after a batch, if it stored later ones.

    Raises:
        DamagedFileError: the slot's head is damaged, or lists only later states; without any state, the slot
            would start over.
    """
    head = folder / HEAD
    if not head.exists():
        return
    file = str(head.relative_to(folder.parent.parent))
    states = _unpack_head(head.read_bytes(), file)
    kept = [state for state in states if state.batch <= batch]
    if not kept:
        raise DamagedFileError(file, f"names no state up to batch {batch}, the last of which there is a plan")
    if kept != states:
        atomic_write(head, with_seal(msgspec.json.encode(kept)))


def _unpack_head(content: bytes, file: str) -> list[_State]:
    """Return the states that a slot's head lists, the latest first."""
    return msgspec.json.decode(without_seal(content, file), type=list[_State])


def merge_least(*some: Mapping[int, int]) -> dict[int, int]:
    """Return the least value of each key of some mappings."""
    least: dict[int, int] = {}
    for key, value in chain.from_iterable(one.items() for one in some):
        least[key] = min(value, least.get(key, value))
    return least
