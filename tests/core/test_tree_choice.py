"""CH-trees get the queries whose intervals save tests, once they save enough, and keep them until a look."""

from __future__ import annotations

import numpy as np
import pytest

from stqsh.arrays import Array
from stqsh.core.matching.tree_choice import RecordLooks, SampledRecords, suited_queries
from stqsh.core.state.slot_state import SlotState

EVERYWHERE = (-np.inf, -np.inf, np.inf, np.inf)
DRAW = np.random.default_rng(4)
RECORDS = SampledRecords(*DRAW.random((2, 1000)), DRAW.random((1000, 1)))


def suited(
    count: int = 100,
    box: tuple[float, ...] = EVERYWHERE,
    interval: tuple[float, float] = (0.2, 0.3),
    share: float = 1.0,
    held: bool = False,
) -> Array:
    boxes, bounds = np.tile(box, (count, 1)), np.tile(interval, (count, 1)).reshape(count, 1, 2)
    extent = (0.0, 0.0, 1.0, 1.0)
    return suited_queries(boxes, bounds, np.full(count, share), RECORDS, extent, np.full(count, held))


def test_intervals_pay_off_once_they_save_a_record_enough_tests() -> None:
    assert suited().all()
    assert not suited(20).any()
    assert suited(20, held=True).all()
    assert not suited(10, held=True).any()


@pytest.mark.parametrize(
    "less",
    [
        {"interval": (-np.inf, np.inf)},
        {"interval": (0.1, 0.9)},
        {"box": (0.5, 0.5, 0.6, 0.6)},
        {"share": 0.1},
        {"share": 0.0},
        {"box": (np.nan,) * 4},
    ],
)
def test_queries_stay_where_intervals_save_little(less: dict[str, object]) -> None:
    assert not suited(**less).any()  # type: ignore[arg-type]


def test_many_queries_pay_off_together_but_not_those_that_hardly_any_record_reaches() -> None:
    assert suited(10_000, box=(0.5, 0.5, 0.6, 0.6)).all()
    assert suited(10_000, share=0.01).all()
    assert not suited(100_000, share=0.0005).any()


def test_without_records_queries_stay_where_they_are() -> None:
    none = SampledRecords(*np.empty((2, 0)), np.empty((0, 1)))
    boxes, bounds, held = np.tile(EVERYWHERE, (50, 1)), np.zeros((50, 1, 2)), np.arange(50) < 7
    found = suited_queries(boxes, bounds, np.ones(50), none, None, held)
    assert found.tolist() == held.tolist()


def test_looks_are_taken_after_ever_more_records() -> None:
    looks = RecordLooks(SlotState.fresh(0), "s1/range")
    assert not looks.exist
    looks.note(0)
    assert looks.is_due(1) and not looks.is_due(0)
    looks.count(10)
    looks.note(10)
    assert looks.is_due(1024) and not looks.is_due(1023)
    looks.count(5000)
    looks.note(512)
    assert looks.is_due(20_000) and not looks.is_due(19_999)
    looks.release()
    assert not looks.exist
