"""Strategies: every one makes a valid table of any load, and an even one of the usual loads."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from routing.maps import (
    FOUR_MAPS,
    UNIT,
    leaves_are_rectangles,
    leaves_are_squares,
    load_of,
    odd_loads,
    squares_around,
)

from stqsh.routing.cells import Cells, z_order
from stqsh.routing.load import METRICS, PAIR, RECORD, Load, balance_of, leaf_costs, slot_loads
from stqsh.routing.strategies import (
    LIMIT,
    STRATEGIES,
    boxes_of_leaves,
    hot_cells,
    lay,
)
from stqsh.routing.table import HASHED, RoutingTable

SPATIAL = ["grid", "agrid", "quadtree", "qttree"]

# The study (1.6 of its design) dealt no cells by hash: it has 2.24 for hot spots on 64 slots.
EXPECTED = {  # max/mean at 8 and 64 slots
    ("uniform", "grid"): (1.01, 1.02),
    ("uniform", "agrid"): (1.01, 1.04),
    ("uniform", "quadtree"): (1.06, 1.18),
    ("uniform", "qttree"): (1.00, 1.01),
    ("hot spots", "grid"): (1.22, 1.3),
    ("hot spots", "agrid"): (1.16, 1.3),
    ("hot spots", "quadtree"): (1.09, 1.3),
    ("hot spots", "qttree"): (1.00, 1.3),
    ("condensed", "grid"): (1.10, 1.23),
    ("condensed", "agrid"): (1.14, 1.50),
    ("condensed", "quadtree"): (1.12, 1.24),
    ("condensed", "qttree"): (1.00, 1.01),
    ("biased", "grid"): (1.10, 1.15),
    ("biased", "agrid"): (1.03, 1.18),
    ("biased", "quadtree"): (1.24, 1.12),
    ("biased", "qttree"): (1.01, 1.00),
}


@cache
def load_like(name: str) -> Load:
    return load_of(FOUR_MAPS[name])


@cache
def pairs_like(name: str) -> Load:
    """Return a load whose cost is records times queries, as that of the expected figures."""
    load = load_like(name)
    return Load(load.cells, load.records * load.queries, np.zeros_like(load.queries))


@pytest.mark.parametrize("metric", ["cost", "records", "pairs"])
def test_a_metric_decides_which_slots_are_even(metric: str) -> None:
    load = replace(load_like("hot spots"), weights=METRICS[metric])
    pairs, records = load.records * load.queries, load.records
    expected = {"records": records, "pairs": pairs, "cost": RECORD * records + PAIR * pairs}
    np.testing.assert_allclose(load.cost, expected[metric])
    table = lay("qttree", load, 8)
    by_metric = {name: balance_of(slot_loads(table, some)) for name, some in expected.items()}
    assert by_metric[metric].ratio < 1.1
    if metric != "cost":
        other = "pairs" if metric == "records" else "records"
        assert by_metric[other].ratio > 1.3


def test_without_queries_pairs_are_records() -> None:
    load = replace(load_of(FOUR_MAPS["biased"], 64, queries=0), weights=METRICS["pairs"])
    assert (load.cost == load.records).all()


@pytest.mark.parametrize("leaves", [1, 4, 64])
def test_a_qttree_has_as_many_leaves_a_slot_as_asked_for(leaves: int) -> None:
    table = lay("qttree", load_like("uniform"), 8, leaves)
    assert 8 * leaves <= len(table.slot) <= 8 * leaves + 2
    assert table.slots == 8 and leaves_are_squares(table)


def test_finer_cells_spread_hot_spots_over_many_slots_with_fewer_copies() -> None:
    boxes = squares_around(FOUR_MAPS["hot spots"](np.random.default_rng(7), 1000), 0.01)
    copies, hashed = {}, {}
    for side in (64, 256, 1024):
        table = lay("agrid", load_of(FOUR_MAPS["hot spots"], side), 64)
        copies[side] = table.slots_touching(boxes).sum() / len(boxes)
        hashed[side] = np.count_nonzero(table.slot == HASHED)
    assert copies[64] > 2 * copies[256] > 4 * copies[1024]
    assert hashed[1024] == 0 < hashed[256]


def ratio(table: RoutingTable, load: Load) -> float:
    return balance_of(slot_loads(table, load.cost)).ratio


def check(table: RoutingTable, load: Load, strategy: str, slots: int) -> None:
    side = load.cells.side
    assert (table.strategy, table.cells, table.slots) == (strategy, load.cells, slots)
    assert table.leaf.shape == (side, side) and table.leaf.dtype == np.int32
    assert table.slot.dtype == np.int16
    assert np.unique(table.leaf).tolist() == list(range(len(table.slot)))
    assert ((table.slot == HASHED) | ((table.slot >= 0) & (table.slot < slots))).all()


@pytest.mark.parametrize("slots", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("side", [1, 2, 4, 16])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_table_of_any_load_is_valid(strategy, side, slots) -> None:
    for load in odd_loads(side).values():
        table = STRATEGIES[strategy](load, slots)
        check(table, load, strategy, slots)
        again = STRATEGIES[strategy](load, slots)
        assert (again.leaf == table.leaf).all() and (again.slot == table.slot).all()


@given(
    st.sampled_from(SPATIAL),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 20),
    st.integers(0, 2**32 - 1),
    st.floats(0.1, 8),
)
def test_a_table_of_a_random_load_is_valid_and_splits_hot_cells(strategy, side, slots, seed, skew) -> None:
    rng = np.random.default_rng(seed)
    load = Load(Cells(UNIT, side), rng.random((side, side)) ** skew, rng.integers(0, 50, (side, side)) * 1.0)
    table = STRATEGIES[strategy](load, slots)
    check(table, load, strategy, slots)
    costs = leaf_costs(table, load.cost)
    single = np.bincount(table.leaf.ravel()) == 1
    assert single[table.slot == HASHED].all()
    shares = load.cost.sum() / slots
    assert (costs[single & (table.slot != HASHED)] <= LIMIT * shares * (1 + 1e-9)).all()


@pytest.mark.parametrize("strategy", SPATIAL)
def test_an_empty_stream_is_dealt_by_area(strategy) -> None:
    table = STRATEGIES[strategy](odd_loads(16)["empty"], 4)
    assert np.bincount(table.owners.ravel()).tolist() == [64] * 4


@pytest.mark.parametrize("strategy", SPATIAL)
def test_a_single_point_is_dealt_by_hash_and_the_rest_by_area(strategy) -> None:
    load = odd_loads(16)["point"]
    table = STRATEGIES[strategy](load, 4)
    assert (table.owners == HASHED).sum() == 1 and table.owners[8, 5] == HASHED
    assert np.bincount(table.owners[table.owners != HASHED]).min() >= 32
    assert ratio(table, load) == 1


@pytest.mark.parametrize("strategy", SPATIAL)
def test_a_stream_with_fewer_cells_than_slots_is_dealt_by_hash(strategy) -> None:
    assert STRATEGIES[strategy](odd_loads(2)["even"], 64).is_hashed


def test_cells_are_hot_by_what_is_left_beside_them() -> None:
    """Each of 4 slots may have 12.5 / 4. So 4 is too much, and 2.2 beside the fourth of 4 is, too."""
    cost = np.array([[4.0, 2.2, 1.3], [1.3, 0.6, 0.6]])
    assert hot_cells(cost, 4).tolist() == [[True, True, False], [False, False, False]]
    assert not hot_cells(cost, 1).any()
    assert hot_cells(np.zeros((2, 2)), 8).all()


@pytest.mark.parametrize("strategy", ["agrid", "quadtree", "qttree"])
def test_leaves_have_the_shapes_of_their_strategy(strategy) -> None:
    for load in [*odd_loads(16).values(), load_like("hot spots")]:
        for slots in (3, 64):
            table = STRATEGIES[strategy](load, slots)
            assert leaves_are_rectangles(table)
            assert leaves_are_squares(table) or strategy == "agrid"


def test_other_shapes_are_told_from_rectangles_and_squares() -> None:
    def table(leaf, slot) -> RoutingTable:
        found = np.array(leaf, np.int32)
        return RoutingTable("agrid", Cells(UNIT, len(found)), found, np.array(slot, np.int16), 2)

    bent = [[0, 0], [0, 1]]
    assert not leaves_are_rectangles(table(bent, [0, 1]))
    assert leaves_are_rectangles(table(bent, [0, HASHED]))
    assert not leaves_are_squares(table(bent, [0, HASHED]))
    assert not leaves_are_squares(table([[0, 0], [1, 1]], [0, 1]))
    assert leaves_are_squares(table([[0, 0], [0, 0]], [1]))
    assert boxes_of_leaves(table([[0, 0], [1, 1]], [0, 1])) == [(0, 1, 0, 2), (1, 2, 0, 2)]


@pytest.mark.parametrize("slots", [8, 64])
def test_each_slot_of_an_agrid_has_a_rectangle(slots) -> None:
    table = STRATEGIES["agrid"](load_like("condensed"), slots)
    assert table.slot.tolist() == list(range(slots))


def test_slots_of_a_quadtree_have_runs_of_the_z_curve() -> None:
    load = load_like("condensed")
    for strategy in ("grid", "quadtree"):
        along = STRATEGIES[strategy](load, 8).owners.ravel()[z_order(load.cells.side)]
        assert (np.diff(along) >= 0).all()


@pytest.mark.parametrize("slots", [8, 64])
@pytest.mark.parametrize(("name", "strategy"), EXPECTED)
def test_balances_are_those_of_the_study(name, strategy, slots) -> None:
    load = pairs_like(name)
    found = ratio(STRATEGIES[strategy](load, slots), load)
    assert found <= 1.15 * EXPECTED[name, strategy][slots == 64]
    assert found <= 1.3


@pytest.mark.parametrize("slots", [8, 64])
@pytest.mark.parametrize("strategy", SPATIAL)
@pytest.mark.parametrize("name", FOUR_MAPS)
def test_slots_balance_by_the_cost_that_counts_records_too(name, strategy, slots) -> None:
    load = load_like(name)
    most = 1.35 if (name, strategy) == ("hot spots", "agrid") else 1.3  # k-d cuts have no better ones there
    assert ratio(STRATEGIES[strategy](load, slots), load) <= most


def test_few_cells_are_dealt_by_hash() -> None:
    assert (STRATEGIES["grid"](pairs_like("hot spots"), 64).owners == HASHED).sum() < 40
    for name in ("uniform", "condensed", "biased"):
        assert not (STRATEGIES["grid"](pairs_like(name), 64).owners == HASHED).any()
