"""Read a task in a worker: convert rows of the control log and of replay stores into chunks for the slots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.objects.kept_sizes import counted_sizes
from stqsh.engine.ingest.copied_queries import CopyCommands, last_records, separated
from stqsh.engine.ingest.crossing_records import (
    DealtRecords,
    SliceRecords,
    deal_crossing,
    texts_to_deal,
)
from stqsh.engine.ingest.dealer_seeds import read_seeds
from stqsh.engine.ingest.live_reader import read_live
from stqsh.engine.ingest.record_sieve import RecordSieve, sieve_of_task
from stqsh.engine.ingest.slot_commands import concerned_slots, for_slot, packed_commands
from stqsh.engine.ingest.stream_routing import StreamRouting, adoptions, releases
from stqsh.engine.planning.head_log import NOTHING, HeadLog, read_head_log
from stqsh.engine.planning.tasks import BatchHead, LiveSlice, SourceTask, StreamSlice
from stqsh.routing.table import RoutingTable, slots_of
from stqsh.sources.replay_store.previous_rows import previous_rows
from stqsh.sources.replay_store.store import open_store_with
from stqsh.sources.table_files import read_table
from stqsh.spec.chunk import (
    COPY_COMMANDS,
    COPY_OLDER,
    Chunk,
    ChunkKind,
    ChunkOrder,
    Phase,
    arrow_type,
    pack,
    pack_json,
    unpack,
)
from stqsh.spec.clock import DealOrder
from stqsh.spec.log import AreaDropped, RecordsFound, TableDropped
from stqsh.spec.shedding import SheddingOrder
from stqsh.spec.stream import AreaSpec, StreamSpec, TableSpec
from stqsh.storage.blobs import Blobs
from stqsh.storage.queries.living_queries import LivingQueries
from stqsh.storage.queries.query_commands import Command, commands_of
from stqsh.storage.rows import LogRow

#: Maximum number of records in a chunk: Spark doubles buffers, so large payloads cost it memory.
CHUNK_RECORDS = 1 << 16

_NO_QUERIES = LivingQueries([], [])
_PLAIN = {arrow_type(kind).id for kind in ("BIGINT", "INT", "DOUBLE", "FLOAT", "TIMESTAMP")} | {
    pa.uint64().id
}
"""The column types that numpy can read without a copy."""


def chunks(task: SourceTask) -> Iterator[Chunk]:
    """Read a task: yield its chunks, each addressed to a slot (its index)."""
    made = _chunks(task)
    return made if task.only is None else (chunk for chunk in made if chunk.slot == task.only)


def _chunks(task: SourceTask) -> Iterator[Chunk]:
    log = NOTHING if task.head is None else read_head_log(task.blobs, task.head.log)
    routing = StreamRouting(task, log.areas)
    if task.head is not None:
        yield from _head_chunks(_HeadReader(task, task.head, log, routing))
    for piece in task.slices:
        yield from record_chunks(task, piece, task.wanted, routing)
    for live in task.live:
        yield from live_chunks(task, live, routing)


class _HeadReader(NamedTuple):
    """The inputs for the chunks of a batch's head.

    Attributes:
        task: the task that reads it.
        head: the head.
        log: the batch's part of the control log.
        routing: the routings of the task.
    """

    task: SourceTask
    head: BatchHead
    log: HeadLog
    routing: StreamRouting


def _head_chunks(reader: _HeadReader) -> Iterator[Chunk]:
    task, head, log, _ = reader
    yield from _to_all(task, 0, "clock", Phase.DEFINE, pack_json(head.clock))
    for stream_id, keys in sorted(head.lookups.items()):
        yield from _to_all(task, stream_id, "lookup", Phase.LOOKUP, pack_json(list(keys)))
    for ask in head.clock.asks:
        yield from _to_all(task, ask.spec.stream_id, "ask", Phase.SNAPSHOT, pack_json([ask]))
    for row in log.defined:
        yield from _definition_chunks(task, head, row)
    for row in log.taken:
        match row.entry:
            case StreamSpec():
                yield from _to_all(task, row.seq, "define", Phase.DEFINE, pack_json(row.entry))
            case TableDropped(id_):
                yield from _to_all(task, id_, "table_drop", Phase.COMMANDS, pack_json({}))
            case AreaDropped(id_):
                yield from _to_all(task, id_, "area_drop", Phase.COMMANDS, pack_json({}))
    commands: dict[int, list[Command]] = {id_: [] for id_ in (*head.routed, *head.copies)} | _with_orders(
        task, head, log.taken
    )
    for stream_id, some in sorted(commands.items()):
        yield from _command_chunks(reader, stream_id, some)
    yield from _release_chunks(reader)
    yield from seed_chunks(task, log.taken)
    yield from _dealer_chunks(task, head)


def _dealer_chunks(task: SourceTask, head: BatchHead) -> Iterator[Chunk]:
    """Yield the orders to dealers, and the orders to slots to send them objects."""
    for stream_id in head.sending:
        yield from _to_all(task, stream_id, ChunkKind.DEAL_SEND, Phase.COMMANDS, pack_json({}))
    for stream_id in task.dealing:
        route, copied = task.routes[stream_id][-1], stream_id in task.copied
        order = DealOrder.at(
            head.clock,
            route,
            begins_copy=stream_id in head.copies,
            is_copied=copied,
            terms=task.terms.get(stream_id),
            spec=task.streams[stream_id],
        )
        yield from _to_all(task, stream_id, ChunkKind.DEAL_ORDER, Phase.COMMANDS, pack_json(order))
        if stream_id in head.seeded:
            yield from read_seeds(task.blobs, stream_id, head.seeded[stream_id])
    for stream_id in head.undealt:
        yield from _to_all(task, stream_id, ChunkKind.DEAL_END, Phase.COMMANDS, pack_json({}))


def _stream(task: SourceTask, stream: int) -> Blobs:
    return task.blobs.below(f"streams/{stream}")


def _definition_chunks(task: SourceTask, head: BatchHead, row: LogRow) -> Iterator[Chunk]:
    """Yield a table or an area for every slot. A table that could not be read is empty.

    Raises:
        DamagedFileError: the file of a prepared table is missing.
    """
    if isinstance(row.entry, AreaSpec):
        yield from _to_all(task, row.seq, "area_define", Phase.DEFINE, row.payload or b"")
    if not isinstance(row.entry, TableSpec):
        return
    table = row.seq
    yield from _to_all(task, table, "table_define", Phase.DEFINE, pack_json(row.entry))
    if table in head.unread:
        return
    for number, rows in enumerate(read_table(task.blobs.below(f"tables/{table}")), start=1):
        order = ChunkOrder(Phase.DEFINE, number=number)
        yield from _to_all(task, table, "table", order, pack(rows), rows.num_rows)


def _with_orders(task: SourceTask, head: BatchHead, rows: Sequence[LogRow]) -> dict[int, list[Command]]:
    """Return the commands of log rows by stream, preceded by the shedding order if it is new."""
    commands = commands_of(rows)
    if head.memory is None:
        return commands
    told_to_all = any(isinstance(row.entry, SheddingOrder) for row in rows)
    new = {row.seq for row in rows if isinstance(row.entry, StreamSpec)}
    for stream_id, stream in task.streams.items():
        if stream.is_significant and (told_to_all or stream_id in new):
            commands[stream_id] = [head.memory.command(), *commands.get(stream_id, [])]
    return commands


def _command_chunks(reader: _HeadReader, stream_id: int, commands: list[Command]) -> Iterator[Chunk]:
    """Yield commands for every slot; a new query only for the slots that its region concerns.

    A query concerns all slots if its moving stream has not been repartitioned.

    Under a new routing, older queries come first, for the slots that did not know them.
    """
    task, head, log, routing = reader
    stream, older = task.streams.get(stream_id), log.before.get(stream_id, _NO_QUERIES)
    if stream is not None and (stream_id in task.copied or stream_id in head.uncopied):
        separate = separated(commands, older, begins=stream_id in head.copies)
        yield from _copy_chunks(task, head, stream, separate)
        commands = separate.others
    if task.slots == 1 or stream is None or not (stream.is_event or stream_id in task.routes):
        for number, (kind, payload) in enumerate(packed_commands(commands)):
            yield from _to_all(task, stream_id, kind, ChunkOrder(Phase.COMMANDS, number=number), payload)
        return
    concerned = concerned_slots(routing.queries(), stream, commands)
    if stream_id in head.routed:
        learned, slots = adoptions(routing, head.commands[0], stream, older)
        commands, concerned = [*learned, *commands], [*slots, *concerned]
    span = (task.first_step, task.last_step)
    for slot in task.wanted:
        mine = for_slot(commands, concerned, slot)
        for number, (kind, payload) in enumerate(packed_commands(mine)):
            yield Chunk(slot, stream_id, kind, ChunkOrder(Phase.COMMANDS, number=number), *span, 0, payload)


def _release_chunks(reader: _HeadReader) -> Iterator[Chunk]:
    """Yield the queries that slots can forget after the batch."""
    task, head, log, routing = reader
    span, order = (task.first_step, task.last_step), ChunkOrder(Phase.COMMANDS)
    for stream_id in sorted(head.left):
        queries, _ = log.after[stream_id]
        found = releases(routing, head.left[stream_id], task.streams[stream_id], queries)
        for slot, ids in enumerate(found):
            if ids:
                yield Chunk(slot, stream_id, ChunkKind.RELEASE, order, *span, 0, pack_json(ids))


def _copy_chunks(
    task: SourceTask, head: BatchHead, stream: StreamSpec, commands: CopyCommands
) -> Iterator[Chunk]:
    """Yield the chunks about a stream's copy by key that every slot needs before the records."""
    for before, some in ((COPY_OLDER, commands.older), (COPY_COMMANDS, commands.copied)):
        for number, (kind, payload) in enumerate(packed_commands(some)):
            order = ChunkOrder(Phase.COMMANDS, number=number)
            yield from _to_all(task, stream.id, before + kind, order, payload)
    if stream.id in head.uncopied:
        yield from _to_all(task, stream.id, ChunkKind.COPY_END, Phase.COMMANDS, pack_json({}))
    if stream.id not in head.copies:
        return
    yield from _to_all(task, stream.id, ChunkKind.COPY_BEGIN, Phase.COMMANDS, pack_json({}))
    if stream.needs_dealer:
        return  # the dealer sends the last records
    files = _stream(task, stream.id)
    store = open_store_with(files, head.copies[stream.id])
    previous = previous_rows(store, files, stream.key, stream.time)[: head.copies[stream.id]]
    seeds = last_records(store, previous, task.first_step - 1, stream.key)
    for number, records in enumerate(seeds):
        dealt = DealtRecords(records, slots_of(records["_hash"].to_numpy(), task.slots))
        for slot, mine in rows_by_slot(dealt, task.wanted):
            order, span = ChunkOrder(Phase.SEEDS, number=number), (task.first_step, task.last_step)
            yield Chunk(slot, stream.id, ChunkKind.COPY_SEEDS, order, *span, mine.num_rows, pack(mine))


