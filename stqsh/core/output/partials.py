"""The chunks that slots send to Aggregate for merged queries: candidates and marks.

"partial/<kind>" holds candidates: a record batch of `PARTIAL`, followed by the stream's declared columns. Its
first columns are read by position, because a stream may itself have a column "query". "marks/<kind>" holds
`MARKS`, the state changes of queries. All slots that hold a query send the same mark, which counts once.
"holds/<kind>" holds `HOLDS`, the active queries with DWELL. "groups/<kind>" holds `GROUPS`, the new queries
whose merged rows are added up; kinds that add up neighbours send the marks of groups there instead,
`stqsh.core.groups.marks.MARKS`.

In SSTD section 6.3 the merger sends the distance r of the k-th result back, so that workers do not send
candidates beyond r. Here slots always send their own k: whether a candidate counts depends on what the other
slots lose in the same step, which no slot can determine without a second exchange within the step. This is
true even of events, which never move, because they expire and change under conditions on NOW. The saving
would be small: slots send only changes of candidates, and with s slots at most (s - 1) / s of them are
discarded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from stqsh.arrays import Array
from stqsh.core.output.batch_output import shown_rows
from stqsh.core.output.candidates import LOOKED_UP
from stqsh.core.state.columns import concatenate
from stqsh.spec.chunk import Chunk, ChunkOrder, Phase, pack

if TYPE_CHECKING:
    from stqsh.core.contract.query_kind import StreamBatch


_PARTIAL: list[tuple[str, pa.DataType]] = [
    ("query", pa.int64()),
    ("_step", pa.int64()),
    ("_op", pa.int8()),
    ("_why", pa.int8()),
    ("_rank", pa.float64()),
]
PARTIAL = pa.schema(_PARTIAL)
"""A candidate, with its record after the step in the stream's columns.

_op is 1 if it is one of its slot's k from this step on, or has a new record or rank; it is -1 if it is no
longer one of them. _why is the reason, if the object's own state is the reason. Answers are ordered by _rank,
smallest first, which for kNN is the distance; in a removal it is the distance to show, null for none. A kind
may rank by bytes instead.
"""

_MARKS: list[tuple[str, pa.DataType]] = [
    ("query", pa.int64()),
    ("step", pa.int64()),
    ("mark", pa.int8()),
    ("k", pa.int32()),
    ("shows", pa.bool_()),
]
MARKS = pa.schema(_MARKS)
"""A state change of a query at a step.

k is for REGISTER, LIMIT and RESIZE; shows (whether updates have a distance) is for REGISTER.
"""

REGISTER, PAUSE, DROP, END, LIMIT, RESIZE, SUSPEND = 1, 2, 3, 4, 5, 6, 7
"""The marks. A query that resumes needs no mark, because its slots send the changes since it paused.

LIMIT is sent with REGISTER if a kind merges twice: its k is the number of merged members that are wanted.
RESIZE gives a query that was altered another k. SUSPEND replaces PAUSE if slots store what they have offered,
so that the candidates stay: it only makes Aggregate stop waiting for DWELL.
"""

HOLDS = pa.schema(
    [(name, pa.int64()) for name in ("query", "dwell", "sync", "last", "base", "tick", "closing")]
)
"""A query with DWELL that is active in the batch: its DWELL and SYNC in µs (0 without SYNC), the last step at
which changes may become due, and the batch's clock, as in `stqsh.spec.clock.BatchClock`."""

GROUPS = pa.schema([("query", pa.int64()), ("spec", pa.dictionary(pa.int32(), pa.string()))])
"""A new query whose merged rows are added up, and the JSON of its `GroupForm`."""

PART_CANDIDATES = 1 << 17
"""The most candidates in a chunk."""


class QueryMarks(NamedTuple):
    """Marks, (n,) each, of the types of `MARKS`."""

    query: Array
    step: Array
    mark: Array
    k: Array
    shows: Array


class Holds(NamedTuple):
    """Active queries with DWELL, (n,) each, with the columns of `HOLDS`."""

    query: Array
    dwell: Array
    sync: Array
    last: Array
    base: Array
    tick: Array
    closing: Array


class CandidateOffers(NamedTuple):
    """Candidates, (n,) each, with the columns of `PARTIAL`.

    Attributes:
        step: The step.
        query: The query's id.
        op: 1 for a new candidate or record, -1 for a removal.
        why: The reason of a removal.
        show: The record to show, as in `stqsh.core.kernels.events.updates.UpdateArrays`.
        rank: float64, NaN for none; or bytes, null for none.
        looked_up: Bytes for Aggregate in addition to the record, null for none; None if the kind sends none.
    """

    step: Array
    query: Array
    op: Array
    why: Array
    show: Array
    rank: Array | pa.BinaryArray
    looked_up: pa.BinaryArray | None = None


