"""Evaluate and Aggregate as stateless Spark stages, for a driver and workers that share a machine.

The pipeline runs them for each batch. Chunks are shuffled to their slots, and workers fold them into the
slots' states, which are in the arena and, durably, in files (`stqsh.engine.state.file_store`). A small batch,
or any batch if slots are few, has a source task for each slot that runs Evaluate itself. A small one then
takes half of the processor time that it takes with another stage of workers (80 instead of 160 ms, most of it
Java's), and large batches of posts run 1.4 times as fast. Aggregate only runs if there are chunks for it,
which go from the driver directly to its tasks: a data frame, which Spark plans and shuffles, raised the time
of such a batch from 170 to 300 ms. On a cluster Spark has to keep slots and their state together, so the
stateful operators of `stqsh.engine.operators.spark_operators` replace these.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from stqsh.engine.ingest.dealer import Dealer
from stqsh.engine.ingest.task_output import read_task_batches
from stqsh.engine.operators.slot_task import EVALUATE, OperatorContext, batch_of_task, fold_slot, read_slot
from stqsh.engine.planning.tasks import SourceTask
from stqsh.engine.spark.chunk_codec import in_groups, to_batch
from stqsh.engine.spark.schema import SPARK_SCHEMA
from stqsh.engine.spark.spark_internals import read_offset
from stqsh.engine.state.attendance import Attendance
from stqsh.engine.state.file_store import FileStore
from stqsh.engine.state.slot_runner import Fold
from stqsh.spec.chunk import CHUNK, Chunk, from_table, to_table
from stqsh.spec.offset import Offset
from stqsh.storage.blobs import checkpoint_blobs, home_blobs
from stqsh.storage.catalogue import stream_by_id
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import SessionHome
from stqsh.storage.slot_files import slot_name


@dataclass(frozen=True, slots=True)
class LocalOperators:
    """Evaluate and Aggregate, one after the other, on batches of chunks."""

    evaluate: Fold
    aggregate: Fold
    context: OperatorContext

    def run(self, chunks: DataFrame, batch: int) -> pa.Table:
        """Run a batch and return the chunks to deliver, a table of the schema CHUNK."""
        offset = batch_offset(self.context.home, batch)
        dealers = self._dealers(offset)
        if offset.readers_fold:
            evaluated = collect(chunks)
        else:
            evaluated = self._evaluated(chunks, offset, dealers, batch)
        for dealer in dealers:
            if dealer.spec.id not in offset.dealing:
                evaluated = self._seeded(evaluated, dealer, batch, chunks.sparkSession)
        taken = pa.array([self.aggregate.accepts(chunk) for chunk in from_table(evaluated)], pa.bool_())
        partials = from_table(evaluated.filter(taken))
        if partials or batch == 0:
            attendance = self._attendance(self.aggregate)
            before = attendance.enter(batch, {chunk.slot for chunk in partials})
        if not partials:
            return evaluated
        merged = self._fold_sent(partials, self.aggregate, batch, before, chunks.sparkSession)
        return pa.concat_tables([evaluated.filter(pc.invert(taken)), merged])

    def _evaluated(self, chunks: DataFrame, offset: Offset, dealers: list[Dealer], batch: int) -> pa.Table:
        """Run the dealers, then Evaluate; return Evaluate's output."""
        if not offset.by_slot:
            chunks = self._shuffle(chunks)
        for dealer in dealers:
            if dealer.spec.id in offset.dealing:
                before = self._attendance(dealer).enter(batch, range(self.context.slots))
                chunks = self._shuffle(self._task(chunks, dealer, batch, before))
        # Every slot gets the clock of every batch.
        before = dict.fromkeys(range(self.context.slots), batch - 1)
        return self._fold(chunks, self.evaluate, batch, before)

    def _dealers(self, offset: Offset) -> list[Dealer]:
        """Return the dealers of streams; most sessions have none."""
        if not offset.dealers:
            return []
        control = ControlDb(self.context.home)
        return [
            Dealer(stream_by_id(control, stream).spec, self.context.blobs, self.context.slots)
            for stream in sorted(offset.dealers)
        ]

    def _seeded(self, evaluated: pa.Table, dealer: Dealer, batch: int, spark: SparkSession) -> pa.Table:
        """Pass a dealer the seeds that slots have sent; return the other chunks."""
        taken = pa.array([dealer.accepts(chunk) for chunk in from_table(evaluated)], pa.bool_())
        seeds = from_table(evaluated.filter(taken))
        before = self._attendance(dealer).enter(batch, {chunk.slot for chunk in seeds}, begins=True)
        if seeds:
            self._fold_sent(seeds, dealer, batch, before, spark)
        return evaluated.filter(pc.invert(taken))

    def _attendance(self, fold: Fold) -> Attendance:
        return Attendance(SessionHome(self.context.home).state, fold.name)

    def _fold_sent(
        self, chunks: list[Chunk], fold: Fold, batch: int, before: dict[int, int], spark: SparkSession
    ) -> pa.Table:
        """Run a fold on chunks that slots have sent to the driver, and return its output.

        They are small, because large payloads are in files, so they go to tasks directly, without a data
        frame, which Spark would have to plan and shuffle.
        """
        slots: dict[int, list[Chunk]] = {}
        for chunk in chunks:
            slots.setdefault(chunk.slot, []).append(chunk)
        task = LocalSlotTask(fold, self.context, batch, before)
        context = spark.sparkContext
        sent = context.parallelize(list(slots.values()), len(slots)).flatMap(task.run).collect()
        return to_table(sent)

    def _fold(self, chunks: DataFrame, fold: Fold, batch: int, before: dict[int, int]) -> pa.Table:
        return collect(self._task(chunks, fold, batch, before))

    def _task(self, chunks: DataFrame, fold: Fold, batch: int, before: dict[int, int]) -> DataFrame:
        return chunks.mapInArrow(LocalSlotTask(fold, self.context, batch, before), SPARK_SCHEMA)

    def _shuffle(self, chunks: DataFrame) -> DataFrame:
        return chunks.repartition(self.context.slots, "slot_key")


