"""Routing tables: every place has one slot, and a box asks each slot that holds a place of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stqsh.core.kernels.geometry.circles import circle_box
from stqsh.core.kernels.geometry.distance import distances
from stqsh.routing.cells import Cells, z_order
from stqsh.routing.initial_routing import SIDE, coarse_grid, sampled_grid
from stqsh.routing.load import Load
from stqsh.routing.strategies import STRATEGIES
from stqsh.routing.table import HASHED, RoutingTable, slots_of
from stqsh.routing.table_payload import pack_table, unpack_table

numbers = st.floats(-200, 200) | st.sampled_from([-10.0, 0.0, 0.1, 10.0])
places = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=30)
slots = st.integers(1, 9)
WORLD = (-180.0, -90.0, 180.0, 90.0)
NO_HASHES = np.zeros(30, np.uint64)


@st.composite
def bounds(draw: st.DrawFn) -> tuple[float, float, float, float]:
    x, y = draw(numbers), draw(numbers)
    width, height = draw(st.floats(1e-3, 300)), draw(st.floats(1e-3, 300))
    return x, y, x + width, y + height


@given(bounds(), places, slots, places)
def test_a_box_touches_the_slot_of_each_place_in_it(area, sample, count, found) -> None:
    routing = sampled_grid(area, tuple(sample), count)
    at = np.array(found)
    owners = routing.slots_of(at[:, 0], at[:, 1], NO_HASHES[: len(at)])
    assert owners.min() >= 0 and owners.max() < count
    for i in range(len(at)):
        box = np.concatenate([np.minimum(at[i], at), np.maximum(at[i], at)], axis=1)
        touched = routing.slots_touching(box)
        assert touched[:, owners[i]].all()
        assert touched[np.arange(len(at)), owners].all()


@given(places, slots, st.floats(-180, 180), st.floats(-90, 90), st.floats(1, 3e7), places)
def test_a_circle_asks_the_slot_of_each_place_in_it(sample, count, x, y, radius, found) -> None:
    routing = sampled_grid(WORLD, tuple(sample), count)
    at = np.clip(np.array(found), (-180, -90), (180, 90))
    inside = at[distances(x, y, at[:, 0], at[:, 1], False) <= radius]
    touched = routing.slots_touching(np.array([circle_box(x, y, radius, False)]))[0]
    assert touched[routing.slots_of(inside[:, 0], inside[:, 1], NO_HASHES[: len(inside)])].all()


def test_everything_and_what_nobody_knows_touch_all_slots() -> None:
    routing = sampled_grid((0, 0, 1, 1), (), 4)
    boxes = [[-np.inf, -np.inf, np.inf, np.inf], [np.nan] * 4, [np.nan, 0, 1, 1], [-np.inf, 0, np.inf, 1]]
    assert routing.slots_touching(np.array(boxes)).all()


def test_slots_get_about_equal_shares_of_a_skewed_sample() -> None:
    chance = np.random.default_rng(3)
    sample = np.concatenate([chance.normal(0.3, 0.05, (3000, 2)), chance.uniform(0, 1, (1000, 2))])
    routing = sampled_grid((0, 0, 1, 1), tuple(map(tuple, sample.tolist())), 8)
    shares = np.bincount(
        routing.slots_of(sample[:, 0], sample[:, 1], np.zeros(len(sample), np.uint64)), minlength=8
    ) / len(sample)
    assert shares.max() < 1.5 / 8 and shares.min() > 0.5 / 8


def test_a_small_box_touches_few_slots() -> None:
    chance = np.random.default_rng(4)
    routing = sampled_grid((0, 0, 1, 1), (), 16)
    corners = chance.uniform(0, 0.95, (500, 2))
    touched = routing.slots_touching(np.hstack([corners, corners + 0.05])).sum(axis=1)
    assert touched.mean() < 2


def test_places_outside_belong_to_a_border_cell() -> None:
    routing = sampled_grid((0, 0, 1, 1), (), 16)
    outside, border = np.array([-5.0, 7.0]), np.array([0.0, 1.0])
    for y in (0.2, 0.9):
        ys = np.array([y, y])
        assert np.array_equal(
            routing.slots_of(outside, ys, NO_HASHES[:2]), routing.slots_of(border, ys, NO_HASHES[:2])
        )


@pytest.mark.parametrize("count", [1, 2, 7, 500])
def test_cells_are_dealt_in_runs_along_the_curve(count) -> None:
    sample = np.random.default_rng(8).uniform(0, 1, (3000, 2))
    routing = sampled_grid((0, 0, 1, 1), tuple(map(tuple, sample.tolist())), count)
    along = routing.owners.ravel()[z_order(SIDE)]
    assert (np.diff(along) >= 0).all() and along[0] == 0 and along[-1] == count - 1


def test_a_place_with_most_records_is_dealt_by_keys_and_all_other_places_evenly() -> None:
    chance = np.random.default_rng(9)
    sample = np.concatenate([np.full((3000, 2), 0.5), chance.uniform(0, 1, (1000, 2))])
    hashes = chance.integers(0, 1 << 64, len(sample), np.uint64)
    routing = sampled_grid((0, 0, 1, 1), tuple(map(tuple, sample.tolist())), 4)
    assert (routing.owners == HASHED).sum() == 1
    owners = routing.slots_of(sample[:, 0], sample[:, 1], hashes)
    assert np.bincount(owners, minlength=4).max() < 1.1 * len(sample) / 4


def test_sessions_of_older_versions_keep_the_grid_that_they_began_with() -> None:
    sample = ((0.1, 0.1),) * 5 + ((0.9, 0.9),) * 3
    owners = coarse_grid((0.0, 0.0, 1.0, 1.0), sample, 2).owners
    assert owners.shape == (64, 64)
    assert owners.ravel()[z_order(64)].searchsorted(1) == 61


def test_the_curve_visits_every_cell_once() -> None:
    assert np.array_equal(np.sort(z_order(SIDE)), np.arange(SIDE * SIDE))
    assert z_order(SIDE)[:4].tolist() == [0, 1, SIDE, SIDE + 1]


def test_records_of_a_hashed_leaf_are_dealt_by_their_keys_and_its_queries_go_to_all_slots() -> None:
    leaf = np.array([[0, 1], [0, 0]], np.int32)
    table = RoutingTable("grid", Cells((0.0, 0.0, 2.0, 2.0), 2), leaf, np.array([2, HASHED], np.int16), 5)
    hashes = np.random.default_rng(5).integers(0, 1 << 63, 4000).astype(np.uint64)
    x, y = np.full(4000, 1.5), np.full(4000, 0.5)
    assert np.array_equal(table.slots_of(x, y, hashes), slots_of(hashes, 5))
    assert (table.slots_of(x - 1, y, hashes) == 2).all()
    touched = table.slots_touching(np.array([[1.2, 0.1, 1.3, 0.2], [0.1, 1.1, 0.2, 1.2], [np.nan] * 4]))
    assert touched.tolist() == [[True] * 5, [False, False, True, False, False], [True] * 5]


@given(
    st.sampled_from([1, 2, 4, 8]).flatmap(
        lambda side: st.lists(st.integers(0, 6), min_size=side * side, max_size=side * side)
    ),
    st.lists(st.integers(HASHED, 8), min_size=7, max_size=7),
)
def test_a_table_is_read_back_as_it_was_written(leaf: list[int], slot: list[int]) -> None:
    side = round(len(leaf) ** 0.5)
    cells = Cells((-1.0, -2.0, 3.0, 4.0), side)
    table = RoutingTable(
        "agrid", cells, np.array(leaf, np.int32).reshape(side, side), np.array(slot, np.int16), 9
    )
    again = unpack_table(pack_table(table))
    assert (again.strategy, again.cells, again.slots) == ("agrid", cells, 9)
    assert np.array_equal(again.owners, table.owners)


@pytest.mark.parametrize("strategy", list(STRATEGIES))
@pytest.mark.parametrize("count", [1, 5, 40])
def test_boxes_touch_the_owners_of_their_cells_however_they_are_looked_up(strategy: str, count: int) -> None:
    chance = np.random.default_rng(6)
    x, y = np.clip(chance.normal(0.3, 0.05, (2, 4000)), 0, 1)
    corners = chance.uniform(-0.1, 1, (60, 2))
    boxes = np.hstack([corners, corners + chance.uniform(0, 0.3, (60, 2))])
    table = STRATEGIES[strategy](Load.of(Cells((0.0, 0.0, 1.0, 1.0), 32), x, y, boxes), count)
    wanted = np.zeros((60, count), np.bool_)
    for at, (low, high, left, right) in enumerate(table.cells.of_boxes(boxes).tolist()):
        owners = np.unique(table.owners[low:high, left:right])
        wanted[at, slice(None) if HASHED in owners else owners] = True
    assert np.array_equal(table.slots_touching(boxes), wanted)
    assert np.array_equal(table.slots_touching(boxes[:3]), wanted[:3])


def test_packages_are_pairs_of_slots_of_which_one_hands_cells_over() -> None:
    cells = Cells((0.0, 0.0, 4.0, 4.0), 2)
    old = RoutingTable("grid", cells, np.arange(4, dtype=np.int32).reshape(2, 2), np.array([0, 0, 1, 2]), 3)
    assert old.packages_to(old) == 0
    assert old.packages_to(old.with_owners(np.array([1, 1, 1, 0]))) == 2, "0 to 1, and 2 to 0"
    finer = RoutingTable("grid", Cells(cells.bounds, 4), np.zeros((4, 4), np.int32), np.array([1]), 3)
    assert old.packages_to(finer) == 2, "0 and 2 to 1"
    assert RoutingTable.by_object(2).packages_to(RoutingTable.by_object(3)) == 2, "both hand over"