class Partials:
    """The chunks that one kind sends to Aggregate in a batch."""

    def __init__(self, batch: StreamBatch, kind: str) -> None:
        self._batch, self._kind = batch, kind
        self._marks: list[QueryMarks] = []
        self._holds: list[Holds] = []
        self._groups: list[pa.RecordBatch] = []
        self._offers: list[CandidateOffers] = []

    def mark(self, query: Array, step: int, mark: int, k: Array, shows: Array) -> None:
        """Add a mark for queries, given by their ids."""
        self._marks.append(QueryMarks(query, np.full(len(query), step), np.full(len(query), mark), k, shows))

    def hold(self, query: Array, dwell: Array, sync: Array) -> None:
        """Add active queries with DWELL, given by their ids; `dwell` and `sync` as in `HOLDS`."""
        timing, clock = self._batch.timing, self._batch.clock
        times = (timing.last, timing.base, timing.tick, clock.closing)
        self._holds.append(Holds(query, dwell, sync, *(np.full(len(query), time) for time in times)))

    def add_up(self, query: Array, specs: list[str], which: Array) -> None:
        """Add new queries, given by id, whose rows are added up; `which` has the place of each one's spec."""
        spec = pa.DictionaryArray.from_arrays(pa.array(which, pa.int32()), pa.array(specs, pa.string()))
        arrays: list[Any] = [pa.array(query), spec]
        self._groups.append(pa.RecordBatch.from_arrays(arrays, schema=GROUPS))

    def offer(self, offers: CandidateOffers) -> None:
        """Offer or withdraw candidates."""
        if len(offers.step):
            self._offers.append(offers)

    def chunks(self) -> list[Chunk]:
        """Return marks and candidates as chunks; must be called before the batch's records are stored."""
        chunks: list[Chunk] = []
        if self._marks:
            columns = zip(*self._marks, strict=True)
            chunks = [self._chunk("marks", 0, _marks(QueryMarks(*(np.concatenate(c) for c in columns))))]
        if self._holds:
            held = [pa.array(np.concatenate(column)) for column in zip(*self._holds, strict=True)]
            chunks.append(self._chunk("holds", 0, pa.RecordBatch.from_arrays(held, schema=HOLDS)))
        chunks += [self._chunk("groups", number, new) for number, new in enumerate(self._groups)]
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
        rank: Any = offers.rank[span]
        columns = [offers.query, offers.step, offers.op, offers.why]
        fixed: list[pa.Array[Any]] = [
            pa.array(column[span], kind) for column, kind in zip(columns, PARTIAL.types, strict=False)
        ]
        fixed.append(pa.array(rank, mask=np.isnan(rank)) if isinstance(rank, np.ndarray) else rank)
        ranked = pa.field(PARTIAL.names[-1], fixed[-1].type)
        schema = pa.schema([*list(PARTIAL)[:-1], ranked, *rows.schema])
        whole = pa.RecordBatch.from_arrays([*fixed, *rows.columns], schema=schema)
        if offers.looked_up is None:
            return whole
        return whole.append_column(LOOKED_UP, offers.looked_up[span].view(pa.string()))


def all_candidates(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate the candidates of several slots; looked-up bytes that are missing become NULL."""
    widest = max(batches, key=lambda batch: batch.num_columns)
    return concatenate(
        [
            batch
            if batch.num_columns == widest.num_columns
            else batch.append_column(LOOKED_UP, pa.nulls(len(batch), pa.string()))
            for batch in batches
        ]
    )


def _marks(marks: QueryMarks) -> pa.RecordBatch:
    columns = [pa.array(column, kind) for column, kind in zip(marks, MARKS.types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=MARKS)


def is_partial(kind: str) -> bool:
    """Return whether chunks of this kind are sent to the Aggregate slots that have their queries."""
    return kind.startswith(("partial/", "marks/", "holds/", "groups/"))


def all_marks(batches: Iterable[pa.RecordBatch]) -> QueryMarks:
    """Return the marks of several slots without duplicates, by query; the latest mark counts."""
    table = pa.Table.from_batches(list(batches), MARKS)
    columns = [column.to_numpy() for column in table.columns]
    order = np.argsort(-columns[1], kind="stable")
    marks = QueryMarks(*(column[order] for column in columns))
    _, first = np.unique(np.stack([marks.query, marks.mark.astype(np.int64)]), axis=1, return_index=True)
    return QueryMarks(*(column[first] for column in marks))


def all_holds(batches: Iterable[pa.RecordBatch]) -> Holds:
    """Return the queries with DWELL of several slots, each once, by id; the latest last step counts."""
    table = pa.Table.from_batches(list(batches), HOLDS)
    holds = Holds(*(column.to_numpy() for column in table.columns))
    order = np.lexsort((-holds.last, holds.query))
    _, first = np.unique(holds.query[order], return_index=True)
    return Holds(*(column[order[first]] for column in holds))
