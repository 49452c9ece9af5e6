"""When slots are told to shed, and when to stop: a pure function of settings, load and what stands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budget import share

from stqsh.engine.delivery.shedding_policy import LEAST_AREA, StreamLoad, decide, least_k, load_of
from stqsh.spec.shedding import SheddingOrder
from stqsh.spec.stats import StreamMemory
from stqsh.storage.shedding_orders import MemorySettings

OBJECT = MemorySettings("object", 1000, keep=0.9)
QUERY = replace(OBJECT, mode="query")
SCATTERED = (300, 200, 100, *[0] * 60, 400)
"""S of 1000 objects: 300 that one query wants, 200 that two want, …, 400 that very many want."""


def load(objects: int, histogram: tuple[int, ...] = SCATTERED, **more: Any) -> StreamLoad:
    return StreamLoad(objects, histogram=histogram, **more)


def test_nothing_is_shed_up_to_the_budget() -> None:
    for settings in (OBJECT, QUERY):
        order = SheddingOrder()
        assert decide(settings, load(1000), order) is order


def test_beyond_the_budget_as_many_go_as_have_to_the_least_wanted_first() -> None:
    assert decide(OBJECT, load(1001, step=7), SheddingOrder()) == SheddingOrder(k=2, part=0.3367, step=7)
    assert decide(OBJECT, load(1200), SheddingOrder()) == SheddingOrder(k=2)
    assert decide(OBJECT, load(1300), SheddingOrder()) == SheddingOrder(k=3, part=0.5)
    assert decide(OBJECT, load(1450), SheddingOrder()) == SheddingOrder(k=4, part=0.5)


def test_the_least_excess_counts_while_nothing_is_shed() -> None:
    assert decide(replace(OBJECT, keep=1), load(1001), SheddingOrder()) == SheddingOrder(k=2, part=0.0034)


def test_where_all_have_one_count_only_what_has_to_go_goes() -> None:
    order = decide(OBJECT, load(10_000, (10_000, *[0] * 63)), SheddingOrder())
    assert order == SheddingOrder(k=2, part=0.91)
    later = load(5450, (5450, *[0] * 63), shadow=4550, dropped=(4550, *[0] * 63))
    assert decide(OBJECT, later, order) is order


def test_objects_are_dropped_until_the_target_is_reached_and_stay_away_while_they_are_too_many() -> None:
    dropping = SheddingOrder(k=2, part=0.5)
    for gone in (0, 50, 100, 149):
        kept = (300 - gone, *SCATTERED[1:])
        held = load(1050 - gone, kept, shadow=gone, dropped=(gone, *[0] * 63), report_steps=9)
        assert decide(OBJECT, held, dropping) is dropping
    done = load(900, (150, *SCATTERED[1:]), shadow=150, dropped=(150, *[0] * 63), step=99)
    assert decide(OBJECT, done, dropping) is dropping


def test_once_all_that_was_dropped_fits_the_target_it_comes_back() -> None:
    assert decide(OBJECT, load(600, shadow=300, step=8), SheddingOrder(k=3, part=0.5)) == SheddingOrder(
        k=1, step=8
    )
    size = replace(OBJECT, budget=10_000, in_bytes=True)
    assert decide(size, StreamLoad(600, 6000, SCATTERED, shadow=300), SheddingOrder(k=3)).k == 1
    assert (
        decide(size, StreamLoad(600, 6000, SCATTERED, shadow=301, report_steps=9), SheddingOrder(k=3)).k == 3
    )


def test_what_need_not_have_gone_may_come_back_once_all_have_reported() -> None:
    few = load(700, (0, 100, 200, *[0] * 60, 400), shadow=300, dropped=(300, *[0] * 63), report_steps=5)
    order = SheddingOrder(k=2, step=10)
    assert decide(OBJECT, replace(few, step=14), order) is order
    assert decide(OBJECT, replace(few, step=15), order) == SheddingOrder(k=2, part=0.3334, step=15)


def test_more_goes_on_the_way_to_the_target_where_locked_queries_hold_too_much() -> None:
    assert decide(OBJECT, load(950, (10, 10, 100, *[0] * 61)), SheddingOrder(k=2)) == SheddingOrder(
        k=4, part=0.3
    )


def test_where_chance_leaves_more_than_the_budget_a_little_more_goes_with_each_report() -> None:
    order = SheddingOrder(k=2, part=0.5, step=1)
    held = load(1001, (302, *SCATTERED[1:]), shadow=100, dropped=(100, *[0] * 63), report_steps=5, step=5)
    assert decide(OBJECT, held, order) is order
    assert decide(OBJECT, replace(held, step=6), order) == SheddingOrder(k=2, part=0.52, step=6)
    assert decide(OBJECT, replace(held, step=6), replace(order, part=1.0)).part == 1


def test_orders_do_not_follow_every_little_change() -> None:
    order = SheddingOrder(k=2, part=0.5, step=1)
    for more in (-4, 4):
        held = load(1050 + more, (300 + more, *SCATTERED[1:]), report_steps=5, step=3)
        assert decide(OBJECT, held, order) is order


def test_where_all_that_may_go_is_too_little_all_of_it_goes() -> None:
    assert decide(OBJECT, load(2000, (5, 0, 3, *[0] * 61)), SheddingOrder()) == SheddingOrder(k=4)
    assert decide(OBJECT, load(2000, (0,) * 64), SheddingOrder()).k == 1
    assert decide(OBJECT, load(2000, (0,) * 63 + (2000,)), SheddingOrder()).k == 1


def test_a_budget_in_bytes_counts_bytes() -> None:
    settings = replace(OBJECT, budget=1 << 20, in_bytes=True)
    held = StreamLoad(1000, 1 << 21, SCATTERED)
    assert decide(settings, held, SheddingOrder()).k == 4  # 55 % of the objects have to go
    assert decide(settings, replace(held, bytes=1 << 19), SheddingOrder(k=4)).k == 1


def test_queries_first_lose_their_caches_then_their_borders() -> None:
    order, held = SheddingOrder(), load(1200, report_steps=5)
    seen = []
    for step in range(1, 7):
        order = decide(QUERY, replace(held, step=step, least=order.area), order)
        seen.append((order.cache, order.area, order.step))
    assert seen == [
        (0.75, 1.0, 1), (0.5, 1.0, 2), (0.25, 1.0, 3), (0.0, 1.0, 4), (0.0, 0.75, 5), (0.0, 0.5625, 6)
    ]  # fmt: skip


def test_between_target_and_budget_regions_stay_as_they_are() -> None:
    order = SheddingOrder(cache=0.0, area=0.5)
    assert decide(QUERY, load(950, step=99), order) is order


def test_regions_grow_back_step_by_step_and_wait_for_reports_in_between() -> None:
    order, held = SheddingOrder(cache=0.0, area=0.9, step=10), load(800, report_steps=5)
    assert decide(QUERY, replace(held, step=14), order) is order
    order = decide(QUERY, replace(held, step=15), order)
    assert order == SheddingOrder(cache=0.0, area=0.9563, step=15)
    for step in range(20, 40, 5):
        order = decide(QUERY, replace(held, step=step), order)
    assert order == SheddingOrder(cache=0.3, area=1.0, step=35)


def test_regions_do_not_shrink_to_no_avail() -> None:
    order = SheddingOrder(cache=0.0, area=0.5)
    assert decide(QUERY, load(2000, least=0.6), order) is order
    assert decide(QUERY, load(2000, least=0.5), order).area == 0.225
    assert decide(QUERY, load(9000, least=0.2), SheddingOrder(cache=0.0, area=0.2)).area == LEAST_AREA


def test_far_below_the_target_regions_grow_by_a_quarter() -> None:
    assert decide(QUERY, load(10, step=1), SheddingOrder(cache=0.0, area=0.1)).area == 0.125


def test_close_to_the_target_regions_grow_little() -> None:
    assert decide(QUERY, load(891), SheddingOrder(cache=0.0, area=0.5, step=-9)).area == 0.5025


@pytest.mark.parametrize(
    "settings", [MemorySettings(), replace(OBJECT, mode="off"), replace(OBJECT, budget=None)]
)
def test_without_shedding_or_budget_everything_comes_back(settings: MemorySettings) -> None:
    assert decide(settings, load(5000, step=3), SheddingOrder(k=9, cache=0.5, area=0.5)) == SheddingOrder(
        step=3
    )


def test_another_mode_takes_back_what_the_first_one_did() -> None:
    assert decide(QUERY, load(950), SheddingOrder(k=9)).k == 1
    assert decide(OBJECT, load(950), SheddingOrder(cache=0.0, area=0.5)) == SheddingOrder()


def test_the_cache_factor_follows_the_settings_in_every_mode() -> None:
    for settings in (MemorySettings(), OBJECT, QUERY):
        assert decide(replace(settings, factor=0.25), load(10), SheddingOrder(step=1)).factor == 0.25


def test_the_load_is_that_of_all_slots_and_streams() -> None:
    told = [
        StreamMemory(
            objects=n, bytes=10 * n, histogram=(n,) * 64, shadow=2 * n, least=n / 4, dropped=(n, *[0] * 63)
        )
        for n in (1, 2, 3)
    ]
    assert load_of(told, 8, 0) == StreamLoad(6, 60, (6,) * 64, 8, 1, 12, 0.25, (6, *[0] * 63))


loads = st.builds(
    StreamLoad,
    objects=st.integers(0, 3000),
    bytes=st.integers(0, 1 << 30),
    histogram=st.lists(st.integers(0, 500), min_size=64, max_size=64).map(tuple),
    step=st.integers(0, 1000),
    report_steps=st.integers(1, 50),
    shadow=st.integers(0, 3000),
    dropped=st.just(()) | st.lists(st.integers(0, 500), min_size=64, max_size=64).map(tuple),
)
shares = st.floats(0, 1).map(lambda value: round(value, 4))
orders = st.builds(
    SheddingOrder,
    shares,
    st.integers(1, 64),
    shares,
    shares.map(lambda value: max(LEAST_AREA, value)),
    st.integers(0, 1000),
    shares.map(lambda value: max(0.0001, value)),
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
    settings: MemorySettings, held: StreamLoad, now: SheddingOrder
) -> None:
    order = decide(settings, held, now)
    assert 1 <= order.k <= 64
    assert 0 < order.part <= 1
    assert 0 <= order.cache <= 1
    assert LEAST_AREA <= order.area <= 1
    assert order.factor == settings.factor
    assert (order is now) == order.same_as(now)
    if settings.mode != "object":
        assert (order.k, order.part) == (1, 1)
    if settings.mode != "query":
        assert (order.cache, order.area) == (1, 1)


@share(1)
@given(wishes, loads)
def test_decided_again_on_the_same_load_nothing_changes_for_objects(
    settings: MemorySettings, held: StreamLoad
) -> None:
    once = decide(replace(settings, mode="object"), held, SheddingOrder())
    assert decide(replace(settings, mode="object"), held, once) is once


@share(1)
@given(st.lists(st.integers(0, 9), min_size=64, max_size=64), st.floats(0, 800))
def test_the_least_k_drops_enough_and_no_smaller_one_does(histogram: list[int], excess: float) -> None:
    k, part = least_k(histogram, excess)
    wanted = min(excess, sum(histogram[:63]))
    if k == 1:
        assert (part, wanted) == (1, 0)
        return
    below, edge = sum(histogram[: k - 2]), histogram[k - 2]
    assert below < wanted <= below + part * edge + 1e-9
    assert below + part * edge <= wanted + 0.0001 * edge + 1e-9
