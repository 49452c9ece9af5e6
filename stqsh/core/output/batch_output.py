"""The output of a batch: updates and notices, collected from the kinds and encoded as chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.base.clock import BatchTiming
from stqsh.core.kernels.events.updates import count_updates
from stqsh.core.kernels.events.versions import number
from stqsh.core.objects.batch_objects import BatchObjects
from stqsh.core.queries.query_table import QueryTable
from stqsh.spec.chunk import COUNTS, UPDATES, Chunk, ChunkOrder, Phase, pack, pack_json
from stqsh.spec.narrow_columns import narrowed

_FIRST = ChunkOrder(Phase.EVALUATED)

PART_UPDATES = 1 << 17
"""The most updates in a chunk. Spark doubles its buffers, so chunks of a few MB save much memory."""


class QueryUpdates(NamedTuple):
    """Updates with query ids, (n,) each, like `stqsh.core.kernels.events.updates.UpdateArrays`.

    `distance`, float64, is the distance of the shown object from the query's centre, NaN if there is none.
    It is None if no query with updates selects it.
    """

    step: Array
    query: Array
    op: Array
    why: Array
    show: Array
    distance: Array | None = None

    def where(self, which: slice | Array) -> QueryUpdates:
        """Return some of the updates, chosen by a slice or bool (n,)."""
        step, query, op, why, show = (column[which] for column in self[:5])
        return QueryUpdates(
            step, query, op, why, show, None if self.distance is None else self.distance[which]
        )


def arrivals(step: int, query: Array, versions: Array) -> QueryUpdates:
    """Return the updates by which versions enter answers in a step; arguments are (n,) each."""
    count = len(query)
    return QueryUpdates(
        np.full(count, step), query, np.ones(count, np.int8), np.zeros(count, np.int8), versions
    )


class EndedQuery(msgspec.Struct, frozen=True, tag="ended", tag_field="event"):
    """A notice that a query's FOR ended at a step."""

    query: int
    step: int


@dataclass
class BatchOutput:
    """The output of all queries of a stream in a batch.

    Attributes:
        only_arrivals: Whether members are forgotten after they are sent, so that none leaves (KEEP NONE).
        updates: The updates of all kinds.
        grown: Query ids and the growth of their answers, int64 (n,) each.
        ended: Notices of queries that ended.
        chunks: The chunks that kinds send to Aggregate.
    """

    only_arrivals: bool = False
    updates: list[QueryUpdates] = field(default_factory=list)
    grown: list[tuple[Array, Array]] = field(default_factory=list)
    ended: list[EndedQuery] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)

    def add(self, updates: QueryUpdates, queries: QueryTable) -> None:
        """Add updates whose queries are given by position, and count them."""
        if self.only_arrivals:
            updates = updates.where(updates.op > 0)
        if not len(updates.step):
            return
        # Kernels are compiled for each combination of types, so all updates have the same types.
        position, ids = updates.query.astype(np.int32, copy=False), queries.id
        op, why = (column.astype(np.int8, copy=False) for column in (updates.op, updates.why))
        whose, count, deltas = count_updates(position, op, ids)
        show = updates.show.astype(np.int64, copy=False)
        self.updates.append(QueryUpdates(updates.step, whose, op, why, show, updates.distance))
        queries.sent[:] += count
        if self.only_arrivals:
            return
        grown = np.flatnonzero(deltas)
        self.grown.append((ids[grown], deltas[grown]))

    def all_updates(self) -> QueryUpdates:
        """Return all updates as one table."""
        if len(self.updates) == 1:
            return self.updates[0]
        parts = self.updates or [QueryUpdates(*[np.empty(0, np.int64)] * 5)]
        whole = QueryUpdates(
            *(np.concatenate(column) for column in zip(*(part[:5] for part in parts), strict=True))
        )
        if all(part.distance is None for part in parts):
            return whole
        far = [np.full(len(t.step), np.nan) if t.distance is None else t.distance for t in parts]
        return whole._replace(distance=np.concatenate(far))


class UpdateOrigin(NamedTuple):
    """The origin of updates.

    Attributes:
        slot, stream: The slot and the stream.
        timing: The batch's timing.
        codes: An upper bound, exclusive, of the values of `QueryUpdates.show`.
        rows: Returns the declared columns for an array of distinct values of `QueryUpdates.show`.
    """

    slot: int
    stream: int
    timing: BatchTiming
    codes: int
    rows: Callable[[Array], pa.RecordBatch]


