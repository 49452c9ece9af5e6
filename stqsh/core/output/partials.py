"""What slots send to Aggregate for queries that are merged: candidates and marks, as chunks.

"partial/<kind>": candidates, a record batch of `PARTIAL` and the stream's declared columns after it; read
the first ones by place, for a stream may have a column "query" of its own. "marks/<kind>": what becomes of
the queries themselves, `MARKS`; all slots that hold a query send the same mark, which counts once.

SSTD section 6.3 lets the merger send the distance r of the k-th result back, so that workers keep candidates
beyond r to themselves. Here slots always send their own k: whether a candidate can count is decided by what
the other slots lose in the very same step, which no slot can know without a second exchange within the step.
Even events, which never move, expire and change under conditions on NOW. The saving would be small: slots
send changes of candidates only, and at most (s - 1) / s of them are discarded, with s slots.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stqsh.core.output.batch_output import shown_rows
from stqsh.spec.chunk import Chunk, ChunkOrder, Phase, pack

if TYPE_CHECKING:
    from stqsh.core.contract.query_kind import StreamBatch

Array = npt.NDArray[Any]

_PARTIAL: list[tuple[str, pa.DataType]] = [
    ("query", pa.int64()),
    ("_step", pa.int64()),
    ("_op", pa.int8()),
    ("_why", pa.int8()),
    ("_rank", pa.float64()),
]
PARTIAL = pa.schema(_PARTIAL)
"""A candidate: _op 1: it is one of its slot's k from this step on, or has a new record or rank; -1: it is no
more, for the reason _why if its own state is one. _rank: what answers are ordered by, smallest first, for
kNN the distance; of a leave the distance to show, null for none. The columns hold the record after the step.
"""

_MARKS: list[tuple[str, pa.DataType]] = [
    ("query", pa.int64()),
    ("step", pa.int64()),
    ("mark", pa.int8()),
    ("k", pa.int32()),
    ("shows", pa.bool_()),
]
MARKS = pa.schema(_MARKS)
"""What becomes of a query at a step. k and shows (whether updates have a distance) count for REGISTER."""

REGISTER, PAUSE, DROP, END = 1, 2, 3, 4
"""Marks. A query that resumes needs none: its slots send the changes since it paused."""

PART_CANDIDATES = 1 << 17
"""Most candidates in a chunk."""


class QueryMarks(NamedTuple):
    """Marks, (n,) each, of the types of `MARKS`."""

    query: Array
    step: Array
    mark: Array
    k: Array
    shows: Array


class CandidateOffers(NamedTuple):
    """Candidates, (n,) each: step, query ids; op, why and rank (float64, NaN: none) as in `PARTIAL`; show:
    the record, as in `stqsh.core.kernels.events.updates.UpdateArrays`.
    """

    step: Array
    query: Array
    op: Array
    why: Array
    show: Array
    rank: Array


class Partials:
    """Gathers what one kind sends to Aggregate in a batch."""

    def __init__(self, batch: StreamBatch, kind: str) -> None:
        self._batch, self._kind = batch, kind
        self._marks: list[QueryMarks] = []
        self._offers: list[CandidateOffers] = []

    def mark(self, query: Array, step: int, mark: int, k: Array, shows: Array) -> None:
        """Add a mark for queries, given by their ids."""
        self._marks.append(QueryMarks(query, np.full(len(query), step), np.full(len(query), mark), k, shows))

    def offer(self, offers: CandidateOffers) -> None:
        """Offer candidates, or take them back."""
        if len(offers.step):
            self._offers.append(offers)

    def chunks(self) -> list[Chunk]:
        """Return marks and candidates as chunks; must be called before the batch's records are stored."""
        chunks: list[Chunk] = []
        if self._marks:
            columns = zip(*self._marks, strict=True)
            chunks = [self._chunk("marks", 0, _marks(QueryMarks(*(np.concatenate(c) for c in columns))))]
        number = 0
        for offers in self._offers:
            for start in range(0, len(offers.step), PART_CANDIDATES):
                batch = self._candidates(offers, slice(start, start + PART_CANDIDATES))
                chunks.append(self._chunk("partial", number, batch))
                number += 1
        return chunks

    def _chunk(self, what: str, number: int, batch: pa.RecordBatch) -> Chunk:
        timing, slot = self._batch.timing, self._batch.state.slot
        kind, stream = f"{what}/{self._kind}", self._batch.spec.id
        order = ChunkOrder(Phase.EVALUATED, number=number)
        return Chunk(slot, stream, kind, order, timing.first, timing.last, batch.num_rows, pack(batch))

    def _candidates(self, offers: CandidateOffers, span: slice) -> pa.RecordBatch:
        rows = shown_rows(self._batch.objects, offers.show[span])
        rank = offers.rank[span]
        columns = [offers.query, offers.step, offers.op, offers.why]
        fixed: list[pa.Array[Any]] = [
            pa.array(column[span], kind) for column, kind in zip(columns, PARTIAL.types, strict=False)
        ]
        fixed.append(pa.array(rank, mask=np.isnan(rank)))
        schema = pa.schema([*PARTIAL, *rows.schema])
        return pa.RecordBatch.from_arrays([*fixed, *rows.columns], schema=schema)


def _marks(marks: QueryMarks) -> pa.RecordBatch:
    columns = [pa.array(column, kind) for column, kind in zip(marks, MARKS.types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=MARKS)


def is_partial(kind: str) -> bool:
    """Return whether chunks of this kind go to the slots of Aggregate that have their queries."""
    return kind.startswith(("partial/", "marks/"))


def all_marks(batches: Iterable[pa.RecordBatch]) -> QueryMarks:
    """Return the marks of several slots as one table without repetitions, by query."""
    table = pa.Table.from_batches(list(batches), MARKS)
    columns = [column.to_numpy() for column in table.columns]
    marks = QueryMarks(*columns)
    _, first = np.unique(np.stack([marks.query, marks.mark.astype(np.int64)]), axis=1, return_index=True)
    return QueryMarks(*(column[first] for column in marks))
