"""Ways to keep up the results of queries whose window moves on every minute.

Records of a minute are counted by result and cell. When the minute ends, its counts become an interval; what
no window reaches any longer is forgotten, and the results that are due are answered. Ways differ in how:

- recomputing: all minutes of the window are added up;
- STAR's MT-index (section 5.2): two neighbouring intervals that are complete make one of the next layer, and
  the fewest intervals that make up the window are added up;
- running totals: a minute is added when it ends and taken away when it leaves, and totals are read.

One MT-index serves all windows, with r = 1 minute and W the longest window, as the paper generalises it.
Results without a window are running totals in all three.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stqsh.arrays import Array
from stqsh.bench.papers.star.continuous.posted import CountedCells
from stqsh.bench.papers.star.continuous.questions import Cubes
from stqsh.bench.papers.star.continuous.standing import Pairs
from stqsh.bench.papers.star.continuous.tallies import (
    MOST,
    Pool,
    Scratch,
    Tally,
    answer_intervals,
    answer_totals,
    count_pairs,
    merge_intervals,
    move_rows,
    shift_totals,
    take_interval,
)


@dataclass(frozen=True)
class Way:
    """A way to keep up results: how many layers there are above minutes, and whether totals run."""

    name: str
    layers: int = 0
    is_running: bool = False


RECOMPUTING, MT, RUNNING = Way("recomputing"), Way("MT", layers=16), Way("running totals", is_running=True)
WAYS = (RECOMPUTING, MT, RUNNING)


def empty_tally(rows: int, cubes: int) -> Tally:
    """Return a tally with room for rows."""
    slots = np.zeros(1 << max(6, (2 * rows - 1).bit_length()), np.int32)
    cube, cell, counts, after = np.empty((4, rows), np.int32)
    return Tally(slots, cube, cell, counts, after, np.zeros(cubes, np.int32), np.zeros(1, np.int64))


@dataclass
class Upkeep:
    """Keeps up results in one way, minute by minute.

    Attributes:
        digests: what was shown of each result so far, uint64 (cubes,).
    """

    way: Way
    cubes: Cubes
    cells: CountedCells
    is_top: bool
    minute: int = 0
    digests: Array = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.cubes.window)
        self.digests = np.zeros(count, np.uint64)
        self._fresh, self._totals = empty_tally(1 << 10, count), empty_tally(1 << 10, count)
        self._intervals = dict[tuple[int, int], Array]()
        self._pool, self._end = Pool(*np.empty((2, 1 << 10), np.int32)), 0
        most, groups = self.cells.group.shape[1], int(self.cells.group.max(initial=0)) + 1
        best = np.empty((groups if self.is_top else 1, MOST), np.int32)
        self._scratch = Scratch(
            np.zeros(most, np.int32),
            np.empty(most, np.int32),
            np.zeros(groups, np.int32),
            np.empty(groups, np.int32),
            np.empty(groups, np.int32),
            best,
        )
        self._longest = int(self.cubes.window.max(initial=0))
        self._windows = np.unique(self.cubes.window[self.cubes.window > 0]).tolist()
        self._open = (self.cubes.window == 0) | self.way.is_running

    def count(self, pairs: Pairs) -> None:
        """Count the records of the minute in the results of the rows that they satisfy."""
        done = 0
        while (done := count_pairs(self._fresh, pairs, self.cubes, self.cells, done)) < len(pairs.row):
            self._fresh = _larger(self._fresh, 2 * len(self._fresh.counts) + 1024)

    def close(self) -> None:
        """End the minute."""
        fresh = self._fresh
        self._make_room(int(fresh.used[0]))
        start = take_interval(fresh, self._pool, self._end)
        self._fresh = empty_tally(len(fresh.counts), len(fresh.head))
        self._end = int(start[-1])
        self._shift(start, self._open, 1)
        self._intervals[0, self.minute] = start
        self.minute += 1
        for window in self._windows if self.way.is_running else ():
            leaving = self._intervals.get((0, self.minute - 1 - window))
            if leaving is not None:
                self._shift(leaving, self.cubes.window == window, -1)
        self._intervals = {
            (layer, number): one
            for (layer, number), one in self._intervals.items()
            if number << layer >= self.minute - self._longest
        }
        self._merge()

    def _merge(self) -> None:
        """Join neighbours that are complete, layer by layer."""
        layer, end = 0, self.minute
        while layer < self.way.layers and end % 2 == 0 and 2 << layer <= self._longest:
            one, two = (self._intervals.get((layer, end - k)) for k in (2, 1))
            if one is None or two is None:
                return
            self._make_room(int(one[-1] - one[0] + two[-1] - two[0]))
            merged = merge_intervals(
                self._pool,
                self._intervals[layer, end - 2],
                self._intervals[layer, end - 1],
                self._end,
                self._scratch,
            )
            self._end = int(merged[-1])
            layer, end = layer + 1, end // 2
            self._intervals[layer, end - 1] = merged

    def answer(self) -> None:
        """Answer the results that are due at the end of the minute."""
        cubes, shown = self.cubes, (self.cells.group, self.is_top, self.digests)
        due = self.minute % cubes.sync == 0
        answer_totals(self._totals, np.flatnonzero(due & self._open), cubes.grouping, self._scratch, shown)
        for window in () if self.way.is_running else self._windows:
            some = np.flatnonzero(due & (cubes.window == window))
            starts = np.stack([self._intervals[one] for one in self._making(window)])
            answer_intervals(self._pool, starts, some, cubes.grouping, self._scratch, shown)

    def _making(self, window: int) -> list[tuple[int, int]]:
        """Return the fewest intervals that make up a window: from the oldest on, the longest that fits."""
        at, found = max(0, self.minute - window), []
        while at < self.minute:
            layer = 0
            while (layer + 1, at >> (layer + 1)) in self._intervals and at % (2 << layer) == 0:
                layer += 1
            found.append((layer, at >> layer))
            at += 1 << layer
        return found

    def _shift(self, start: Array, chosen: Array, sign: int) -> None:
        """Add the counts of an interval to the totals of chosen results."""
        totals, more = self._totals, int(start[-1] - start[0])
        if int(totals.used[0]) + more > len(totals.counts):
            left = int(np.count_nonzero(totals.counts[: totals.used[0]]))
            self._totals = _larger(totals, 2 * (left + more) + 1024)
        shift_totals(self._totals, self._pool, start, chosen, sign)

    def _make_room(self, more: int) -> None:
        """Make room in the pool, and close the gaps that forgotten intervals left."""
        if self._end + more <= len(self._pool.cell):
            return
        kept = sum(int(one[-1] - one[0]) for one in self._intervals.values())
        pool, at = Pool(*np.empty((2, 2 * (kept + more) + 1024), np.int32)), 0
        for key, one in self._intervals.items():
            begin, end = int(one[0]), int(one[-1])
            for new, old in zip(pool, self._pool, strict=True):
                new[at : at + end - begin] = old[begin:end]
            self._intervals[key] = one - (begin - at)
            at += end - begin
        self._pool, self._end = pool, at

    @property
    def nbytes(self) -> int:
        """The bytes of partial results in use."""
        rows = 8 * self._end + sum(one.nbytes for one in self._intervals.values())
        tallies = (self._fresh, self._totals)
        return rows + sum(int(one.used[0]) * 24 + one.head.nbytes for one in tallies)


def _larger(tally: Tally, rows: int) -> Tally:
    """Return a tally with the same counts, and room for rows."""
    found = empty_tally(rows, len(tally.head))
    move_rows(tally, found)
    return found
