"""The copy by key of a moving stream: a second copy of its objects, for queries that remember objects.

Under a routing by space an object crosses from slot to slot. The pending changes of a query with DWELL, and
the members that a paused query has sent, would have to cross with it. Such queries are instead evaluated over
a copy of the objects, in which each object stays on the slot of its key's hash, as under the routing
`object`. The copy begins with the first such query, from the last records of the objects, and ends with the
last one. Kinds and tables treat it as a separate stream with the negative id; it shares the focal objects.

A query moves to the copy when it pauses, or when it has DWELL and its stream is routed by space, and stays
there. Its former slots keep it too, paused and with no sent members, so there it sends nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from msgspec import structs

from stqsh.core.contract.batch import batches
from stqsh.core.contract.batch_pieces import CopyInput
from stqsh.core.contract.kind_batch import run_kind
from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.kinds import KINDS
from stqsh.core.matching.dwell import DwellTable
from stqsh.core.objects.batch_objects import BatchObjects
from stqsh.core.objects.object_table import ObjectTable
from stqsh.core.output.batch_output import BatchOutput, chunks_of
from stqsh.core.output.sent_answers import SentAnswers
from stqsh.core.queries.query_table import digest
from stqsh.core.queries.registrations import commands_in
from stqsh.core.state.slot_state import SlotState
from stqsh.spec.chunk import COPY_COMMANDS, COPY_OLDER, Chunk, ChunkKind
from stqsh.spec.query import find_kind
from stqsh.spec.stream import StreamSpec

COPIES = "copies"
"""The header's entry that lists the ids of the streams with a copy, as strings."""
_LISTS = ("templates", "forms", "lookups", "index_columns", "index_made")
"""The header's entries that hold lists by prefix, which is that of a kind's queries over a stream."""
_BEYOND = 1 << 40
"""The first number of the copy's chunks, above all numbers of the stream's own chunks."""


def copied_spec(spec: StreamSpec) -> StreamSpec:
    """Return the spec of a stream's copy."""
    return structs.replace(spec, id=-spec.id)


def begin_copy(state: SlotState, spec: StreamSpec, seeds: Sequence[pa.RecordBatch]) -> None:
    """Begin the copy of a stream with the last records of its objects, one for each key."""
    forget_copy(state, spec.id)
    state.entry(COPIES)[str(spec.id)] = True
    copy = copied_spec(spec)
    table = ObjectTable(state, f"s{copy.id}/objects", copy)
    rows = table.encode(seeds)
    table.columns.store(rows, np.arange(len(rows)))


def forget_copy(state: SlotState, stream: int) -> None:
    """Remove the copy of a stream, if there is one."""
    if stream_copies := state.header.get(COPIES):
        stream_copies.pop(str(stream), None)
    forget_arrays(state, -stream)


def forget_arrays(state: SlotState, stream: int) -> None:
    """Remove all arrays of a stream or a copy, given by its id, and its queries' lists in the header."""
    prefix = f"s{stream}/"
    state.release(prefix)
    for name in _LISTS:
        saved = state.header.get(name, {})
        for own in [own for own in saved if own.startswith(prefix)]:
            del saved[own]


def ids_of(state: SlotState, stream: int) -> list[int]:
    """Return the id of a stream, and that of its copy if there is one."""
    return [stream, -stream] if str(stream) in state.header.get(COPIES, {}) else [stream]


def read_input(state: SlotState, spec: StreamSpec, chunks: Sequence[Chunk]) -> CopyInput | None:
    """Return a batch's input for a stream's copy; None without a copy.

    The copy is first created if the batch has a chunk that begins it.
    """
    if any(chunk.kind == ChunkKind.COPY_BEGIN for chunk in chunks):
        begin_copy(state, spec, batches(ChunkKind.COPY_SEEDS, chunks))
    if len(ids_of(state, spec.id)) == 1:
        return None
    older = digest(commands_in(chunks, COPY_OLDER))
    _hand_over(state, spec, older.registered.ids.tolist())
    records = batches(ChunkKind.COPY_RECORDS, chunks)
    return CopyInput(records, older, digest(commands_in(chunks, COPY_COMMANDS)))


def _hand_over(state: SlotState, spec: StreamSpec, ids: list[int]) -> None:
    """Move the sent members and the waiting changes of queries from the stream to the copy.

    The stream has them only if its objects were routed by key already, so that they are on the same slots.
    """
    if not ids:
        return
    copy = copied_spec(spec)
    here, there = (ObjectTable(state, f"s{one.id}/objects", one) for one in (spec, copy))
    for kind in KINDS.values():
        prefix, target = kind.prefix(spec.id), kind.prefix(copy.id)
        query, obj = SentAnswers(state, prefix).pop_queries(ids)
        if len(query):
            SentAnswers(state, target).add(query, there.keys.find(here.show_keys(obj)))
        waits = DwellTable(state, prefix).pop_queries(ids)
        if len(waits.query):
            same = there.keys.find(here.show_keys(waits.obj))
            DwellTable(state, target).append(query=waits.query, obj=same, step=waits.step, op=waits.op)


def open_copy(stream: StreamBatch, given: CopyInput) -> StreamBatch:
    """Return the part of a batch that concerns the copy; its new focal objects already have rows."""
    spec = copied_spec(stream.spec)
    table = ObjectTable(stream.state, f"s{spec.id}/objects", spec)
    objects = BatchObjects(table, given.records, stream.timing)
    mine = replace(stream, commands=given.commands, older=given.older, leaving=None)
    return replace(mine, spec=spec, objects=objects)


def run_copy(slot: int, copy: StreamBatch) -> list[Chunk]:
    """Evaluate the queries of a copy; return their chunks as those of the stream."""
    report, older = BatchOutput(), copy.older
    assert older is not None, "it is a copy"
    for name, kind in KINDS.items():
        if not find_kind(name).is_resent:
            mine = replace(copy, commands=copy.commands.of_kind(name), older=older.of_kind(name))
            run_kind(kind, mine, report)
    return [
        replace(chunk, stream=-chunk.stream, order=chunk.order._replace(number=chunk.order.number + _BEYOND))
        for chunk in chunks_of(slot, copy.objects, report)
    ]
