"""The fold of an operator as Spark calls it: a stateful processor, keyed by slot.

When a query starts, Spark runs the processor of each operator once in a process on the driver's host, only to
learn which state it declares, and the query waits for that process. Therefore this module imports none of the
modules of the folds; the executors' workers import them with the first rows.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from stqsh.engine.spark.schema import HEAD_SCHEMA

if TYPE_CHECKING:
    from stqsh.engine.operators.slot_task import OperatorContext
    from stqsh.engine.state.slot_runner import Fold

HEAD = "head"
"""The name of a slot's variable in the state store."""


class SlotProcessor(StatefulProcessor):
    """A fold over the batches of each slot, as one of Spark's stateful processors.

    Args:
        name: the name of the fold.
        work: the fold and its `OperatorContext`, pickled.
    """

    def __init__(self, name: str, work: bytes) -> None:
        self._name, self._work = name, work

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the variable in the state store. Spark calls this even if no chunk ever arrives."""
        self._head = handle.getValueState(HEAD, HEAD_SCHEMA)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: TimerValues) -> None:
        """Take over the head of a slot from an earlier query."""
        from stqsh.engine.state.file_store import SparkHead

        SparkHead(self._head).write(bytes(initialState[HEAD].iloc[0]))

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:
        """Fold one slot's chunks of a batch and yield the chunks to send."""
        from stqsh.engine.operators.slot_task import batch_of_task, fold_slot
        from stqsh.engine.spark.chunk_codec import from_frames, in_groups, to_frame
        from stqsh.engine.state.file_store import FileStore, SparkHead
        from stqsh.storage.slot_files import slot_name

        fold, context = self._unpacked()
        chunks = list(from_frames(rows))
        batch = context.first_batch + batch_of_task()
        store = FileStore(
            context.blobs, slot_name(self._name, chunks[0].slot), SparkHead(self._head), batch, None
        )
        sent = fold_slot(fold, context, store, chunks)
        yield from (to_frame(some, context.slots) for some in in_groups(sent))

    def close(self) -> None:
        """Do nothing: the state is in the session's storage, and cached in the arena."""

    def _unpacked(self) -> tuple[Fold, OperatorContext]:
        found: tuple[Fold, OperatorContext] = pickle.loads(self._work)
        return found
