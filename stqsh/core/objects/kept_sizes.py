"""The bytes of an event stream's records, and the floors that follow from `KEEP` with a size.

A record counts the bytes of its columns, wherever and however it is stored: 8 for a number of 64 bits or a
time, 4 for one of 32 bits, 1 for a truth value, and for a text its bytes in UTF-8. So the floors follow from
the records and their steps. Each source task counts what it reads and sends the counts to all slots, which
thus have the same floors, however records are dealt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute

from stqsh.arrays import Array
from stqsh.core.base.clock import NEVER, BatchTiming, Floors
from stqsh.core.kernels.events.size_floors import (
    Arriving,
    KeptTotal,
    KeyRecords,
    SizeSlots,
    find_duplicates_by_size,
    find_floors,
    merge_slots,
)
from stqsh.core.kernels.jit import frozen
from stqsh.core.state.slot_state import SlotState
from stqsh.core.state.table import ArraySpec, StateTable
from stqsh.spec.stream import ColumnSpec, StreamSpec

pc: Any = pyarrow.compute  # its stubs know no dictionaries

_WIDTHS = {"BIGINT": 8, "DOUBLE": 8, "TIMESTAMP": 8, "INT": 4, "FLOAT": 4, "BOOLEAN": 1, "STRING": 0}
"""The bytes that a value of each type counts; those of a text come on top."""

_COLUMNS = ("step", "tick", "bytes")
_FLOOR, _BYTES, _NOW, _IS_KNOWN = range(4)

SIZES = "sizes"
"""The column of counts that are handed over."""


class SizedRecords(NamedTuple):
    """The ticks in which records arrive, those of their times, and their bytes; int64 (n,) each."""

    arrivals: Array
    ticks: Array
    sizes: Array


def record_sizes(records: pa.RecordBatch, columns: Sequence[ColumnSpec]) -> Array:
    """Return the bytes that records with these columns count, int64 (n,)."""
    sizes = np.full(records.num_rows, sum(_WIDTHS[kind] for _, kind in columns), np.int64)
    for name, kind in columns:
        if kind == "STRING":
            texts: Any = records.column(name)
            coded = pa.types.is_dictionary(texts.type)
            lengths = pc.binary_length(texts.dictionary if coded else texts)
            lengths = lengths.take(texts.indices) if coded else lengths
            sizes += pc.fill_null(lengths, 0).to_numpy(zero_copy_only=False)
    return sizes


def counted_sizes(records: pa.RecordBatch, spec: StreamSpec) -> pa.RecordBatch:
    """Return the bytes of records, one or more, by their `_step` and the tick of their time, for `count`."""
    ticks = records.column(spec.time).cast(pa.int64()).to_numpy() // spec.tick_us
    steps, sizes = records.column("_step").to_numpy(), record_sizes(records, spec.columns)
    begins = np.flatnonzero(np.append(True, (np.diff(steps) != 0) | (np.diff(ticks) != 0)))
    columns = [steps[begins], ticks[begins], np.add.reduceat(sizes, begins)]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], list(_COLUMNS))


class KeptSizes(StateTable):
    """The bytes of the events that are kept, by time slot, see `stqsh.core.kernels.events.size_floors`.

    A slot's first tick that has events stands for it. `kept` has the first tick that is kept, the bytes that
    are, the tick of the last records, and whether any events have been let go.
    """

    tick = ArraySpec(np.int64)
    bytes = ArraySpec(np.int64)
    kept = ArraySpec(np.int64, length=4)

    @staticmethod
    def of(state: SlotState, spec: StreamSpec) -> KeptSizes:
        """Return those of a stream in a slot's state."""
        return KeptSizes(state, _prefix(spec))

    def count(self, counted: Sequence[pa.RecordBatch], limit: int, timing: BatchTiming) -> Floors:
        """Count the records of a batch, and return the floors from the step before it on.

        Args:
            counted: Their bytes, as `counted_sizes` returns them.
            limit: The most bytes that are kept.
            timing: The batch's steps.
        """
        before, since = self.floor_us(timing.tick), timing.base - 1
        if not counted:
            return _floors([timing.first - 1], [before])
        steps, times, sizes = (
            np.concatenate([one.column(name).to_numpy() for one in counted]) for name in _COLUMNS
        )
        order = np.argsort(steps, kind="stable")
        arrivals = steps[order] + since
        at, ticks, amounts = self._places(times[order])
        slots = SizeSlots(ticks, amounts, limit, timing.tick, int(self.kept[_NOW]))
        arriving = Arriving(frozen(arrivals), frozen(at), frozen(sizes[order]))
        when, floors, kept = find_floors(arriving, slots, self._total)
        self._store(ticks, amounts, kept, int(arrivals[-1]))
        steps = when - since
        return _floors([timing.first - 1, *steps.tolist()], [before, *(floors * timing.tick).tolist()])

    def find_duplicates(
        self, keys: KeyRecords, latest: Array, records: SizedRecords, limit: int, tick_us: int
    ) -> Array:
        """Mark the records whose key is still kept, bool (n,), and count the others.

        Args:
            keys: The keys of the records, which are in replay order over all calls.
            latest: The latest accepted time of each key, µs; updated.
            records: The records.
            limit: The most bytes that are kept.
            tick_us: The length of a tick, µs.
        """
        at, ticks, amounts = self._places(records.ticks)
        slots = SizeSlots(ticks, amounts, limit, tick_us, int(self.kept[_NOW]))
        arriving = Arriving(frozen(records.arrivals), frozen(at), frozen(records.sizes))
        found, kept = find_duplicates_by_size(keys, latest, arriving, slots, self._total)
        if len(found):
            self._store(ticks, amounts, kept, int(records.arrivals[-1]))
        return found

    def floor_us(self, tick_us: int) -> int:
        """Return the time before which events are gone, µs; -NEVER while none are."""
        return int(self.kept[_FLOOR]) * tick_us if self.kept[_IS_KNOWN] else -NEVER

    def bytes_since(self, time_us: int, tick_us: int) -> int:
        """Return the bytes of the kept events that are not older than a time, to the time slot."""
        return int(self.bytes[self.tick >= time_us // tick_us].sum())

    def content(self) -> pa.RecordBatch:
        """Return all counts as one column, for `take`."""
        every: Any = pa.array(np.concatenate([self.kept, self.tick, self.bytes]))
        return pa.RecordBatch.from_arrays([every], [SIZES])

    def take(self, content: pa.RecordBatch) -> None:
        """Replace the counts by those that `content` returned."""
        every = content.column(SIZES).to_numpy()
        self.kept[:], slots = every[: len(self.kept)], every[len(self.kept) :]
        self.store(tick=slots[: len(slots) // 2], bytes=slots[len(slots) // 2 :])

    @property
    def _total(self) -> KeptTotal:
        floor, total, _, is_known = self.kept.tolist()
        return KeptTotal(floor if is_known else -NEVER, total)

    def _places(self, times: Array) -> tuple[Array, Array, Array]:
        """Return the position of each tick among all, all ticks, ascending, and the bytes of each."""
        ticks, at = np.unique(np.concatenate([self.tick, times]), return_inverse=True)
        amounts = np.zeros(len(ticks), np.int64)
        amounts[at[: len(self)]] = self.bytes
        return at[len(self) :], ticks, amounts

    def _store(self, ticks: Array, sizes: Array, kept: KeptTotal, now: int) -> None:
        """Store the time slots as of a tick."""
        stay, is_known = merge_slots(ticks, sizes, now), kept.floor > -NEVER
        self.store(tick=ticks[:stay], bytes=sizes[:stay])
        self.kept[:] = kept.floor if is_known else 0, kept.bytes, now, is_known


def _floors(steps: list[int], least: list[int]) -> Floors:
    """Return floors without a first step that has none."""
    begin = int(least[0] == -NEVER)
    return Floors(np.array(steps[begin:], np.int64), np.array(least[begin:], np.int64))


def _prefix(spec: StreamSpec) -> str:
    return f"s{spec.id}/sizes"


def stored_floor(state: SlotState, spec: StreamSpec) -> int:
    """Return the time before which events are gone after a slot's last batch, µs; -NEVER for none."""
    if spec.keep_bytes is None or f"{_prefix(spec)}/kept" not in state:
        return -NEVER
    return KeptSizes.of(state, spec).floor_us(spec.tick_us)
