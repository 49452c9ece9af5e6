"""Evaluate and Aggregate as stateful operators of Spark, for clusters: Spark moves them with their state.

Each is keyed by slot, collects its slot's chunks of the batch, and folds them into the slot's state. Between
the two, partials go to the slot of their query; everything else keeps its slot.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from stqsh.engine.operators.slot_task import OperatorContext, batch_of_task, fold_slot
from stqsh.engine.spark.chunk_codec import from_frames, in_groups, to_frame
from stqsh.engine.spark.schema import HEAD_SCHEMA, SPARK_SCHEMA
from stqsh.engine.state.file_store import FileStore, SparkHead
from stqsh.engine.state.slot_runner import Fold
from stqsh.storage.slot_files import slot_name


def with_operator(chunks: DataFrame, fold: Fold, context: OperatorContext) -> DataFrame:
    """Append an operator to a stream of chunks."""
    return chunks.groupBy("slot_key").transformWithStateInPandas(
        SlotProcessor(fold, context), SPARK_SCHEMA, "append", "none"
    )


class SlotProcessor(StatefulProcessor):
    """A fold over the batches of each slot, as one of Spark's stateful processors."""

    def __init__(self, fold: Fold, context: OperatorContext) -> None:
        self._fold, self._context = fold, context

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the variable of the state store; Spark also calls this where no chunk ever arrives."""
        self._head = SparkHead(handle.getValueState("head", HEAD_SCHEMA))

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:
        """Fold one slot's chunks of a batch and yield the chunks to send."""
        chunks, context = list(from_frames(rows)), self._context
        name = slot_name(self._fold.name, chunks[0].slot)
        store = FileStore(context.blobs, name, self._head, batch_of_task(), None)
        sent = fold_slot(self._fold, context, store, chunks)
        yield from (to_frame(some, self._context.slots) for some in in_groups(sent))

    def close(self) -> None:
        """Do nothing: the state is in the session's storage, and cached in the arena."""
