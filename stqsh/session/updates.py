"""The update log: what each batch delivered, one Arrow IPC file of chunks a batch, and its readers.

Deliver writes `updates/%012d.arrow` under another name and renames it, so that a reader sees a whole
file or none and a repeated batch replaces its own file by the same. A step never spans two batches. Large
payloads may lie in files of their own beside it (`stqsh.session.bulk`), which are in place before it is.
Everything here works on whole columns; no row is touched in Python.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stqsh.core.chunks import WHY, unpack, unpack_json
from stqsh.session.bulk import MARK, Bulk, reference_in

HEAD = ("step", "at_us", "query", "op", "why", "key")
"""The first columns of an update table; the stream's own follow, each with the prefix `c.`."""
DISTANCE = "distance"
"""A further column (float64, null where there is none), in logs of queries that select DISTANCE."""
REASONS = WHY
"""What the codes in the column `why` mean."""
LOGGED_KINDS = ("clock", "rows", "updates")
_NEAR = 64
"""Up to so many batch numbers are looked for by name; beyond, the folder is listed."""

Keep = Callable[[NDArray[np.int64]], NDArray[np.bool_]]
"""Says which query ids (int64 [n]) are wanted (bool [n])."""


@dataclass(frozen=True, slots=True)
class UpdateTable:
    """The updates of one stream in one batch: `HEAD`, perhaps `DISTANCE`, the stream's; rows in no order."""

    batch: int
    stream_id: int
    table: pa.Table


def write_batch(updates: Path, batch: int, chunks: pa.Table) -> bool:
    """Write a batch's chunks that belong to the update log; `False` if it holds no updates.

    `updates` is the home's folder of that name, `chunks` a table of the CHUNK schema (more columns and
    kinds are dropped), whose payloads may refer to hidden files in that folder: these get their names. May be
    called again for the same batch, whose files then have the same content.
    """
    kinds = chunks.column("kind")
    if pc.index(kinds, "updates").as_py() < 0:
        return False
    kept = _put_in_place(
        updates, batch, chunks.filter(pc.is_in(kinds, value_set=pa.array(LOGGED_KINDS, kinds.type)))
    )
    target = _file(updates, batch)
    hidden = target.with_name(f".{target.name}.{os.getpid()}")
    with pa.OSFile(str(hidden), "wb") as sink, pa.ipc.new_file(sink, kept.schema) as writer:
        writer.write_table(kept)
    hidden.replace(target)
    return True


def _put_in_place(updates: Path, batch: int, chunks: pa.Table) -> pa.Table:
    """Give the hidden files that payloads refer to their names: `.N.UNIQUE.bulk` becomes `%012d.N.bulk`."""
    column = chunks.column_names.index("payload")
    payloads = chunks.column(column)
    if not pc.any(pc.starts_with(payloads, pattern=MARK.decode())).as_py():
        return chunks
    names: dict[str, str] = {}
    placed = []
    for payload in payloads.to_pylist():
        reference = reference_in(payload)
        if reference is None:
            placed.append(payload)
            continue
        if reference.file not in names:
            _, name, _, ending = reference.file.split(".")
            target = f"{batch:012d}.{name}.{ending}"
            if target in names.values():
                raise ValueError(f"two files want to be {target}: {', '.join(names)}, {reference.file}")
            names[reference.file] = target
            (updates / reference.file).replace(updates / target)
        placed.append(replace(reference, file=names[reference.file], again=None).packed())
    return chunks.set_column(column, chunks.schema.field(column), pa.array(placed, payloads.type))


