"""Deal records of a moving stream that is routed by space, and assign their role on each slot.

An object is on the slot to which its last record was dealt. When its next record belongs to another slot, it
crosses: the old slot gets the record as a departure, and the new slot gets it together with the previous one
(CheetahGIS, section IV: the Transformer's old and new tuple, of which Indexers make a delete and an insert).
So a change of the routing moves no object: each object crosses with its next record, as at a border.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stqsh.routing.table import RoutingTable, slots_of
from stqsh.sources.replay_store.segments import joined
from stqsh.sources.replay_store.store import ReplayStore
from stqsh.spec.chunk import ROLE, RecordRole
from stqsh.spec.stream import StreamSpec

Rows = NDArray[np.int64]
Slots = NDArray[np.int32]


class Places(NamedTuple):
    """The locations of records, and their rows in the store: (n,) each.

    Attributes:
        rows: int64.
        x, y: float64; NaN for an object without a location.
        hashes: the hashes of their keys, uint64.
    """

    rows: Rows
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    hashes: NDArray[np.uint64]

    def those(self, chosen: NDArray[np.int64]) -> Places:
        """Return some of the places."""
        return Places(self.rows[chosen], self.x[chosen], self.y[chosen], self.hashes[chosen])


class RowRouting(NamedTuple):
    """The tables that deal the rows of a store.

    Attributes:
        starts: the first row that each table deals, ascending; the first is 0.
        table: returns a table by its position.
    """

    starts: Sequence[int]
    table: Callable[[int], RoutingTable]

    def slots_of(self, places: Places) -> Slots:
        """Return the slot of each record, int32 (n,); records without a location are dealt by their keys."""
        which = np.searchsorted(self.starts, places.rows, side="right") - 1
        slots = np.empty(len(which), np.int32)
        for number in np.unique(which).tolist():
            at = np.flatnonzero(which == number)
            slots[at] = deal_places(self.table(number), places.those(at))
        return slots


def deal_places(table: RoutingTable, places: Places, texts: pa.Array[Any] | None = None) -> Slots:
    """Return the slot of each record under a table, int32 (n,); records without a location are dealt by keys.

    Tables that split records by words need their `texts`, a string array (n,).
    """
    slots, placed = slots_of(places.hashes, table.slots), np.flatnonzero(~np.isnan(places.x))
    x, y, hashes = places.x[placed], places.y[placed], places.hashes[placed]
    positions: Any = pa.array(placed)
    slots[placed] = table.slots_of(x, y, hashes, None if texts is None else texts.take(positions))
    return slots


def texts_to_deal(table: RoutingTable, records: pa.RecordBatch, stream: StreamSpec) -> pa.Array[Any] | None:
    """Return the texts by which a table deals records; None if the table uses no texts."""
    return None if table.texts is None or stream.text is None else records.column(stream.text)


class StepChanges(NamedTuple):
    """The changes by the records of a slice, in whole steps: arrays (n,), one element for each record.

    Attributes:
        last: the position of the object's last record in the step; the position itself for a stale record.
        before: the object's row at the end of the previous step, -1 for none, int64.
        stale: whether the record is stale.
    """

    last: Rows
    before: Rows
    stale: NDArray[np.bool_]

    @staticmethod
    def of(start: int, steps: NDArray[np.int64], previous: Rows) -> StepChanges:
        """Compute the changes.

        Args:
            start: the row of the first record.
            steps: the step of each record, int64 (n,).
            previous: the row before each, as `previous_rows` returns them, int64 (n,).
        """
        stale = previous < -1
        last, before = np.arange(len(steps)), np.where(stale, -1, previous)

        def in_step(records: Rows) -> Rows:
            """Return the records whose `before` row is in the same step."""
            inside = records[before[records] >= start]
            later: Rows = inside[steps[before[inside] - start] == steps[inside]]
            return later

        # An object may report several times in a step. Follow the chain of previous rows until `before` is in
        # an earlier step, then point `last` of each record at the end of its chain, by pointer jumping.
        again = in_step(last)
        last[before[again] - start] = again
        while len(again):
            before[again] = before[before[again] - start]
            again = in_step(again)
        while (last[last] != last).any():
            last = last[last]
        return StepChanges(last, before, stale)


class DealtRecords(NamedTuple):
    """Records with their roles, and the slot of each, int32 (n,), in order of steps."""

    records: pa.RecordBatch
    slots: Slots


class SliceRecords(NamedTuple):
    """The records of a slice that holds whole steps.

    Attributes:
        start: the row of the first one.
        records: the records, with `_step` and `_hash`.
        previous: the row before each, int64 (n,).
    """

    start: int
    records: pa.RecordBatch
    previous: Rows


def deal_crossing(
    store: ReplayStore, stream: StreamSpec, piece: SliceRecords, routing: RowRouting
) -> DealtRecords:
    """Deal the records of a slice of a stream's store, each row by its table."""
    start, records, previous = piece
    steps, hashes = records.column("_step").to_numpy(), records.column("_hash").to_numpy()
    changes = StepChanges.of(start, steps, previous)
    here = Places(start + np.arange(len(steps)), *coordinates(records, stream), hashes)
    slots = routing.slots_of(here)[changes.last]
    final = np.flatnonzero((changes.last == np.arange(len(steps))) & (changes.before >= 0))
    earlier = store.take(changes.before[final], [stream.x, stream.y])
    old = routing.slots_of(Places(changes.before[final], *coordinates(earlier, stream), hashes[final]))
    crossing = np.flatnonzero(old != slots[final])
    at = final[crossing]
    before = store.take(changes.before[at]).drop_columns(["_tick"])
    return with_crossings(DealtRecords(records, slots), changes.stale, Crossings(at, old[crossing], before))


class Crossings(NamedTuple):
    """The records at which objects cross to other slots.

    Attributes:
        at: their positions.
        old: the slots that the objects leave, int32.
        before: the objects' records there, in the declared columns.
    """

    at: Rows
    old: Slots
    before: pa.RecordBatch


def with_crossings(dealt: DealtRecords, stale: NDArray[np.bool_], crossings: Crossings) -> DealtRecords:
    """Return records with roles, plus a departure (old slot) and the previous record (new slot) per crossing.

    Args:
        dealt: the records with `_step` and `_hash`, and the slot of each.
        stale: which of them are stale, (n,).
        crossings: the records at which objects cross.
    """
    (records, slots), (at, old, before) = dealt, crossings
    steps, moved = records.column("_step").to_numpy(), records.take(at)
    for name in ("_step", "_hash"):
        before = before.append_column(name, moved.column(name))
    parts = [
        with_role(records, np.where(stale, RecordRole.STALE, RecordRole.REGULAR)),
        with_role(moved, np.full(len(at), RecordRole.DEPARTED)),
        with_role(before, np.full(len(at), RecordRole.PREVIOUS)),
    ]
    order = np.argsort(np.concatenate([steps, steps[at], steps[at]]), kind="stable")
    everyone = np.concatenate([slots, old, slots[at]])
    return DealtRecords(joined(parts).take(order), everyone[order])


def coordinates(
    records: pa.RecordBatch, stream: StreamSpec
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return x and y of records, float64 (n,) each; NaN for an object without a location."""
    x, y = (records.column(name).to_numpy(zero_copy_only=False) for name in (stream.x, stream.y))
    return x, np.where(np.isnan(x), np.nan, y)


def with_role(records: pa.RecordBatch, roles: NDArray[np.int64]) -> pa.RecordBatch:
    """Return records with the role of each."""
    return records.append_column(ROLE, pa.array(roles.astype(np.int8)))
