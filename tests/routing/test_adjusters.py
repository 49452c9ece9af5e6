"""Load adjusters: they lower the largest load, move little, and follow a hot spot."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from routing.maps import (
    FOUR_MAPS,
    UNIT,
    leaves_are_rectangles,
    leaves_are_squares,
    load_of,
    odd_loads,
    orbit,
    squares_around,
)

from stqsh.routing.adjusters import ADJUSTERS, greedy, ratio
from stqsh.routing.adjusters.adjuster_choice import moved_queries, proposals, suggest
from stqsh.routing.adjusters.greedy import best_remedy, query_copies
from stqsh.routing.adjusters.tiles import united_where_one_slot_has_both
from stqsh.routing.cells import Cells
from stqsh.routing.load import Load, slot_loads
from stqsh.routing.partitioning import CellBlock
from stqsh.routing.strategies import (
    STRATEGIES,
    table_of_rectangles,
)
from stqsh.routing.table import HASHED, RoutingTable

PAIRS = [(name, strategy) for name, found in ADJUSTERS.items() for strategy in sorted(found.fits)]
LIMIT = 1.25


def check(table: RoutingTable, new: RoutingTable, load: Load) -> None:
    """Check what holds for each proposal: it is better, of the same kind, and leaves dealt by hash stay."""
    assert (new.strategy, new.cells, new.slots) == (table.strategy, table.cells, table.slots)
    assert new.leaf.dtype == np.int32 and new.slot.dtype == np.int16
    assert np.unique(new.leaf).tolist() == list(range(len(new.slot)))
    assert ((new.slot >= HASHED) & (new.slot < new.slots)).all()
    assert ((new.owners == HASHED) == (table.owners == HASHED)).all()
    assert ratio(new, load) < ratio(table, load)
    if table.strategy == "agrid":
        assert leaves_are_rectangles(new)
    elif table.strategy == "grid":
        assert (new.leaf == table.leaf).all()
    else:
        assert leaves_are_squares(new)


def random_load(rng: np.random.Generator, side: int, skew: float) -> Load:
    queries = rng.integers(0, 50, (side, side)).astype(np.float64)
    return Load(Cells(UNIT, side), rng.random((side, side)) ** skew, queries)


@pytest.mark.parametrize(("name", "strategy"), PAIRS)
@settings(max_examples=40, deadline=None)
@given(st.sampled_from([1, 2, 8, 16]), st.integers(1, 20), st.integers(0, 2**32 - 1), st.floats(0.1, 8))
def test_a_proposal_is_better_and_of_the_same_kind(name, strategy, side, slots, seed, skew) -> None:
    rng = np.random.default_rng(seed)
    before, load = random_load(rng, side, skew), random_load(rng, side, skew)
    table = STRATEGIES[strategy](before, slots)
    for _ in range(3):  # adjusters go on from what adjusters left
        new = ADJUSTERS[name].propose(table, load, 1.05)
        if new is None:
            return
        check(table, new, load)
        again = ADJUSTERS[name].propose(table, load, 1.05)
        assert again is not None and (again.leaf == new.leaf).all() and (again.slot == new.slot).all()
        table, load = new, random_load(rng, side, skew)


@pytest.mark.parametrize(("name", "strategy"), PAIRS)
def test_odd_loads_are_adjusted_or_left_alone(name, strategy) -> None:
    for side in (1, 2, 16):
        loads = odd_loads(side).values()
        for before in loads:
            table = STRATEGIES[strategy](before, 5)
            for load in loads:
                new = ADJUSTERS[name].propose(table, load, LIMIT)
                if new is not None:
                    check(table, new, load)


@pytest.mark.parametrize(("name", "strategy"), PAIRS)
def test_a_table_within_the_limit_is_left_alone(name, strategy) -> None:
    load = load_of(FOUR_MAPS["uniform"], side=64)
    assert ADJUSTERS[name].propose(STRATEGIES[strategy](load, 8), load, 1.3) is None


def test_two_slots_are_evened_and_the_others_keep_their_leaves() -> None:
    windows = list(orbit(9))
    table = STRATEGIES["qttree"](windows[0], 16)
    loads = slot_loads(table, windows[-1].cost)
    new = ADJUSTERS["pm"].propose(table, windows[-1], LIMIT)
    assert new is not None
    others = ~np.isin(table.slot, [loads.argmax(), loads.argmin()])
    assert (new.slot[others] == table.slot[others]).all()


@pytest.mark.parametrize(
    ("name", "strategy", "most"), [("shift", "agrid", 32), ("border", "grid", 16), ("greedy", "grid", 80)]
)
def test_slots_that_are_not_concerned_keep_their_cells(name, strategy, most) -> None:
    """Of sixteen equal squares one is dear, and gives a row or two, or as many cells as even the load."""
    even = odd_loads(64)["even"]
    table = STRATEGIES[strategy](even, 16)
    dear = table.owners[40, 40]
    load = Load(even.cells, np.where(table.owners == dear, 1.3, 1.0), even.queries)
    new = ADJUSTERS[name].propose(table, load, 1.2)
    assert new is not None
    changed = new.owners != table.owners
    assert 0 < changed.sum() <= most and (table.owners[changed] == dear).all()


def test_the_remedy_of_cheetahgis_example_lowers_the_variance_to_a_half() -> None:
    """Figure 4: of 3, 2, 3 and 3 on the last processor, two go to the first and to the third."""
    costs, slot = np.array([2.0, 4, 3, 3, 2, 3, 3]), np.array([0, 1, 2, 3, 3, 3, 3], np.int16)
    loads = np.bincount(slot, costs)
    assert loads.var() == 12.5
    remedy = best_remedy(slot, costs, loads)
    assert remedy.loads.var() == 0.5
    assert remedy.slot == [0, 2] and (slot[remedy.leaves] == 3).all()


def test_a_remedy_that_scatters_cells_is_cut_short() -> None:
    windows = list(orbit(25))
    table = fresh = STRATEGIES["grid"](windows[0], 16)
    for load in windows[1:]:
        new = ADJUSTERS["greedy"].propose(table, load, 1.05) or table
        most = max(2 * query_copies(STRATEGIES["grid"](load, 16), load), query_copies(table, load))
        assert query_copies(new, load) <= most
        table = new
    assert query_copies(table, windows[-1]) > query_copies(fresh, windows[-1])


def test_a_free_slot_takes_half_of_the_dearest_rectangle() -> None:
    load = odd_loads(16)["even"]
    rectangles = [CellBlock(0, 8, 0, 8), CellBlock(8, 16, 0, 8), CellBlock(0, 16, 8, 16)]
    none = np.zeros((16, 16), np.bool_)
    table = table_of_rectangles("agrid", load.cells, 4, rectangles, np.arange(3), none)
    new = ADJUSTERS["splitmerge"].propose(table, load, 1.05)
    assert new is not None and ratio(new, load) == 1
    assert 3 in new.slot and (new.owners != table.owners).mean() == 0.25


def owners_without_hash(table: RoutingTable) -> list[int]:
    return [slot for slot in table.slot.tolist() if slot != HASHED]


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([1, 2, 8, 16]),
    st.integers(1, 20),
    st.integers(0, 2**32 - 1),
    st.floats(0.1, 8),
    st.lists(st.sampled_from(["shift", "splitmerge", "fg"]), min_size=1, max_size=5),
)
def test_adjusters_of_rectangles_go_on_from_what_others_left(side, slots, seed, skew, names) -> None:
    """Tornado's two leave as many rectangles to each slot as it had, unless there are none."""
    rng = np.random.default_rng(seed)
    table = STRATEGIES["agrid"](random_load(rng, side, skew), slots)
    for name in names:
        load = random_load(rng, side, skew)
        new = ADJUSTERS[name].propose(table, load, 1.05)
        if new is None:
            continue
        check(table, new, load)
        if name == "shift":
            assert sorted(owners_without_hash(new)) == sorted(owners_without_hash(table))
        if name == "splitmerge":
            assert len(new.slot) >= len(table.slot)
            assert "fg" in names or len(set(owners_without_hash(new))) == len(owners_without_hash(new))
        table = new


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["shift", "splitmerge"]),
    st.sampled_from([8, 32]),
    st.integers(2, 9),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.1, 1.0, 5.0]),
)
def test_what_tornados_adjusters_change_saves_more_than_moving_queries_costs(
    name: str, side: int, slots: int, seed: int, transfer: float
) -> None:
    rng = np.random.default_rng(seed)
    boxes = squares_around(rng.random((60, 2)), 0.05)
    before, after = (Load.of(Cells(UNIT, side), *(rng.random((2, 2000)) ** power), boxes) for power in (1, 3))
    table = STRATEGIES["agrid"](before, slots)
    new = ADJUSTERS[name].propose(table, after, 1.05, transfer)
    assert ADJUSTERS[name].propose(table, after, 1.05, 1e9) is None
    if not transfer:
        free = ADJUSTERS[name].propose(table, after, 1.05)
        assert (free is None) == (new is None)
    if new is not None:
        saved = slot_loads(table, after.cost).max() - slot_loads(new, after.cost).max()
        added = np.count_nonzero(new.slots_touching(boxes) & ~table.slots_touching(boxes))
        assert saved > transfer * added