@dataclass(frozen=True, slots=True)
class LocalSlotTask:
    """A worker's task on the chunks of one slot: fold a batch into the slot's state.

    Attributes:
        fold: the operator's work.
        context: where the slot's state is.
        batch: Spark's number of the batch.
        before: the number of each slot's previous batch; -1 for none.
    """

    fold: Fold
    context: OperatorContext
    batch: int
    before: dict[int, int]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the chunks to send; nothing if there are no input chunks."""
        chunks = [chunk for some in batches for chunk in from_table(some)]
        assert len({chunk.slot for chunk in chunks}) <= 1, "a task has the chunks of one slot"
        if chunks:
            yield from (to_batch(some, self.context.slots) for some in in_groups(self.run(chunks)))

    def run(self, chunks: list[Chunk]) -> list[Chunk]:
        """Fold chunks, which are all of one slot, and return the chunks to send."""
        slot = chunks[0].slot
        store = _store(self.context, self.fold, slot, (self.before[slot], self.batch))
        return fold_slot(self.fold, self.context, store, chunks)


def read_task(task: SourceTask, context: OperatorContext) -> Iterator[pa.RecordBatch]:
    """Read a task of the source in a worker, and yield its chunks.

    A task that reads all input of one slot for the batch also runs Evaluate, and yields the chunks to send.
    """
    if not task.folds:
        yield from read_task_batches(task, context.slots, context.spool)
        return
    assert task.only is not None, "the task reads for one slot"
    batch = batch_of_task()
    store = _store(context, EVALUATE, task.only, (batch - 1, batch))
    sent = read_slot(task, context, store)
    yield from (to_batch(some, context.slots) for some in in_groups(sent))


def _store(context: OperatorContext, fold: Fold, slot: int, batches: tuple[int, int]) -> FileStore:
    """Return the files of a slot's state, in the home; `batches` are the previous one and the one to fold."""
    before, batch = batches
    return FileStore.beside_head(home_blobs(context.home), slot_name(fold.name, slot), batch, before)


def collect(chunks: DataFrame) -> pa.Table:
    """Return chunks as a table of the schema CHUNK, without the key by which Spark groups them."""
    return chunks.toArrow().select(CHUNK.names).cast(CHUNK)


def batch_offset(home: Path, batch: int) -> Offset:
    """Return the offset at the end of a batch, which Spark writes before the batch starts."""
    return Offset.from_json(json.loads(read_offset(checkpoint_blobs(home), batch)))
