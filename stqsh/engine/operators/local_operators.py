"""The operators where driver and workers share a machine: for Spark, stages that keep nothing.

Deliver has them run for each batch: chunks are dealt to their slots, unless each task of the source has read
those of one slot; workers fold them into the slots' states, which lie in the arena and, for good, in files
(`stqsh.engine.state.file_store`). Aggregate only runs where there is something for it. On a cluster, where
Spark has to keep slots and their state together, the stateful operators of
`stqsh.engine.operators.spark_operators` do the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from stqsh.engine.spark.chunk_codec import in_groups, to_batch
from stqsh.engine.spark.schema import SPARK_SCHEMA
from stqsh.spec.chunk import CHUNK, from_table
from stqsh.storage.home import SessionHome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from stqsh.engine.operators.operator_context import OperatorContext
    from stqsh.engine.state.slot_runner import Fold


@dataclass(frozen=True, slots=True)
class LocalOperators:
    """Evaluate and Aggregate, one after the other, on batches of chunks."""

    evaluate: Fold
    aggregate: Fold
    place: OperatorContext

    def run(self, chunks: DataFrame, batch: int) -> pa.Table:
        """Run a batch; give what is to be delivered, in columns of CHUNK."""
        if not read_by_slot(self.place.home, batch):
            chunks = self._dealt(chunks)
        told = self._folded(chunks, self.evaluate, batch)
        taken = pa.array([self.aggregate.takes(chunk) for chunk in from_table(told)], pa.bool_())
        if not pc.any(taken).as_py():
            return told
        partials = to_batch(from_table(told.filter(taken)), self.place.slots)
        dealt = self._dealt(chunks.sparkSession.createDataFrame(pa.Table.from_batches([partials])))
        return pa.concat_tables([told.filter(pc.invert(taken)), self._folded(dealt, self.aggregate, batch)])

    def _folded(self, chunks: DataFrame, fold: Fold, batch: int) -> pa.Table:
        told = chunks.mapInArrow(LocalSlotTask(fold, self.place, batch), SPARK_SCHEMA)
        return told.select(*CHUNK.names).toArrow()

    def _dealt(self, chunks: DataFrame) -> DataFrame:
        return chunks.repartition(self.place.slots, "slot_key")


@dataclass(frozen=True, slots=True)
class LocalSlotTask:
    """What a worker does with the chunks of one slot: fold batch `batch` into the slot's state."""

    fold: Fold
    place: OperatorContext
    batch: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Give the chunks to be sent; nothing where none came."""
        from stqsh.engine.operators.slot_task import fold_slot
        from stqsh.engine.state.file_store import FileStore

        chunks = [chunk for some in batches for chunk in from_table(some)]
        assert len({chunk.slot for chunk in chunks}) <= 1, "a task has the chunks of one slot"
        if chunks:
            folder = SessionHome(self.place.home).state / f"{self.fold.name}-{chunks[0].slot}"
            sent = fold_slot(self.fold, self.place, FileStore(folder, self.batch), chunks)
            yield from (to_batch(some, self.place.slots) for some in in_groups(sent))


def read_by_slot(home: Path, batch: int) -> bool:
    """Say whether a batch is read by a task for each slot, by the offset that Spark wrote down for it."""
    *_, offset = (SessionHome(home).checkpoint / "offsets" / str(batch)).read_text().splitlines()
    return bool(json.loads(offset).get("by_slot"))
