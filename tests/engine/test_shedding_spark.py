"""Load shedding through Spark: what slots are told, what users see, and that `kill -9` changes none of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.killing import KILLS, kill_all
from system.test_shedding import CREATE, QUERIES, load, orders, run, say, status, table, write_cars

from stqsh.client.api import Session, connect

pytestmark = KILLS


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("shedding")
    write_cars(folder / "cars.csv", steps=300)
    with connect(home=folder / "home", temporary=True, autoplay=False) as session:
        say(session, CREATE.format(folder / "cars.csv") + QUERIES)
        run(session, 6)
        yield session


def batches(opened: Session, count: int) -> list[tuple[str, str, str]]:
    """Run so many batches of two steps; orders come every ten steps."""
    return [update for _ in range(count) for update in run(opened, 2)]


def test_objects_are_shed_through_a_kill_and_all_come_back(opened: Session) -> None:
    assert status(opened)["answers"] == "exact"
    say(opened, "SET shedding.budget = 80; SET shedding.keep = 0.9; SET shedding = object;")
    shed = batches(opened, 6)
    assert {(query, why) for query, why, _ in shed} == {("everyone", "shed")}
    row = load(opened)
    assert row["target"] == 72
    assert 66 <= row["objects"] <= 80  # a part of the keys is not exactly a part of the objects
    assert row["objects"] + row["shadow"] == 100
    assert status(opened)["answers"].startswith("1 of 4 approximate, least accuracy 0.")
    assert status(opened)["shedding"] == f"object, k 2, {row['shadow']} % dropped"
    given = orders(opened)
    assert {order.k for order in given} == {2}

    kill_all(opened)
    opened.start_engine()
    assert batches(opened, 1) == []
    assert (load(opened)["objects"], load(opened)["k"]) == (row["objects"], 2)
    assert orders(opened) == given

    say(opened, "SET shedding = off")
    back = batches(opened, 2)
    assert sorted((query, key) for query, _, key in back) == sorted((query, key) for query, _, key in shed)
    assert {why for _, why, _ in back} == {"+"}
    assert status(opened)["answers"] == "exact"


def test_regions_shrink_through_a_kill_and_grow_back(opened: Session) -> None:
    say(opened, "SET shedding.budget = 80; SET shedding = query;")
    shed = batches(opened, 6)
    for _ in range(60):  # each look shrinks the regions until what they hold fits
        if load(opened)["objects"] <= 80:
            break
        shed += batches(opened, 1)
    assert {query for query, why, _ in shed if why == "shed"} >= {"everyone", "half", "careful"}
    row, given = load(opened), orders(opened)
    assert row["objects"] <= 80
    assert (row["cache"], row["area"]) == (0.0, given[-1].area)
    assert given[-1].area < 1
    by_query = {row["query"]: row for row in table(opened, "SHOW CACHE")}
    assert by_query["careful"]["accuracy"] == 0.9

    kill_all(opened)
    opened.start_engine()
    batches(opened, 1)
    assert load(opened)["cache"] == 0.0
    assert load(opened)["area"] == pytest.approx(given[-1].area, abs=0.05)
    assert orders(opened)[: len(given)] == given

    say(opened, "SET shedding = off")
    batches(opened, 1)
    assert "not settled before step" in status(opened)["answers"]
    batches(opened, 2)
    assert status(opened)["answers"] == "exact"
    assert load(opened)["objects"] == 100
