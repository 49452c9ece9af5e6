"""The rows that paused queries WITH (changes => true) have sent, until they resume and compare them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stqsh.core.contract.query_kind import StreamBatch
from stqsh.core.kernels.events.versions import tally
from stqsh.core.output.batch_output import (
    BatchOutput,
    QueryUpdates,
    UpdateOrigin,
    shown_rows,
    update_chunks,
)
from stqsh.core.output.candidates import CandidateRecords
from stqsh.core.output.renewed_rows import CHANGED
from stqsh.core.state.table import ArraySpec, StateTable
from stqsh.spec.chunk import ChunkOrder, Phase

Array = npt.NDArray[Any]

_ORDER = ChunkOrder(Phase.EVALUATED, number=1 << 32)
"""The place of what was told among the updates of a batch, above all that show records of the slot."""


class ToldMembers(NamedTuple):
    """Members of answers as they were sent, (n,) each.

    Attributes:
        query: The id of the query, int64.
        obj: int32.
        distance: From the centre, NaN for none, float64.
        row: The number of its row.
        key: What the query selects of it, as `stqsh.core.matching.row_changes.RowChanges.keys` gives it.
    """

    query: Array
    obj: Array
    distance: Array
    row: Array
    key: pa.BinaryArray

    def where(self, which: Array) -> ToldMembers:
        """Return some of them, by positions."""
        chosen: Any = pa.array(which)
        query, obj, distance, row, key = self
        return ToldMembers(query[which], obj[which], distance[which], row[which], key.take(chosen))


class ToldTable(StateTable):
    """Members of paused queries, in the order of their records."""

    query = ArraySpec(np.int64)
    obj = ArraySpec(np.int32, "objects")
    distance = ArraySpec(np.float64)


class ToldRows:
    """The rows that paused queries of one kind have sent."""

    def __init__(self, batch: StreamBatch, prefix: str) -> None:
        self._batch, self._prefix, self._order = batch, f"{prefix}/told", _ORDER
        self._table = ToldTable(batch.state, f"{self._prefix}/members")
        self._records = CandidateRecords(batch.state, f"{self._prefix}/records", batch.spec)

    @staticmethod
    def are_there(batch: StreamBatch, prefix: str) -> bool:
        """Return whether any are stored; nothing is kept in the state of other kinds and streams."""
        return f"{prefix}/told/members/query" in batch.state

    def store(self, members: ToldMembers) -> None:
        """Store members, whose rows are versions of the slot's records."""
        rows = shown_rows(self._batch.objects, members.row)
        self._table.append(query=members.query, obj=members.obj, distance=members.distance)
        self._records.take([*rows.columns, members.key.view(pa.string())])
        self._records.keep(np.arange(len(self._records), dtype=np.int32))

    def pop_queries(self, ids: Array) -> ToldMembers:
        """Remove the members of queries and return them; `send_changes` still knows their rows."""
        mine = np.isin(self._table.query, ids)
        row = np.flatnonzero(mine)
        query, obj, distance = self._table.pop(mine)
        if len(self._table):
            self._records.keep(np.flatnonzero(~mine).astype(np.int32))
        else:
            self._batch.state.release(f"{self._prefix}/")
        return ToldMembers(query, obj, distance, row, self._records.looked_up(row.astype(np.int32)))

    def send_changes(self, members: ToldMembers, output: BatchOutput) -> None:
        """Take back old rows in the batch's first step, in place of which new ones are sent."""
        count, timing = len(members.query), self._batch.timing
        if not count:
            return
        step, op = np.full(count, timing.first), np.full(count, -1, np.int8)
        why = np.full(count, CHANGED, np.int8)
        updates = QueryUpdates(step, members.query, op, why, members.row, members.distance)
        rows = len(self._records)
        origin = UpdateOrigin(self._batch.state.slot, self._batch.spec.id, timing, rows, self._records.show)
        chunks = update_chunks(origin, updates, self._order)
        self._order = self._order._replace(number=self._order.number + len(chunks))
        output.chunks += chunks
        ids, position = np.unique(members.query, return_inverse=True)
        output.grown.append((ids, tally(position, op, len(ids))))
