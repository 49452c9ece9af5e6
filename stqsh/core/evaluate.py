"""Evaluate: a slot's fold over batches of chunks."""

from __future__ import annotations

from time import perf_counter_ns

import msgspec

from stqsh.core.conditions.resolver import apply_definitions, apply_drops
from stqsh.core.conditions.user_functions import take_failures
from stqsh.core.contract.batch import SlotBatch
from stqsh.core.kinds import KINDS
from stqsh.core.state.index_choice import choose_indexes
from stqsh.core.state.slot_state import SlotClock, SlotState, stream_specs
from stqsh.core.stream_batch import advance, no_seeds
from stqsh.spec.chunk import Chunk, ChunkKind, in_order, pack_json, unpack_json
from stqsh.spec.stats import SlotStats


def evaluate(state: SlotState, chunks: list[Chunk]) -> list[Chunk]:
    """Evaluate one batch, and return its updates.

    The result depends only on the state and the chunks: not on a clock, a hash order or threads.

    Args:
        state: The slot's state after the batch before; changed in place.
        chunks: The batch's chunks for this slot in any order, exactly one of them of the kind "clock".

    Returns:
        Chunks of the kinds rows, updates, counts, notice, found, answer and stats. "define" is passed on;
            slot 0 also passes on "clock".

    Raises:
        ValueError: the chunks do not form a batch.
    """
    began = perf_counter_ns()
    batch = SlotBatch.of(state, in_order(chunks))
    choose_indexes(state, batch.clock.indexes)
    out = _all_streams(batch)
    return [*out, batch.chunk("stats", pack_json(_stats(batch, perf_counter_ns() - began)))]


def _all_streams(batch: SlotBatch) -> list[Chunk]:
    """Advance all streams in order of id, also those without chunks, because time passes in them too."""
    every = [chunk for chunks in batch.by_stream.values() for chunk in chunks]
    defines = [chunk for chunk in every if chunk.kind == "define"]
    out = [*([batch.clock_chunk] if batch.slot == 0 else []), *defines]
    apply_definitions(batch.state, every)
    streams = batch.state.entry("streams")
    for chunk in defines:
        streams.setdefault(str(chunk.stream), unpack_json(chunk.payload))
    for stream, spec in sorted(stream_specs(batch.state).items()):
        out += advance(batch, spec, batch.by_stream.get(stream, []))
    out += [no_seeds(batch, chunk.stream) for chunk in every if _asks_for_unknown_seeds(batch, chunk)]
    apply_drops(batch.state, every)
    clock = batch.clock
    closing = clock.closing or batch.state.clock.closing
    now = SlotClock(clock.last_step, clock.base_tick, clock.tick_us, closing)
    batch.state.header["clock"] = msgspec.to_builtins(now)
    return out


def _asks_for_unknown_seeds(batch: SlotBatch, chunk: Chunk) -> bool:
    """Return whether a chunk asks for the objects of a stream whose creation takes effect after the batch."""
    return chunk.kind == ChunkKind.DEAL_SEND and str(chunk.stream) not in batch.state.entry("streams")


def _stats(batch: SlotBatch, took_ns: int) -> SlotStats:
    """Return the statistics of the batch."""
    failed = take_failures()
    state, streams = batch.state, [int(stream) for stream in batch.state.entry("streams")]
    return SlotStats(
        slot=batch.slot,
        queries=sum(kind.count(state, stream) for kind in KINDS.values() for stream in streams),
        bytes=state.nbytes,
        total_us=took_ns // 1000,
        memory=batch.memory,
        kept=batch.kept,
        failed_calls=failed.times,
        failure=failed.reason,
        **batch.totals,
    )