def test_a_slot_gets_parts_of_rectangles_of_which_none_could_be_merged() -> None:
    """Of four rectangles around a fifth no two make one, and shifts could only move their ends."""
    even = odd_loads(16)["even"]
    pinwheel = [
        CellBlock(0, 4, 0, 12),
        CellBlock(0, 12, 12, 16),
        CellBlock(12, 16, 4, 16),
        CellBlock(4, 16, 0, 4),
        CellBlock(4, 12, 4, 12),
    ]
    none = np.zeros((16, 16), np.bool_)
    table = table_of_rectangles("agrid", even.cells, 5, pinwheel, np.arange(5), none)
    load = Load(even.cells, np.where(table.owners == 4, 8.0, 1.0), even.queries)
    assert ADJUSTERS["splitmerge"].propose(table, load, 1.1) is None
    new = ADJUSTERS["fg"].propose(table, load, 1.1)
    assert new is not None and ratio(new, load) <= 1.1
    stayed = new.owners == table.owners
    assert stayed[table.owners != 4].all() and moved_queries(table, new, load) < 0.25


def test_tiles_of_one_slot_that_are_in_line_become_one() -> None:
    quarters = CellBlock(0, 8, 0, 8).quarters()
    one = dict.fromkeys(quarters, 3)
    assert united_where_one_slot_has_both(one) == {CellBlock(0, 8, 0, 8): 3}
    assert len(united_where_one_slot_has_both(one | {quarters[0]: 2})) == 3
    assert united_where_one_slot_has_both({quarters[0]: 1, quarters[1]: 2}) == {
        quarters[0]: 1,
        quarters[1]: 2,
    }


