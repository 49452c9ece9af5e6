"""Weights dealt evenly, runs, cuts of rectangles, and sets given to the slots that hold most of them."""

from __future__ import annotations

import time
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stqsh.routing.cells import maximal_squares, z_order
from stqsh.routing.partitioning import (
    CellBlock,
    PrefixSums,
    cut_in_runs,
    karmarkar_karp,
    least_transfer,
    painted,
    slots_of_sets,
)
from stqsh.routing.table import HASHED

weights = st.lists(st.floats(0, 1e6) | st.integers(0, 5).map(float), max_size=40).map(
    lambda found: np.array(found, np.float64)
)


def sums(numbers, sets, parts):
    return np.bincount(sets, numbers, parts)


@pytest.mark.parametrize(
    ("numbers", "parts", "expected"),
    [
        ([8, 7, 6, 5, 4], 2, [14, 16]),  # the differencing of Karmarkar and Karp; 15, 15 is the optimum
        ([4, 5, 6, 7, 8], 3, [8, 11, 11]),
        ([5, 5, 5, 5], 4, [5, 5, 5, 5]),
        ([9], 3, [0, 0, 9]),
        ([], 2, [0, 0]),
        ([1, 2, 3], 1, [6]),
    ],
)
def test_differencing_gives_the_known_sums(numbers, parts, expected) -> None:
    numbers = np.array(numbers, np.float64)
    assert sorted(sums(numbers, karmarkar_karp(numbers, parts), parts)) == expected


@given(weights, st.integers(1, 9))
def test_differencing_deals_every_weight_once_and_the_same_way_each_time(numbers, parts) -> None:
    sets = karmarkar_karp(numbers, parts)
    assert sets.shape == numbers.shape and sets.dtype == np.int64
    assert ((sets >= 0) & (sets < parts)).all()
    assert (sets == karmarkar_karp(numbers, parts)).all()
    spread = np.ptp(sums(numbers, sets, parts))
    assert spread <= numbers.max(initial=0.0) * (1 + 1e-9)


def test_differencing_is_nearly_even_and_fast_for_many_weights() -> None:
    numbers = np.random.default_rng(1).pareto(2.0, 4096) + 1
    start = time.process_time()
    found = sums(numbers, karmarkar_karp(numbers, 64), 64)
    assert time.process_time() - start < 5
    assert found.max() / found.mean() < 1.001


@given(weights, st.integers(1, 9))
def test_runs_follow_one_another_and_the_heaviest_is_as_light_as_can_be(numbers, parts) -> None:
    runs = cut_in_runs(numbers, parts)
    assert runs.shape == numbers.shape
    assert (np.diff(runs) >= 0).all() and (not len(runs) or (runs[0] >= 0 and runs[-1] < parts))
    if len(numbers) and numbers.any():
        least = _lightest_heaviest(numbers, parts)
        assert sums(numbers, runs, parts).max() <= least * (1 + 1e-5)


def _lightest_heaviest(numbers, parts) -> float:
    """Return the weight of the heaviest run of the best cuts, by dynamic programming."""
    ends = np.append(0.0, numbers.cumsum())
    best = ends.copy()
    for _ in range(parts - 1):
        best = np.array(
            [min(max(best[j], ends[i] - ends[j]) for j in range(i + 1)) for i in range(len(ends))]
        )
    return float(best[-1])


def test_runs_of_nothing_are_of_equal_length() -> None:
    assert cut_in_runs(np.zeros(12), 4).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert cut_in_runs(np.zeros(0), 4).tolist() == []


