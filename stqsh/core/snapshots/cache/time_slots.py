"""Time slots: a stream's events of a slot, divided by time, with each part sorted by cell (STAR section 7).

A time slot is a run of rows of the event table, because events are stored in order of arrival. New events
wait in the tail until there are enough for a time slot. Neighbours of equal size are merged as they age, up
to an eighth of all events, so recent time slots are fine and old ones coarse. Merging loses nothing, because
a question that covers a time slot in part tests the times of its events.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from stqsh.arrays import Array
from stqsh.core.conditions.time_ranges import EVER, TimeRange
from stqsh.core.kernels.events.transitions import StoredArrays
from stqsh.core.snapshots.cache.cells import NO_EXTENT, CellGrid, Extent, depth_for

FINEST = 1 << 14
"""The number of events of the finest time slots."""

_COARSEST = 8
"""A time slot contains at most one in this many of all events."""


@dataclass(frozen=True)
class TimeSlot:
    """The events of the rows from `begin` to before `end`.

    Attributes:
        low, high: the earliest and the latest time, µs.
        ascends: whether no row has an earlier time than the row before it.
        order: the rows sorted by cell, int32 (end - begin,); rows without a place are last.
        starts: where each cell begins in `order`, int32 (cells + 1,).
    """

    begin: int
    end: int
    low: int
    high: int
    ascends: bool
    order: Array
    starts: Array

    @property
    def rows(self) -> tuple[int, int]:
        """The rows, which identify the slot."""
        return self.begin, self.end

    def count(self, span: tuple[int, int]) -> int:
        """Return the number of events in consecutive cells."""
        return int(self.starts[span[1]] - self.starts[span[0]])

    def count_runs(self, begin: Array, end: Array) -> int:
        """Return the number of events in runs of cells, given by the first cell of each and the one after."""
        return int((self.starts[end] - self.starts[begin]).sum())

    def fills(self, begin: Array, end: Array) -> bool:
        """Return whether runs of cells contain all cells, and all events have a place."""
        cells = len(self.starts) - 1
        is_all = len(begin) == 1 and begin[0] == 0 and end[0] == cells
        return is_all and int(self.starts[cells]) == self.end - self.begin

    def within(self, times: TimeRange) -> bool:
        """Return whether all events are in a time range."""
        return times.since <= self.low and self.high < times.until

    def misses(self, times: TimeRange) -> bool:
        """Return whether no event is in a time range."""
        return self.high < times.since or self.low >= times.until

    @property
    def nbytes(self) -> int:
        """The bytes of the order and of the starts of cells."""
        return int(self.order.nbytes + self.starts.nbytes)


@dataclass
class TimeSlots:
    """All time slots of a stream's events on a slot, and the tail after them.

    Attributes:
        grid: the cells.
        slots: the time slots, in order.
        seen: the area of the places of the time slots' events.
        end: the row at which the tail begins.
    """

    grid: CellGrid
    slots: list[TimeSlot] = field(default_factory=list)
    seen: Extent = NO_EXTENT
    end: int = 0

    @staticmethod
    def over(stored: StoredArrays, grid: CellGrid | None = None) -> TimeSlots:
        """Return time slots of the events of a table."""
        area = extent_of(stored, 0, len(stored.x))
        made = TimeSlots(grid or CellGrid(area, depth_for(len(stored.x))))
        made.catch_up(stored)
        return made

    def fits(self, events: int) -> bool:
        """Return whether the depth of the cells suits a number of events."""
        return self.grid.depth == depth_for(events)

    def catch_up(self, stored: StoredArrays) -> list[TimeSlot]:
        """Add new events, and return the time slots that were merged into others."""
        count, joined = len(stored.x), list[TimeSlot]()
        most = max(FINEST, count // _COARSEST)
        while count - self.end >= FINEST:
            size = FINEST
            while 2 * size <= min(most, count - self.end):
                size *= 2
            self.slots.append(self._made(stored, self.end, self.end + size))
            self.seen = self.seen.joined(extent_of(stored, self.end, self.end + size))
            self.end += size
        while self._are_alike(most):
            joined += self.slots[-2:]
            begin, end = self.slots[-2].begin, self.slots[-1].end
            self.slots[-2:] = [self._made(stored, begin, end)]
        return joined

    def _are_alike(self, most: int) -> bool:
        """Return whether the last two time slots have the same size and may be merged."""
        if len(self.slots) < 2:
            return False
        one, other = self.slots[-2:]
        size = other.end - other.begin
        return one.end - one.begin == size and 2 * size <= most

    def _made(self, stored: StoredArrays, begin: int, end: int) -> TimeSlot:
        cells = self.grid.cells
        numbers = self.grid.numbers(stored.x[begin:end], stored.y[begin:end])
        numbers[~stored.known[begin:end]] = cells
        narrow = numbers if cells >= 1 << 16 else numbers.astype(np.uint16)
        order = (np.argsort(narrow, kind="stable") + begin).astype(np.int32)
        starts = np.zeros(cells + 1, np.int32)
        np.cumsum(np.bincount(numbers, minlength=cells + 1)[:cells], out=starts[1:])
        ts = stored.ts[begin:end]
        ascends = bool((ts[1:] >= ts[:-1]).all())
        return TimeSlot(begin, end, int(ts.min()), int(ts.max()), ascends, order, starts)

    def among(self, times: TimeRange) -> Iterator[tuple[TimeSlot, bool]]:
        """Yield the time slots that may have events in a time range, and whether all events are in it."""
        for slot in self.slots:
            if not slot.misses(times):
                yield slot, slot.within(times)

    @property
    def nbytes(self) -> int:
        """The bytes of all time slots."""
        return sum(slot.nbytes for slot in self.slots)


def extent_of(stored: StoredArrays, begin: int, end: int) -> Extent:
    """Return the area of the places of some rows."""
    x, y = stored.x[begin:end], stored.y[begin:end]
    x, y = x[~np.isnan(x)], y[~np.isnan(y)]
    if not len(x) or not len(y):
        return NO_EXTENT
    return Extent(float(x.min()), float(y.min()), float(x.max()), float(y.max()))


def rows_of(
    slots: list[TimeSlot], begin: Array, end: Array, ts: Array | None = None, times: TimeRange = EVER
) -> Array:
    """Return the rows of the events in runs of cells of time slots, int32 (n,).

    Args:
        slots: the time slots.
        begin, end: the first cell of each run, and the cell after its last, int64 (runs,).
        ts: the times of all rows, int64; if given, rows with times outside `times` may be omitted.
        times: the wanted times.
    """
    if not len(slots) or not len(begin):
        return np.empty(0, np.int32)
    pieces = []
    for slot in slots:
        if slot.fills(begin, end):
            rows = slice(slot.begin, slot.end)
            if ts is not None and slot.ascends:
                first, last = np.searchsorted(ts[rows], times).tolist()
                rows = slice(slot.begin + first, slot.begin + last)
            pieces.append(np.arange(rows.start, rows.stop, dtype=np.int32))
            continue
        first, lengths = slot.starts[begin], slot.starts[end] - slot.starts[begin]
        total = int(lengths.sum())
        if total:
            shift = np.repeat(first - (np.cumsum(lengths) - lengths), lengths)
            pieces.append(slot.order[shift + np.arange(total)])
    return np.concatenate(pieces) if pieces else np.empty(0, np.int32)
