"""One stream's part of a batch: its snapshots, records and commands, and the clean-up afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from time import perf_counter_ns
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.core.base.clock import BatchTiming
from stqsh.core.contract.batch import SlotBatch, batches, items
from stqsh.core.contract.batch_pieces import BatchPiece, pieces
from stqsh.core.contract.kind_batch import release, run_kind
from stqsh.core.contract.merging_kind import MergingKind
from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.keyed_copy import forget_arrays, forget_copy, ids_of, open_copy, read_input, run_copy
from stqsh.core.kinds import KINDS
from stqsh.core.objects.batch_objects import BatchObjects
from stqsh.core.objects.event_objects import (
    LET_GO,
    RENUMBERED,
    count_kept,
    count_let_go,
    forget_all,
    forget_expired,
    let_go,
)
from stqsh.core.objects.event_objects import make_room as keep_only
from stqsh.core.objects.kept_keys import KeptEventKeys
from stqsh.core.objects.kept_sizes import KeptSizes
from stqsh.core.objects.object_table import ObjectTable
from stqsh.core.objects.presence import SIDE, count_presence
from stqsh.core.output.batch_output import BatchOutput, chunks_of, known_rows
from stqsh.core.queries.query_table import QueryCommands, digest, is_over
from stqsh.core.queries.registrations import NewQueries, commands_in
from stqsh.core.retention.object_retention import compact, forget_silent
from stqsh.core.retention.retention_step import close, take_out
from stqsh.core.retention.step_runs import cut_batch
from stqsh.core.retention.stream_stats import figures
from stqsh.core.snapshots.select import answer
from stqsh.core.state.columns import concatenate
from stqsh.core.state.retention_mode import forget_memory, remember
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.string_dictionary import vacuum
from stqsh.core.texts.term_table import tidy
from stqsh.spec.chunk import ROLE, Chunk, ChunkKind, RecordRole, pack
from stqsh.spec.clock import BatchClock
from stqsh.spec.command import AlterCommand, PauseCommand, RegisterCommand, SlotCommand, unpack_asks
from stqsh.spec.stream import StreamSpec

_PART = 1 << 18
"""The most events in a chunk that is sent to an archive."""


def advance(batch: SlotBatch, spec: StreamSpec, chunks: list[Chunk]) -> list[Chunk]:
    """Evaluate a stream's chunks of a batch and return the output; without chunks, only time passes."""
    out = looked_up(batch, spec, chunks) + answers(batch, spec, chunks)
    batch.count_sizes(spec, chunks)
    whole = _whole(batch, spec, chunks)
    if whole.commands.memory is not None:
        remember(batch.state, spec.id, whole.commands.memory)
    there = 0
    for number, piece in enumerate(_pieces(batch.state, spec, whole)):
        made, there = _piece(batch, spec, piece)
        out += [_renumbered(batch, chunk, number) for chunk in made]
    batch.add(objects=there)
    if any(chunk.kind == ChunkKind.DEAL_SEND for chunk in chunks):
        out += _kept(batch, spec) if spec.is_event else [_last_records(batch, spec)]
    if released := items(ChunkKind.RELEASE, chunks):
        _release(batch, spec, np.array(released, np.int64))
    if any(chunk.kind == ChunkKind.COPY_END for chunk in chunks):
        forget_copy(batch.state, spec.id)
    if spec.is_significant and not whole.commands.stream_dropped:
        batch.memory[spec.id] = figures(batch.state, spec)
    return out


def _whole(batch: SlotBatch, spec: StreamSpec, chunks: list[Chunk]) -> BatchPiece:
    """Return all input of a stream as one piece."""
    timing = batch.timing(spec)
    commands = digest(_unknown(batch.state, spec, [*commands_in(chunks)], timing))
    _check(commands, timing)
    commands = commands.since(timing.first)
    copy = read_input(batch.state, spec, chunks)
    if copy is not None and commands.stream_dropped:
        copy = replace(copy, commands=replace(copy.commands, stream_dropped=True))
    records = _records(batch, spec, timing, chunks)
    return BatchPiece(timing, records, _focal_records(spec, chunks), commands, copy=copy)


def _focal_records(spec: StreamSpec, chunks: list[Chunk]) -> list[pa.RecordBatch]:
    """Return the records of focal objects; the place of one with an extent is the centre of its box."""
    found = batches("focal", chunks)
    if spec.extent is None or not found:
        return found
    from stqsh.core.conditions.extents import box_centres, extents_of  # shapely: only when needed

    records = concatenate(found)
    centres = box_centres(extents_of(records.column(spec.extent)), spec.planar)
    for axis, values in zip((spec.x, spec.y), centres, strict=True):
        at = records.schema.get_field_index(axis)
        column: Any = pa.array(values, records.schema.field(at).type, mask=np.isnan(values))
        records = records.set_column(at, records.schema.field(at), column)
    return [records]


