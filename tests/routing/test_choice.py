"""The choice of a strategy by the cost model."""

from __future__ import annotations

import numpy as np
import pytest
from routing.maps import FOUR_MAPS, load_of, squares_around

from stqsh.routing.choice import CROSSED, DEALT, HELD, QUERY_BYTES, AskedQueries, chosen, predict, predictions
from stqsh.routing.load import slot_loads
from stqsh.routing.strategies import STRATEGIES


def asked(name: str = "hot spots", *, is_moving: bool = False) -> AskedQueries:
    boxes = squares_around(FOUR_MAPS[name](np.random.default_rng(2), 500), 0.01)
    return AskedQueries(boxes, is_moving=is_moving)


def test_a_prediction_is_of_the_slot_that_has_most_to_do() -> None:
    load, queries = load_of(FOUR_MAPS["hot spots"]), asked()
    table = STRATEGIES["agrid"](load, 8)
    found = predict(table, load, queries)
    on_slots = table.slots_touching(queries.boxes).sum(axis=0)
    records = load.records.sum()
    own = slot_loads(table, load.cost) + HELD * on_slots
    assert found.makespan == pytest.approx(own.max() + DEALT * records / 8)
    assert found.ratio == pytest.approx(own.max() / own.mean())
    assert found.copies == pytest.approx(on_slots.sum() / 500) and 1 <= found.copies < 8
    assert found.memory == QUERY_BYTES * on_slots.sum()
    crossing = predict(table, load, asked(is_moving=True))
    assert crossing.makespan - found.makespan == pytest.approx((CROSSED - DEALT) * records / 8)
    by_object = [
        predict(STRATEGIES["object"](load, 8), load, asked(is_moving=flag)) for flag in (False, True)
    ]
    assert by_object[0].makespan == by_object[1].makespan
    assert by_object[0].copies == 8


@pytest.mark.parametrize("slots", [2, 8])
def test_moving_streams_stay_with_object_until_queries_outgrow_the_memory(slots: int) -> None:
    load, queries = load_of(FOUR_MAPS["hot spots"]), asked(is_moving=True)
    found = predictions(load, slots, queries)
    assert [one.strategy for one in found] == list(STRATEGIES)
    assert chosen(found).strategy == "object"
    room = 1.5 * QUERY_BYTES * len(queries.boxes)
    assert found[0].cost(room) > found[0].makespan
    scarce = chosen(found, room)
    assert scarce.strategy != "object"
    assert scarce.cost(room) == min(one.cost(room) for one in found)


def test_without_queries_there_is_a_prediction_too() -> None:
    found = predictions(load_of(FOUR_MAPS["uniform"]), 3, AskedQueries(np.empty((0, 4))))
    assert all((one.copies, one.memory) == (0, 0) and one.makespan > 0 for one in found)
