"""kNN queries through Evaluate and Aggregate, held to brute force: circles shrink, grow, and run short."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import memory, oracle
from support.budget import share
from support.cases import Case, Command
from support.crowds import crowd
from support.examples import SECOND, at, case, register
from support.oracle import accepted
from support.strategies import cut

from stqsh.core.contract import batch_pieces

CUTS = (1, 7, None)
SELECT = [["oid", ["col", "oid"]], ["far", ["distance"]]]


def neighbours(k: int, place: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "nearest", "region": {"type": "nearest", "k": k} | place, "select": SELECT}


def nearest(query_id: int, k: int, place: dict[str, Any], **more: Any) -> Command:
    command = register(query_id, {}, **more)
    return command | {"query": command["query"] | neighbours(k, place)}


def with_neighbours(ranges: Case, seed: int) -> Case:
    """The same case with a kNN query in the place of each range query."""
    draw, commands = random.Random(seed), []
    for step, command in ranges.commands:
        if command["op"] != "register":
            commands.append((step, command))
            continue
        region = command["query"]["region"]
        place = {"focal": region["focal"]} if "focal" in region else {"x": region["x1"], "y": region["y1"]}
        query = command["query"] | neighbours(draw.choice([1, 2, 3, 10, 60]), place)
        commands.append((step, {"op": "register", "query": query}))
    return replace(ranges, commands=commands)


def as_events(moving: Case) -> Case:
    """The same case over a stream of events; those that look for a focal object look for a place."""
    spec = moving.spec | {"kind": "event", "keep_us": 3 * SECOND, "report_every_us": None}
    commands = []
    for step, command in moving.commands:
        if "focal" in command.get("query", {}).get("region", {}):
            query = command["query"] | neighbours(command["query"]["region"]["k"], {"x": 3.0, "y": 4.0})
            commands.append((step, command | {"query": query}))
        else:
            commands.append((step, command))
    return replace(moving, spec=spec, records=accepted(spec, moving.clock, moving.records), commands=commands)


def check(case: Case, slots: int, size: int | None, restarts: frozenset[int] = frozenset()) -> int:
    """How many updates there were, all of them the oracle's."""
    expected = oracle.run(case)
    outcome = memory.run(case, slots, cut(case, size), restarts)
    assert len(outcome.updates) == len(expected)
    assert all(map(oracle.alike, outcome.updates, expected))
    sizes = {query: len(keys) for query, keys in oracle.fold(expected).items() if keys}
    assert {query: size for query, size in outcome.sizes.items() if size} == sizes
    assert outcome.stats["updates"] == len(expected)
    return len(expected)


@pytest.mark.parametrize(("slots", "size"), [(1, None), (2, 7), (4, 1)])
@pytest.mark.parametrize("events", [False, True], ids=["moving", "events"])
def test_a_crowd_has_its_neighbours(slots: int, size: int | None, events: bool) -> None:
    moving = crowd(slots, objects=200, queries=30, steps=16, planar=slots != 2)
    asked = with_neighbours(moving, slots)
    assert check(as_events(asked) if events else asked, slots, size, frozenset({3})) > 500


@share(8)
@given(st.integers(0, 1 << 30), st.sampled_from([1, 2, 4]), st.sampled_from(CUTS), st.booleans())
def test_small_crowds_have_their_neighbours(seed: int, slots: int, size: int | None, planar: bool) -> None:
    moving = crowd(seed, objects=40, queries=12, steps=12, planar=planar)
    check(with_neighbours(moving, seed), slots, size)


HERE = {"x": 0.0, "y": 0.0}


