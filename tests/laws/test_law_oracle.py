"""The oracle against examples worked out by hand, and against itself with every step visited."""

from __future__ import annotations

import math

import pytest
import shapely
from hypothesis import example, given
from hypothesis import strategies as st
from support import oracle
from support.budget import share
from support.cases import Case, Polygon
from support.crowds import crowd
from support.examples import at, case, register
from support.oracle.geometry import EARTH_M, distance, in_polygon
from support.strategies import EVERY, cases
from support.strategies.regions import polygons
from support.worked import DROP, EXAMPLES, UNIT
from support.worked_kinds import KINDS

coordinates = st.integers(-8, 16).map(lambda i: i / 4) | st.integers(-2000, 4000).map(lambda i: i / 1024)


def told(example: Case) -> list[tuple[int, str, object, str]]:
    return [(u.step, u.op, u.key, u.why) for u in oracle.run(example)]


@pytest.mark.parametrize("name", [*EXAMPLES, *KINDS])
def test_example_worked_out_by_hand(name: str) -> None:
    example, expected = (EXAMPLES | KINDS)[name]
    assert told(example) == expected


@given(polygons, st.tuples(coordinates, coordinates))
def test_a_point_in_a_polygon_is_shapelys(rings: Polygon, place: tuple[float, float]) -> None:
    shape = shapely.Polygon(rings[0], rings[1:])
    assert shape.is_valid
    assert in_polygon(place, rings) == shape.intersects(shapely.Point(place))


def test_distances_of_known_places() -> None:
    degree = math.pi * EARTH_M / 180
    for a, b, far in [((0, 0), (0, 90), 90), ((0, 60), (180, 60), 60), ((-180, 0), (179, 0), 1)]:
        assert math.isclose(distance(a, b, planar=False), far * degree, rel_tol=1e-12)
    assert distance((1, 1), (4, 5), planar=True) == 5


def test_rows_of_pluses_and_minuses() -> None:
    example = case(
        6,
        [(1, register(2, UNIT)), (6, DROP)],
        [
            (1, at("a", 0, 0, 0, 7)),
            (1, at("b", 0, 0, 0, 7)),
            (2, at("a", 5, 0, 1, 8)),
            (2, at("c", 0, 1, 2, 9)),
            (6, at("c", 0, 0, 5)),
        ],
        report_every_us=3_000_000,
    )
    assert [u[3:6] for u in oracle.run(example)] == [
        ("a", "", ("a", 0, 0, 0, 7)),
        ("b", "", ("b", 0, 0, 0, 7)),
        ("a", "left", ("a", 5, 0, 1_000_000, 8)),
        ("c", "", ("c", 0, 1, 2_000_000, 9)),
        ("b", "disconnected", ("b", 0, 0, 0, 7)),
        ("c", "dropped", ("c", 0, 1, 2_000_000, 9)),
    ]


N, TRUE, NULL = ["col", "n"], ["lit", True, "BOOLEAN"], ["lit", None, "BIGINT"]


@pytest.mark.parametrize(
    ("expression", "n", "expected"),
    [
        (["cmp", "=", N, ["lit", 1, "BIGINT"]], None, None),
        (["between", N, ["lit", 2, "BIGINT"], NULL], 1, False),
        (["between", N, ["lit", 0, "BIGINT"], NULL], 1, None),
        (["not", ["between", N, ["lit", 2, "BIGINT"], NULL]], 1, True),
        (["in", N, [["lit", 1, "BIGINT"], NULL]], 1, True),
        (["in", N, [["lit", 2, "BIGINT"], NULL]], 1, None),
        (["or", [["isnull", N], ["cmp", "=", N, NULL]]], None, True),
        (["and", [TRUE, ["cmp", "=", N, NULL]]], 1, None),
        (["arith", "/", N, ["lit", 0, "BIGINT"]], 1, None),
        (["arith", "/", N, ["lit", 2, "BIGINT"]], 1, 0.5),
        (["neg", N], 3, -3),
        (["like", ["lit", "50%", "STRING"], "50\\%"], 0, True),
        (["like", ["lit", "500", "STRING"], "50\\%"], 0, False),
        (["like", ["lit", "a\nb", "STRING"], "a_b"], 0, True),
        (["like", ["lit", "ab", "STRING"], "_"], 0, False),
        (["like", ["lit", None, "STRING"], "%"], 0, None),
    ],
)
def test_expressions_have_three_values(expression: list[object], n: int | None, expected: object) -> None:
    assert oracle.value(expression, {"n": n}, 0) == expected


@share(10)
@given(cases(EVERY).filter(lambda c: c.steps < 300))
def test_empty_steps_need_no_visit(example: Case) -> None:
    assert oracle.run(example) == oracle.run(example, every_step=True)


def test_the_log_folds_to_the_answer() -> None:
    members_compared = 0

    # Few drawn cases have members, so that a run with few examples might compare none.
    @share(5)
    @given(cases(EVERY))
    @example(crowd(1, objects=20, queries=10, steps=8))
    def holds(example: Case) -> None:
        nonlocal members_compared
        state = oracle.Oracle.of(example)
        seen: list[oracle.Update] = []
        for n in oracle.moments(example):
            commands = [c for s, c in example.commands if s == n]
            seen += state.step(n, commands, [r for s, r in example.records if s == n])
            held = oracle.fold(seen)
            for query_id, query in state.queries.items():
                # The rows of merged answers wait after the answer is known, so readers hold others meanwhile.
                waits = "dwell_us" in query.spec["options"] and query.spec["kind"] != "range"
                if not query.paused and not query.changed and not waits:
                    keys = {state.key(name) for name in state.answer(query.spec, n)}
                    assert held.get(query_id, set()) == keys
                    members_compared += len(keys)

    holds()
    assert members_compared > 0
