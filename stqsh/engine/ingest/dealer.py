"""The dealer of streams routed by space that have no complete store: live streams and endless generators.

A moving stream that was read to its end has an index of the previous record of each record. For other streams
that does not exist in advance, so an operator before Evaluate keeps the last record of each object, and the
slot to which it was dealt (CheetahGIS, section IV: the Transformer's hash table). It is keyed by object. Its
state starts with the slots' records when the stream is first repartitioned. Until then records are dealt by
the same keys. For events see `stqsh.engine.ingest.event_dealer`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pyarrow as pa

from stqsh.core.base.clock import NEVER, BatchTiming
from stqsh.core.contract.batch import batches
from stqsh.core.kernels.events.transitions import accept
from stqsh.core.kernels.index.hashing import hash_keys
from stqsh.core.objects.batch_objects import silent_from
from stqsh.core.objects.event_objects import make_room
from stqsh.core.objects.object_table import ObjectTable
from stqsh.core.state.columns import concatenate
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.string_dictionary import vacuum
from stqsh.engine.ingest.crossing_records import (
    Crossings,
    DealtRecords,
    Places,
    Slots,
    coordinates,
    deal_places,
    with_crossings,
    with_role,
)
from stqsh.engine.ingest.event_dealer import count_sizes, deal_events, take_in_keys
from stqsh.engine.ingest.record_sieve import RecordSieve, sieve_of_dealer
from stqsh.engine.ingest.task_reader import packed_records
from stqsh.routing.table import RoutingTable
from stqsh.spec.chunk import Chunk, ChunkKind, ChunkOrder, Phase, RecordRole, unpack_struct
from stqsh.spec.clock import DealOrder
from stqsh.spec.stream import StreamSpec
from stqsh.storage.blobs import Blobs
from stqsh.storage.slot_files import dealer_name
from stqsh.storage.stream_routes import published_table

_KINDS = (ChunkKind.DEAL_ORDER, ChunkKind.DEAL_SIZES, ChunkKind.DEAL_RECORDS, ChunkKind.DEAL_SEEDS)
_SPARE = 1024
"""The number of silent objects allowed beyond half of the stored ones."""


@dataclass(frozen=True, slots=True)
class Dealer:
    """The fold of a stream's dealer: records by key become records for the slots of their places.

    Attributes:
        spec: the stream.
        blobs: the session's blobs, which hold the routing tables.
        slots: the number of slots.
    """

    spec: StreamSpec
    blobs: Blobs
    slots: int

    @property
    def name(self) -> str:
        """The operator's name, as in file names: each stream has its own."""
        return dealer_name(self.spec.id)

    def accepts(self, chunk: Chunk) -> bool:
        """Return whether a chunk is for this dealer."""
        return chunk.stream == self.spec.id and chunk.kind in _KINDS

    def apply(self, state: SlotState, chunks: list[Chunk]) -> list[Chunk]:
        """Deal the records of a batch, or load the slot's last records as seeds."""
        found = batches(ChunkKind.DEAL_RECORDS, chunks)
        seeds = [some for some in batches(ChunkKind.DEAL_SEEDS, chunks) if some.num_rows]
        orders = [chunk for chunk in chunks if chunk.kind == ChunkKind.DEAL_ORDER]
        order = unpack_struct(orders[0].payload, DealOrder) if orders else None
        if not self.spec.is_event:
            return self._deal_objects(_DealtObjects(state, self.spec), seeds, order, found)
        take_in_keys(state, self.spec, seeds)
        if order is None:
            return []
        floors = count_sizes(state, self.spec, order, batches(ChunkKind.DEAL_SIZES, chunks))
        if not found:
            return []
        table = self._table(order)
        dealt = deal_events(state, self.spec, order, found, floors, table)
        sieve = sieve_of_dealer(self.blobs, self.spec, order, table)
        return [*self._to_slots(state.slot, order, [dealt], sieve)]

    def _deal_objects(
        self,
        objects: _DealtObjects,
        seeds: Sequence[pa.RecordBatch],
        order: DealOrder | None,
        found: list[pa.RecordBatch],
    ) -> list[Chunk]:
        """Deal the records of moving objects, and send the copy by key its records."""
        for some in seeds:
            objects.add(some)
        if order is None:
            return []
        copied: list[tuple[ChunkKind, Phase, pa.RecordBatch]] = []
        if order.begins_copy:
            copied.append((ChunkKind.COPY_SEEDS, Phase.SEEDS, objects.records(order.first_step - 1)))
        dealt: list[DealtRecords] = []
        if found:
            records, table = concatenate(found), self._table(order)
            dealt += (objects.deal(some, table) for some in _by_step(records))
            if order.is_copied:
                copied.append((ChunkKind.COPY_RECORDS, Phase.RECORDS, records))
        dealt += objects.without_silent(order)
        return [*self._to_slots(objects.slot, order, dealt), *self._to_copy(objects.slot, order, copied)]

    def _table(self, order: DealOrder) -> RoutingTable:
        return published_table(self.blobs, order.route).over(self.slots)

    def _to_slots(
        self,
        sender: int,
        order: DealOrder,
        dealt: Sequence[DealtRecords],
        sieve: RecordSieve | None = None,
    ) -> Iterator[Chunk]:
        """Yield the records for each slot, without those that its sieve leaves out."""
        for piece, (records, slots) in enumerate(dealt):
            for slot in np.unique(slots).tolist():
                mine = records.filter(pa.array(slots == slot))
                sent = None if sieve is None else sieve.sent(slot, mine)
                for at, payload, rows in packed_records(mine, piece, sent):
                    place = at._replace(sender=sender)
                    yield self._chunk(slot, ChunkKind.RECORDS, place, order, rows, payload)
        if sieve is not None:
            yield from sieve.counts((order.first_step, order.last_step), sender)

    def _to_copy(
        self, slot: int, order: DealOrder, copied: Sequence[tuple[ChunkKind, Phase, pa.RecordBatch]]
    ) -> Iterator[Chunk]:
        """Yield the chunks for the copy by key, which is on the slot of the same number."""
        for kind, phase, records in copied:
            for at, payload, rows in packed_records(records, 0):
                yield self._chunk(slot, kind, at._replace(phase=phase), order, rows, payload)

    def _chunk(
        self, slot: int, kind: ChunkKind, at: ChunkOrder, order: DealOrder, rows: int, payload: bytes
    ) -> Chunk:
        return Chunk(slot, self.spec.id, kind, at, order.first_step, order.last_step, rows, payload)


