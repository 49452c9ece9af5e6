"""The work of Evaluate and Aggregate on one slot's chunks of a batch, under Spark and in memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from stqsh.core.aggregate import aggregate
from stqsh.core.evaluate import evaluate
from stqsh.core.output.partials import is_partial
from stqsh.core.state.slot_state import SlotState
from stqsh.engine.ingest.record_replay import replay_records, shorten_for_log, shorten_read
from stqsh.engine.ingest.task_output import source_timings
from stqsh.engine.ingest.task_reader import chunks as read_chunks
from stqsh.engine.planning.tasks import SourceTask
from stqsh.engine.spark.spark_internals import BATCH_PROPERTY, executor_location
from stqsh.engine.spark.worker_daemon import freeze_after_task
from stqsh.engine.state.arena import Arena
from stqsh.engine.state.file_store import SlotStore
from stqsh.engine.state.payload_files import Spool, load_payloads, open_writer
from stqsh.engine.state.slot_runner import Fold, SlotRunner, SlotTiming
from stqsh.spec.chunk import FOR_DELIVER, Chunk, ChunkKind, ChunkOrder, in_order, pack, pack_json, unpack
from stqsh.spec.stats import TaskTiming
from stqsh.storage.arena_cleanup import host_folders
from stqsh.storage.blobs import Blobs


@dataclass(frozen=True, slots=True)
class OperatorContext:
    """The operators' view of a session on this machine.

    Attributes:
        slots: the number of slots.
        arena: the folders for slot state, or the arena's name, see `host_folders`.
        home: the session's directory.
        blobs: the session's files, with the replay stores to which slot logs refer.
        spool: the spool for large payloads; None if they go through Spark.
        first_batch: the session's number of the batch that Spark numbers 0.
    """

    slots: int
    arena: tuple[Path, ...]
    home: Path
    blobs: Blobs
    spool: Spool | None = None
    first_batch: int = 0


class _Evaluate:
    """The fold of Evaluate: a slot holds part of the objects and queries, and turns records into updates."""

    name = "evaluate"

    def accepts(self, chunk: Chunk) -> bool:
        return True

    def apply(self, state: SlotState, chunks: list[Chunk]) -> list[Chunk]:
        return list(evaluate(state, chunks))


class _Aggregate:
    """The fold of Aggregate: a slot holds a share of the queries, and merges the partials for them."""

    name = "aggregate"

    def accepts(self, chunk: Chunk) -> bool:
        return chunk.kind == "define" or is_partial(chunk.kind)

    def apply(self, state: SlotState, chunks: list[Chunk]) -> list[Chunk]:
        return list(aggregate(state, chunks))


EVALUATE: Fold = _Evaluate()
AGGREGATE: Fold = _Aggregate()


def fold_slot(fold: Fold, context: OperatorContext, store: SlotStore, chunks: list[Chunk]) -> list[Chunk]:
    """Fold one slot's chunks of a batch into its state, and return the chunks to send."""
    taken, sent = split_chunks(fold, chunks)
    if taken:
        content = load_payloads(taken, context.spool)
        logged = [shorten_for_log(chunk, whole) for chunk, whole in zip(taken, content, strict=True)]
        sent += _advance(fold, context, store, content, logged)
    freeze_after_task()
    return sent


def read_slot(task: SourceTask, context: OperatorContext, store: SlotStore) -> list[Chunk]:
    """Read a task for one slot, fold its chunks by Evaluate, and return the chunks to send."""
    begun = time.perf_counter_ns()
    taken, passing = split_chunks(EVALUATE, list(read_chunks(task)))
    with open_writer(context.spool, "source") as outgoing:
        sent = [outgoing.put(chunk) for chunk in passing]
    sent += source_timings(task, (time.perf_counter_ns() - begun) // 1000)
    least = 0 if context.spool is None else context.spool.least
    logged = [shorten_read(task, chunk, least) for chunk in taken]
    sent += _advance(EVALUATE, context, store, taken, logged)
    freeze_after_task()
    return sent


def _advance(
    fold: Fold, context: OperatorContext, store: SlotStore, chunks: list[Chunk], logged: list[Chunk]
) -> list[Chunk]:
    """Fold chunks, in order and all of one slot, into its state; return the chunks to send."""
    name = f"{fold.name}-{chunks[0].slot}"
    arena, replay = Arena(host_folders(context.arena), name), partial(replay_records, context.blobs)
    runner = SlotRunner(fold, chunks[0].slot, store, arena, replay)
    answers, costs = runner.advance(chunks, logged)
    with open_writer(context.spool, name) as outgoing:
        sent = [outgoing.put(chunk) for chunk in address_partials(answers, context.slots)]
    return [*sent, _timing(fold, chunks[0], costs)]


def batch_of_task() -> int:
    """Return Spark's number of the batch whose task this worker runs."""
    context = TaskContext.get()
    number = None if context is None else context.getLocalProperty(BATCH_PROPERTY)
    assert number is not None, "Spark tells its workers the number of the batch"
    return int(number)


def split_chunks(fold: Fold, chunks: list[Chunk]) -> tuple[list[Chunk], list[Chunk]]:
    """Return the chunks that the fold accepts, in order, and the others."""
    taken = [chunk for chunk in chunks if chunk.kind not in FOR_DELIVER and fold.accepts(chunk)]
    passing = [chunk for chunk in chunks if chunk.kind in FOR_DELIVER or not fold.accepts(chunk)]
    return in_order(taken), passing


def address_partials(chunks: list[Chunk], slots: int) -> Iterator[Chunk]:
    """Address partials to the slots of their queries (query id modulo the number of slots)."""
    for chunk in chunks:
        if is_partial(chunk.kind):
            yield from _split_by_query(chunk, slots)
        else:
            yield chunk


def _split_by_query(chunk: Chunk, slots: int) -> Iterator[Chunk]:
    """Split a chunk whose payload's first column holds query ids."""
    batch = unpack(chunk.payload)
    owners = batch.column(0).to_numpy() % slots
    order = chunk.order._replace(sender=chunk.slot)
    for slot in range(slots):
        is_mine = owners == slot
        if not is_mine.any():
            continue
        if is_mine.all():
            yield replace(chunk, slot=slot, order=order)
        else:
            mine = batch.filter(pa.array(is_mine))
            yield replace(chunk, slot=slot, order=order, rows=mine.num_rows, payload=pack(mine))


def _timing(fold: Fold, first: Chunk, costs: SlotTiming) -> Chunk:
    location = executor_location()
    known = asdict(costs) if location else asdict(costs) | {"rows": {}}  # one machine reads the slots' heads
    content = pack_json(TaskTiming(fold.name, first.slot, executor=location, **known))
    return Chunk(first.slot, 0, ChunkKind.TIMING, ChunkOrder(), first.first_step, first.last_step, 0, content)
