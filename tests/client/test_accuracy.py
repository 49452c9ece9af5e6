"""What is said of accuracies: SOLE's formula, sums over slots, words."""

from __future__ import annotations

import math

import numpy as np
import pytest
from msgspec.structs import replace
from support.specs import stream_spec

from stqsh.client.read.accuracy import (
    Accuracy,
    accuracy_shown,
    expected_accuracy,
    is_by_slots,
    rounded,
    share_text,
    shedding_text,
)
from stqsh.client.read.query_tallies import summed
from stqsh.client.show.load import histogram_text
from stqsh.core.retention.stream_stats import QueryTallies
from stqsh.spec.stats import MemoryStats

MILE = 1609.344
CITY = stream_spec(max_speed=30 * MILE / 3600, report_every_us=30_000_000)


@pytest.mark.parametrize(("factor", "accuracy"), [(1.0, 1.0), (0.5, 0.86), (0.25, 0.80), (0.0, 0.73)])
def test_the_example_of_the_paper_comes_out(factor: float, accuracy: float) -> None:
    # SOLE section 4.5: a square of 3 miles, 30 miles an hour, a report every 30 seconds.
    assert expected_accuracy(CITY, (3 * MILE) ** 2, factor) == pytest.approx(accuracy, abs=0.01)


def test_a_region_without_an_end_misses_nothing_and_one_that_is_nowhere_is_unknown() -> None:
    assert expected_accuracy(CITY, math.inf, 0.0) == 1
    assert math.isnan(expected_accuracy(CITY, math.nan, 0.5))
    assert expected_accuracy(CITY, 0.0, 0.0) == 0


class State:
    """As much of a slot's state as is asked for."""

    def __init__(self, *streams: int) -> None:
        self.header = {"streams": {str(stream): {} for stream in streams}}


def tallies(
    ids: list[int], held: list[int], shed: list[int], area: float, accuracy: list[float]
) -> QueryTallies:
    counts, areas = np.array(held), np.full(len(ids), area)
    return QueryTallies(
        np.array(ids), counts, np.ones_like(counts), np.array(shed), areas, areas, np.zeros(len(ids)),
        np.array(accuracy), np.array(shed) > 0,
    )  # fmt: skip


def test_slots_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = [
        tallies([4, 7], [3, 5], [0, 6], 10.0, [1.0, 0.5]),
        tallies([4, 7], [1, 2], [0, 3], math.nan, [1.0, 0.5]),
    ]
    given = iter(slots)
    monkeypatch.setattr("stqsh.core.retention.stream_stats.tallies", lambda state, spec: next(given))
    found = summed([State(1), State(1), State(2)], [stream_spec(id=1)])  # type: ignore[list-item]
    assert (found[4].inside, found[4].cached, found[4].shed, found[4].share) == (4, 2, 0, 1.0)
    assert (found[7].share, found[7].locked, found[7].area) == (9 / 18, True, 10.0)


def test_a_region_that_is_cut_tells_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "stqsh.core.retention.stream_stats.tallies", lambda state, spec: tallies([4], [3], [0], 1.0, [0.64])
    )
    assert summed([State(1)], [stream_spec(id=1)])[4].share == 0.64  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("accuracy", "text", "shown"),
    [
        (Accuracy(1.0), "exact", 1.0),
        (Accuracy(0.999999), "accuracy 0.99", 0.9999),
        (Accuracy(0.876), "accuracy 0.87", 0.876),
        (Accuracy(None), "accuracy unknown", None),
        (Accuracy(1.0, until=40), "not settled before step 40", "not settled before step 40"),
    ],
)
def test_an_approximate_answer_is_never_called_exact(accuracy: Accuracy, text: str, shown: object) -> None:
    assert (accuracy.text(), accuracy_shown(accuracy)) == (text, shown)
    assert accuracy.is_exact == (text == "exact")


@pytest.mark.parametrize(
    ("kind", "memory", "until", "expected"),
    [
        ("nearest", {"factor": 1.0, "cache": 1.0, "k": 1}, 0, False),
        ("nearest", {"factor": 0.5}, 0, True),
        ("nearest", {"factor": 1.0, "cache": 0.5}, 0, True),
        ("nearest", {"k": 2}, 0, True),
        ("nearest", {"shadow": 3}, 0, True),
        ("nearest", {}, 40, True),
        ("range", {"factor": 0.5}, 40, False),
        ("plugged_in", {"factor": 0.5}, 40, False),
    ],
)
def test_only_neighbours_that_may_be_missing_hang_on_the_number_of_slots(
    kind: str, memory: dict[str, float], until: int, expected: bool
) -> None:
    assert is_by_slots(kind, MemoryStats(**memory), until) == expected


def test_figures_are_short() -> None:
    assert [rounded(value) for value in (12345.678, 0.123456, math.inf, math.nan, 0.99999, 1.0)] == [
        12350.0, 0.1235, None, None, 0.9999, 1.0
    ]  # fmt: skip
    assert (share_text(0.999), share_text(1.0), share_text(None)) == ("0.99", "1", "unknown")
    assert histogram_text([300, 0, 7] + [0] * 60 + [9]) == "1: 300, 3: 7, 64+: 9"
    assert histogram_text([1] * 64) == "1: 1, 2: 1, 3: 1, 4: 1, 5-8: 4, 9-16: 8, 17-32: 16, 33-63: 31, 64+: 1"
    assert histogram_text([0] * 64) == ""


def test_what_is_shed_is_said_in_a_few_words() -> None:
    calm = MemoryStats(objects=88)
    assert shedding_text(None) == shedding_text(calm) == ""
    assert shedding_text(replace(calm, k=2, shadow=12)) == "object, k 2, 12 % dropped"
    assert shedding_text(replace(calm, shadow=12)) == "object, k 1, 12 % dropped"
    assert shedding_text(replace(calm, cache=0.0, area=0.64)) == "query, cache 0 %, area 64 %"
