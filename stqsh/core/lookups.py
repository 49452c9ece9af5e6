"""Answer questions about a slot's state before a batch: looked-up keys, and snapshots."""

from __future__ import annotations

from stqsh.core.contract.batch import SlotBatch, items
from stqsh.core.objects.batch_objects import BatchObjects
from stqsh.core.objects.object_table import ObjectTable
from stqsh.core.output.batch_output import known_rows
from stqsh.spec.chunk import Chunk, pack
from stqsh.spec.query import unpack_asks
from stqsh.spec.stream import StreamSpec


def looked_up(batch: SlotBatch, spec: StreamSpec, chunks: list[Chunk]) -> list[Chunk]:
    """Return the last records of looked-up keys, as they were before the batch, as one "found" chunk."""
    keys = items("lookup", chunks)
    if not keys:
        return []
    table = ObjectTable(batch.state, f"s{spec.id}/objects", spec)
    found = known_rows(BatchObjects(table, [], batch.timing(spec)), keys)
    return [batch.chunk("found", pack(found), spec.id, found.num_rows)] if found.num_rows else []


def answers(batch: SlotBatch, spec: StreamSpec, chunks: list[Chunk]) -> list[Chunk]:
    """Return this slot's share of snapshots: an "answer" chunk for each that finds something here."""
    asked = [ask for chunk in chunks if chunk.kind == "ask" for ask in unpack_asks(chunk.payload)]
    if not asked:
        return []
    from stqsh.core.snapshots.select import answer  # few batches need it

    found = [(ask.ask, answer(batch.state, ask)) for ask in asked]
    return [
        batch.chunk("answer", pack(rows), spec.id, rows.num_rows, number=number)
        for number, rows in found
        if rows is not None
    ]