@pytest.mark.parametrize("slots", [1, 4])
@pytest.mark.parametrize("size", CUTS)
def test_a_growing_population_is_taken_in_within_a_batch(
    slots: int, size: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_pieces, "_SMALL", 4)
    records = [(s, at(f"k{i}", i % 31, i // 31, s)) for s in range(1, 9) for i in range(2**s)]
    check(case(9, [(1, nearest(7, 3, HERE)), (1, nearest(8, 40, HERE))], records), slots, size)


@pytest.mark.parametrize("size", CUTS)
@pytest.mark.parametrize("among", [{}, {"condition": ["cmp", "<", ["col", "n"], ["lit", 5, "BIGINT"]]}])
def test_many_that_move_at_once_on_a_grid_are_ranked_as_they_are_one_by_one(
    size: int | None, among: dict[str, Any]
) -> None:
    draw = random.Random(8)
    records = [
        (step, at(f"k{one}", *_on_grid(draw), step, draw.randint(0, 5)))
        for step in range(1, 10)
        for one in draw.sample(range(150), 150 if step == 1 else 40)
    ]
    places = [HERE, {"x": 2.0, "y": 1.0}, {"focal": "k7"}]
    asked = [(1, nearest(7 + i, k, place, **among)) for i, (k, place) in enumerate(product([40, 90], places))]
    assert check(case(10, asked, records), 1, size) > 500


@share(6)
@given(
    st.integers(0, 1 << 30),
    st.sampled_from(["nowhere", "far away", "failing", "expired"]),
    st.integers(70, 150),
    st.sampled_from([1, 2]),
    st.sampled_from(CUTS),
)
def test_most_that_leave_at_once_leave_as_they_would_one_by_one(
    seed: int, way: str, count: int, slots: int, size: int | None
) -> None:
    draw, records = random.Random(seed), []
    for step in range(1, 17):
        leaves = step % 4 == 0
        for one in draw.sample(range(count), draw.choice([count, 9 * count // 10]) if leaves else count // 2):
            x, y, n = draw.randint(-4, 4), draw.randint(-3, 3), draw.randint(0, 5)
            if leaves and draw.random() < 0.9:
                x, y, n = _LEAVING[way](x, y, n)
            records.append((step, at(f"k{one}", x, y, step, n)))
    if way == "expired":  # all of a burst at once, some steps later
        records = [record for record in records if record[0] % 8 < 3]
    below = {"condition": ["cmp", "<", ["col", "n"], ["lit", 6, "BIGINT"]]}
    places = [HERE, {"x": 2.0, "y": 1.0}, {"focal": "k7"}]
    asked = [
        (1, nearest(7 + i, k, place, **below)) for i, (k, place) in enumerate(product([3, 30, 60], places))
    ]
    moving = case(17, asked, records)
    check(as_events(moving) if way == "expired" else moving, slots, size)


_LEAVING: dict[str, Callable[[int, int, int], tuple[int | None, int | None, int]]] = {
    "nowhere": lambda _x, _y, n: (None, None, n),
    "far away": lambda x, y, n: (100 * x + 50, y, n),
    "failing": lambda x, y, _n: (x, y, 7),
    "expired": lambda x, y, n: (x, y, n),
}


def _on_grid(draw: random.Random) -> tuple[float | None, float | None]:
    """One of few places, so that many are as far away; now and then none."""
    return (None, None) if draw.random() < 0.05 else (draw.randint(-4, 4), draw.randint(-3, 3))


@pytest.mark.parametrize("slots", [1, 3])
def test_ties_go_to_the_smaller_key(slots: int) -> None:
    keys = ["b", "a", "ä", "B", "aa", ""]
    records = [(1, at(key, 1, 0, 1)) for key in keys]
    asked = case(2, [(1, nearest(7, 4, HERE))], records)
    assert [u.key for u in memory.run(asked, slots, cut(asked, 1)).updates] == ["", "B", "a", "aa"]


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("size", [1, None])
def test_who_is_pushed_out_is_overtaken_and_comes_back(slots: int, size: int | None) -> None:
    records = [(1, at("far", 2, 0, 1)), (2, at("near", 1, 0, 2)), (3, at("near", None, None, 3))]
    asked = case(4, [(1, nearest(7, 1, HERE))], records)
    told = [
        (u.step, u.op, u.key, u.why, u.distance) for u in memory.run(asked, slots, cut(asked, size)).updates
    ]
    assert told == [
        (1, "+", "far", "", 2.0),
        (2, "-", "far", "overtaken", 2.0),
        (2, "+", "near", "", 1.0),
        (3, "-", "near", "gone", None),
        (3, "+", "far", "", 2.0),
    ]


def test_a_paused_query_tells_what_became_of_those_it_had_sent() -> None:
    names = ["left", "gone", "pushed", "stays"]
    records = [(1, at(name, i + 1, 0, 1, 1)) for i, name in enumerate(names)]
    records += [(3, at("left", 1, 0, 3, 0)), (3, at("gone", None, None, 3, 1)), (3, at("pushed", 9, 0, 3, 1))]
    records += [(3, at(f"new{i}", 0, i, 3, 1)) for i in range(3)]
    one = ["cmp", "=", ["col", "n"], ["lit", 1, "BIGINT"]]
    said: list[tuple[int, Command]] = [(1, nearest(7, 4, HERE, condition=one))]
    said += [(2, {"op": "pause", "id": 7}), (4, {"op": "resume", "id": 7})]
    asked = case(5, said, records)
    for slots in (1, 3):
        updates = memory.run(asked, slots, cut(asked, 1)).updates
        assert {u.key: u.why for u in updates if u.op == "-"} == {
            "left": "left",
            "gone": "gone",
            "pushed": "overtaken",
        }
    check(asked, 2, None)