def _records(
    batch: SlotBatch, spec: StreamSpec, timing: BatchTiming, chunks: list[Chunk]
) -> list[pa.RecordBatch]:
    """Return a stream's records; duplicates of live events are dropped and counted as stale.

    Replay stores have no duplicates. A dealer has already marked the duplicates in what it sends.
    """
    found = batches("records", chunks)
    if not (found and spec.is_event and spec.is_live):
        return found
    records = concatenate(found)
    if ROLE in records.schema.names:
        again = records.column(ROLE).to_numpy() == RecordRole.STALE
        records = records.drop_columns([ROLE])
    else:
        again = KeptEventKeys.of(batch.state, spec).duplicates_among(records, spec, timing)
    if not again.any():
        return [records]
    count = int(np.count_nonzero(again))
    batch.add(records=count, stale=count)
    return [records.filter(pa.array(~again))]


def _unknown(
    state: SlotState, spec: StreamSpec, commands: list[SlotCommand | NewQueries], timing: BatchTiming
) -> Iterator[SlotCommand | NewQueries]:
    """Yield the commands, but skip registrations of older queries that the slot already has.

    The slot may have them from an earlier routing, or evaluate them over the copy by key. If it does not have
    a query that is altered, the query is first registered in its former form, unless FOR has ended
    it.
    """
    if not any(
        not command.are_new.all() if isinstance(command, NewQueries) else _may_be_unknown(command)
        for command in commands
    ):
        yield from commands
        return
    used = [
        (kind, id_) for id_ in ids_of(state, spec.id) for kind in KINDS.values() if kind.is_used(state, id_)
    ]
    known = np.concatenate([np.empty(0, np.int64), *(kind.queries(state, id_).id for kind, id_ in used)])
    among = set(known.tolist())
    for command in commands:
        if isinstance(command, NewQueries):
            mine = command.those(command.are_new | ~np.isin(command.ids, known))
            among.update(mine.ids.tolist())
            yield mine
        elif isinstance(command, AlterCommand) and command.id not in among:
            if not (command.only_known or is_over(command.before, command.step, timing)):
                among.add(command.id)
                yield from _learned(command)
        elif isinstance(command, RegisterCommand) and command.query.id in among:
            continue
        else:
            if isinstance(command, RegisterCommand):
                among.add(command.query.id)
            yield command


def _learned(command: AlterCommand) -> Iterator[SlotCommand]:
    """Yield the commands that register a query whose altered form concerns this slot."""
    if command.step is None:
        yield RegisterCommand(query=command.query)
    else:
        yield RegisterCommand(query=command.before, step=command.step)
        yield command
    if command.paused:
        yield PauseCommand(id=command.id)


def _may_be_unknown(command: SlotCommand) -> bool:
    """Return whether a command concerns an older query, which other slots already have."""
    if isinstance(command, RegisterCommand):
        return command.step is not None
    return isinstance(command, AlterCommand)


def _check(commands: QueryCommands, timing: BatchTiming) -> None:
    """Check that commands take effect at a step, and that the kinds of queries exist."""
    if commands.any and timing.last < timing.first:
        raise ValueError("commands came in a batch without steps")
    for spec in (*commands.registered.patterns, *commands.altered.patterns):
        if spec.kind not in KINDS:
            raise ValueError(f"no query kind {spec.kind!r}; there are {', '.join(KINDS)}")


def _pieces(state: SlotState, spec: StreamSpec, whole: BatchPiece) -> Iterable[BatchPiece]:
    """Cut a batch as its stream and queries require; the caller processes each piece before the next."""
    if whole.commands.stream_dropped:
        return [whole]
    if spec.is_significant:
        return cut_batch(state, spec, whole)
    merges = _merges(state, spec, whole.commands)
    return pieces(whole, partial(_known, state, spec)) if merges else [whole]


def _merges(state: SlotState, spec: StreamSpec, commands: QueryCommands) -> bool:
    """Return whether a stream has queries whose answers are merged, see `contract.batch_pieces`."""
    merging = {name: kind for name, kind in KINDS.items() if isinstance(kind, MergingKind)}
    return any(
        kind.count(state, spec.id) or len(commands.of_kind(name).registered) for name, kind in merging.items()
    )


def _known(state: SlotState, spec: StreamSpec) -> int:
    """Return the number of objects."""
    return len(ObjectTable(state, f"s{spec.id}/objects", spec))


