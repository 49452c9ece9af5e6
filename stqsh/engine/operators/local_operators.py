"""Evaluate and Aggregate as stateless Spark stages, for a driver and workers that share a machine.

The pipeline runs them for each batch. Chunks are shuffled to their slots, unless each task of the source has
read the chunks of one slot. Workers fold them into the slots' states, which are in the arena and, durably, in
files (`stqsh.engine.state.file_store`). Aggregate only runs if there are chunks for it. On a cluster Spark
has to keep slots and their state together, so the stateful operators of
`stqsh.engine.operators.spark_operators` replace these.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from stqsh.engine.operators.slot_task import OperatorContext, fold_slot
from stqsh.engine.spark.chunk_codec import in_groups, to_batch
from stqsh.engine.spark.schema import SPARK_SCHEMA
from stqsh.engine.spark.spark_internals import read_offset
from stqsh.engine.state.attendance import Attendance
from stqsh.engine.state.file_store import FileStore
from stqsh.engine.state.slot_runner import Fold
from stqsh.spec.chunk import CHUNK, from_table
from stqsh.storage.home import SessionHome


@dataclass(frozen=True, slots=True)
class LocalOperators:
    """Evaluate and Aggregate, one after the other, on batches of chunks."""

    evaluate: Fold
    aggregate: Fold
    context: OperatorContext

    def run(self, chunks: DataFrame, batch: int) -> pa.Table:
        """Run a batch and return the chunks to deliver, a table of the schema CHUNK."""
        if not read_by_slot(self.context.home, batch):
            chunks = self._shuffle(chunks)
        # Every slot gets the clock of every batch.
        before = dict.fromkeys(range(self.context.slots), batch - 1)
        evaluated = self._fold(chunks, self.evaluate, batch, before)
        taken = pa.array([self.aggregate.accepts(chunk) for chunk in from_table(evaluated)], pa.bool_())
        partials = from_table(evaluated.filter(taken))
        if partials or batch == 0:
            attendance = Attendance(SessionHome(self.context.home).state, self.aggregate.name)
            before = attendance.enter(batch, {chunk.slot for chunk in partials})
        if not partials:
            return evaluated
        table = pa.Table.from_batches([to_batch(partials, self.context.slots)])
        shuffled = self._shuffle(chunks.sparkSession.createDataFrame(table))
        merged = self._fold(shuffled, self.aggregate, batch, before)
        return pa.concat_tables([evaluated.filter(pc.invert(taken)), merged])

    def _fold(self, chunks: DataFrame, fold: Fold, batch: int, before: dict[int, int]) -> pa.Table:
        sent = chunks.mapInArrow(LocalSlotTask(fold, self.context, batch, before), SPARK_SCHEMA)
        return sent.select(*CHUNK.names).toArrow()

    def _shuffle(self, chunks: DataFrame) -> DataFrame:
        return chunks.repartition(self.context.slots, "slot_key")


@dataclass(frozen=True, slots=True)
class LocalSlotTask:
    """A worker's task on the chunks of one slot: fold a batch into the slot's state.

    Attributes:
        fold: the operator's work.
        context: where the slot's state is.
        batch: Spark's number of the batch.
        before: the number of each slot's batch before it; -1 for none.
    """

    fold: Fold
    context: OperatorContext
    batch: int
    before: dict[int, int]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the chunks to send; nothing if no chunks came in."""
        chunks = [chunk for some in batches for chunk in from_table(some)]
        assert len({chunk.slot for chunk in chunks}) <= 1, "a task has the chunks of one slot"
        if chunks:
            slot = chunks[0].slot
            folder = SessionHome(self.context.home).state / f"{self.fold.name}-{slot}"
            store = FileStore(folder, self.batch, self.before[slot])
            sent = fold_slot(self.fold, self.context, store, chunks)
            yield from (to_batch(some, self.context.slots) for some in in_groups(sent))


def read_by_slot(home: Path, batch: int) -> bool:
    """Return whether each task of a batch reads for one slot, by the offset that Spark has written."""
    offset = read_offset(SessionHome(home).checkpoint, batch)
    return bool(json.loads(offset).get("by_slot"))
