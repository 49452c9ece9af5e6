"""Compaction of the update log: delete its oldest batches, and keep their updates that still make up answers.

For each query and key only the last update counts, and only if it is positive. The result of any number of
batches is therefore at most as large as the answers. It is written as the base, a file in the format of a
batch's file, so a reader that begins with it folds the log to the same answers. The work is done by columns;
of the updates that are dropped, only query, key and step are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.checksums import Seal
from stqsh.core.kernels.events.latest_updates import latest_updates
from stqsh.errors import StqshError
from stqsh.fs import file_lock, settle
from stqsh.spec.chunk import Chunk, ChunkOrder, decoded, pack, pack_json, to_table
from stqsh.spec.clock import ClockTimes
from stqsh.spec.payload_refs import ENDING, Reference
from stqsh.storage.control_log import ControlDb
from stqsh.storage.disk_space import RESERVE, free_bytes
from stqsh.storage.home import SessionHome
from stqsh.storage.update_log.files import (
    CompactedBase,
    LoggedFile,
    base_path,
    list_base,
    logged_files,
    read_base,
)
from stqsh.storage.update_log.reader import LogRelation, UpdatePart, clock_of, read_parts
from stqsh.storage.update_log.writer import write_chunks
from stqsh.units import format_size

KeyOf = Callable[[int], str]
"""Returns a stream's key column, given the stream's id."""
Forgets = Callable[[int], bool]
"""Returns whether a stream has KEEP NONE, given the stream's id."""
Guard = Callable[[int], AbstractContextManager[bool]]
"""A context in which no reader can begin; it yields whether all readers have read up to a batch."""

_PART = 1 << 20
"""The number of updates in one part of the base."""


@dataclass(frozen=True, slots=True)
class FoldLimits:
    """How much input is collected before it is folded.

    Attributes:
        updates: the number of updates, or the number left from earlier ones if that is more.
        parts: the number of parts: each may keep a file mapped, and a process can map about 65,000 files.
    """

    updates: int = 4_000_000
    parts: int = 10_000


_LIMITS = FoldLimits()


def fold_log(
    control: ControlDb,
    up_to: int,
    key_of: KeyOf,
    guard: Guard,
    forgets: Forgets = lambda _: False,
    limits: FoldLimits = _LIMITS,
) -> CompactedBase:
    """Fold a log's batches up to `up_to`, and the base before them, into a new base; delete them.

    Updates of streams for which `forgets` is true make up no answers, so none of them is kept.

    Readers see either the old base and batches or the new base. Nothing changes if a reader has begun in the
    meantime and has not read that far when `guard` checks. The next call completes an interrupted one.
    Nothing changes either while another process folds, for instance one left by a killed engine.

    Raises:
        DamagedFileError: a file is missing or damaged; nothing changes.
        StqshError: the base would use disk space that is reserved for the engine; nothing changes.
    """
    home = SessionHome(control.path.parent)
    with ExitStack() as held:
        try:
            held.enter_context(file_lock(home.path / "folding.lock", wait=False))
        except BlockingIOError:
            return read_base(control)
        return _fold_log(control, home.updates, up_to, guard, _Fold(key_of, forgets, limits))


def _fold_log(control: ControlDb, updates: Path, up_to: int, guard: Guard, fold: _Fold) -> CompactedBase:
    before = read_base(control)
    _remove_unused(updates, before.batch)  # files left by an interrupted call
    files = logged_files(control, before.batch, up_to)
    if not files:
        return before
    if before.file is not None:
        fold.take(*read_parts(updates, before.file, is_base=True))
    for file in files:
        fold.take(*read_parts(updates, file))
    last = files[-1].batch
    written = _write(updates, last, fold.chunks())
    base = CompactedBase(last, fold.clock.last_step, written)
    with guard(last) as is_read:
        if is_read:
            list_base(control, base)
    kept = base if is_read else before
    _remove_unused(updates, kept.batch)
    return kept


@dataclass
class _Fold:
    """The parts of each relation: those with updates that still hold, and later ones not yet folded."""

    key_of: KeyOf
    forgets: Forgets
    limits: FoldLimits
    clock: ClockTimes = ClockTimes(1, 0, None, None)  # noqa: RUF009 - frozen
    _parts: dict[LogRelation, list[UpdatePart]] = field(default_factory=dict)
    _standing: int = 0
    _waiting: int = 0
    _waiting_parts: int = 0

    def take(self, chunks: pa.Table, relations: dict[LogRelation, list[UpdatePart]]) -> None:
        """Add the content of the next file of the log."""
        self.clock = clock_of(chunks)
        for relation, parts in relations.items():
            self._parts.setdefault(relation, []).extend(parts)
            self._waiting += sum(_size(part) for part in parts)
            self._waiting_parts += len(parts)
        most = max(self.limits.updates, self._standing)
        if self._waiting > most or self._waiting_parts > self.limits.parts:
            self.settle()

    def settle(self) -> None:
        """Reduce all parts to the updates that still hold."""
        self._parts = {
            relation: standing(parts, relation.key(self.key_of))
            for relation, parts in self._parts.items()
            if parts and not self.forgets(relation.stream_id)
        }
        self._standing = sum(_size(part) for parts in self._parts.values() for part in parts)
        self._waiting = self._waiting_parts = 0

    def chunks(self) -> Iterator[Chunk]:
        """Yield the chunks of the base."""
        self.settle()
        step = self.clock.last_step
        yield Chunk(0, 0, "clock", ChunkOrder(), step, step, 0, pack_json(self.clock))
        whole = [(relation.stream_id, part) for relation, parts in self._parts.items() for part in parts]
        for number, (stream, part) in enumerate(whole):
            for kind, batch in (("rows", part.rows), ("updates", part.updates)):
                assert batch is not None  # `standing` returns complete parts
                yield Chunk(
                    0, stream, kind, ChunkOrder(number=number), step, step, batch.num_rows, pack(batch)
                )


