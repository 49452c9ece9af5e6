"""SYNC and WINDOW over the nearest where many objects move: cut batches, records that change, ties."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from support.cases import Case, Command, Spec
from support.examples import SECOND, at, case, register
from support.group_updates import updates
from support.oracle.refreshes import run_refreshes
from support.seeded import wandering
from support.strategies import cut

COUNT, SUM_N = ["count", None, "BIGINT", 0], ["sum", ["col", "n"], "BIGINT", 0]
FIRST, LAST = ["min", ["col", "oid"], "STRING", 0], ["max", ["col", "oid"], "STRING", 0]
MIDDLE = ["lit", 500, "BIGINT"]
MEASURES = [COUNT, SUM_N, FIRST, LAST]
SHOWN = [
    ["n", ["col", "m0"], "BIGINT"],
    ["sum", ["col", "m1"], "BIGINT"],
    ["first", ["col", "m2"], "STRING"],
    ["last", ["col", "m3"], "STRING"],
]


def asking(
    id_: int, seconds: float, place: Spec, window_s: float | None = None, condition: Any = None
) -> Command:
    """An aggregate over the nearest that is refreshed now and then."""
    command = register(id_, {"type": "nearest", **place}, condition)
    form: Spec = {"groups": [], "measures": MEASURES, "select": SHOWN, "sync_us": int(seconds * SECOND)}
    if window_s is not None:
        form["window_us"] = int(window_s * SECOND)
    command["query"] |= {"kind": "refreshed_nearest", "aggregates": form}
    return command


def crowd(seed: int, **changes: Any) -> Case:
    """Objects that wander and change, and fall silent; they are many enough that batches are cut."""
    draw = random.Random(seed)
    keys = [f"k{i:03}" for i in range(300)]
    steps, records = 14, []
    for second, key, x, y in wandering(draw, keys, steps, 0.5):
        where = (None, None) if draw.random() < 0.05 else (round(x, 1), round(y, 1))
        records.append((second + 1, at(key, *where, second + draw.random(), draw.randrange(1000))))
    many = ["cmp", ">", ["col", "n"], MIDDLE]
    centre = {"x": 5.0, "y": 5.0}
    commands = [
        (1, asking(301, 1, {"k": 5, **centre})),
        (1, asking(302, 3, {"k": 5, **centre}, 2)),
        (1, asking(303, 0.7, {"k": 1, "focal": "k007"})),
        (1, asking(304, 2, {"k": 4, "focal": "k011"}, 4, many)),
        (1, asking(305, 1, {"k": 400, **centre}, None, many)),
        (1, asking(306, 4, {"k": 3, "x": 0.0, "y": 0.0}, None, many)),
    ]
    return case(steps, commands, records, **changes)


STREAMS: dict[str, dict[str, Any]] = {
    "moving": {"report_every_us": 4 * SECOND},
    "geodetic": {"planar": False},
    "retained": {"retain": "significant", "report_every_us": 4 * SECOND, "max_speed": 3.0},
    "events": {"kind": "event", "keep_us": 5 * SECOND, "name": "posts"},
}


def asked_of(name: str) -> Case:
    """The crowd as a stream of some sort; as events, it has no focal objects, and each record its own key."""
    made = crowd(5, **STREAMS[name])
    if name != "events":
        return made
    still = [(step, command) for step, command in made.commands if "focal" not in str(command)]
    placed = [(step, row) for step, row in made.records if row["x"] is not None]
    named = [(step, row | {"oid": f"{row['oid']}-{i}"}) for i, (step, row) in enumerate(placed)]
    return replace(made, records=named, commands=still)


def posts() -> Case:
    """Posts of which one in thirty has a rare word, and queries for words, some of which come and go."""
    made, draw = asked_of("events"), random.Random(6)
    words = ["jam", *("rain", "sun") * 15]
    records = [
        (step, row | {"body": f"{draw.choice(words)} {draw.choice(words)}"}) for step, row in made.records
    ]
    rare = ["contains", ["col", "body"], "jam", "all"]
    both = ["and", [["contains", ["col", "body"], "jam sun", "any"], ["cmp", ">", ["col", "n"], MIDDLE]]]
    never = ["contains", ["col", "body"], "snow", "all"]
    centre = {"k": 3, "x": 5.0, "y": 5.0}
    commands = [
        (1, asking(301, 1, centre, None, rare)),
        (1, asking(302, 2, centre, 4, both)),
        (1, asking(303, 1, centre, None, never)),
        (4, asking(304, 1, {"k": 50, "x": 0.0, "y": 0.0}, 3, rare)),
        (5, {"op": "drop", "id": 303}),
        (9, {"op": "drop", "id": 301}),
        (10, asking(305, 1, centre, None, rare)),
    ]
    columns = [*made.spec["columns"], ["body", "STRING"]]
    return replace(
        made, spec=made.spec | {"columns": columns, "text": "body"}, records=records, commands=commands
    )


def test_refreshes_of_posts_with_rare_words_are_the_oracles() -> None:
    made = posts()
    expected = run_refreshes(made)
    found = {update.query for update in expected if update.why == "changed" and update.row[0]}
    assert found == {301, 302, 304, 305}
    for slots, size, restarts in ((1, None, set()), (3, 1, {3, 6}), (2, 4, {1})):
        assert updates(made, slots, cut(made, size), restarts) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS)
def test_refreshes_of_a_crowd_are_the_oracles_however_the_run_is_cut(name: str) -> None:
    made = asked_of(name)
    expected = run_refreshes(made)
    changed = {update.query for update in expected if update.why == "changed"}
    assert changed == {query["id"] for query in made.queries}
    for slots, size, restarts in ((1, None, set()), (2, 1, {2, 5}), (3, 5, {1})):
        assert updates(made, slots, cut(made, size), restarts) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS)
def test_the_end_refreshes_once_more_as_of_the_end_of_the_last_tick(name: str) -> None:
    made = asked_of(name)
    closing = made.steps + 1
    expected = run_refreshes(made, closing)
    assert {update.query for update in expected if update.step == closing}
    for slots, size in ((1, None), (2, 5), (3, 1)):
        assert updates(made, slots, cut(made, size), ends=True) == expected


def test_of_equal_distances_the_smaller_key_counts_on_whatever_slot_it_is() -> None:
    places = [(1, 0), (0, 1), (-1, 0), (0, -1), (0.6, 0.8), (0.8, -0.6)]
    keys = ["b", "é", "a", "B", "aa", "Z"]
    records = [(1, at(key, *place, 0)) for key, place in zip(keys, places, strict=True)]
    made = case(3, [(1, asking(2, 1, {"k": 3, "x": 0.0, "y": 0.0}))], records)
    for slots in (1, 2, 3):
        told = updates(made, slots, cut(made, None))
        assert [(u.step, u.op, u.row) for u in told] == [
            (1, "+", (0, None, None, None)),
            (2, "-", (0, None, None, None)),
            (2, "+", (3, None, "B", "a")),
        ]


def test_the_nearest_are_those_of_the_window() -> None:
    records = [(1, at("near", 1, 0, 0, 1)), (3, at("far", 9, 0, 2, 2)), (5, at("mid", 5, 0, 4.5, 3))]
    made = case(7, [(1, asking(2, 2, {"k": 1, "x": 0.0, "y": 0.0}, 2))], records)
    told = [(u.step, u.row[2]) for u in updates(made, 2, cut(made, None)) if u.op == "+"]
    assert told == [(1, None), (3, "near"), (5, "far"), (7, "mid")]


def test_a_focal_object_does_not_take_a_place_from_others() -> None:
    records = [(1, at(key, x, 0, 0, n)) for key, x, n in [("f", 0, 1), ("a", 1, 2), ("b", 2, 4), ("c", 3, 8)]]
    records.append((3, at("f", None, None, 2)))
    made = case(5, [(1, asking(2, 1, {"k": 2, "focal": "f"}))], records)
    for slots in (1, 2, 3):
        told = updates(made, slots, cut(made, None))
        assert [(u.step, u.row[:2]) for u in told if u.op == "+"] == [
            (1, (0, None)),
            (2, (2, 6)),
            (4, (0, None)),
        ]