def seed_chunks(task: SourceTask, rows: Sequence[LogRow]) -> Iterator[Chunk]:
    """Yield looked-up records of focal objects for every slot, as of the step before the batch."""
    found = [
        (row.entry.stream_id, row.payload)
        for row in rows
        if isinstance(row.entry, RecordsFound) and row.payload
    ]
    for number, (stream_id, payload) in enumerate(found):
        records, stream = unpack(payload), task.streams.get(stream_id)
        if not records.num_rows or stream is None:
            continue
        steps = np.full(records.num_rows, task.first_step - 1, dtype=np.int64)
        seeds = _with_routing(records, steps, hash_keys(records[stream.key]))
        order = ChunkOrder(Phase.SEEDS, number=number)
        yield from _to_all(task, stream_id, "focal", order, pack(seeds), seeds.num_rows)


def _to_all(
    task: SourceTask, stream_id: int, kind: str, order: ChunkOrder | Phase, payload: bytes, rows: int = 0
) -> Iterator[Chunk]:
    """Yield a chunk for each slot. If `order` is a phase, the chunk is the only one of that phase."""
    if isinstance(order, Phase):
        order = ChunkOrder(order)
    for slot in range(task.slots):
        yield Chunk(slot, stream_id, kind, order, task.first_step, task.last_step, rows, payload)


