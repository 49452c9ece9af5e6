"""Evaluate and Aggregate on a cluster: two of Spark's stateful operators, which move with their state.

Each is keyed by slot, collects its slot's chunks of the batch, and hands them to the slot's state. Between
the two, counts go to the slot of their query; everything else keeps its slot.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from stqsh.engine.spark.schema import META_SCHEMA, PIECE_SCHEMA, SPARK_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.stateful_processor import TimerValues

    from stqsh.engine.operators.operator_context import OperatorContext
    from stqsh.engine.state.slot_runner import Fold


def with_operator(chunks: DataFrame, fold: Fold, place: OperatorContext) -> DataFrame:
    """Chain an operator to a stream of chunks."""
    return chunks.groupBy("slot_key").transformWithStateInPandas(
        SlotProcessor(fold, place), SPARK_SCHEMA, "append", "none"
    )


class SlotProcessor(StatefulProcessor):
    """A fold over the batches of each slot, as one of Spark's stateful processors."""

    def __init__(self, fold: Fold, place: OperatorContext) -> None:
        self._fold, self._place = fold, place

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the variables of the state store; Spark also does this where no chunk ever comes."""
        self._meta = handle.getValueState("meta", META_SCHEMA)
        self._log = handle.getListState("log", PIECE_SCHEMA)
        self._snapshot = handle.getListState("snapshot", PIECE_SCHEMA)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:
        """Fold one slot's chunks of a batch, and give the chunks to be sent."""
        from stqsh.engine.operators.slot_task import fold_slot
        from stqsh.engine.spark.chunk_codec import from_frames, in_groups, to_frame
        from stqsh.engine.state.spark_store import SparkStore

        store = SparkStore(self._meta, self._log, self._snapshot)
        sent = fold_slot(self._fold, self._place, store, list(from_frames(rows)))
        yield from (to_frame(some, self._place.slots) for some in in_groups(sent))

    def close(self) -> None:
        """Nothing to do: what lasts is in the state store and in the arena."""