def _renumbered(batch: SlotBatch, chunk: Chunk, piece: int) -> Chunk:
    """Return a chunk of a piece as one of the batch."""
    first, last = batch.clock.first_step, batch.clock.last_step
    return replace(chunk, order=chunk.order._replace(piece=piece), first_step=first, last_step=last)


def _piece(batch: SlotBatch, spec: StreamSpec, piece: BatchPiece) -> tuple[list[Chunk], int]:
    """Evaluate a piece; return its chunks and the number of objects after it."""
    report, begun = BatchOutput(only_arrivals=spec.keeps_none), perf_counter_ns()
    stream = _stream_batch(batch.state, spec, piece, batch.clock)
    copy = None if piece.copy is None else open_copy(stream, piece.copy)
    decoded = perf_counter_ns()
    kept = take_out(stream)
    for name, kind in KINDS.items():
        commands = stream.commands.of_kind(name)
        if len(commands.registered) or kind.is_used(batch.state, spec.id):
            run_kind(kind, replace(stream, commands=commands), report)
    made = chunks_of(batch.slot, stream.objects, report)
    made += [] if copy is None else run_copy(batch.slot, copy)
    kernel = perf_counter_ns()
    stream.objects.finish()
    stream.focal.finish()
    if copy is not None:
        copy.objects.finish()
        make_room(copy)
    close(stream, kept)
    made += [
        batch.chunk(ChunkKind.ARCHIVED, pack(events), spec.id, events.num_rows, number=number)
        for number, events in enumerate(_archived(stream))
    ]
    there = _left(stream)
    batch.add(
        records=stream.objects.rows.reported + piece.passed,
        stale=stream.objects.accepted.stale,
        updates=sum(chunk.rows for chunk in made if chunk.kind == "updates"),
        decode_us=(decoded - begun) // 1000,
        kernel_us=(kernel - decoded) // 1000,
        state_us=(perf_counter_ns() - kernel) // 1000,
    )
    return made, there


def _release(batch: SlotBatch, spec: StreamSpec, ids: NDArray[np.int64]) -> None:
    """Remove queries in whose regions the slot has no records after the batch."""
    timing = batch.timing(spec)
    over = BatchPiece(timing._replace(first=timing.last + 1), [], [], digest([]))
    stream = _stream_batch(batch.state, spec, over, batch.clock)
    for kind in KINDS.values():
        if kind.is_used(batch.state, spec.id):
            release(kind, stream, ids)


def _archived(stream: StreamBatch) -> list[pa.RecordBatch]:
    """Remove and return the events to archive now, after the events of the batch were stored."""
    if stream.spec.archive is None or stream.commands.stream_dropped:
        return []
    state, number, table = stream.state, stream.spec.id, stream.objects.table
    gone = let_go(state, number, stream.timing, at_once=stream.clock.ended)
    if not gone.any():
        return []
    objects = np.flatnonzero(gone).astype(np.int32)
    events = [table.rows(objects[start : start + _PART]) for start in range(0, len(objects), _PART)]
    keep_only(state, number, ~gone)
    count_let_go(state, number, len(objects))
    return events


def _left(stream: StreamBatch) -> int:
    """Clean up after a piece, and return the number of objects left."""
    if stream.commands.stream_dropped:
        forget(stream.state, stream.spec.id)
        return 0
    there = make_room(stream)
    if not stream.spec.keeps_none:
        count_presence(stream.state, stream.spec.id, stream.objects, stream.spec.grid or SIDE)
    return there


def _stream_batch(state: SlotState, spec: StreamSpec, piece: BatchPiece, clock: BatchClock) -> StreamBatch:
    """Return a piece as query kinds see it."""
    timing, prefix = piece.timing, f"s{spec.id}"
    objects = ObjectTable(state, f"{prefix}/objects", spec)
    focal = ObjectTable(state, f"{prefix}/focal", spec, columns=False)
    seeds, followed = _seeds_apart(piece.focal, timing)
    BatchObjects(focal, seeds, timing).finish()
    leaving: frozenset[int] | None = None
    _know_focals(focal, piece.commands)
    if piece.copy is not None:
        leaving = frozenset(piece.copy.older.registered.ids.tolist())
        _know_focals(focal, piece.copy.older)
        _know_focals(focal, piece.copy.commands)
    return StreamBatch(
        state=state,
        spec=spec,
        timing=timing,
        objects=BatchObjects(objects, piece.records, timing),
        focal=BatchObjects(focal, followed, timing),
        commands=piece.commands,
        clock=clock,
        leaving=leaving,
    )


def _know_focals(focal: ObjectTable, commands: QueryCommands) -> None:
    """Add a row for every focal object of a new query to the table, before versions are numbered."""
    for some in (commands.registered, commands.altered):
        focal.intern(some.focal_objects(focal.key_type)[1])


