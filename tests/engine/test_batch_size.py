"""Admission: batches of a backlog follow what batches cost, within bounds, and settle."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stqsh.engine.planning.batch_size import (
    FIRST,
    LEAST,
    MOST_UPDATES,
    PLENTY,
    TARGET_US,
    BatchLimit,
    BatchSample,
    limit_first,
    records_after,
)


def backlog(
    floor_us: Callable[[], float], record_us: float, *, work: float = 0.5, updates: float = 0.0
) -> list[int]:
    """The sizes of the batches of a long backlog; `work`: the part of a record's cost that is told apart."""
    size, sizes = FIRST, []
    for _ in range(60):
        sizes.append(size)
        took = floor_us() + record_us * size
        size = records_after(
            BatchSample(size, size, int(updates * size), int(took), int(work * record_us * size))
        )
    return sizes


def test_the_first_batch_is_small_and_soon_they_are_large() -> None:
    sizes = backlog(lambda: 300_000, 1.3)
    assert sizes[0] == FIRST
    assert sizes[5] > 1_000_000
    assert sizes[-1] == pytest.approx((TARGET_US - 300_000) / 1.3, rel=0.05)


@given(
    st.floats(0, 1_500_000), st.floats(0.01, 900), st.floats(0.3, 1), st.sampled_from([0.0, 0.1, 5.5, 100.0])
)
def test_whatever_a_record_costs_batches_settle_near_the_target(
    floor_us: float, record_us: float, work: float, updates: float
) -> None:
    size = backlog(lambda: floor_us, record_us, work=work, updates=updates)[-1]
    assert updates * size <= 1.05 * MOST_UPDATES
    bound = size == LEAST or updates * size >= 0.9 * MOST_UPDATES
    took_us = floor_us + record_us * size
    assert (
        bound or 0.9 * TARGET_US <= took_us <= 1.1 * TARGET_US or size * record_us * work <= 1.1 * TARGET_US
    )
    assert bound or took_us >= 0.9 * TARGET_US


@given(st.floats(2_000_000, 30_000_000), st.floats(0.1, 3))
def test_a_machine_on_which_nothing_is_quick_does_not_come_down_to_tiny_batches(
    floor_us: float, record_us: float
) -> None:
    assert backlog(lambda: floor_us, record_us)[-1] >= 0.9 * PLENTY


def test_times_that_jump_about_do_not_drive_sizes_to_an_end() -> None:
    jumps = cycle([0.3, 1.9, 0.8, 1.2, 3.0, 0.9, 1.1])
    assert min(backlog(lambda: 1_000_000 * next(jumps), 1.3)[10:]) > 200_000
    assert max(backlog(lambda: 1_000_000 * next(jumps), 1.3)) < 3_000_000


def test_a_trickle_teaches_nothing_and_a_slow_one_does() -> None:
    assert records_after(BatchSample(500_000, 900, 0, 300_000)) == 500_000
    assert records_after(BatchSample(500_000, 900, 0, 9_000_000, 8_000_000)) == 250_000
    assert records_after(BatchSample(500_000, 0, 0, 9_000_000)) == 500_000


def test_one_bad_batch_is_soon_forgotten() -> None:
    after = records_after(BatchSample(1_000_000, 1_000_000, 0, 60_000_000))
    assert after == 500_000
    assert records_after(BatchSample(after, after, 0, 900_000)) > 1_000_000


def test_a_batch_with_commands_is_small_and_changes_nothing_for_those_after_it() -> None:
    assert limit_first(BatchLimit(1_000_000, 5)) == BatchLimit(FIRST, 5)
    assert limit_first(BatchLimit(7, 5)) == BatchLimit(7, 5)
    assert records_after(BatchSample(1_000_000, FIRST, 0, 400_000)) == 1_000_000
