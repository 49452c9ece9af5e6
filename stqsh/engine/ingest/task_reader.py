"""Reading a task in a worker: rows of control log and replay stores become chunks for the slots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.engine.ingest.live_reader import read_live
from stqsh.engine.ingest.slot_commands import Command, commands_of, concerned_slots, for_slot, packed_commands
from stqsh.engine.planning.tasks import BatchHead, LiveSlice, SourceTask, StreamSlice
from stqsh.routing.event_routing import EventRouting
from stqsh.routing.grid_routing import CellRouting
from stqsh.routing.object_routing import slots_of
from stqsh.sources.replay_store.manifest import Manifest, read_manifest
from stqsh.sources.replay_store.store import open_store
from stqsh.sources.table_files import CONTENT, read_table
from stqsh.spec.chunk import Chunk, ChunkKind, ChunkOrder, Phase, pack, pack_json, unpack
from stqsh.spec.log import AreaDropped, RecordsFound, TableDropped
from stqsh.spec.shedding import SheddingOrder
from stqsh.spec.stream import AreaSpec, StreamSpec, TableSpec
from stqsh.storage.catalogue import area_geometry
from stqsh.storage.control_log import ControlDb, read_log
from stqsh.storage.home import SessionHome
from stqsh.storage.rows import LogRow

#: Maximum number of records in a chunk: Spark doubles buffers, so large payloads cost it memory.
CHUNK_RECORDS = 1 << 16


def chunks(task: SourceTask) -> Iterator[Chunk]:
    """Read a task: yield its chunks, each addressed to a slot (its index)."""
    made = _chunks(task)
    return made if task.only is None else (chunk for chunk in made if chunk.slot == task.only)


def _chunks(task: SourceTask) -> Iterator[Chunk]:
    if task.head is not None:
        yield from _head_chunks(task, task.head)
    for piece in task.slices:
        yield from record_chunks(task, piece, task.wanted)
    for live in task.live:
        yield from live_chunks(task, live)


def _head_chunks(task: SourceTask, head: BatchHead) -> Iterator[Chunk]:
    yield from _to_all(task, 0, "clock", Phase.DEFINE, pack_json(head.clock))
    for stream_id, keys in sorted(head.lookups.items()):
        yield from _to_all(task, stream_id, "lookup", Phase.LOOKUP, pack_json(list(keys)))
    for ask in head.clock.asks:
        yield from _to_all(task, ask.spec.stream_id, "ask", Phase.SNAPSHOT, pack_json([ask]))
    control = ControlDb(Path(task.home))
    for row in _rows(control, head.defined):
        yield from _definition_chunks(task, row)
    rows = _rows(control, head.commands)
    for row in rows:
        match row.entry:
            case StreamSpec():
                yield from _to_all(task, row.seq, "define", Phase.DEFINE, pack_json(row.entry))
            case TableDropped(id_):
                yield from _to_all(task, id_, "table_drop", Phase.COMMANDS, pack_json({}))
            case AreaDropped(id_):
                yield from _to_all(task, id_, "area_drop", Phase.COMMANDS, pack_json({}))
    for stream_id, commands in sorted(_with_orders(task, head, rows).items()):
        yield from _command_chunks(task, stream_id, commands)
    yield from _seed_chunks(task, rows)


def _home(task: SourceTask) -> SessionHome:
    return SessionHome(Path(task.home))


def _rows(control: ControlDb, span: tuple[int, int]) -> list[LogRow]:
    after, up_to = span
    return read_log(control, after, up_to) if after < up_to else []


def _definition_chunks(task: SourceTask, row: LogRow) -> Iterator[Chunk]:
    """Yield a table or an area for every slot; one that could not be read is empty."""
    if isinstance(row.entry, AreaSpec):
        yield from _to_all(task, row.seq, "area_define", Phase.DEFINE, row.payload or b"")
    if not isinstance(row.entry, TableSpec):
        return
    table = row.seq
    yield from _to_all(task, table, "table_define", Phase.DEFINE, pack_json(row.entry))
    directory = _home(task).table(table)
    if (directory / CONTENT).exists():
        for number, rows in enumerate(read_table(directory), start=1):
            order = ChunkOrder(Phase.DEFINE, number=number)
            yield from _to_all(task, table, "table", order, pack(rows), rows.num_rows)


def _with_orders(task: SourceTask, head: BatchHead, rows: list[LogRow]) -> dict[int, list[Command]]:
    """Return the commands of log rows by stream, preceded by the shedding order where it is new."""
    commands = commands_of(rows)
    if head.memory is None:
        return commands
    told_to_all = any(isinstance(row.entry, SheddingOrder) for row in rows)
    new = {row.seq for row in rows if isinstance(row.entry, StreamSpec)}
    for stream_id, stream in task.streams.items():
        if stream.is_significant and (told_to_all or stream_id in new):
            commands[stream_id] = [head.memory.command(), *commands.get(stream_id, [])]
    return commands


def _command_chunks(task: SourceTask, stream_id: int, commands: list[Command]) -> Iterator[Chunk]:
    """Yield commands for every slot; a new query of events only for the slots that its region concerns."""
    stream = task.streams.get(stream_id)
    if task.slots == 1 or stream is None or not stream.is_event:
        for number, (kind, payload) in enumerate(packed_commands(commands)):
            yield from _to_all(task, stream_id, kind, ChunkOrder(Phase.COMMANDS, number=number), payload)
        return
    concerned = concerned_slots(event_routing(task), stream, commands)
    span = (task.first_step, task.last_step)
    for slot in range(task.slots):
        mine = for_slot(commands, concerned, slot)
        for number, (kind, payload) in enumerate(packed_commands(mine)):
            yield Chunk(slot, stream_id, kind, ChunkOrder(Phase.COMMANDS, number=number), *span, 0, payload)


def event_routing(task: SourceTask) -> EventRouting:
    """Return the routing of a home's event streams.

    Events of live streams are dealt by their keys, so that a slot sees all records of a key and can tell
    which are duplicates. Their queries are on all slots.
    """
    home = _home(task)

    def routing(stream_id: int) -> CellRouting | None:
        stream = task.streams.get(stream_id)
        if stream is not None and stream.is_live:
            return None
        manifest = read_manifest(home.stream(stream_id))
        return None if manifest is None else _cell_routing(manifest, task.slots)

    return EventRouting(task.slots, routing, lambda area: unpack(area_geometry(ControlDb(home.path), area)))


def _cell_routing(manifest: Manifest, slots: int) -> CellRouting | None:
    """Return the routing that a stream's store gives; None for streams of objects."""
    return None if manifest.bounds is None else CellRouting.of(manifest.bounds, manifest.sample, slots)