def _size(part: UpdatePart) -> int:
    return 0 if part.updates is None else part.updates.num_rows


def standing(parts: list[UpdatePart], key: str) -> list[UpdatePart]:
    """Return a relation's updates that still hold: for each query and key the last one, if it is positive.

    Args:
        parts: in any order, because steps order them; within a step `-` precedes `+`.
        key: the key column.

    Returns:
        Parts of at most `_PART` updates.
    """
    whole = [
        (part.updates, decoded(part.rows, 0))
        for part in parts
        if part.updates is not None and part.rows is not None
    ]
    if not whole:
        return []
    query, step, op = (
        np.concatenate([updates.column(name).to_numpy() for updates, _ in whole])
        for name in ("query", "step", "op")
    )
    first = query.min()
    chosen = latest_updates(
        query - first, _members(whole, key), 2 * step + (op > 0), int(query.max() - first) + 1
    )
    chosen = np.sort(chosen[op[chosen] > 0])
    ends = np.cumsum([updates.num_rows for updates, _ in whole])
    kept = []
    for (updates, rows), end, mine in zip(
        whole, ends, np.split(chosen, np.searchsorted(chosen, ends[:-1])), strict=True
    ):
        if len(mine):
            kept.append(_only(updates, rows, mine - (end - updates.num_rows)))
    return _gathered(kept)


def _members(whole: list[tuple[pa.RecordBatch, pa.RecordBatch]], key: str) -> NDArray[np.int32]:
    """Return an int32 (n,) that numbers the key of each update."""
    encoded: Any = pa.concat_arrays([rows.column(key) for _, rows in whole]).dictionary_encode()
    codes = np.split(encoded.indices.to_numpy(), np.cumsum([rows.num_rows for _, rows in whole])[:-1])
    places = (updates.column("row").to_numpy() for updates, _ in whole)
    return np.concatenate([mine[place] for mine, place in zip(codes, places, strict=True)])


def _only(updates: pa.RecordBatch, rows: pa.RecordBatch, wanted: NDArray[np.int64]) -> UpdatePart:
    """Return the wanted updates of a part, with only the rows to which they refer."""
    updates = updates.take(wanted)
    used, place = np.unique(updates.column("row").to_numpy(), return_inverse=True)
    return UpdatePart(rows.take(used), _pointing(updates, place))


def _pointing(updates: pa.RecordBatch, row: NDArray[Any]) -> pa.RecordBatch:
    return updates.set_column(updates.schema.get_field_index("row"), "row", pa.array(row, pa.int32()))


def _gathered(parts: list[UpdatePart]) -> list[UpdatePart]:
    """Merge many small parts into a few larger ones."""
    groups: list[list[UpdatePart]] = [[]]
    for part in parts:
        if sum(map(_size, groups[-1])) + _size(part) > _PART and groups[-1]:
            groups.append([])
        groups[-1].append(part)
    return [_joined(group) for group in groups if group]


def _joined(parts: list[UpdatePart]) -> UpdatePart:
    """Merge several parts into one."""
    rows: list[pa.RecordBatch] = []
    updates: list[pa.RecordBatch] = []
    for part in parts:
        assert part.updates is not None and part.rows is not None
        before = sum(batch.num_rows for batch in rows)
        updates.append(_pointing(part.updates, part.updates.column("row").to_numpy() + before))
        rows.append(part.rows)
    return UpdatePart(_one(rows), _one(updates))


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Merge batches into one; columns missing in some of them are null there."""
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    (whole,) = pa.concat_tables(tables, promote_options="default").combine_chunks().to_batches()
    return whole


def _write(updates: Path, batch: int, chunks: Iterator[Chunk]) -> LoggedFile:
    """Write the base for the batches up to `batch`: the payloads, then the chunks that refer to them."""
    file = base_path(updates, batch)
    bulk = file.with_suffix(ENDING)
    try:
        kept = _write_payloads(bulk, chunks)
        return LoggedFile.sealed(batch, write_chunks(file, to_table(kept)), bulk.stat().st_size)
    except BaseException:
        for path in (file, bulk):
            path.unlink(missing_ok=True)
        raise


def _write_payloads(bulk: Path, chunks: Iterator[Chunk]) -> list[Chunk]:
    """Write the payloads of chunks to a file, and return the chunks that refer to them.

    A full disk is a reason to fold, so this may use part of the space that is reserved for the engine.
    """
    kept, free = [], free_bytes(bulk.parent)
    most = max(free - RESERVE // 2, free // 2)
    with bulk.open("wb") as sink:
        for chunk in chunks:
            if chunk.kind == "clock":
                kept.append(chunk)
                continue
            if sink.tell() + len(chunk.payload) > most:
                raise StqshError(f"its base takes more than the {format_size(most)} that the disk can spare")
            checksum = Seal.of(chunk.payload).checksum
            reference = Reference(bulk.name, sink.tell(), len(chunk.payload), checksum=checksum)
            sink.write(chunk.payload)
            sink.write(bytes(-len(chunk.payload) % 64))  # aligns the columns
            kept.append(replace(chunk, payload=reference.packed()))
    settle(bulk)
    return kept


def _remove_unused(updates: Path, base: int) -> None:
    """Delete the batches that the base of that number replaces, and all other bases."""
    for path in updates.iterdir():
        name, _, _ = path.name.partition(".")
        number = name.removeprefix("base-")
        if number.isdigit() and (int(number) != base if number != name else int(number) <= base):
            path.unlink(missing_ok=True)