class UpdateLog:
    """Reads the update log of one session home; `key_of` gives a stream's key column by stream id."""

    def __init__(self, updates: Path, key_of: Callable[[int], str]) -> None:
        self._folder = updates
        self._key_of = key_of

    def batches(self, after: int, up_to: int) -> list[int]:
        """The batches in `(after, up_to]` that have updates, in order."""
        if up_to - after <= _NEAR:
            near = range(max(after + 1, 0), up_to + 1)
            return [batch for batch in near if _file(self._folder, batch).exists()]
        numbers = (int(entry.name[:12]) for entry in os.scandir(self._folder) if _is_batch(entry.name))
        return sorted(number for number in numbers if after < number <= up_to)

    def read(self, after: int, up_to: int, keep: Keep | None = None) -> Iterator[list[UpdateTable]]:
        """For each batch in `(after, up_to]` with updates that `keep` wants: one table a stream."""
        for batch in self.batches(after, up_to):
            tables = self.read_batch(batch, keep)
            if tables:
                yield tables

    def read_batch(self, batch: int, keep: Keep | None = None) -> list[UpdateTable]:
        """The updates of one batch by stream, in the order of stream ids; empty where none is wanted."""
        with pa.memory_map(str(_file(self._folder, batch))) as source:
            chunks = pa.ipc.open_file(source).read_all()
        at = _clock(chunks)
        decoded = (
            UpdateTable(batch, stream, table)
            for stream, parts in sorted(_parts(chunks, Bulk(self._folder)).items())
            if (table := _join(parts, at, self._key_of(stream), keep)) is not None
        )
        return list(decoded)

    def answer_at(self, query: int, step: int, up_to: int) -> pa.Table | None:
        """The answer of a query after `step`: its log folded, from batches up to `up_to`.

        The rows are those with which the members came in, columns as in `UpdateTable`, ordered by key;
        `None` where the log has nothing of the query.
        """
        pieces = [
            only.filter(pa.array(only.column("step").to_numpy() <= step))
            for tables in self.read(-1, up_to, lambda ids: ids == query)
            for only in (table.table for table in tables)
        ]
        if not pieces:
            return None
        return _fold(pa.concat_tables(pieces, promote_options="default"))


def ordered(tables: Sequence[UpdateTable], names: Mapping[int, str]) -> list[tuple[int, pa.Table]]:
    """Bring the tables of one batch into the order of language.md section 6.

    By step, query name, `-` before `+`, key (integers by value, strings by code point). Gives
    (stream id, slice) pairs: each slice is a run of rows of one stream, and the runs in sequence are the
    order over all streams. `names` has the name of each query that occurs.
    """
    steps, ranks = _dense(tables, "step"), _name_ranks(tables, names)
    sorted_tables, classes = [], []
    for table, step, rank in zip(tables, steps, ranks, strict=True):
        plus = table.table.column("op").to_numpy() > 0
        group = (step * (len(names) + 1) + rank) * 2 + plus
        query = table.table.column("query").to_numpy()
        order = np.lexsort((query, _key_ranks(table.table.column("key")), group))
        sorted_tables.append((table.stream_id, table.table.take(order)))
        classes.append(group[order])
    return sorted_tables if len(tables) == 1 else _interleave(sorted_tables, classes)


def _file(folder: Path, batch: int) -> Path:
    return folder / f"{batch:012d}.arrow"


def _is_batch(name: str) -> bool:
    return name.endswith(".arrow") and name[:12].isdigit()


def _clock(chunks: pa.Table) -> tuple[int, int]:
    """(base_tick, tick_us) of the batch's clock chunk."""
    place = pc.index(chunks.column("kind"), "clock").as_py()
    value = unpack_json(chunks.column("payload")[place].as_py())
    return value["base_tick"], value["tick_us"]


@dataclass(slots=True)
class _Part:
    """One slot's rows of a stream and the updates that point into them."""

    rows: pa.RecordBatch | None = None
    updates: pa.RecordBatch | None = None


def _parts(chunks: pa.Table, bulk: Bulk) -> dict[int, list[_Part]]:
    """The parts of each stream, in the order of (part, slot); `payload`s are decoded without a copy."""
    found: dict[tuple[int, int, int], _Part] = {}
    columns = (chunks.column(name).to_pylist() for name in ("stream", "part", "slot", "kind"))
    for stream, part, slot, kind, payload in zip(*columns, chunks.column("payload"), strict=True):
        if kind in ("rows", "updates"):
            setattr(found.setdefault((stream, part, slot), _Part()), kind, unpack(bulk.payload(payload)))
    streams: dict[int, list[_Part]] = {}
    for (stream, _, _), piece in sorted(found.items()):
        if piece.updates is not None:
            streams.setdefault(stream, []).append(piece)
    return streams


