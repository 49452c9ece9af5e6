"""Figures of repeated measurements: what is pooled, what counts as a difference."""

from __future__ import annotations

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stqsh.bench.figures import LESS, MORE, Figure, Value, figure, pool, ratio

samples = st.lists(st.floats(0.1, 1e6), min_size=1, max_size=30)


@given(samples)
def test_a_figure_lies_between_its_smallest_and_largest_sample(some: list[float]) -> None:
    found = figure(some)
    assert found.min <= found.q1 <= found.median <= found.q3 <= found.max
    assert found.n == len(some)
    assert msgspec.json.decode(orjson.dumps(found), type=Value) == found


@given(samples)
def test_a_figure_never_differs_from_itself(some: list[float]) -> None:
    found = ratio(figure(some), figure(some))
    assert found is not None
    assert found.value == 1
    assert not found.differs


def test_of_single_samples_the_noise_is_unknown() -> None:
    found = ratio(figure([2.0]), figure([1.0]))
    assert found is not None
    assert (found.value, found.low, found.differs) == (2.0, None, None)


def test_a_difference_is_more_than_the_spread_of_both_and_more_than_sessions_differ_by() -> None:
    def differs(now: list[float], then: list[float]) -> bool | None:
        found = ratio(figure(now), figure(then))
        return found and found.differs

    assert differs([200, 201, 202], [100, 101, 102])
    assert not differs([103, 103.1, 103.2], [100, 100.1, 100.2])  # less than two sessions differ by
    assert not differs([60, 120, 180], [50, 100, 150])  # less than the samples differ by
    assert differs([50, 50.5, 51], [100, 101, 102])


def test_what_was_nothing_has_no_ratio() -> None:
    assert ratio(figure([1.0]), figure([0.0])) is None


@pytest.mark.parametrize(("better", "worsening"), [(MORE, 2.0), (LESS, 0.5)])
def test_half_is_worse_where_more_is_better(better: str, worsening: float) -> None:
    found = ratio(figure([50.0]), figure([100.0]))
    assert found is not None
    assert found.worsening(better) == worsening  # type: ignore[arg-type]


def test_repetitions_are_pooled_row_by_row() -> None:
    first = [{"n": 1, "rate": [1.0, 2.0], "s": 7.0, "note": "a", "ms": None}, {"n": 2, "rate": [5.0], "s": 1}]
    second = [{"n": 2, "rate": [6.0], "s": 3}, {"n": 1, "rate": [3.0], "s": 9.0, "note": "b", "ms": 4.0}]
    one, two = pool([first, second], ("n",), {"rate": MORE, "s": LESS})
    assert one["rate"] == Figure(2.0, 1.5, 2.5, 1.0, 3.0, 3)
    assert (one["s"].median, one["s"].n) == (8.0, 2)
    assert one["note"] == "a"
    assert one["ms"] is None
    assert (two["n"], two["rate"].median, two["s"].median) == (2, 5.5, 2.0)


def test_a_figure_that_was_never_measured_is_none() -> None:
    [row] = pool([[{"n": 1, "rate": None}]], ("n",), {"rate": MORE})
    assert row["rate"] is None