@dataclass(frozen=True, slots=True)
class Dealers:
    """The fold of all dealers as one operator, on a cluster.

    Spark cannot add operators when streams are created. The slots' seeds therefore bypass it: Deliver keeps
    them, and the first batch that a dealer deals includes them, see `stqsh.engine.ingest.dealer_seeds`.

    Attributes:
        blobs: the session's blobs, which hold the routing tables.
        slots: the number of slots.
    """

    blobs: Blobs
    slots: int
    name: ClassVar[str] = "dealers"

    def accepts(self, chunk: Chunk) -> bool:
        """Return whether a chunk is for a dealer."""
        return chunk.kind in (*_KINDS, ChunkKind.DEAL_END)

    def apply(self, state: SlotState, chunks: list[Chunk]) -> list[Chunk]:
        """Run each stream's dealer on the records of a batch; forget dealers of dropped streams."""
        streams: dict[int, list[Chunk]] = {}
        for chunk in (chunk for chunk in chunks if chunk.kind != ChunkKind.DEAL_END):
            streams.setdefault(chunk.stream, []).append(chunk)
        sent: list[Chunk] = []
        for _, some in sorted(streams.items()):
            orders = [chunk for chunk in some if chunk.kind == ChunkKind.DEAL_ORDER]
            spec = unpack_struct(orders[0].payload, DealOrder).spec
            assert spec is not None, "the order of a batch names the stream"
            sent += Dealer(spec, self.blobs, self.slots).apply(state, some)
        for stream in {int(name.partition("/")[0][1:]) for name in state.names()} - streams.keys():
            state.release(f"s{stream}/")
        return sent