def _join(parts: list[_Part], at: tuple[int, int], key: str, keep: Keep | None) -> pa.Table | None:
    """One table of a stream's updates, each with its row; `None` where nothing is wanted."""
    pieces = [table for part in parts if (table := _join_part(part, at, key, keep)) is not None]
    # A slot whose updates are of queries without DISTANCE sends no such column; nulls take its place.
    return pa.concat_tables(pieces, promote_options="default") if pieces else None


def _join_part(part: _Part, at: tuple[int, int], key: str, keep: Keep | None) -> pa.Table | None:
    updates, rows = part.updates, part.rows
    if updates is None or rows is None:
        return None
    if keep is not None:
        updates = updates.filter(pa.array(keep(updates.column("query").to_numpy())))
    if updates.num_rows == 0:
        return None
    base_tick, tick_us = at
    steps = updates.column("step")
    at_us = pa.array((steps.to_numpy() + (base_tick - 1)) * tick_us)
    taken = rows.take(updates.column("row"))
    head = [steps, at_us, *(updates.column(name) for name in ("query", "op", "why")), taken.column(key)]
    names = list(HEAD)
    if DISTANCE in updates.schema.names:
        head.append(updates.column(DISTANCE))
        names.append(DISTANCE)
    names += [f"c.{name}" for name in rows.schema.names]
    return pa.Table.from_arrays([*head, *taken.columns], names=names)


def _fold(log: pa.Table) -> pa.Table:
    """The members that one query's updates leave, each with its last `+`, ordered by key."""
    last = last_of_each_key(log)
    return last.filter(pa.array(last.column("op").to_numpy() > 0))


def last_of_each_key(log: pa.Table) -> pa.Table:
    """The last of one query's updates for each key, ordered by key; in a step `-` comes before `+`."""
    keys = _key_ranks(log.column("key"))
    order = np.lexsort((log.column("op").to_numpy(), log.column("step").to_numpy(), keys))
    return log.take(order[np.flatnonzero(np.diff(keys[order], append=-1))])


def _key_ranks(keys: pa.ChunkedArray[Any]) -> NDArray[np.int64]:
    """Ranks that order keys: integers by value, strings by code point (int64 [n], never negative)."""
    encoded = pa.concat_arrays(keys.chunks or [pa.array([], keys.type)]).dictionary_encode()
    rank = np.empty(len(encoded.dictionary), np.int64)
    # Arrow compares strings by their UTF-8 bytes, which is the order of code points.
    rank[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(rank))
    ranks: NDArray[np.int64] = rank[encoded.indices.to_numpy()]
    return ranks


def _dense(tables: Sequence[UpdateTable], column: str) -> list[NDArray[np.int64]]:
    """A column's values as dense ranks that are common to all tables."""
    values = [table.table.column(column).to_numpy() for table in tables]
    distinct = np.unique(np.concatenate(values)) if values else np.empty(0, np.int64)
    return [np.searchsorted(distinct, value) for value in values]


def _name_ranks(tables: Sequence[UpdateTable], names: Mapping[int, str]) -> list[NDArray[np.int64]]:
    """The rank of each update's query name among the names (code points; equal names rank alike)."""
    ids = np.unique(np.concatenate([table.table.column("query").to_numpy() for table in tables]))
    present = [names[int(query)] for query in ids]
    rank_of = {name: rank for rank, name in enumerate(sorted(set(present)))}
    ranks = np.array([rank_of[name] for name in present], np.int64)
    return [ranks[np.searchsorted(ids, table.table.column("query").to_numpy())] for table in tables]


def _interleave(
    tables: list[tuple[int, pa.Table]], classes: list[NDArray[np.int64]]
) -> list[tuple[int, pa.Table]]:
    """Merge sorted tables by their classes (step, name, op) into runs of rows of one stream."""
    source = np.repeat(np.arange(len(tables)), [len(group) for group in classes])
    merged = source[np.argsort(np.concatenate(classes), kind="stable")]
    edges = np.flatnonzero(np.diff(merged, prepend=-1))
    taken = [0] * len(tables)
    runs = []
    for start, stop in zip(edges, [*edges[1:], len(merged)], strict=True):
        which, length = int(merged[start]), int(stop - start)
        stream, table = tables[which]
        runs.append((stream, table.slice(taken[which], length)))
        taken[which] += length
    return runs
