"""Drive one slot of the core in this process with synthetic objects, and time its batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.bench.harness.workload import Motion
from stqsh.core.evaluate import evaluate
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.chunk import Chunk, ChunkKind, ChunkOrder, pack, pack_json, unpack_struct
from stqsh.spec.clock import BatchClock
from stqsh.spec.command import RegisterCommand, SlotCommand
from stqsh.spec.indexes import IndexChoice
from stqsh.spec.query import SlotQuery
from stqsh.spec.stats import SlotStats
from stqsh.spec.stream import ColumnSpec, FileSourceSpec, StreamSpec

STREAM, SECOND = 1, 1_000_000
"""The id of the only stream, and the length of its tick in µs."""

_DEFAULT_INDEXES = IndexChoice()
_TYPES = {"oid": "STRING", "x": "DOUBLE", "y": "DOUBLE", "ts": "TIMESTAMP"}
MOVING = StreamSpec(
    id=STREAM,
    name="m",
    columns=tuple(ColumnSpec(*column) for column in _TYPES.items()),
    key="oid",
    x="x",
    y="y",
    time="ts",
    planar=True,
    bounds=(0.0, 0.0, 1.0, 1.0),
    source=FileSourceSpec(""),
)
"""The spec of the stream that `stqsh.bench.harness.drive.stream_session` creates."""


@dataclass(frozen=True)
class Steps:
    """The steps of a batch, first to last, and the tick of step 1."""

    first: int
    last: int
    base_tick: int = 1


@dataclass(frozen=True)
class BatchCost:
    """The cost of a batch.

    Attributes:
        seconds: the processor time of Evaluate, which has one thread; other work on the machine hardly
            counts.
    """

    seconds: float
    stats: SlotStats

    @property
    def ms(self) -> float:
        """Processor time of the batch, ms."""
        return self.seconds * 1000

    @property
    def micros(self) -> float:
        """Processor time a record, µs."""
        return self.seconds * 1e6 / max(1, self.stats.records)

    @property
    def decode_us(self) -> float:
        """The share of `micros` in which records were decoded, µs."""
        return self._share(self.stats.decode_us)

    @property
    def kernel_us(self) -> float:
        """The share of `micros` in which updates were found, µs."""
        return self._share(self.stats.kernel_us)

    @property
    def state_us(self) -> float:
        """The share of `micros` in which the state was stored, µs."""
        return self._share(self.stats.state_us)

    def _share(self, part_us: int) -> float:
        return self.micros * (part_us / max(1, self.stats.total_us))


def evaluate_batch(
    state: SlotState,
    spec: StreamSpec,
    steps: Steps,
    commands: Sequence[SlotCommand],
    records: Iterable[tuple[ChunkKind, bytes]],
    indexes: IndexChoice = _DEFAULT_INDEXES,
) -> tuple[BatchCost, list[Chunk]]:
    """Evaluate one batch on a slot with one stream, which the first batch defines.

    Args:
        records: chunks of records, by their kind and payload.
        indexes: the indexes that the session chooses.

    Returns:
        The cost of the batch, and the chunks that the slot sent.
    """
    clock = BatchClock(steps.first, steps.last, steps.base_tick, SECOND, indexes=indexes)
    parts = [(ChunkKind.CLOCK, pack_json(clock))]
    if steps.first == 1:
        parts.append((ChunkKind.DEFINE, pack_json(spec)))
    if commands:
        parts.append((ChunkKind.COMMANDS, pack_json(commands)))
    chunks = [
        Chunk(
            slot=0,
            stream=0 if kind == ChunkKind.CLOCK else STREAM,
            kind=kind,
            order=ChunkOrder(number=number),
            first_step=steps.first,
            last_step=steps.last,
            rows=1,
            payload=payload,
        )
        for number, (kind, payload) in enumerate([*parts, *records])
    ]
    begun = process_time()
    sent = evaluate(state, chunks)
    seconds = process_time() - begun
    payload = next(chunk.payload for chunk in sent if chunk.kind == ChunkKind.STATS)
    return BatchCost(seconds, unpack_struct(payload, SlotStats)), sent


@dataclass
class OneSlot:
    """A slot with a stream of objects, all of which have reported once.

    Attributes:
        motion: which objects report when and where.
        spec: the stream; its first columns are those of `MOVING`.
        texts: the texts of posts, drawn again and again, for a stream with one more column.
    """

    motion: Motion
    spec: StreamSpec = MOVING
    texts: pa.Array[Any] | None = None
    state: SlotState = field(default_factory=lambda: SlotState.fresh(0))
    step: int = 0

    def __post_init__(self) -> None:
        self._names = pa.array([f"o{number}" for number in range(self.motion.objects)])
        self._hashes = hash_keys(self._names)
        self._reports = self.motion.reports()
        self._places = np.full((self.motion.objects, 2), np.nan)
        self._focal = np.zeros(self.motion.objects, np.bool_)
        self.run(-(-self.motion.objects // self.motion.per_tick))

    def register(self, queries: Sequence[SlotQuery]) -> float:
        """Register queries in a batch of their own, and return its processor time in seconds."""
        focal = [str(query.region.focal_key) for query in queries if query.region.focal_key is not None]
        self._focal[[int(name[1:]) for name in focal]] = True
        seeds = np.flatnonzero(self._focal)
        seeded = self._batch(seeds, self._places[seeds], self.step) if len(seeds) else None
        records = [] if seeded is None else [(ChunkKind.FOCAL, pack(seeded))]
        return self._evaluate(1, [RegisterCommand(query=query) for query in queries], records).seconds

    def run(self, ticks: int) -> BatchCost:
        """Take in the reports of some ticks as one batch."""
        steps = range(self.step + 1, self.step + ticks + 1)
        return self._evaluate(ticks, (), [part for step in steps for part in self._records(step)])

    def _evaluate(
        self, steps: int, commands: Sequence[SlotCommand], records: Sequence[tuple[ChunkKind, bytes]]
    ) -> BatchCost:
        taken = Steps(self.step + 1, self.step + steps)
        cost, _ = evaluate_batch(self.state, self.spec, taken, commands, records)
        self.step = taken.last
        return cost

    def _records(self, step: int) -> Iterator[tuple[ChunkKind, bytes]]:
        who, at = next(self._reports)
        self._places[who] = at
        yield ChunkKind.RECORDS, pack(self._batch(who, at, step))
        followed = self._focal[who]
        if followed.any():
            yield ChunkKind.FOCAL, pack(self._batch(who[followed], at[followed], step))

    def _batch(self, who: Array, at: Array, step: int) -> pa.RecordBatch:
        times: Any = np.full(len(who), step * SECOND)
        chosen: Any = pa.array(who)
        columns: list[Any] = [self._names.take(chosen), at[:, 0], at[:, 1], pa.array(times).cast(_TIME)]
        if self.texts is not None:
            body: Any = pa.array(np.random.default_rng(step).integers(0, len(self.texts), len(who)))
            columns.append(self.texts.take(body))
        columns += [np.full(len(who), step), self._hashes[who]]
        names = [name for name, _ in self.spec.columns]
        arrays = [column if isinstance(column, pa.Array) else pa.array(column) for column in columns]
        return pa.RecordBatch.from_arrays(arrays, names=[*names, "_step", "_hash"])


_TIME = pa.timestamp("us", tz="UTC")
