"""Batch size: compute how many records the next batch may take, from the cost of the last batches.

A trickle is processed at once. A backlog is processed in batches whose records take about TARGET_US: large
batches pay Spark's fixed cost less often, and users still see updates every other second. The fixed cost of a
batch does not count, because smaller batches would not reduce it: it is 0.1 s on one machine, and seconds on
a cluster that has only just started. If it is high, batches are larger, so that it is about a third of their
time.

Both parts of the cost are estimated from the last batches of each size. While all have one size, only the
time known to depend on records counts as the records' cost: the next batch may be too large, which its time
then shows.

Batches may be cut between any two ticks without changing a result. A session's first batch is small, so that
the first answer is quick. Bounds protect memory: records, their bytes in the replay stores, and the updates
expected from those of the last batch.

Streams that keep only significant objects are the exception: shedding orders are issued between two batches,
so a replay of them is repeated exactly only by batches of one size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log2
from statistics import median
from typing import NamedTuple

import numpy as np

from stqsh.arrays import Array
from stqsh.spec.stats import BatchStats
from stqsh.storage.rows import Progress

TARGET_US = 2_000_000
"""Target time of the records of a batch of a backlog. With 1 M objects and 10,000 rectangles, batches of
0.8 s reach 0.65 times the records per second of batches of 1.6 s; longer ones gain little.
"""
FIRST = 1 << 16
"""Records of a session's first batch, and of a batch with commands, because users wait for these."""
LEAST = 1_000
"""Minimum records of a batch."""
STEADY = 400_000
"""Records of every batch while there is a stream that keeps only significant objects."""
MOST_UPDATES, UPDATES_A_SLOT = 4_000_000, 1_000_000
"""Maximum expected number of updates in a batch, or per slot if slots are on many hosts. Each takes some 50
bytes, in several copies.
"""
_FIXED_TIMES, _MOST_US = 2, 2 * TARGET_US
"""The records' time is at least this many times the fixed cost; this rule raises it at most to this time."""
_GROWTH, _SHRINKING = 4.0, 0.5
"""Bounds on a batch's size relative to that of the last one."""
_EACH = 5
"""The number of last batches of each size that are kept, ..."""
_AGE = 100
"""... unless they are older than this many batches."""
_APART = 1.2
"""Two batches determine the records' cost if one has at least this many times the records of the other."""


@dataclass(frozen=True, slots=True)
class BatchLimit:
    """The room of a batch: records, and their bytes in the replay stores."""

    records: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BatchSample:
    """The measurements of a batch: its room and its records, updates and times.

    Attributes:
        result_bytes: the size of the results that the driver got from tasks.
        took_us: all of its time.
        work_us: the part of it that is known to depend on records.
    """

    room: int = FIRST
    records: int = 0
    updates: int = 0
    took_us: int = 0
    work_us: int = 0
    result_bytes: int = 0

    @staticmethod
    def of(stats: BatchStats) -> BatchSample:
        """Return the figures from a batch's statistics."""
        room, time = stats.room or FIRST, stats.time
        if time is None:
            return BatchSample(room, stats.records, stats.updates, result_bytes=stats.result_bytes)
        work_us = time.source_us + time.kernel_us + time.deliver_us
        times = time.total_us, min(work_us, time.total_us)
        return BatchSample(room, stats.records, stats.updates, *times, stats.result_bytes)

    @property
    def is_slight(self) -> bool:
        """Whether it says nothing about backlogs: quick with room for far more records, empty, or untimed."""
        quick = 2 * self.records < self.room and self.work_us <= TARGET_US
        return quick or not self.records or not self.took_us

    @property
    def size(self) -> int:
        """Its size class; each class has 1.4 times as many records as the one below."""
        return round(2 * log2(max(1, self.records)))


