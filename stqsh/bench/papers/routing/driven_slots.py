"""Drive the slots of an event stream one after the other, and measure the thread time of each."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import thread_time_ns
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.arrays import Floats
from stqsh.bench.papers.routing.world import SECOND, Records
from stqsh.core.aggregate import aggregate
from stqsh.core.evaluate import evaluate
from stqsh.core.kernels.index.hashing import hash_integers, hash_keys
from stqsh.core.state.slot_state import SlotState
from stqsh.routing.query_routing import MemberBoxes, QueryRouting
from stqsh.routing.table import RoutingTable
from stqsh.routing.text_leaves import SoughtTerms
from stqsh.spec.chunk import Chunk, ChunkKind, ChunkOrder, pack, pack_json, unpack
from stqsh.spec.clock import BatchClock
from stqsh.spec.query_rows import QueryRows, pack_alike
from stqsh.spec.stream import StreamSpec

Nanoseconds = NDArray[np.int64]
Sift = Callable[[int, pa.RecordBatch], pa.RecordBatch]
"""Returns those of a slot's records that it gets."""

_FIRST = 1
"""The step in which all queries are registered."""


@dataclass
class Answers:
    """What slots gave: the number of updates, and the sum of the hashes of step, query, key, sign and cause.

    Rows of TOPK have their terms and counts in place of a key. Sums do not depend on which slot gives what,
    nor in which order.
    """

    updates: int = 0
    checksum: int = 0

    def add(self, sent: Iterable[Chunk]) -> None:
        """Add the updates among the chunks that slots sent."""
        chunks = [chunk for chunk in sent if chunk.kind in (ChunkKind.UPDATES, ChunkKind.ROWS)]
        rows = {(chunk.slot, chunk.order): chunk for chunk in chunks if chunk.kind == ChunkKind.ROWS}
        for chunk in chunks:
            if chunk.kind == ChunkKind.UPDATES:
                self._add(unpack(chunk.payload), unpack(rows[chunk.slot, chunk.order].payload))

    def _add(self, updates: pa.RecordBatch, rows: pa.RecordBatch) -> None:
        given = {name: updates.column(name).to_numpy() for name in updates.schema.names}
        keys = _content(rows)[given["row"]]
        signs = given["op"].astype(np.int64) * 16 + given["why"]
        mixed = np.zeros(len(keys), np.uint64)
        for values in (given["step"], given["query"], keys, signs):
            mixed = hash_integers(mixed.view(np.int64) ^ values)
        self.updates += len(keys)
        self.checksum = (self.checksum + int(mixed.sum(dtype=np.uint64))) % 2**64


def no_area(area: int) -> MemberBoxes:
    """Return the boxes of an area: there is none.

    Raises:
        ValueError: always.
    """
    raise ValueError(f"there is no area {area}")


def _content(rows: pa.RecordBatch) -> NDArray[np.int64]:
    """Return the key of each record, or a sum over the terms and counts of each TOPK: int64 (n,)."""
    if "id" in rows.schema.names:
        keys: NDArray[np.int64] = rows.column("id").to_numpy()
        return keys
    shown: Any = rows.column(rows.schema.get_field_index("s0:TOPK"))
    terms, counts = hash_keys(shown.values.field("term")), shown.values.field("count").to_numpy()
    sums = np.append(np.uint64(0), hash_integers(terms.view(np.int64) ^ counts).cumsum(dtype=np.uint64))
    found: NDArray[np.int64] = np.diff(sums[shown.offsets.to_numpy()]).view(np.int64)
    return found