def chunks_of(slot: int, movement: BatchObjects, report: BatchOutput) -> list[Chunk]:
    """Return the non-empty chunks "rows", "updates", "counts" and "notice" of a stream."""
    stream, timing, updates = movement.table.spec.id, movement.timing, report.all_updates()
    codes = movement.versions + len(movement.table)
    origin = UpdateOrigin(slot, stream, timing, codes, partial(shown_rows, movement))
    chunks = update_chunks(origin, updates)
    if report.grown:
        chunks.append(_chunk(slot, stream, "counts", timing, _counts(report)))
    if report.ended:
        payload = pack_json(report.ended)
        count = len(report.ended)
        chunks.append(Chunk(slot, stream, "notice", _FIRST, timing.first, timing.last, count, payload))
    return [*chunks, *report.chunks]


def update_chunks(origin: UpdateOrigin, updates: QueryUpdates, first: ChunkOrder = _FIRST) -> list[Chunk]:
    """Return the chunks "rows" and "updates", numbered from the order `first`.

    The column "distance" is present if some update has one.
    """
    if not len(updates.step):
        return []
    chunks, scratch = [], np.full(origin.codes, -1, np.int32)
    for at, start in enumerate(range(0, len(updates.step), PART_UPDATES), start=first.number):
        piece = updates.where(slice(start, start + PART_UPDATES))
        numbers, shown = number(piece.show, scratch)
        rows = narrowed(origin.rows(shown), only_coded=True)
        batches = ("rows", rows), ("updates", narrowed(_updates(piece, numbers)))
        chunks += [
            _chunk(origin.slot, origin.stream, kind, origin.timing, batch, first._replace(number=at))
            for kind, batch in batches
        ]
    return chunks


def _updates(updates: QueryUpdates, numbers: Array) -> pa.RecordBatch:
    columns = [updates.step, updates.query, updates.op.astype(np.int8), updates.why.astype(np.int8), numbers]
    batch = _batch(columns, UPDATES)
    if updates.distance is None or np.isnan(updates.distance).all():
        return batch
    distance: Any = pa.array(updates.distance, mask=np.isnan(updates.distance))
    return pa.RecordBatch.from_arrays([*batch.columns, distance], names=[*UPDATES.names, "distance"])


def _chunk(
    slot: int, stream: int, kind: str, timing: BatchTiming, batch: pa.RecordBatch, order: ChunkOrder = _FIRST
) -> Chunk:
    return Chunk(slot, stream, kind, order, timing.first, timing.last, batch.num_rows, pack(batch))


def _batch(columns: Sequence[Array], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _counts(report: BatchOutput) -> pa.RecordBatch:
    """Return the growth of each query's answer, summed over all parts of the evaluation."""
    ids, deltas = (np.concatenate(column) for column in zip(*report.grown, strict=True))
    queries, position = np.unique(ids, return_inverse=True)
    return _batch([queries, np.bincount(position, weights=deltas).astype(np.int64)], COUNTS)


def shown_rows(movement: BatchObjects, shown: Array) -> pa.RecordBatch:
    """Return the declared columns of the values in `QueryUpdates.show`, see `VersionNumbers`."""
    table, schema = movement.table, movement.table.schema
    only_key = shown >= movement.versions
    versions = np.where(only_key, -1, shown).astype(np.int32)
    columns = [
        _keys(movement, shown)
        if name == table.spec.key
        else table.columns.show(name, movement.rows, versions)
        for name in schema.names
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _keys(movement: BatchObjects, shown: Array) -> pa.Array[Any]:
    """Return the keys of shown values; keys of the batch's own rows are taken from its input."""
    table, known, versions = movement.table, len(movement.table), movement.versions
    if len(shown) and shown.min() >= known and shown.max() < versions:
        rows: Any = pa.array(shown - known)
        return movement.rows.keys.take(rows)
    return table.show_keys(movement.numbers.shown_objects(shown))


def known_rows(movement: BatchObjects, keys: Sequence[Any]) -> pa.RecordBatch:
    """Return the stored records of the keys that have one, including those with an empty location."""
    table = movement.table
    found = table.keys.find(pa.array(keys, table.key_type))
    found = found[found >= 0]
    return shown_rows(movement, found[movement.stored.known[found]])