@given(st.integers(1, 5), st.randoms(use_true_random=False), st.booleans())
def test_the_least_weight_changes_slots(slots, random, any_weight) -> None:
    count = 12
    sets = np.array([random.randrange(slots) for _ in range(count)])
    slot = np.array([random.randrange(-1, slots) for _ in range(count)], np.int16)
    numbers = np.array([random.random() * any_weight for _ in range(count)])
    found = least_transfer(sets, slot, numbers, slots)
    assert found.dtype == np.int16
    assert sorted(slots_of_sets(sets, slot, numbers, slots)) == list(range(slots))
    counted = numbers if any_weight else np.ones(count)
    moved = counted[found != slot].sum()
    least = min(counted[np.array(order)[sets] != slot].sum() for order in permutations(range(slots)))
    assert moved == pytest.approx(least)


def test_what_is_dealt_by_hash_changes_slots_wherever_it_goes() -> None:
    sets, slot = np.array([0, 1]), np.array([HASHED, 0], np.int16)
    assert least_transfer(sets, slot, np.array([100.0, 1.0]), 2).tolist() == [1, 0]


@given(st.integers(1, 8), st.randoms(use_true_random=False))
def test_a_cut_is_the_best_of_all(side, random) -> None:
    values = np.array([[float(random.randrange(4)) for _ in range(side)] for _ in range(side)])
    low, left = random.randrange(side), random.randrange(side)
    within = CellBlock(low, random.randint(low + 1, side), left, random.randint(left + 1, side))
    part = values[within.low : within.high, within.left : within.right]
    found = PrefixSums.of(values)
    assert found.total(within) == part.sum()
    cuts = [max(part[:at].sum(), part[at:].sum()) for at in range(1, within.height)]
    cuts += [max(part[:, :at].sum(), part[:, at:].sum()) for at in range(1, within.width)]
    cut = found.best_cut(within)
    if cut is None:
        assert within.area == 1
    else:
        assert cut.cost == min(cuts)
        assert cut.first.area + cut.second.area == within.area


def test_the_best_cut_of_tornados_example_is_between_rows() -> None:
    """Figure 5(b): columns 2 and 4 cost 1 and 3, rows 2, 3 and 4 cost 2, 1 and 1."""
    values = np.zeros((5, 5))
    values[2, 4], values[3, 4], values[4, 2] = 2, 1, 1
    found = PrefixSums.of(values)
    whole = CellBlock(0, 5, 0, 5)
    across, along = found.cut_columns(whole), found.cut_rows(whole)
    assert across is not None and along is not None
    assert abs(found.total(across.first) - found.total(across.second)) == 2
    assert along == found.best_cut(whole) == (2.0, (0, 3, 0, 5), (3, 5, 0, 5))


def test_empty_space_is_cut_in_the_middle() -> None:
    cut = PrefixSums.of(np.zeros((8, 8))).cut_rows(CellBlock(0, 8, 0, 8))
    assert cut is not None and cut.first.height == 4


@given(st.integers(0, 3), st.floats(0, 20), st.randoms(use_true_random=False))
def test_maximal_squares_have_one_value_and_cannot_grow(power, most, random) -> None:
    side = 2**power
    values = np.array([random.randrange(3) // 2 for _ in range(side * side)])
    costs = np.array([float(random.randrange(3)) for _ in range(side * side)])
    leaf = maximal_squares(values, costs, most)
    assert (np.diff(leaf) >= 0).all() and leaf[0] == 0
    starts = np.flatnonzero(np.append(True, np.diff(leaf) > 0))
    sizes = np.diff(np.append(starts, side * side))
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        assert size.bit_count() == 1 and size.bit_length() % 2 == 1 and start % size == 0
        assert len(set(values[start : start + size])) == 1
        assert size == 1 or costs[start : start + size].sum() <= most
        around = slice(start // (4 * size) * 4 * size, (start // (4 * size) + 1) * 4 * size)
        if 4 * size <= side * side:
            assert len(set(values[around])) > 1 or costs[around].sum() > most


def test_squares_are_painted_along_the_z_curve() -> None:
    whole = CellBlock(0, 4, 0, 4)
    leaf = painted(whole.quarters(), 4)
    assert leaf.ravel()[z_order(4)].tolist() == np.repeat(range(4), 4).tolist()