@contextmanager
def _uncollected() -> Iterator[None]:
    """Collect no garbage until the end of the block."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass
class DrivenSlots:
    """The slots of a stream under a routing.

    Events stay on the slot to which they were dealt. When the routing changes, slots get to know the queries
    that touch their new cells, with the next batch; they keep those that they have.

    Attributes:
        boxes: float64 (m, 4), the boxes of the queries.
        sought: the terms that they need, if they ask for words.
        answers: what all slots together gave.
        sift: leaves records out that slots have no use for, if given. Its time counts as theirs.
        sent: how many records slots got.
        merging: the thread time of Aggregate in each batch, ns.
    """

    table: RoutingTable
    stream: StreamSpec
    queries: QueryRows
    boxes: Floats
    sought: SoughtTerms | None = None
    answers: Answers = field(default_factory=Answers)
    step: int = 0
    sift: Sift | None = None
    sent: int = 0
    merging: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._slots = [SlotState.fresh(slot) for slot in range(self.table.slots)]
        self._merging = SlotState.fresh(0)
        self._due = self._known = self._touched(self.table)

    @property
    def states(self) -> list[SlotState]:
        """The states of the slots, in order."""
        return self._slots

    @property
    def copies(self) -> float:
        """On how many slots a query is under the present routing."""
        return float(self._touched(self.table).sum() / len(self.boxes))

    def route(self, table: RoutingTable) -> None:
        """Deal records by another table, of the same number of slots, from the next batch on."""
        self.table = table
        self._due = self._touched(table) & ~self._known
        self._known = self._known | self._due

    def _touched(self, table: RoutingTable) -> NDArray[np.bool_]:
        routing = QueryRouting(table.slots, lambda _: [table], no_area)
        return routing.slots_touching(self.stream.id, self.boxes, self.sought)

    def take(self, records: Records, rng: np.random.Generator) -> Nanoseconds:
        """Take in the records of the next step; return the thread time of each slot, ns (slots,).

        That is the time of Evaluate, and of the sieve.

        The slots run in random order, without garbage collection.
        """
        parts = self.dealt(records)
        spent, sent = np.zeros(self.table.slots, np.int64), list[Chunk]()
        for slot in rng.permutation(self.table.slots).tolist():
            begun, part = thread_time_ns(), parts[slot]
            part = part if self.sift is None else self.sift(slot, part)
            spent[slot] = thread_time_ns() - begun
            self.sent += part.num_rows
            chunks = list(self._chunks(slot, records.step, part))
            with _uncollected():
                begun = thread_time_ns()
                sent += evaluate(self._slots[slot], chunks)
                spent[slot] += thread_time_ns() - begun
        begun = thread_time_ns()
        merged = aggregate(self._merging, sent)
        self.merging.append(thread_time_ns() - begun)
        self.answers.add(merged)
        self._due = np.zeros_like(self._due)
        self.step = records.step
        return spent

    def dealt(self, records: Records) -> list[pa.RecordBatch]:
        """Deal records to slots; return those of each slot."""
        x, y = records.places.T
        texts = None if self.stream.text is None else records.batch.column(self.stream.text)
        slots = self.table.slots_of(x, y, records.hashes, texts)
        ends = np.cumsum(np.bincount(slots, minlength=self.table.slots))
        order: Any = pa.array(np.argsort(slots, kind="stable"))
        sorted_ = records.batch.take(order)
        starts = np.append(0, ends[:-1])
        return [
            sorted_.slice(low, high - low) for low, high in zip(starts.tolist(), ends.tolist(), strict=True)
        ]

    def _chunks(self, slot: int, step: int, part: pa.RecordBatch) -> Iterator[Chunk]:
        """Yield the chunks of a slot for a step: clock, definition, queries that it has to know, records."""
        parts = [(ChunkKind.CLOCK, pack_json(BatchClock(step, step, 1, SECOND)))]
        if not self.step:
            parts.append((ChunkKind.DEFINE, pack_json(self.stream)))
        due = self._due[:, slot]
        if due.any():
            known_since = _FIRST if self.step else None
            parts.append(
                (ChunkKind.REGISTER_ALIKE, pack_alike(replace(self.queries.those(due), step=known_since)))
            )
        if part.num_rows:
            parts.append((ChunkKind.RECORDS, pack(part)))
        for number, (kind, payload) in enumerate(parts):
            stream = 0 if kind == ChunkKind.CLOCK else self.stream.id
            yield Chunk(slot, stream, kind, ChunkOrder(number=number), step, step, 1, payload)
