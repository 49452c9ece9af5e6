"""Read the update log: the updates of each batch and stream, and answers computed from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stqsh.checksums import DamagedFileError
from stqsh.errors import OtherVersionError
from stqsh.spec.chunk import CHUNK, KEY_COLUMN, UPDATES, WHY, ChunkOrder, decoded, unpack, unpack_struct
from stqsh.spec.clock import ClockTimes
from stqsh.spec.narrow_columns import widened
from stqsh.spec.payload_refs import PayloadReader
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import SessionHome
from stqsh.storage.update_log.files import (
    CompactedBase,
    LogCompactedError,
    LoggedFile,
    base_path,
    batch_path,
    damaged,
    logged_files,
    read_base,
)

HEAD = ("step", "at_us", "query", "op", "why", "key")
"""The first columns of an update table; the stream's own columns follow, with the prefix `c.`."""
DISTANCE = "distance"
"""An additional column (float64, null if absent) in logs of queries that select DISTANCE."""
REASONS = WHY
"""The meaning of the codes in the column `why`."""

Keep = Callable[[NDArray[np.int64]], NDArray[np.bool_]]
"""A filter of queries: given query ids (int64 (n,)), returns which are wanted (bool (n,))."""


@dataclass(frozen=True, slots=True)
class UpdateTable:
    """The updates of one relation of a stream in one batch, unordered.

    `table` has the columns `HEAD`, perhaps `DISTANCE`, and the relation's.
    """

    batch: int
    stream_id: int
    table: pa.Table


class UpdateLog:
    """Reads the update log of a session; `key_of` returns a stream's key column, given the stream's id."""

    def __init__(self, control: ControlDb, key_of: Callable[[int], str]) -> None:
        self._control, self._key_of = control, key_of
        self._folder = SessionHome(control.path.parent).updates

    def read(self, after: int, up_to: int, keep: Keep | None = None) -> Iterator[list[UpdateTable]]:
        """Yield one table for each relation, for each batch in `(after, up_to]` with wanted updates.

        `keep` selects the queries. When reading from the beginning (-1), the base comes first, under its
        batch.

        Raises:
            LogCompactedError: the log was folded beyond `after`, perhaps during the read, so tables may be
                missing.
            DamagedFileError: a file of the log is missing or damaged.
        """
        base = read_base(self._control)
        if 0 <= after < base.batch:
            raise LogCompactedError
        files = logged_files(self._control, max(after, base.batch), up_to)
        for file in [base.file, *files] if base.file and after < base.batch else files:
            tables = self._read(file, base, keep)
            if tables:
                yield tables
        if read_base(self._control).batch > max(after, base.batch):
            raise LogCompactedError

    def _read(self, file: LoggedFile, base: CompactedBase, keep: Keep | None) -> list[UpdateTable]:
        try:
            chunks, relations = read_parts(self._folder, file, is_base=file is base.file)
        except DamagedFileError:
            if read_base(self._control) == base:
                raise
            raise LogCompactedError from None
        clock = clock_of(chunks)
        decoded = (
            UpdateTable(file.batch, relation.stream_id, table)
            for relation, parts in sorted(relations.items())
            if (table := _join(parts, clock, relation.key(self._key_of), keep)) is not None
        )
        return list(decoded)

    def answer_at(self, query: int, step: int, up_to: int) -> pa.Table | None:
        """Return the answer of a query after `step`, from batches up to `up_to`.

        The log must not be folded beyond `step`. The rows are those with which the members entered, with the
        columns of `UpdateTable`, ordered by key. The result is None if the log has no updates of the query.
        """
        pieces = [
            only.filter(pa.array(only.column("step").to_numpy() <= step))
            for tables in self.read(-1, up_to, lambda ids: ids == query)
            for only in (table.table for table in tables)
        ]
        if not pieces:
            return None
        return _fold(pa.concat_tables(pieces, promote_options="default"))


class LogRelation(NamedTuple):
    """The relation to which updates refer: the records of a stream, or rows made by queries, such as groups.

    `own_key` is the key column of rows that are not records, "" for records.
    """

    stream_id: int
    own_key: str = ""

    @staticmethod
    def of(stream_id: int, rows: pa.Schema) -> LogRelation:
        """Return the relation of rows with a schema."""
        return LogRelation(stream_id, (rows.metadata or {}).get(KEY_COLUMN, b"").decode())

    def key(self, key_of: Callable[[int], str]) -> str:
        """Return the name of the key column; `key_of` returns the key column of a stream's records."""
        return self.own_key or key_of(self.stream_id)


