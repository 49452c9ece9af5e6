"""What is asked about one slot's state as it was before a batch: looked-up keys, and snapshots."""

from __future__ import annotations

from typing import Any

from stqsh.core.contract.batch import SlotBatch, items
from stqsh.core.objects.batch_objects import BatchObjects
from stqsh.core.objects.object_table import ObjectTable
from stqsh.core.output.batch_output import known_rows
from stqsh.spec.chunk import Chunk, pack

Spec = dict[str, Any]


def looked_up(batch: SlotBatch, spec: Spec, chunks: list[Chunk]) -> list[Chunk]:
    """The last records of the keys that "lookup" chunks name, as they were before the batch: one "found"."""
    keys = items("lookup", chunks)
    if not keys:
        return []
    table = ObjectTable(batch.state, f"s{spec['id']}/objects", spec)
    found = known_rows(BatchObjects(table, [], batch.timing(spec)), keys)
    return [batch.chunk("found", pack(found), spec["id"], found.num_rows)] if found.num_rows else []


def answers(batch: SlotBatch, spec: Spec, chunks: list[Chunk]) -> list[Chunk]:
    """This slot's part of what snapshot queries ask: an "answer" for each that finds something here."""
    asked = items("ask", chunks)
    if not asked:
        return []
    from stqsh.core.snapshots.select import answer  # of use to few batches

    found = [(ask["ask"], answer(batch.state, ask)) for ask in asked]
    return [
        batch.chunk("answer", pack(rows), spec["id"], rows.num_rows, number=number)
        for number, rows in found
        if rows is not None
    ]