class _DealtObjects:
    """The last record of each object on a slot of the dealer, and the object's slot.

    Arrays: those of an `ObjectTable`, plus `home`, the slot to which the record was dealt, int32.
    """

    def __init__(self, state: SlotState, spec: StreamSpec) -> None:
        prefix = f"s{spec.id}/objects"
        self._state, self._spec, self._name = state, spec, f"{prefix}/home"
        self._table = ObjectTable(state, prefix, spec)
        if self._name not in state:
            state.create(self._name, np.int32)

    @property
    def slot(self) -> int:
        """The number of the slot."""
        return self._state.slot

    def add(self, seeds: pa.RecordBatch) -> None:
        """Add objects that are on the slot of the same number."""
        rows = self._table.encode([seeds])
        self._table.columns.store(rows, np.arange(len(rows)))
        self._homes()[rows.arrays.obj] = self._state.slot

    def records(self, step: int) -> pa.RecordBatch:
        """Return the last records of all objects, with `_step` and `_hash`."""
        return self._with_routing(self._table.rows(np.arange(len(self._table), dtype=np.int32)), step)

    def deal(self, records: pa.RecordBatch, routing: RoutingTable) -> DealtRecords:
        """Deal the records of a step, and keep the last one of each object."""
        table = self._table
        rows = table.encode([records])
        obj, homes = rows.arrays.obj, self._homes()
        accepted = accept(rows.arrays, rows.roles, table.stored)
        stale = ~accepted.live & (accepted.until == NEVER)
        final = np.flatnonzero(accepted.live)
        last = np.arange(len(rows))
        of_object = np.zeros(len(table), np.int64)
        of_object[obj[final]] = final
        # All records of an object in the step go to the slot of its last valid one; stale ones to their own.
        last[~stale] = of_object[obj[~stale]]
        hashes = records.column("_hash").to_numpy()
        slots = deal_places(routing, Places(last, *coordinates(records, self._spec), hashes))[last]
        at = final[table.stored.known[obj[final]] & (homes[obj[final]] != slots[final])]
        crossings = Crossings(at, homes[obj[at]], table.rows(obj[at]))
        dealt = with_crossings(DealtRecords(records, slots), stale, crossings)
        table.columns.store(rows, final)
        homes[obj[final]] = slots[final]
        return dealt

    def without_silent(self, order: DealOrder) -> list[DealtRecords]:
        """Forget objects that have been silent for `REPORT EVERY`, once they are the majority of objects.

        They depart from their slots with their last record, and return as new objects.
        """
        report = self._spec.report_every_us
        if report is None or order.base_tick is None or order.tick_us is None:
            return []
        timing = BatchTiming(order.first_step, order.last_step, order.base_tick, order.tick_us, report)
        silent = silent_from(self._table.stored.ts, timing) <= order.last_step
        if np.count_nonzero(silent) <= len(silent) // 2 + _SPARE:
            return []
        gone = np.flatnonzero(silent).astype(np.int32)
        records, homes = self._with_routing(self._table.rows(gone), order.last_step), self._homes()[gone]
        make_room(self._state, self._spec.id, ~silent)
        vacuum(self._state, self._spec.id)
        return [DealtRecords(with_role(records, np.full(len(gone), RecordRole.DEPARTED)), homes)]

    def _homes(self) -> Slots:
        homes: Slots = self._state.resize(self._name, len(self._table))
        return homes

    def _with_routing(self, records: pa.RecordBatch, step: int) -> pa.RecordBatch:
        steps = pa.array(np.full(records.num_rows, step, np.int64))
        records = records.append_column("_step", steps)
        return records.append_column("_hash", pa.array(hash_keys(records.column(self._spec.key))))


def _by_step(records: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Split records, which are in order of steps, by step."""
    steps = records.column("_step").to_numpy()
    starts = np.flatnonzero(np.diff(steps, prepend=-1)).tolist()
    return [records.slice(start, end - start) for start, end in pairwise([*starts, len(steps)])]
