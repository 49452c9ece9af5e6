"""Batch size: how many records the next batch may take, from what the last one cost.

A trickle is taken at once. A backlog is taken in batches of about TARGET_US: large batches pay Spark's fixed
cost less often, and users still see updates every other second. Batches may be cut between any two ticks
without changing a result. A session's first batch is small, so that the first answer comes soon; later ones
grow and shrink with what was measured. Bounds protect memory: records, their bytes in the replay stores, and
the updates to expect from what the last batch made.

Streams that keep significant objects only are the exception: shedding orders are given between two batches,
so only batches of one size repeat a replay of them exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from stqsh.spec.stats import BatchStats

TARGET_US = 2_000_000
"""So long a batch of a backlog is to take. Of 1 M objects and 10,000 rectangles, batches of 0.8 s take 0.65
times the records a second of batches of 1.6 s; longer ones bring little."""
FIRST = 1 << 16
"""Records of a session's first batch, and of one that brings commands: whoever gave them waits for it."""
PLENTY = 1 << 18
"""So many records take a part of a second to move about; if a batch of them is slow, see `records_after`."""
LEAST = 1_000
"""A batch of fewer records would be all floor, whatever a record costs."""
STEADY = 400_000
"""Records of every batch while there is a stream that keeps significant objects only."""
MOST_UPDATES = 4_000_000
"""Updates of a batch at the most, as far as can be told: some 50 bytes each, several times over."""
_GROWTH, _SHRINKING = 4.0, 0.5
"""How far a batch's size goes from that of the last one. What a batch costs besides its records (queries that
it registers, code that is compiled) is soon forgotten."""


@dataclass(frozen=True, slots=True)
class BatchLimit:
    """What a batch may take in: records, and bytes as the replay stores have them."""

    records: int
    bytes: int


@dataclass(frozen=True, slots=True)
class BatchSample:
    """The measurements of a batch: its room and its records, updates and times.

    took_us: all of its time; work_us: the part of it that is known to come with records.
    """

    room: int = FIRST
    records: int = 0
    updates: int = 0
    took_us: int = 0
    work_us: int = 0

    @staticmethod
    def of(stats: BatchStats) -> BatchSample:
        """Take the figures out of a batch's statistics."""
        room, time = stats.room or FIRST, stats.time
        if time is None:
            return BatchSample(room, stats.records, stats.updates)
        work_us = time.source_us + time.kernel_us + time.deliver_us
        return BatchSample(room, stats.records, stats.updates, time.total_us, work_us)

    @property
    def is_trickle(self) -> bool:
        """Whether it could have taken far more in time, so that it tells nothing about a backlog."""
        return 2 * self.records < self.room and self.took_us <= TARGET_US


def records_after(sample: BatchSample) -> int:
    """Return how many records a batch of a backlog takes after this one: as many as take TARGET_US.

    Down to PLENTY all of its time counts, below that only what is known to come with records: what remains
    is the floor, which smaller batches would not make less.
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
    """Return the room of a batch that brings commands that somebody waits for."""
    return replace(room, records=min(room.records, FIRST))
