"""Admission: batches of a backlog follow what batches cost, within bounds, and settle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stqsh.engine.admission import (
    FIRST,
    LEAST,
    MOST_UPDATES,
    STEADY,
    TARGET_US,
    Admission,
    Room,
    at_first,
)

MOST = Room(2_000_000, 1 << 28)
ADMISSION = Admission(MOST)


def stats(room: int, records: int, took_us: int, updates: int = 0) -> dict[str, Any]:
    return {"room": room, "records": records, "updates": updates, "time": {"total_us": took_us}}


def backlog(cost_us: Callable[[int], float], updates: float = 0.0, batches: int = 30) -> list[int]:
    """The sizes of the batches of a long backlog, where a batch of n records takes `cost_us(n)`."""
    sizes, known = [], {}
    for _ in range(batches):
        size = ADMISSION.room(known).records
        sizes.append(size)
        known = stats(size, size, int(cost_us(size)), int(updates * size))
    return sizes


def test_the_first_batch_is_small_and_soon_they_are_large() -> None:
    sizes = backlog(lambda n: 300_000 + 1.3 * n)
    assert sizes[0] == FIRST
    assert sizes[4] > 1_000_000
    assert sizes[-1] == pytest.approx((TARGET_US - 300_000) / 1.3, rel=0.05)


@given(
    st.floats(0, 1_500_000),
    st.floats(0.01, 500),
    st.sampled_from([0.0, 0.1, 5.5, 100.0]),
)
def test_whatever_a_record_costs_batches_settle_near_the_target(
    floor_us: float, record_us: float, updates: float
) -> None:
    size = backlog(lambda n: floor_us + record_us * n, updates)[-1]
    took_us = floor_us + record_us * size
    assert LEAST <= size <= MOST.records
    assert updates * size <= 1.05 * MOST_UPDATES
    bound = size in (LEAST, MOST.records) or updates * size >= 0.9 * MOST_UPDATES
    assert bound or took_us == pytest.approx(TARGET_US, rel=0.1)


def test_a_trickle_teaches_nothing_and_a_slow_one_does() -> None:
    assert ADMISSION.room(stats(500_000, 900, 300_000)).records == 500_000
    assert ADMISSION.room(stats(500_000, 900, 9_000_000)).records == 250_000
    assert ADMISSION.room(stats(500_000, 0, 9_000_000)).records == 500_000


def test_one_bad_batch_is_soon_forgotten() -> None:
    after = ADMISSION.room(stats(1_000_000, 1_000_000, 60_000_000)).records
    assert after == 500_000
    assert ADMISSION.room(stats(after, after, 800_000)).records == 1_250_000


def test_a_batch_with_commands_is_small_and_changes_nothing_for_those_after_it() -> None:
    assert at_first(Room(1_000_000, 5)) == Room(FIRST, 5)
    assert at_first(Room(7, 5)) == Room(7, 5)
    assert ADMISSION.room(stats(1_000_000, FIRST, 400_000)).records == 1_000_000


def test_where_results_depend_on_batches_all_are_alike() -> None:
    for known in ({}, stats(STEADY, STEADY, 9_000_000), stats(STEADY, STEADY, 1_000)):
        assert ADMISSION.room(known, steady=True).records == STEADY
    assert Admission(Room(70, 1)).room({}, steady=True).records == 70