def record_chunks(
    task: SourceTask, piece: StreamSlice, wanted: Iterable[int], routing: StreamRouting
) -> Iterator[Chunk]:
    """Route a slice: send each slot its records, and every slot the records of focal objects.

    Records go to slots by object or by place; only the slots in `wanted` get theirs.
    """
    files = _stream(task, piece.stream_id)
    store, stream = open_store_with(files, piece.stop), task.streams[piece.stream_id]
    stored = store.read(piece.start, piece.stop)
    steps = np.maximum(stored["_tick"].to_numpy() - task.base_tick + 1, task.first_step)
    hashes = hash_keys(stored[stream.key])
    records = _with_routing(stored.drop_columns(["_tick"]), steps, hashes)
    if piece.stream_id in task.dealing:
        yield from _to_slots(task, piece, _by_key(task, records), wanted, ChunkKind.DEAL_RECORDS)
    elif piece.stream_id in task.dealt:
        previous = previous_rows(store, files, stream.key, stream.time)[piece.start : piece.stop]
        mine = SliceRecords(piece.start, records, previous)
        dealt = deal_crossing(store, stream, mine, routing.rows(piece.stream_id))
        yield from _to_slots(task, piece, dealt, wanted)
        if piece.stream_id in task.copied:
            yield from _to_slots(task, piece, _by_key(task, records), wanted, ChunkKind.COPY_RECORDS)
    else:
        table = routing.records(piece.stream_id, store.manifest)
        sieve = sieve_of_task(task, stream, table)
        yield from _to_slots(task, piece, _dealt(task, stream, records, table), wanted, sieve=sieve)
    yield from _to_followers(task, piece, records)
    yield from _size_chunks(task, piece, records)