def _seed_chunks(task: SourceTask, rows: list[LogRow]) -> Iterator[Chunk]:
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
    """Yield a chunk for each slot; a phase as `order` stands for its only chunk."""
    if isinstance(order, Phase):
        order = ChunkOrder(order)
    for slot in range(task.slots):
        yield Chunk(slot, stream_id, kind, order, task.first_step, task.last_step, rows, payload)


def record_chunks(task: SourceTask, piece: StreamSlice, wanted: Iterable[int]) -> Iterator[Chunk]:
    """Route a slice: each slot gets its records, and every slot gets those of focal objects.

    Records go to slots by object or by place; only the slots in `wanted` get theirs.
    """
    directory = _home(task).stream(piece.stream_id)
    store, stream = open_store(directory), task.streams[piece.stream_id]
    stored = store.read(piece.start, piece.stop)
    steps = np.maximum(stored["_tick"].to_numpy() - task.base_tick + 1, task.first_step)
    hashes = hash_keys(stored[stream.key])
    records = _with_routing(stored.drop_columns(["_tick"]), steps, hashes)
    routing = _cell_routing(store.manifest, task.slots)
    yield from _routed(task, piece, records, routing, wanted)


def live_chunks(task: SourceTask, piece: LiveSlice) -> Iterator[Chunk]:
    """Read a slice of a live stream; all of its records belong to the last step.

    What was taken is reported once, not by each of the tasks that read for one slot.
    """
    stream, directory = task.streams[piece.stream_id], _home(task).stream(piece.stream_id)
    read = read_live(stream, directory, piece.ranges, task.access)
    steps = np.full(read.records.num_rows, task.last_step, np.int64)
    records = _with_routing(read.records, steps, hash_keys(read.records[stream.key]))
    yield from _routed(task, piece, records, None, task.wanted)
    if task.only in (None, 0):
        order = ChunkOrder(Phase.RECORDS, piece.index)
        span = (task.first_step, task.last_step)
        yield Chunk(0, piece.stream_id, ChunkKind.TAKEN, order, *span, 0, pack_json(read.taken))


def _routed(
    task: SourceTask,
    piece: StreamSlice | LiveSlice,
    records: pa.RecordBatch,
    routing: CellRouting | None,
    wanted: Iterable[int],
) -> Iterator[Chunk]:
    """Yield the records of a slice for each slot, and those of focal objects for all."""
    stream, span = task.streams[piece.stream_id], (task.first_step, task.last_step)
    hashes = records["_hash"].to_numpy()
    if routing is None:
        slots = slots_of(hashes, task.slots)
    else:
        slots = routing.slots_of(records.column(stream.x).to_numpy(), records.column(stream.y).to_numpy())
    for slot in wanted:
        mine = records if task.slots == 1 else records.filter(pa.array(slots == slot))
        for order, payload, rows in _packed(mine, piece.index):
            yield Chunk(slot, piece.stream_id, "records", order, *span, rows, payload)
    if piece.focal:
        keys = pa.array(piece.focal, records.schema.field(stream.key).type)
        focal = records.filter(pa.array(np.isin(hashes, hash_keys(keys))))
        for order, payload, rows in _packed(focal, piece.index):
            yield from _to_all(task, piece.stream_id, "focal", order, payload, rows)


def _packed(records: pa.RecordBatch, piece: int) -> Iterator[tuple[ChunkOrder, bytes, int]]:
    """Cut a slice's records into payloads of CHUNK_RECORDS; yield order, payload and row count of each."""
    for number, start in enumerate(range(0, records.num_rows, CHUNK_RECORDS)):
        some = records.slice(start, CHUNK_RECORDS)
        yield ChunkOrder(Phase.RECORDS, piece, number), pack(some), some.num_rows


def _with_routing(
    records: pa.RecordBatch, steps: NDArray[np.int64], hashes: NDArray[np.uint64]
) -> pa.RecordBatch:
    """Add `_step` and `_hash` to a batch of records."""
    return records.append_column("_step", pa.array(steps)).append_column("_hash", pa.array(hashes))
