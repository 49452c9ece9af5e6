"""Batch size: how many records the next batch may take, from the cost of the last one.

A trickle is taken at once. A backlog is taken in batches of about TARGET_US: large batches pay Spark's fixed
cost less often, and users still see updates every other second. Batches may be cut between any two ticks
without changing a result. A session's first batch is small, so that the first answer is quick; later ones
grow and shrink with the measurements. Bounds protect memory: records, their bytes in the replay stores, and
the updates to expect from those of the last batch.

Streams that keep significant objects only are the exception: shedding orders are given between two batches,
so only batches of one size repeat a replay of them exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from stqsh.spec.stats import BatchStats

TARGET_US = 2_000_000
"""Target time of a batch of a backlog. With 1 M objects and 10,000 rectangles, batches of 0.8 s reach 0.65
times the records per second of batches of 1.6 s; longer ones gain little.
"""
FIRST = 1 << 16
"""Records of a session's first batch, and of one that brings commands, whose users wait for it."""
PLENTY = 1 << 18
"""This many records take a fraction of a second to move; if such a batch is slow, see `records_after`."""
LEAST = 1_000
"""Minimum records of a batch: below it the fixed cost dominates."""
STEADY = 400_000
"""Records of every batch while there is a stream that keeps significant objects only."""
MOST_UPDATES = 4_000_000
"""Expected maximum of updates in a batch: each takes some 50 bytes, in several copies."""
_GROWTH, _SHRINKING = 4.0, 0.5
"""Bounds on a batch's size relative to that of the last one. Costs other than records (queries that it
registers, code that is compiled) are soon forgotten.
"""


@dataclass(frozen=True, slots=True)
class BatchLimit:
    """The room of a batch: records, and bytes as the replay stores have them."""

    records: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BatchSample:
    """The measurements of a batch: its room and its records, updates and times.

    Attributes:
        took_us: all of its time.
        work_us: the part of it that is known to depend on records.
    """

    room: int = FIRST
    records: int = 0
    updates: int = 0
    took_us: int = 0
    work_us: int = 0

    @staticmethod
    def of(stats: BatchStats) -> BatchSample:
        """Return the figures from a batch's statistics."""
        room, time = stats.room or FIRST, stats.time
        if time is None:
            return BatchSample(room, stats.records, stats.updates)
        work_us = time.source_us + time.kernel_us + time.deliver_us
        return BatchSample(room, stats.records, stats.updates, time.total_us, work_us)

    @property
    def is_trickle(self) -> bool:
        """Whether it had time for far more records, so that it says nothing about a backlog."""
        return 2 * self.records < self.room and self.took_us <= TARGET_US


def records_after(sample: BatchSample) -> int:
    """Return how many records the next batch of a backlog takes: as many as take TARGET_US.

    Down to PLENTY all of the batch's time counts; below that only the part that is known to depend on
    records. The rest is the fixed cost, which smaller batches would not reduce.
    """
    if not sample.records or not sample.took_us or sample.is_trickle:
        return sample.room
    by_time = sample.records * TARGET_US / sample.took_us
    by_work = sample.records * TARGET_US / max(1, sample.work_us)
    wanted = max(by_time, min(PLENTY, by_work))
    near = min(max(wanted, sample.room * _SHRINKING), sample.room * _GROWTH)
    by_updates = sample.records * MOST_UPDATES / max(1, sample.updates)
    return int(max(LEAST, min(near, by_updates)))


def limit_first(room: BatchLimit) -> BatchLimit:
    """Return the room of a batch that brings commands for which a user waits."""
    return replace(room, records=min(room.records, FIRST))