def live_chunks(task: SourceTask, piece: LiveSlice, routing: StreamRouting) -> Iterator[Chunk]:
    """Read a slice of a live stream; all of its records belong to the last step.

    The counts are reported once, not by each of the tasks that read for one slot.
    """
    stream, files = task.streams[piece.stream_id], _stream(task, piece.stream_id)
    reports = task.only in (None, 0)
    read = read_live(stream, files, piece, task.access, reports=reports)
    steps = np.full(read.records.num_rows, task.last_step, np.int64)
    records = _with_routing(read.records, steps, hash_keys(read.records[stream.key]))
    if piece.stream_id in task.dealing:
        yield from _to_slots(task, piece, _by_key(task, records), task.wanted, ChunkKind.DEAL_RECORDS)
    else:
        table = routing.records(piece.stream_id)
        sieve = sieve_of_task(task, stream, table, sees_all=piece.is_only)
        yield from _to_slots(task, piece, _dealt(task, stream, records, table), task.wanted, sieve=sieve)
    yield from _to_followers(task, piece, records)
    yield from _size_chunks(task, piece, records)
    if reports:
        order = ChunkOrder(Phase.RECORDS, piece.index)
        span = (task.first_step, task.last_step)
        yield Chunk(0, piece.stream_id, ChunkKind.TAKEN, order, *span, 0, pack_json(read.taken))


def _by_key(task: SourceTask, records: pa.RecordBatch) -> DealtRecords:
    return DealtRecords(records, slots_of(records["_hash"].to_numpy(), task.slots))


def _dealt(
    task: SourceTask, stream: StreamSpec, records: pa.RecordBatch, table: RoutingTable | None
) -> DealtRecords:
    """Deal each record independently by its key or location."""
    hashes = records["_hash"].to_numpy()
    if table is None or table.is_hashed:  # locations may be NULL
        return DealtRecords(records, slots_of(hashes, task.slots if table is None else table.slots))
    x, y = (records.column(name).to_numpy() for name in (stream.x, stream.y))
    return DealtRecords(records, table.slots_of(x, y, hashes, texts_to_deal(table, records, stream)))


def _to_slots(
    task: SourceTask,
    piece: StreamSlice | LiveSlice,
    dealt: DealtRecords,
    wanted: Iterable[int],
    kind: str = ChunkKind.RECORDS,
    sieve: RecordSieve | None = None,
) -> Iterator[Chunk]:
    """Yield the records of a slice for each wanted slot, without those that the sieve leaves out."""
    span = (task.first_step, task.last_step)
    for slot, mine in rows_by_slot(dealt, wanted) if task.slots > 1 else ((0, dealt.records),):
        if isinstance(piece, StreamSlice) and task.is_whole(piece.stream_id):
            order = ChunkOrder(Phase.RECORDS, piece.index)
            if mine.num_rows:
                yield Chunk(slot, piece.stream_id, kind, order, *span, mine.num_rows, b"", mine)
            continue
        kept, sent = (mine, None) if sieve is None else sieve.sift(slot, mine)
        for order, payload, rows in packed_records(kept, piece.index, sent):
            yield Chunk(slot, piece.stream_id, kind, order, *span, rows, payload)
    if sieve is not None:
        yield from sieve.counts(span, piece.index)