def test_queries_that_move_are_counted_by_cell() -> None:
    load = odd_loads(4)["even"]
    queries = np.zeros((4, 4))
    queries[0, 0], queries[3, 3] = 1, 3
    load = Load(load.cells, load.records, queries)
    old = STRATEGIES["grid"](load, 2)
    slot = old.slot.copy()
    slot[15] = 0
    assert old.slot[15] == 1
    assert moved_queries(old, old.with_owners(slot), load) == 0.75
    assert moved_queries(old, old, load) == 0
    assert moved_queries(old, old.with_owners(slot), odd_loads(4)["even"]) == 0


@pytest.mark.parametrize("strategy", ["grid", "agrid", "quadtree", "qttree"])
def test_the_ladder_takes_the_cheapest_that_suffices_else_the_most_even(strategy) -> None:
    windows = list(orbit(13))
    table, load = STRATEGIES[strategy](windows[0], 16), windows[-1]
    found = proposals(table, load, 1.3)
    prices = [moved_queries(table, one.table, load) for one in found]
    assert found and prices == sorted(prices)
    chosen = suggest(table, load, 1.3)
    assert chosen is not None
    at = [one.adjuster for one in found].index(chosen.adjuster)
    ratios = [ratio(one.table, load) for one in found]
    if ratios[at] <= 1.15:
        assert min(ratios[:at], default=2.0) > 1.15
    else:
        assert ratios[at] == min(ratios)


def test_the_ladder_has_nothing_for_an_even_load_or_a_stream_dealt_by_hash() -> None:
    load = load_of(FOUR_MAPS["uniform"], side=64)
    assert suggest(STRATEGIES["agrid"](load, 8), load, 1.3) is None
    assert suggest(STRATEGIES["object"](load, 8), load_of(FOUR_MAPS["biased"], side=64), 1.3) is None


class Ride(NamedTuple):
    """How a table fares while a hot spot goes round: means over windows, and the worst one."""

    mean: float
    worst: float
    moved: float