def read_parts(
    updates: Path, file: LoggedFile, *, is_base: bool = False
) -> tuple[pa.Table, dict[LogRelation, list[UpdatePart]]]:
    """Read a file of the log: its chunks, and the parts of each relation, in order.

    Raises:
        DamagedFileError: the file, or one of its payloads, is missing or damaged.
        OtherVersionError: the file's columns are those of another version.
    """
    path = (base_path if is_base else batch_path)(updates, file.batch)
    try:
        content = _mapped(path)
        file.check(memoryview(content), path)
        chunks = pa.ipc.open_file(content).read_all()
        if not set(CHUNK.names) <= set(chunks.column_names):
            raise OtherVersionError
        return chunks, _parts(chunks, PayloadReader(updates))
    except FileNotFoundError:
        raise damaged(DamagedFileError(f"{updates.name}/{path.name}", "is gone")) from None
    except pa.ArrowInvalid as error:  # possible only for files of a version without checksums
        raise damaged(DamagedFileError(f"{updates.name}/{path.name}")) from error
    except DamagedFileError as error:
        raise damaged(error) from None


def _mapped(path: Path) -> pa.Buffer:
    """Map the content of a file into memory."""
    with pa.memory_map(str(path)) as source:
        return source.read_buffer()


def clock_of(chunks: pa.Table) -> ClockTimes:
    """Return the steps and the event time of the batch with these chunks."""
    place = pc.index(chunks.column("kind"), "clock").as_py()
    return unpack_struct(chunks.column("payload")[place].as_py(), ClockTimes)


@dataclass(slots=True)
class UpdatePart:
    """One slot's rows of a relation, and the updates that refer to them."""

    rows: pa.RecordBatch | None = None
    updates: pa.RecordBatch | None = None


def _parts(chunks: pa.Table, bulk: PayloadReader) -> dict[LogRelation, list[UpdatePart]]:
    """Return the parts of each relation, in order of (order, slot); payloads are decoded without a copy."""
    found: dict[tuple[int, ChunkOrder, int], UpdatePart] = {}
    columns = (chunks.column(name).to_pylist() for name in ("stream", "slot", "kind", *ChunkOrder._fields))
    for stream, slot, kind, *order, payload in zip(*columns, chunks.column("payload"), strict=True):
        if kind in ("rows", "updates"):
            part = found.setdefault((stream, ChunkOrder(*order), slot), UpdatePart())
            batch = unpack(bulk.payload(payload))
            setattr(part, kind, widened(batch, UPDATES) if kind == "updates" else batch)
    relations: dict[LogRelation, list[UpdatePart]] = {}
    for (stream, _, _), piece in sorted(found.items(), key=lambda item: item[0]):
        if piece.updates is not None and piece.rows is not None:
            relations.setdefault(LogRelation.of(stream, piece.rows.schema), []).append(piece)
    return relations


def _join(parts: list[UpdatePart], clock: ClockTimes, key: str, keep: Keep | None) -> pa.Table | None:
    """Return one table of a relation's updates, each with its row; None if no update is wanted."""
    pieces = [table for part in parts if (table := _join_part(part, clock, key, keep)) is not None]
    # Slots without queries that select DISTANCE omit that column; nulls replace it.
    return pa.concat_tables(pieces, promote_options="default") if pieces else None


def _join_part(part: UpdatePart, clock: ClockTimes, key: str, keep: Keep | None) -> pa.Table | None:
    updates, rows = part.updates, part.rows
    if updates is None or rows is None:
        return None
    if keep is not None:
        updates = updates.filter(pa.array(keep(updates.column("query").to_numpy())))
    if updates.num_rows == 0:
        return None
    steps = updates.column("step")
    at_us = pa.array(clock.at_us(steps.to_numpy()))
    taken = decoded(rows.take(updates.column("row")), 0)
    head = [steps, at_us, *(updates.column(name) for name in ("query", "op", "why")), taken.column(key)]
    names = list(HEAD)
    if DISTANCE in updates.schema.names:
        head.append(updates.column(DISTANCE))
        names.append(DISTANCE)
    names += [f"c.{name}" for name in rows.schema.names]
    return pa.Table.from_arrays([*head, *taken.columns], names=names)


def _fold(log: pa.Table) -> pa.Table:
    """Return the members that result from one query's updates, each with its last `+` row, ordered by key."""
    last = last_of_each_key(log)
    return last.filter(pa.array(last.column("op").to_numpy() > 0))


def last_of_each_key(log: pa.Table) -> pa.Table:
    """Return one query's last update for each key, ordered by key; within a step `-` precedes `+`."""
    keys = key_ranks(log.column("key"))
    order = np.lexsort((log.column("op").to_numpy(), log.column("step").to_numpy(), keys))
    return log.take(order[np.flatnonzero(np.diff(keys[order], append=-1))])


def key_ranks(keys: pa.ChunkedArray[Any]) -> NDArray[np.int64]:
    """Return int64 (n,) ranks, at least 0, that order keys: integers by value, strings by code point."""
    encoded = keys.combine_chunks().dictionary_encode()
    rank = np.empty(len(encoded.dictionary), np.int64)
    # Arrow compares strings by their UTF-8 bytes, which gives the same order as code points.
    rank[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(rank))
    ranks: NDArray[np.int64] = rank[encoded.indices.to_numpy()]
    return ranks