def rows_by_slot(dealt: DealtRecords, wanted: Iterable[int]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield each wanted slot with its rows, in order.

    One stable sort by slot serves all slots, whatever their number; the rows of a slot are then a view of it.
    """
    records, slots, wanted = dealt.records, dealt.slots, list(wanted)
    if len(wanted) == 1:
        yield wanted[0], chosen_rows(records, np.flatnonzero(slots == wanted[0]))
        return
    counts = np.bincount(slots, minlength=max(wanted, default=0) + 1)
    # numpy sorts integers of one or two bytes by radix sort, in one or two passes.
    narrow = slots.astype(np.uint8 if len(counts) <= 1 << 8 else np.uint16)
    together, ends = chosen_rows(records, np.argsort(narrow, kind="stable")), np.cumsum(counts).tolist()
    for slot in wanted:
        start = ends[slot - 1] if slot else 0
        yield slot, together.slice(start, ends[slot] - start)


def chosen_rows(records: pa.RecordBatch, rows: NDArray[np.intp]) -> pa.RecordBatch:
    """Return some rows of a batch, by their positions.

    For columns with no NULL or only NULL, this takes half as long as Arrow's filter.
    """
    columns = [_chosen_values(column, rows) for column in records.columns]
    return pa.RecordBatch.from_arrays(columns, schema=records.schema)


def _chosen_values(column: pa.Array[Any], rows: NDArray[np.intp]) -> pa.Array[Any]:
    found: Any
    if column.null_count == len(column):
        found = pa.nulls(len(rows), column.type)
    elif column.null_count or column.type.id not in _PLAIN:
        indices: Any = pa.array(rows)
        found = column.take(indices)
    else:
        plain = column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column
        found = pa.array(plain.to_numpy().take(rows)).view(column.type)
    return cast("pa.Array[Any]", found)


def _to_followers(
    task: SourceTask, piece: StreamSlice | LiveSlice, records: pa.RecordBatch
) -> Iterator[Chunk]:
    """Yield the records of focal objects for all slots."""
    if not piece.focal:
        return
    keys = pa.array(piece.focal, records.schema.field(task.streams[piece.stream_id].key).type)
    focal = records.filter(pa.array(np.isin(records["_hash"].to_numpy(), hash_keys(keys))))
    for order, payload, rows in packed_records(focal, piece.index):
        yield from _to_all(task, piece.stream_id, "focal", order, payload, rows)


def _size_chunks(
    task: SourceTask, piece: StreamSlice | LiveSlice, records: pa.RecordBatch
) -> Iterator[Chunk]:
    """Yield the bytes of a slice's records for all slots and dealers, for a stream that keeps a size.

    Logs hold these chunks in full, so they are of a phase before the records.
    """
    stream = task.streams[piece.stream_id]
    if stream.keep_bytes is None or not records.num_rows:
        return
    order, payload = ChunkOrder(Phase.SEEDS, piece.index), pack(counted_sizes(records, stream))
    for kind in (ChunkKind.SIZES, *((ChunkKind.DEAL_SIZES,) if stream.id in task.dealing else ())):
        yield from _to_all(task, stream.id, kind, order, payload)


def packed_records(
    records: pa.RecordBatch, piece: int, sent: NDArray[np.bool_] | None = None
) -> Iterator[tuple[ChunkOrder, bytes, int]]:
    """Cut a slice's records into payloads of CHUNK_RECORDS; yield order, payload and row count of each.

    If only some records are sent, each stays in the payload with the same number.
    """
    for number, start in enumerate(range(0, records.num_rows, CHUNK_RECORDS)):
        some = records.slice(start, CHUNK_RECORDS)
        if sent is not None:
            some = some.filter(pa.array(sent[start : start + CHUNK_RECORDS]))
        if some.num_rows:
            yield ChunkOrder(Phase.RECORDS, piece, number), pack(some), some.num_rows


def _with_routing(
    records: pa.RecordBatch, steps: NDArray[np.int64], hashes: NDArray[np.uint64]
) -> pa.RecordBatch:
    """Add `_step` and `_hash` to a batch of records."""
    return records.append_column("_step", pa.array(steps)).append_column("_hash", pa.array(hashes))
