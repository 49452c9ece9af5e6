"""Admission: batches of a backlog follow what batches cost, within bounds, and settle."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stqsh.engine.planning.batch_size import (
    FIRST,
    LEAST,
    MOST_UPDATES,
    TARGET_US,
    BatchBounds,
    BatchCost,
    BatchLimit,
    BatchSample,
    BatchSizes,
    limit_first,
    records_after,
)
from stqsh.spec.stats import BatchStats, TimeSplit
from stqsh.storage.rows import Progress


class Backlog:
    """A backlog whose batches cost what is set, and the sizes that they had."""

    def __init__(self) -> None:
        self.rule, self.sizes, self.now_us = BatchSizes(), list[int](), 0

    def batch(
        self,
        floor_us: float,
        record_us: float,
        *,
        work: float = 0.5,
        updates: float = 0.0,
        records: int | None = None,
        between_us: int = 0,
    ) -> None:
        """One more batch; `work`: the part of a record's cost that is told apart; `records`: only so many."""
        room = self.rule.room
        count = room if records is None else records
        took, known = int(floor_us + record_us * count), int(work * record_us * count)
        self.now_us += took + between_us
        self.sizes.append(room)
        time = TimeSplit(source_us=known, transfer_us=took - known, total_us=took)
        stats = BatchStats(records=count, updates=int(updates * count), room=room, time=time, backlog=1 << 30)
        self.rule.follow(Progress(batch=len(self.sizes), wall_us=self.now_us, stats=stats))


def backlog(
    floor_us: Callable[[], float], record_us: float, *, work: float = 0.5, updates: float = 0.0
) -> list[int]:
    """The sizes of the batches of a long backlog."""
    made = Backlog()
    for _ in range(60):
        made.batch(floor_us(), record_us, work=work, updates=updates)
    return made.sizes


@pytest.mark.parametrize(
    ("floor_us", "work_us"), [(100_000, TARGET_US), (300_000, TARGET_US), (2_000_000, 2 * TARGET_US)]
)
def test_the_first_batch_is_small_and_soon_their_records_take_the_target(floor_us: int, work_us: int) -> None:
    sizes = backlog(lambda: floor_us, 1.3)
    assert sizes[0] == FIRST
    assert sizes[5] > 1_000_000
    assert min(sizes[10:]) > 0.9 * work_us / 1.3
    assert sizes[-1] == pytest.approx(work_us / 1.3, rel=0.05)


@given(
    st.floats(0, 1_000_000), st.floats(0.01, 900), st.floats(0.3, 1), st.sampled_from([0.0, 0.1, 5.5, 100.0])
)
def test_whatever_a_record_costs_batches_settle_where_their_records_take_the_target(
    floor_us: float, record_us: float, work: float, updates: float
) -> None:
    size = backlog(lambda: floor_us, record_us, work=work, updates=updates)[-1]
    assert updates * size <= 1.05 * MOST_UPDATES
    if size != LEAST and updates * size < 0.9 * MOST_UPDATES:
        assert 0.9 * TARGET_US <= size * record_us <= 1.25 * TARGET_US


@given(st.floats(0, 30_000_000), st.floats(0, 30_000_000), st.floats(0.1, 3), st.floats(0.3, 1))
def test_a_greater_fixed_cost_never_makes_batches_smaller(
    low: float, high: float, record_us: float, work: float
) -> None:
    few, many = (backlog(repeat(cost).__next__, record_us, work=work)[-1] for cost in sorted((low, high)))
    assert many >= 0.95 * few


def test_times_that_jump_about_do_not_drive_sizes_to_an_end() -> None:
    jumps = cycle([0.3, 1.9, 0.8, 1.2, 3.0, 0.9, 1.1])
    sizes = backlog(lambda: 1_000_000 * next(jumps), 1.3)
    assert min(sizes[10:]) > 500_000
    assert max(sizes) < 4_000_000


