"""The durable state of a slot in files of the session's home, where driver and workers share a machine.

Each of Spark's two stateful operators takes 0.12 s of every batch for what only a cluster needs: a batch with
nothing to do took 0.33 s. The same pipeline without them, with state in these files, takes 0.13 s (0.20 s
where answers are merged), medians of one run. Spark's offsets still decide how far the session has come:
state is kept for the last two batches, and a batch that Spark repeats finds the one before.

In the folder of an operator's slot: `head`, which names the states after the last two batches, replaced as a
whole; `log.V`, the chunks of version V; `snapshot.V`, the arrays after it. The head also says which rows of
the replay stores the logs name, so that others can be deleted. Files are forced to the disk, each before the
head that names it, if the session asks for it (`stqsh.fs`).

Nothing here is believed without proof. A batch names the one that it follows, and finds the slot's state
after exactly that one, or an error. Each file is sealed (`stqsh.checksums`): the head by itself, a snapshot
in the head, and a log by itself, together with the checksum of the file before it; the head has the last
one's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from stqsh.checksums import (
    DamagedFileError,
    Seal,
    Sealer,
    read_sealed,
    split_seal,
    with_seal,
    without_seal,
    write_sealed,
)
from stqsh.engine.ingest.record_replay import first_rows
from stqsh.engine.state.slot_store import SlotMeta, StaleBatchError, pack_chunks, unpack_chunks
from stqsh.fs import atomic_write, settle
from stqsh.spec.chunk import Chunk

_HEAD = "head"
#: The size of the checksum at the beginning of a log.
_LINK = 8


class _State(msgspec.Struct, frozen=True, array_like=True):
    """A slot after a batch.

    Attributes:
        batch: Spark's number of the batch; -1 before the first.
        snapshot: the version of the snapshot before its log; 0 for none.
        seal: the snapshot's.
        last: the checksum of the last file, of the log or the snapshot; 0 for none.
        meta: the slot's position and costs.
        rows: the first row of each stream, by id, that the log names.
    """

    batch: int = -1
    snapshot: int = 0
    seal: Seal = Seal(0, 0)
    last: int = 0
    meta: SlotMeta = SlotMeta()
    rows: dict[int, int] = {}


class FileStore:
    """The files of one slot of one operator, before and after a batch; a `SlotStore`.

    The slot's lock is held from `read_meta` to `write_meta`.

    Args:
        folder: the slot's folder.
        batch: Spark's number of the batch.
        after: the number of the slot's batch before it; -1 if this one is its first.
    """

    def __init__(self, folder: Path, batch: int, after: int) -> None:
        self._folder, self._batch, self._after = folder, batch, after
        self._found: bytes | None = None
        self._before = self._older = self._state = _State()

    def read_meta(self) -> SlotMeta:
        """Return the slot's position before the batch; the zero values if it has seen none.

        Raises:
            StaleBatchError: the slot has stored a later batch.
            DamagedFileError: the state before the batch is not there.
        """
        self._found = self._read_head()
        states = [] if self._found is None else _unpack_head(self._found, self._name(_HEAD))
        if states and states[0].batch > self._batch:
            raise StaleBatchError(self._folder.name, self._batch, states[0].batch)
        earlier = [state for state in states if state.batch < self._batch]
        self._before, self._older, *_ = [*earlier, _State(), _State()]
        if self._before.batch != self._after:
            raise self._lost()
        self._state = self._before
        return self._before.meta

    def write_meta(self, meta: SlotMeta) -> None:
        """Write the slot's position, and delete what no state needs any more.

        Raises:
            StaleBatchError: another attempt has written one since `read_meta`.
        """
        if self._read_head() != self._found:
            raise StaleBatchError(self._folder.name, self._batch, self._batch)
        state = msgspec.structs.replace(self._state, batch=self._batch, meta=meta)
        atomic_write(self._folder / _HEAD, with_seal(msgspec.json.encode([state, self._before])))
        if self._older.snapshot != self._before.snapshot:
            self._remove_before(self._before.snapshot)

    def append(self, version: int, chunks: list[Chunk]) -> int:
        """Write the chunks of version `version`, and return their size in bytes."""
        content = pack_chunks(chunks)
        link = self._state.last.to_bytes(_LINK, "little")
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        seal = write_sealed(self._folder / f"log.{version}", link, memoryview(content))
        rows = _merge_least(self._before.rows, first_rows(chunks))
        self._state = msgspec.structs.replace(self._state, last=seal.checksum, rows=rows)
        return content.size

    def replace(self, version: int, pieces: Iterable[bytes]) -> int:
        """Write a snapshot of version `version`, which the log now follows; return its size in bytes."""
        sealer = Sealer()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / f"snapshot.{version}"
        with path.open("wb") as file:
            file.writelines(sealer.through(pieces))
        settle(path)
        seal = sealer.seal
        self._state = _State(snapshot=version, seal=seal, last=seal.checksum)
        return seal.size

    def read_snapshot(self) -> list[bytes]:
        """Return the last snapshot, as one piece; an empty list if there is none.

        Raises:
            DamagedFileError: it is not what was written.
        """
        if not self._before.snapshot:
            return []
        name = f"snapshot.{self._before.snapshot}"
        return [read_sealed(self._folder / name, self._before.seal, self._name(name))]

    def read_log(self) -> Iterator[list[Chunk]]:
        """Return the chunks of each version since the snapshot, in order.

        Raises:
            DamagedFileError: a file of the log is not what was written.
        """
        last = self._before.seal.checksum
        file = self._name(_HEAD)
        for version in range(self._before.snapshot + 1, self._before.meta.version + 1):
            file = self._name(f"log.{version}")
            seal, content = split_seal(_read(self._folder / f"log.{version}", file), file)
            if int.from_bytes(content[:_LINK], "little") != last:
                raise DamagedFileError(file, "does not belong to the files before it")
            last = seal.checksum
            yield unpack_chunks(content[_LINK:])
        if last != self._before.last:
            raise DamagedFileError(file, "does not belong to the files beside it")

    def _name(self, name: str) -> str:
        return f"{self._folder.parent.name}/{self._folder.name}/{name}"

    def _read_head(self) -> bytes | None:
        """Return the content of the head, None if there is none."""
        try:
            return (self._folder / _HEAD).read_bytes()
        except FileNotFoundError:
            return None

    def _lost(self) -> DamagedFileError:
        """Return the error of a slot whose state before the batch is not there."""
        if self._found is None:
            return DamagedFileError(self._name(_HEAD), "is gone")
        return DamagedFileError(
            self._name(_HEAD), f"is not what batch {self._batch} follows: it lacks batch {self._after}"
        )

    def _remove_before(self, snapshot: int) -> None:
        """Delete earlier snapshots, and the logs that led to this one."""
        for path in self._folder.glob("*.*"):
            what, _, version = path.name.partition(".")
            if version.isdigit() and int(version) < snapshot + (what == "log"):
                path.unlink(missing_ok=True)


def first_logged_rows(state: Path) -> dict[int, int]:
    """Return the first row of each stream, by id, that logs of any slot name, whichever batch is repeated.

    Streams that no log names are left out.

    Args:
        state: the folder in which slots keep their state.

    Raises:
        DamagedFileError: a slot does not say which rows its log names.
    """
    first: dict[int, int] = {}
    for head in state.glob(f"*/{_HEAD}"):
        for kept in _unpack_head(head.read_bytes(), str(head.relative_to(state.parent))):
            first = _merge_least(first, kept.rows)
    return first


def check_slot(folder: Path, batch: int, after: int, *, content: bool) -> None:
    """Check that the files of a slot make the state that a batch follows.

    Args:
        folder: the slot's folder.
        batch: the number of the batch.
        after: the number of the slot's batch before it.
        content: whether to read them through; else only the head is read.

    Raises:
        DamagedFileError: they do not.
    """
    store = FileStore(folder, batch, after)
    store.read_meta()
    if content:
        store.read_snapshot()
        for _ in store.read_log():
            pass


def sealed_files(state: Path) -> dict[str, Seal]:
    """Return the seals of the files that heads name with one, by their paths within the session's folder.

    Args:
        state: the folder in which slots keep their state, or a copy of it.

    Raises:
        DamagedFileError: a head is not what was written.
    """
    seals: dict[str, Seal] = {}
    for head in state.glob(f"*/{_HEAD}"):
        folder = head.parent.relative_to(state.parent).as_posix()
        for kept in _unpack_head(head.read_bytes(), f"{folder}/{_HEAD}"):
            if kept.snapshot:
                seals[f"{folder}/snapshot.{kept.snapshot}"] = kept.seal
    return seals


def forget_after(folder: Path, batch: int) -> None:
    """Go back to what a slot, whose files are in a folder, had stored after a batch, if it has stored more.

    Raises:
        DamagedFileError: the slot's head is not what was written, or names only later states; without any,
            the slot would start over.
    """
    head = folder / _HEAD
    if not head.exists():
        return
    file = str(head.relative_to(folder.parent.parent))
    states = _unpack_head(head.read_bytes(), file)
    kept = [state for state in states if state.batch <= batch]
    if not kept:
        raise DamagedFileError(file, f"names no state up to batch {batch}, the last of which there is a plan")
    if kept != states:
        atomic_write(head, with_seal(msgspec.json.encode(kept)))


def _read(path: Path, file: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise DamagedFileError(file, "is gone") from None


def _unpack_head(content: bytes, file: str) -> list[_State]:
    """Return the states that a slot's head names, the latest first."""
    return msgspec.json.decode(without_seal(content, file), type=list[_State])


def _merge_least(one: dict[int, int], other: dict[int, int]) -> dict[int, int]:
    return {key: min(some[key] for some in (one, other) if key in some) for key in one.keys() | other.keys()}
