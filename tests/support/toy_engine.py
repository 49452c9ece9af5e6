"""A toy engine for tests of the Spark layer: a source of small numbers, and two folds that add them up.

What each batch sends depends on all batches before it, so a lost, doubled or half-applied batch shows.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from stqsh.core.state.slot_state import SlotState
from stqsh.engine.spark.chunk_codec import to_batch
from stqsh.engine.spark.schema import SPARK_SCHEMA
from stqsh.engine.spark.spark_internals import BATCH_PROPERTY
from stqsh.spec.chunk import COUNTS, Chunk, ChunkOrder, pack, pack_json, unpack

STREAM = 5
#: Chunks of a kind that goes to the slots of Aggregate.
PARTIAL = "partial/toy"
NUMBERS = pa.schema([("key", pa.int64()), ("value", pa.int64())])


def batch_chunks(number: int, slots: int, size: int = 20) -> list[Chunk]:
    """The chunks of batch `number` (1, 2, ...) for all slots; keys up to ten times the batch number."""
    rng = np.random.default_rng(number)
    keys, values = rng.integers(0, 10 * number, size), rng.integers(0, 100, size)
    chunks = []
    for slot in range(slots):
        mine = keys % slots == slot
        numbers = pa.RecordBatch.from_arrays([pa.array(keys[mine]), pa.array(values[mine])], schema=NUMBERS)
        chunks.append(Chunk(slot, 0, "clock", ChunkOrder(), number, number, 0, pack_json({"batch": number})))
        chunks.append(
            Chunk(
                slot, STREAM, "records", ChunkOrder(number=1), number, number, numbers.num_rows, pack(numbers)
            )
        )
    return chunks


class Adding:
    """The toy Evaluate: sends the new totals of the keys of a batch, and counts by query (key modulo 5)."""

    name = "evaluate"

    def accepts(self, chunk: Chunk) -> bool:
        return True

    def apply(self, state: SlotState, chunks: list[Chunk]) -> list[Chunk]:
        if "totals" not in state:
            state.create("totals", np.int64, 1)
            state.header["batches"] = 0
        die_if_told(state, chunks)
        (records,) = (unpack(chunk.payload) for chunk in chunks if chunk.kind == "records")
        keys, values = (records.column(name).to_numpy() for name in ("key", "value"))
        state.resize("totals", max(len(state.array("totals")), int(keys.max(initial=0)) + 1))
        totals = state.array("totals")
        np.add.at(totals, keys, values)
        state.header["batches"] += 1
        touched = np.unique(keys)
        rows = pa.RecordBatch.from_arrays([pa.array(touched), pa.array(totals[touched])], schema=NUMBERS)
        counts = pa.RecordBatch.from_arrays(
            [pa.array(np.arange(5)), pa.array(np.bincount(keys % 5, minlength=5))], schema=COUNTS
        )
        step, slot = chunks[0].first_step, state.header["slot"]
        stats = pack_json({"slot": slot, "batches": state.header["batches"]})
        return [
            *(chunk for chunk in chunks if chunk.kind == "clock" and slot == 0),
            Chunk(slot, STREAM, "rows", ChunkOrder(), step, step, rows.num_rows, pack(rows)),
            Chunk(slot, STREAM, PARTIAL, ChunkOrder(), step, step, 5, pack(counts)),
            Chunk(slot, 0, "stats", ChunkOrder(), step, step, 0, stats),
        ]


class Counting:
    """The toy Aggregate: sums the counts of each query."""

    name = "aggregate"

    def accepts(self, chunk: Chunk) -> bool:
        return chunk.kind == PARTIAL

    def apply(self, state: SlotState, chunks: list[Chunk]) -> list[Chunk]:
        if "sizes" not in state:
            state.create("sizes", np.int64, 5)
        sizes = state.array("sizes")
        for chunk in chunks:
            counts = unpack(chunk.payload)
            np.add.at(sizes, counts.column("query").to_numpy(), counts.column("delta").to_numpy())
        slot, step = state.header["slot"], chunks[0].first_step
        mine = np.flatnonzero(sizes)
        batch = pa.RecordBatch.from_arrays([pa.array(mine), pa.array(sizes[mine])], schema=COUNTS)
        return [Chunk(slot, STREAM, "sizes", ChunkOrder(), step, step, batch.num_rows, pack(batch))]


def die_if_told(state: SlotState, chunks: list[Chunk]) -> None:
    """Kill this very process in mid batch, once, where a file says so (its content: slot and batch)."""
    wish = os.environ.get("STQSH_TEST_DIE")
    if wish and Path(wish).exists():
        slot, batch = json.loads(Path(wish).read_text())
        if (slot, batch) == (state.header["slot"], chunks[0].first_step):
            Path(wish).unlink()
            state.array("totals")[:] += 1_000_000  # what a half-done batch leaves
            os.kill(os.getpid(), signal.SIGKILL)


class ToySource(DataSource):
    """Gives batch after batch, after `first`, up to the number that stands in the file `allowed`."""

    @classmethod
    def name(cls) -> str:
        return "toy"

    def schema(self) -> str:
        return SPARK_SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        first = int(self.options.get("first", 0))
        return ToyReader(Path(self.options["allowed"]), int(self.options["slots"]), first)


class _Part(InputPartition):
    def __init__(self, first: int, last: int) -> None:
        super().__init__(None)
        self.first, self.last = first, last


class ToyReader(DataSourceStreamReader):
    """The reader of the toy source: one batch at a time."""

    def __init__(self, allowed: Path, slots: int, first: int) -> None:
        self.allowed, self.slots, self.first = allowed, slots, first

    def initialOffset(self) -> dict[str, Any]:
        return {"batch": self.first}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        return {"batch": min(start["batch"] + 1, int(self.allowed.read_text()))}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [_Part(start["batch"] + 1, end["batch"])]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Yield chunks; note the number that Spark gives the batch, beside the file `allowed`."""
        context = TaskContext.get()
        assert context is not None
        with self.allowed.with_name("numbers").open("a") as file:
            file.write(f"{context.getLocalProperty(BATCH_PROPERTY)}\n")
        for number in range(partition.first, partition.last + 1):
            yield to_batch(batch_chunks(number, self.slots), self.slots)