def _seeds_apart(
    batches: list[pa.RecordBatch], timing: BatchTiming
) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
    """Split records of focal objects into those from before the batch's first step and the others."""
    early: list[pa.RecordBatch] = []
    regular: list[pa.RecordBatch] = []
    for batch in batches:
        before = batch.column("_step").to_numpy() < timing.first
        for rows, target in ((before, early), (~before, regular)):
            if rows.any():
                target.append(batch if rows.all() else batch.filter(pa.array(rows)))
    return early, regular


def make_room(batch: StreamBatch) -> int:
    """Free unused rows after a batch; return the number of objects with a record, or of unexpired events."""
    stream, table = batch.spec.id, batch.objects.table
    stored = len(table)
    if batch.spec.keeps_none:
        forget_all(batch.state, stream)
        there = 0
    elif batch.spec.archive is not None:
        there = count_kept(batch.state, stream, batch.timing)
    elif batch.spec.is_event:
        there = forget_expired(batch.state, stream, batch.timing)
    else:
        if not batch.spec.is_significant:
            forget_silent(batch)
        there = int(np.count_nonzero(table.stored.known))
        if len(batch.objects.rows.roles):
            compact(batch, there)
    has_new_codes = vacuum(batch.state, stream, now=len(table) < stored and batch.spec.is_event)
    tidy(batch.state, stream, now=has_new_codes)
    return there


def forget(state: SlotState, stream: int) -> None:
    """Remove everything that a slot stores about a dropped stream."""
    forget_arrays(state, stream)
    forget_copy(state, stream)
    del state.entry("streams")[str(stream)]
    forget_memory(state, stream)
    for entry in (RENUMBERED, LET_GO):
        state.entry(entry).pop(str(stream), None)


def looked_up(batch: SlotBatch, spec: StreamSpec, chunks: list[Chunk]) -> list[Chunk]:
    """Return the last records before the batch of the keys to look up, as one "found" chunk or none."""
    keys = items("lookup", chunks)
    if not keys:
        return []
    table = ObjectTable(batch.state, f"s{spec.id}/objects", spec)
    found = known_rows(BatchObjects(table, [], batch.timing(spec)), keys)
    return [batch.chunk("found", pack(found), spec.id, found.num_rows)] if found.num_rows else []


def _last_records(batch: SlotBatch, spec: StreamSpec) -> Chunk:
    """Return the last records of all objects for the stream's dealer."""
    table = ObjectTable(batch.state, f"s{spec.id}/objects", spec)
    rows = table.rows(np.flatnonzero(table.stored.known).astype(np.int32))
    steps = pa.array(np.full(rows.num_rows, batch.clock.last_step, np.int64))
    seeds = rows.append_column("_step", steps)
    seeds = seeds.append_column("_hash", pa.array(hash_keys(rows.column(spec.key))))
    return batch.chunk(ChunkKind.DEAL_SEEDS, pack(seeds), spec.id, seeds.num_rows)


def no_seeds(batch: SlotBatch, stream: int) -> Chunk:
    """Return the seeds of a stream that has no objects yet: on a cluster its dealer waits for seeds."""
    empty = pa.RecordBatch.from_arrays([], names=[])
    return batch.chunk(ChunkKind.DEAL_SEEDS, pack(empty), stream, 0)


def _kept(batch: SlotBatch, spec: StreamSpec) -> list[Chunk]:
    """Send the kept keys to the stream's dealer, which finds duplicates from now on, and forget them.

    The dealer also gets the counts of bytes, from which the floors follow.
    """
    seeds = [KeptEventKeys.of(batch.state, spec).content(spec)]
    KeptEventKeys.forget(batch.state, spec)
    if spec.keep_bytes is not None:
        seeds.append(KeptSizes.of(batch.state, spec).content())
    return [
        batch.chunk(ChunkKind.DEAL_SEEDS, pack(some), spec.id, some.num_rows, number=number)
        for number, some in enumerate(seeds)
    ]


def answers(batch: SlotBatch, spec: StreamSpec, chunks: list[Chunk]) -> list[Chunk]:
    """Return this slot's share of snapshots: one "answer" chunk for each snapshot with rows here."""
    asked = [ask for chunk in chunks if chunk.kind == "ask" for ask in unpack_asks(chunk.payload)]
    if not asked:
        return []
    found = [(ask.ask, answer(batch.state, ask)) for ask in asked]
    return [
        batch.chunk("answer", pack(rows), spec.id, rows.num_rows, number=number)
        for number, rows in found
        if rows is not None
    ]
