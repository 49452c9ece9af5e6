"""A batch of Evaluate: its clock, its chunks by stream, and its totals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from stqsh.core.base.clock import NEVER, NO_FLOORS, BatchTiming, Floors
from stqsh.core.objects.kept_sizes import KeptSizes
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.chunk import WHY, Chunk, ChunkKind, ChunkOrder, Phase, unpack_json, unpack_struct
from stqsh.spec.clock import BatchClock
from stqsh.spec.stats import KeptEvents, StreamMemory
from stqsh.spec.stream import StreamSpec

EXPIRED = WHY.index("expired")
DISCONNECTED = WHY.index("disconnected")
_TOTALS = ("objects", "records", "stale", "updates", "decode_us", "kernel_us", "state_us")


@dataclass(frozen=True)
class SlotBatch:
    """One batch on one slot.

    Attributes:
        state: The slot's state.
        clock_chunk: The chunk with the clock.
        clock: The content of `clock_chunk`.
        by_stream: The chunks of each stream.
        totals: Counts, and durations in µs, summed over the streams.
        memory: The memory figures of streams with RETAIN SIGNIFICANT, by id.
        floors: The floors of streams that keep a number of bytes, by id, once records are counted.
        kept: What these streams keep after the batch, by id.
    """

    state: SlotState
    clock_chunk: Chunk
    clock: BatchClock
    by_stream: dict[int, list[Chunk]]
    totals: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_TOTALS, 0))
    memory: dict[int, StreamMemory] = field(default_factory=dict)
    floors: dict[int, Floors] = field(default_factory=dict)
    kept: dict[int, KeptEvents] = field(default_factory=dict)

    @staticmethod
    def of(state: SlotState, chunks: list[Chunk]) -> SlotBatch:
        """Return the batch that ordered chunks form.

        Raises:
            ValueError: there is not exactly one clock, or the batch does not follow the slot's last one.
        """
        clocks = [chunk for chunk in chunks if chunk.kind == "clock"]
        if len(clocks) != 1:
            raise ValueError(f"a batch has one clock chunk, not {len(clocks)}")
        by_stream: dict[int, list[Chunk]] = {}
        for chunk in chunks:
            if chunk.kind != "clock":
                by_stream.setdefault(chunk.stream, []).append(chunk)
        clock = unpack_struct(clocks[0].payload, BatchClock)
        if clock.first_step != state.clock.step + 1:
            raise ValueError(
                f"slot {state.slot} is at step {state.clock.step}, and got step {clock.first_step}"
            )
        return SlotBatch(state, clocks[0], clock, by_stream)

    @property
    def slot(self) -> int:
        """The slot's number."""
        return self.state.slot

    def timing(self, spec: StreamSpec) -> BatchTiming:
        """Return the batch's steps, and the age at which a stream's records go out of date."""
        clock, event = self.clock, spec.is_event
        first, last = clock.first_step, clock.last_step
        base, tick = clock.base_tick or 0, clock.tick_us or 1
        us = spec.keep_us if event else spec.report_every_us
        silent = EXPIRED if event else DISCONNECTED
        return BatchTiming(first, last, base, tick, us or -1, silent, self.floors.get(spec.id, NO_FLOORS))

    def count_sizes(self, spec: StreamSpec, chunks: list[Chunk]) -> None:
        """Count the bytes of a stream's records, and set its floors, if it keeps a number of bytes."""
        if spec.keep_bytes is not None:
            sizes, timing = KeptSizes.of(self.state, spec), self.timing(spec)
            counted = batches(ChunkKind.SIZES, chunks)
            self.floors[spec.id] = sizes.count(counted, spec.keep_bytes, timing)
            least, floor = self.timing(spec).least(timing.last), sizes.floor_us(timing.tick)
            held = sizes.bytes_since(least, timing.tick)
            self.kept[spec.id] = KeptEvents(held, None if floor == -NEVER else floor)

    def add(self, **amounts: int) -> None:
        """Add to the totals."""
        for name, amount in amounts.items():
            self.totals[name] += amount

    def chunk(self, kind: str, payload: bytes, stream: int = 0, rows: int = 1, number: int = 0) -> Chunk:
        """Return a chunk of this slot and batch."""
        first, last = self.clock.first_step, self.clock.last_step
        order = ChunkOrder(Phase.EVALUATED, number=number)
        return Chunk(self.slot, stream, kind, order, first, last, rows, payload)


def batches(kind: str, chunks: Iterable[Chunk]) -> list[pa.RecordBatch]:
    """Return the payloads of chunks of a kind whose payloads are record batches."""
    return [chunk.content for chunk in chunks if chunk.kind == kind]


def items(kind: str, chunks: Iterable[Chunk]) -> list[Any]:
    """Return all items of chunks of a kind whose payloads are JSON lists."""
    return [item for chunk in chunks if chunk.kind == kind for item in unpack_json(chunk.payload)]
