"""When slots are told to shed, and when to stop: a pure function of settings, load and what stands."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budget import share

from stqsh.engine.shedding import LEAST_AREA, Load, decide, least_k, load_of
from stqsh.session.memory import MemorySettings, Order

OBJECT = MemorySettings("object", 1000, keep=0.9)
QUERY = replace(OBJECT, mode="query")
SCATTERED = (300, 200, 100, *[0] * 60, 400)
"""S of 1000 objects: 300 that one query wants, 200 that two want, …, 400 that very many want."""


def load(objects: int, histogram: tuple[int, ...] = SCATTERED, **more: int) -> Load:
    return Load(objects, histogram=histogram, **more)


def test_nothing_is_shed_up_to_the_budget() -> None:
    for settings in (OBJECT, QUERY):
        order = Order()
        assert decide(settings, load(1000), order) is order


def test_beyond_the_budget_the_least_k_that_reaches_the_target_is_chosen() -> None:
    assert decide(OBJECT, load(1001, step=7), Order()) == Order(k=2, step=7)
    assert decide(OBJECT, load(1200), Order()).k == 2
    assert decide(OBJECT, load(1201), Order()).k == 3
    assert decide(OBJECT, load(1450), Order()).k == 4


def test_objects_are_dropped_until_the_target_is_reached_and_stay_away_while_they_are_too_many() -> None:
    dropping = Order(k=3)
    assert decide(OBJECT, load(950, (0, 300, *SCATTERED[2:])), dropping) is dropping
    assert decide(OBJECT, load(901, (0, 1, *SCATTERED[2:])), dropping) is dropping
    assert decide(OBJECT, load(900, shadow=1, report_steps=9), dropping) is dropping
    assert decide(OBJECT, load(600, shadow=301, report_steps=9), dropping) is dropping


def test_once_all_that_was_dropped_fits_the_target_it_comes_back() -> None:
    assert decide(OBJECT, load(600, shadow=300, step=8), Order(k=3)) == Order(k=1, step=8)
    size = replace(OBJECT, budget=10_000, in_bytes=True)
    assert decide(size, Load(600, 6000, SCATTERED, shadow=300), Order(k=3)).k == 1
    assert decide(size, Load(600, 6000, SCATTERED, shadow=301, report_steps=9), Order(k=3)).k == 3


def test_where_more_was_dropped_than_had_to_be_a_smaller_k_is_tried_in_time() -> None:
    few = load(100, shadow=2000, report_steps=5)
    order = Order(k=4, step=10)
    assert decide(OBJECT, replace(few, step=24), order) is order
    assert decide(OBJECT, replace(few, step=25), order) == Order(k=3, step=25)
    assert decide(OBJECT, replace(few, step=99), Order(k=2)).k == 2


def test_k_rises_on_the_way_to_the_target_where_locked_queries_hold_too_much() -> None:
    assert decide(OBJECT, load(950, (10, 10, 100, *[0] * 61)), Order(k=2)).k == 4


def test_where_all_that_may_go_is_too_little_all_of_it_goes() -> None:
    assert decide(OBJECT, load(2000, (5, 0, 3, *[0] * 61)), Order()).k == 4
    assert decide(OBJECT, load(2000, (0,) * 64), Order()).k == 1
    assert decide(OBJECT, load(2000, (0,) * 63 + (2000,)), Order()).k == 1


def test_a_budget_in_bytes_counts_bytes() -> None:
    settings = replace(OBJECT, budget=1 << 20, in_bytes=True)
    held = Load(1000, 1 << 21, SCATTERED)
    assert decide(settings, held, Order()).k == 4  # 55 % of the objects have to go
    assert decide(settings, replace(held, bytes=1 << 19), Order(k=4)).k == 1


def test_queries_first_lose_their_caches_then_their_borders() -> None:
    order, held = Order(), load(1200, report_steps=5)
    seen = []
    for step in range(1, 7):
        order = decide(QUERY, replace(held, step=step, least=order.area), order)
        seen.append((order.cache, order.area, order.step))
    assert seen == [
        (0.75, 1.0, 1), (0.5, 1.0, 2), (0.25, 1.0, 3), (0.0, 1.0, 4), (0.0, 0.75, 5), (0.0, 0.5625, 6)
    ]  # fmt: skip


def test_between_target_and_budget_regions_stay_as_they_are() -> None:
    order = Order(cache=0.0, area=0.5)
    assert decide(QUERY, load(950, step=99), order) is order


def test_regions_grow_back_step_by_step_and_wait_for_reports_in_between() -> None:
    order, held = Order(cache=0.0, area=0.9, step=10), load(800, report_steps=5)
    assert decide(QUERY, replace(held, step=14), order) is order
    order = decide(QUERY, replace(held, step=15), order)
    assert order == Order(cache=0.0, area=0.9563, step=15)
    for step in range(20, 40, 5):
        order = decide(QUERY, replace(held, step=step), order)
    assert order == Order(cache=0.3, area=1.0, step=35)


def test_regions_do_not_shrink_to_no_avail() -> None:
    order = Order(cache=0.0, area=0.5)
    assert decide(QUERY, load(2000, least=0.6), order) is order
    assert decide(QUERY, load(2000, least=0.5), order).area == 0.225
    assert decide(QUERY, load(9000, least=0.2), Order(cache=0.0, area=0.2)).area == LEAST_AREA


def test_far_below_the_target_regions_grow_by_a_quarter() -> None:
    assert decide(QUERY, load(10, step=1), Order(cache=0.0, area=0.1)).area == 0.125


def test_close_to_the_target_regions_grow_little() -> None:
    assert decide(QUERY, load(891), Order(cache=0.0, area=0.5, step=-9)).area == 0.5025


@pytest.mark.parametrize(
    "settings", [MemorySettings(), replace(OBJECT, mode="off"), replace(OBJECT, budget=None)]
)
def test_without_shedding_or_budget_everything_comes_back(settings: MemorySettings) -> None:
    assert decide(settings, load(5000, step=3), Order(k=9, cache=0.5, area=0.5)) == Order(step=3)


def test_another_mode_takes_back_what_the_first_one_did() -> None:
    assert decide(QUERY, load(950), Order(k=9)).k == 1
    assert decide(OBJECT, load(950), Order(cache=0.0, area=0.5)) == Order()


def test_the_cache_factor_follows_the_settings_in_every_mode() -> None:
    for settings in (MemorySettings(), OBJECT, QUERY):
        assert decide(replace(settings, factor=0.25), load(10), Order(step=1)).factor == 0.25


def test_the_load_is_that_of_all_slots_and_streams() -> None:
    told = [
        {"objects": n, "bytes": 10 * n, "histogram": [n] * 64, "shadow": 2 * n, "least": n / 4}
        for n in (1, 2, 3)
    ]
    assert load_of(told, 8, 0) == Load(6, 60, (6,) * 64, 8, 1, 12, 0.25)


loads = st.builds(
    Load,
    objects=st.integers(0, 3000),
    bytes=st.integers(0, 1 << 30),
    histogram=st.lists(st.integers(0, 500), min_size=64, max_size=64).map(tuple),
    step=st.integers(0, 1000),
    report_steps=st.integers(1, 50),
    shadow=st.integers(0, 3000),
)
shares = st.floats(0, 1).map(lambda value: round(value, 4))
orders = st.builds(
    Order,
    shares,
    st.integers(1, 64),
    shares,
    shares.map(lambda value: max(LEAST_AREA, value)),
    st.integers(0, 1000),
)
wishes = st.builds(
    MemorySettings,
    mode=st.sampled_from(["off", "object", "query"]),
    budget=st.none() | st.integers(1, 3000),
    in_bytes=st.booleans(),
    keep=shares,
    factor=shares,
)


@share(1)
@given(wishes, loads, orders)
def test_an_order_is_always_one_that_slots_can_follow(
    settings: MemorySettings, held: Load, now: Order
) -> None:
    order = decide(settings, held, now)
    assert 1 <= order.k <= 64
    assert 0 <= order.cache <= 1
    assert LEAST_AREA <= order.area <= 1
    assert order.factor == settings.factor
    assert (order is now) == order.same_as(now)
    if settings.mode != "object":
        assert order.k == 1
    if settings.mode != "query":
        assert (order.cache, order.area) == (1, 1)


@share(1)
@given(wishes, loads)
def test_decided_again_on_the_same_load_nothing_changes_for_objects(
    settings: MemorySettings, held: Load
) -> None:
    once = decide(replace(settings, mode="object"), held, Order())
    assert decide(replace(settings, mode="object"), held, once) is once


@share(1)
@given(st.lists(st.integers(0, 9), min_size=64, max_size=64), st.floats(0, 800))
def test_the_least_k_drops_enough_and_no_smaller_one_does(histogram: list[int], excess: float) -> None:
    k = least_k(histogram, excess)
    wanted = min(excess, sum(histogram[:63]))
    assert sum(histogram[: k - 1]) >= wanted
    assert k == 1 or sum(histogram[: k - 2]) < wanted