@cache
def windows_of_an_orbit() -> list[Load]:
    return list(orbit(48))


def ride(strategy: str, adjuster: str | None) -> Ride:
    first, *windows = windows_of_an_orbit()
    table, ratios, moved = STRATEGIES[strategy](first, 16), [], 0.0
    for load in windows:
        ratios.append(ratio(table, load))
        if adjuster is not None and (new := ADJUSTERS[adjuster].propose(table, load, LIMIT)) is not None:
            moved += moved_queries(table, new, load)
            table = new
    return Ride(float(np.mean(ratios)), max(ratios), moved / len(windows))


@pytest.mark.parametrize(
    ("strategy", "adjuster", "mean", "worst", "moved"),
    [  # what a study of the four papers measured with such a hot spot, and some room
        ("agrid", "shift", 3.6, 5.0, 0.05),
        ("agrid", "splitmerge", 1.85, 2.6, 0.04),
        ("agrid", "fg", 1.6, 1.9, 0.01),
        ("grid", "greedy", 1.6, 2.0, 0.01),
        ("grid", "border", 2.0, 2.4, 0.03),
        ("quadtree", "border", 2.0, 2.4, 0.03),
        ("quadtree", "fg", 1.6, 1.9, 0.01),
        ("qttree", "fg", 1.6, 1.9, 0.01),
        ("qttree", "pm", 4.3, 5.0, 0.03),
        ("qttree", "fm", 4.3, 5.0, 0.3),
    ],
)
def test_a_hot_spot_that_goes_round_is_followed(strategy, adjuster, mean, worst, moved) -> None:
    found = ride(strategy, adjuster)
    assert found.mean <= mean and found.worst <= worst
    assert 0 < found.moved <= moved


def followed(ahead: float) -> float:
    """The mean ratio where a table is adjusted in every other window, to the load as it is expected."""
    windows = windows_of_an_orbit()
    table, ratios = STRATEGIES["qttree"](windows[0], 16), []
    for number, load in enumerate(windows[1:], 1):
        ratios.append(ratio(table, load))
        if number % 2 == 0:
            expected = load.ahead(windows[number - 2], ahead)
            found = suggest(table, expected, 1.3)
            table = table if found is None else found.table
    return float(np.mean(ratios))


def test_a_hot_spot_is_followed_better_where_it_is_going() -> None:
    assert followed(0.75) < 1.5 < followed(0) - 0.1


def test_a_load_that_stands_is_expected_to_stay() -> None:
    load = load_of(FOUR_MAPS["hot spots"], side=64)
    assert np.array_equal(load.ahead(load, 3.0).records, load.records)
    nothing = Load(load.cells, np.zeros_like(load.records), load.queries)
    assert load.ahead(nothing, 1.0) is load
    assert not nothing.ahead(load, 1.0).records.any()


def test_a_load_that_moves_is_expected_beyond_where_it_is() -> None:
    def spot(column: int) -> Load:
        records = np.zeros((64, 64))
        records[20:30, column : column + 10] = 5.0
        return Load(load.cells, records, load.queries)

    load = load_of(FOUR_MAPS["uniform"], side=64)
    ahead = spot(30).ahead(spot(24), 1.0).records.sum(axis=0)
    centre = float((ahead * np.arange(64)).sum() / ahead.sum())
    assert centre > 35 and ahead.min() >= 0  # it is 34.5 now


def test_without_adjusters_the_hot_spot_falls_to_one_slot() -> None:
    assert ride("agrid", None).mean > 4


@pytest.mark.parametrize(
    ("side", "growth", "times"), [(64, greedy.GROWTH, 8), (256, greedy.GROWTH, 8), (256, np.inf, 8)]
)
def test_greedy_undoes_a_bias_as_far_as_it_may_scatter_cells(side, growth, times) -> None:
    """As in CheetahGIS's figure 12b, 95 % of the load comes to be in the cells of 3 of 120 processors."""
    load = load_of(FOUR_MAPS["biased"], side=side)
    table = STRATEGIES["grid"](odd_loads(side)["even"], 120)
    new = greedy.adjust(table, load, LIMIT, growth)
    assert ratio(table, load) / ratio(new, load) >= times
    anew = STRATEGIES["grid"](load, 120)
    assert query_copies(new, load) <= growth * query_copies(anew, load)
