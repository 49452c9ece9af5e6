"""What stands in for Spark's stateful operators where the engine runs in this process, as if on a cluster."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from stqsh.engine.ingest.dealer import Dealers
from stqsh.engine.ingest.dealer_seeds import take_seeds
from stqsh.engine.operators.local_operators import collect
from stqsh.engine.operators.slot_task import OperatorContext, fold_slot
from stqsh.engine.operators.spark_operators import OPERATORS
from stqsh.engine.state.file_store import STATE, FileHead, FileStore
from stqsh.spec.chunk import Chunk, from_table, to_table
from stqsh.storage.slot_files import slot_name


@dataclass(frozen=True)
class ClusterOperators:
    """The dealers, Evaluate and Aggregate, each with a shuffle before it, whose heads are files."""

    context: OperatorContext

    def run(self, frame: DataFrame, batch: int) -> pa.Table:
        """Run a batch and return the chunks to deliver."""
        context = self.context
        assert context.spool is not None
        chunks = from_table(collect(frame))
        for fold in (Dealers(context.blobs, context.slots), *OPERATORS):
            slots: dict[int, list[Chunk]] = {}
            for chunk in chunks:
                slots.setdefault(chunk.slot, []).append(chunk)
            chunks = []
            for slot, some in slots.items():
                name = slot_name(fold.name, slot)
                head = FileHead(context.home / STATE / name / "head")
                store = FileStore(context.blobs, name, head, batch, None)
                chunks += fold_slot(fold, context, store, some)
        found = to_table(chunks)
        others = take_seeds(found, context.blobs, context.spool)
        return found if others is None else others