def test_a_trickle_teaches_nothing_and_a_slow_one_does() -> None:
    assert BatchSample(500_000, 900, 0, 300_000).is_slight
    assert BatchSample(500_000, 0, 0, 9_000_000).is_slight
    slow = BatchSample(500_000, 900, 0, 9_000_000, 8_000_000)
    assert not slow.is_slight
    assert records_after([slow]) == 250_000


def test_a_trickle_on_a_cluster_does_not_shrink_what_a_backlog_takes() -> None:
    made = Backlog()
    for _ in range(8):
        made.batch(2_000_000, 1.3)
    room = made.rule.room
    for _ in range(40):
        made.batch(2_300_000, 1.3, records=900)
    assert made.rule.room == room


def test_one_bad_batch_changes_little_and_is_soon_forgotten() -> None:
    made = Backlog()
    for _ in range(12):
        made.batch(300_000, 1.3)
    room = made.rule.room
    made.batch(60_000_000, 1.3)
    assert 0.9 * room < made.rule.room < 1.2 * room
    made.batch(300_000, 1.3)
    assert made.rule.room == pytest.approx(room, rel=0.1)


def test_records_that_cost_more_or_less_than_before_are_followed() -> None:
    made = Backlog()
    for record_us in (1.0, 10.0, 0.7):
        for _ in range(30):
            made.batch(200_000, record_us)
        assert made.rule.room == pytest.approx(TARGET_US / record_us, rel=0.1)


def test_batches_with_commands_in_between_do_not_hold_a_backlog_back() -> None:
    made = Backlog()
    for number in range(60):
        slow = number % 3 == 0
        made.batch(1_500_000 if slow else 150_000, 1.3, records=FIRST if slow else None)
    assert made.rule.room == pytest.approx(TARGET_US / 1.3, rel=0.15)


def test_what_spark_does_between_two_batches_is_a_fixed_cost() -> None:
    made = Backlog()
    for _ in range(20):
        made.batch(200_000, 1.3, between_us=1_800_000)
    assert made.rule.room == pytest.approx(2 * TARGET_US / 1.3, rel=0.05)


def test_the_cost_is_that_of_the_samples() -> None:
    samples = [BatchSample(0, n, 0, 400_000 + 2 * n, n) for n in (65_536, 262_144, 262_144, 1_000_000)]
    assert BatchCost.of(samples)[:2] == pytest.approx((400_000, 2.0))
    assert BatchCost.of(samples[:1]) == (0.0, 1.0, False)


def test_what_the_driver_gets_stays_within_what_spark_lets_it_get() -> None:
    sample = BatchSample(1_000_000, 1_000_000, 6_000_000, 500_000, 400_000, 600 << 20)
    here = BatchBounds.of_results(0, 64, are_spread=False)
    assert records_after([sample], bounds=here) == 1_000_000 * MOST_UPDATES // 6_000_000
    spread = BatchBounds.of_results(1 << 30, 64, are_spread=True)
    assert spread.updates == 64_000_000
    assert records_after([sample], bounds=spread) == 1_000_000 * 512 // 600
    assert records_after([sample], bounds=BatchBounds.of_results(0, 64, are_spread=True)) == 4_000_000


def test_the_same_batch_counts_once() -> None:
    rule, slow = BatchSizes(), TimeSplit(source_us=9_000_000, total_us=9_000_000)
    progress = Progress(batch=4, stats=BatchStats(records=1_000_000, room=1_000_000, time=slow))
    rule.follow(progress)
    assert rule.room == 500_000
    rule.follow(progress)
    assert rule.room == 500_000


def test_a_batch_with_commands_is_small_and_changes_nothing_for_those_after_it() -> None:
    assert limit_first(BatchLimit(1_000_000, 5)) == BatchLimit(FIRST, 5)
    assert limit_first(BatchLimit(7, 5)) == BatchLimit(7, 5)
    assert BatchSample(1_000_000, FIRST, 0, 400_000).is_slight