class BatchCost(NamedTuple):
    """The cost of batches: µs per batch and per record, and whether both could be separated."""

    fixed_us: float
    record_us: float
    is_fitted: bool = True

    @staticmethod
    def of(samples: Sequence[BatchSample]) -> BatchCost:
        """Estimate the cost from samples with records and times, the latest last.

        A record's cost is first the median slope over pairs of batches of different sizes (Theil-Sen
        estimator), with more weight on pairs farther apart. It yields the fixed cost, which changes little. A
        record's cost is then computed from the last batches without the fixed cost, because the last queries
        may have changed it. One stalled batch changes neither. While all batches have one size, the fixed
        cost counts as 0, and a record's cost as the time known to depend on it.
        """
        records, took, work = (
            np.array([getattr(sample, name) for sample in samples], np.float64)
            for name in ("records", "took_us", "work_us")
        )
        last = slice(-_EACH, None)
        known = _weighted_median(work[last] / records[last], records[last])
        one, other = np.triu_indices(len(records), 1)
        apart = np.maximum(records[one], records[other]) >= _APART * np.minimum(records[one], records[other])
        one, other = one[apart], other[apart]
        if not apart.any():
            return BatchCost(0.0, known, is_fitted=False)
        far = records[other] - records[one]
        # All pairs are compared; there are few samples, because only some of each size are kept.
        slope = max(known, _weighted_median((took[other] - took[one]) / far, np.abs(far)))
        fixed = float(np.median(took - slope * records))
        fixed = max(0.0, min(fixed, float(np.min((took - work)[last]))))
        rates = (took[last] - fixed) / records[last]
        return BatchCost(fixed, max(known, _weighted_median(rates, records[last])))


def _weighted_median(values: Array, weights: Array) -> float:
    """Return the least value that, with all below it, has half of the weights: float64 (n,) each, n > 0."""
    order = np.argsort(values, kind="stable")
    half = np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)
    return float(values[order[min(int(half), len(values) - 1)]])


class BatchBounds(NamedTuple):
    """The bounds on a batch's results: updates, and bytes that the driver gets from tasks; 0: unbounded."""

    updates: int = MOST_UPDATES
    result_bytes: int = 0

    @staticmethod
    def of_results(max_bytes: int, slots: int, *, are_spread: bool) -> BatchBounds:
        """Return the bounds of an engine.

        Args:
            max_bytes: Spark's limit for the driver's results; half of it is reserved for larger results.
            slots: the number of slots.
            are_spread: whether the slots are on many hosts.
        """
        updates = max(MOST_UPDATES, UPDATES_A_SLOT * slots) if are_spread else MOST_UPDATES
        return BatchBounds(updates, max_bytes // 2)


ONE_MACHINE = BatchBounds()


def records_after(
    samples: Sequence[BatchSample], between_us: float = 0.0, bounds: BatchBounds = ONE_MACHINE
) -> int:
    """Return how many records the next batch of a backlog takes.

    Args:
        samples: the samples that are evidence about backlogs, the latest last.
        between_us: the time that Spark takes between two batches, in µs.
        bounds: the bounds on its results, which are predicted from those of the last batch.
    """
    sample, cost = samples[-1], BatchCost.of(samples)
    fixed_us = cost.fixed_us + between_us
    aim_us = max(TARGET_US, min(_FIXED_TIMES * fixed_us, _MOST_US))
    wanted = aim_us / cost.record_us if cost.record_us else sample.room * _GROWTH
    if not cost.is_fitted and sample.records < _APART * wanted:
        wanted = max(wanted, _APART * sample.records)
    near = min(max(wanted, sample.room * _SHRINKING), sample.room * _GROWTH)
    within = [near, sample.records * bounds.updates / max(1, sample.updates)]
    if bounds.result_bytes:
        within.append(sample.records * bounds.result_bytes / max(1, sample.result_bytes))
    return int(max(LEAST, min(within)))


class BatchSizes:
    """The sizes of the batches of a backlog, computed from the cost of the last batches of each size.

    Args:
        bounds: the bounds on their results.

    Attributes:
        room: the records that the next batch takes.
    """

    def __init__(self, bounds: BatchBounds = ONE_MACHINE) -> None:
        self.room, self._bounds = FIRST, bounds
        self._samples: dict[int, BatchSample] = {}
        self._between_us: deque[int] = deque(maxlen=_EACH)
        self._last = Progress()

    def follow(self, progress: Progress) -> None:
        """Record the cost of the last batch; a batch counts once."""
        last, self._last = self._last, progress
        if progress.batch == last.batch:
            return
        sample = BatchSample.of(progress.stats)
        self.room = sample.room
        if last.stats.backlog and progress.batch == last.batch + 1:
            self._between_us.append(max(0, progress.wall_us - last.wall_us - sample.took_us))
        if sample.is_slight:
            return
        numbers = [number for number, one in self._samples.items() if one.size == sample.size][-_EACH + 1 :]
        self._samples = {
            number: one
            for number, one in self._samples.items()
            if number > progress.batch - _AGE and (one.size != sample.size or number in numbers)
        }
        self._samples[progress.batch] = sample
        between_us = median(self._between_us) if self._between_us else 0
        self.room = records_after([*self._samples.values()], between_us, self._bounds)


def limit_first(room: BatchLimit) -> BatchLimit:
    """Return the room of a batch with commands for which a user waits."""
    return replace(room, records=min(room.records, FIRST))
