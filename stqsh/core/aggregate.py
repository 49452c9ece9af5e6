"""Aggregate: the fold that merges the slots' partials into answers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.aggregates.distinct_numbers import DistinctNumbers
from stqsh.core.base.clock import BatchTiming
from stqsh.core.contract.merging_kind import MergingKind
from stqsh.core.groups.held_members import add_up
from stqsh.core.kernels.events.versions import tally
from stqsh.core.kinds import KINDS
from stqsh.core.output.batch_output import UpdateOrigin, update_chunks
from stqsh.core.output.held_answers import HeldAnswers
from stqsh.core.output.merge import MergedUpdates, MergeInput
from stqsh.core.output.partials import is_partial
from stqsh.core.state.slot_state import SlotState, stream_specs
from stqsh.core.state.string_dictionary import vacuum
from stqsh.spec.chunk import COUNTS, Chunk, ChunkOrder, Phase, in_order, pack, pack_json, unpack, unpack_json
from stqsh.spec.stats import SlotStats


def aggregate(state: SlotState, chunks: list[Chunk]) -> list[Chunk]:
    """Merge the partials of a batch.

    Returns the chunks "rows", "updates" and "counts" of the merged answers, and "stats" if there are
    updates. "define" and all other chunks pass through. Kinds keep their arrays below `s{stream}/{kind}/`.
    """
    out = [chunk for chunk in chunks if not is_partial(chunk.kind)]
    streams = state.entry("streams")
    by_stream: dict[int, list[Chunk]] = {}
    for chunk in in_order(chunks):
        if chunk.kind == "define":
            streams[str(chunk.stream)] = unpack_json(chunk.payload)
        elif is_partial(chunk.kind):
            by_stream.setdefault(chunk.stream, []).append(chunk)
    updates = 0
    for stream, some in by_stream.items():
        merge = _StreamMerge(state, stream, some)
        out += merge.run()
        updates += merge.updates
    if updates:
        stats = SlotStats(state.slot, updates=updates)
        first, last = chunks[0].first_step, chunks[0].last_step
        out.append(
            Chunk(
                state.slot,
                0,
                "stats",
                ChunkOrder(Phase.MERGED),
                first,
                last,
                1,
                pack_json(stats),
            )
        )
    return out


@dataclass
class _StreamMerge:
    """Merges one stream's partials of a batch."""

    state: SlotState
    stream: int
    chunks: list[Chunk]
    updates: int = 0
    _number: int = 0
    _grown: list[tuple[Array, Array]] = field(default_factory=list)

    def run(self) -> list[Chunk]:
        """Return all chunks produced by the stream's partials."""
        out: list[Chunk] = []
        for kind in sorted({chunk.kind.partition("/")[2] for chunk in self.chunks} - {""}):
            spec = stream_specs(self.state)[self.stream]
            merger = KINDS[kind]
            if not isinstance(merger, MergingKind):
                raise ValueError(f"queries of the kind {kind!r} have nothing to merge")
            partials, marks, holds, groups = (
                self._payloads(f"{what}/{kind}") for what in ("partial", "marks", "holds", "groups")
            )
            first, none = min(chunk.first_step for chunk in self.chunks), np.empty(0, np.int64)
            batch = MergeInput(self.state, spec, kind, partials, marks, holds, groups, first, none)
            if not merger.holds_back:
                out += self._encode(merger.merge(batch))
                continue
            held = HeldAnswers(batch)
            merged, due = held.hold_back(merger.merge(replace(batch, held=held.ids)))
            out += self._encode(merged)
            for changed in add_up(batch, due):
                out += self._encode(changed)
        if self._grown:
            grown = [pa.array(np.concatenate(column)) for column in zip(*self._grown, strict=True)]
            out.append(self._chunk("counts", pa.RecordBatch.from_arrays(grown, schema=COUNTS)))
        vacuum(self.state, self.stream)
        return out

    def _payloads(self, kind: str) -> list[pa.RecordBatch]:
        return [unpack(chunk.payload) for chunk in self.chunks if chunk.kind == kind]

    def _chunk(self, kind: str, batch: pa.RecordBatch) -> Chunk:
        first, last = self.chunks[0].first_step, self.chunks[0].last_step
        slot = self.state.slot
        return Chunk(
            slot, self.stream, kind, ChunkOrder(Phase.MERGED), first, last, batch.num_rows, pack(batch)
        )

    def _encode(self, merged: MergedUpdates) -> list[Chunk]:
        """Encode the updates of one kind, and the rows that they show, as chunks of limited size."""
        self.updates += len(merged.updates.step)
        queries = DistinctNumbers(merged.updates.query)
        grown = tally(queries.find(merged.updates.query), merged.updates.op, len(queries))
        self._grown.append((queries.values, grown))
        timing = BatchTiming(self.chunks[0].first_step, self.chunks[0].last_step, 0, 1, -1)
        slot, records = self.state.slot, merged.records
        origin = UpdateOrigin(slot, self.stream, timing, len(records), records.show)
        chunks = update_chunks(origin, merged.updates, ChunkOrder(Phase.MERGED, number=self._number))
        self._number += len(chunks) // 2
        return chunks
