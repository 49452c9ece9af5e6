"""Conditions that a column equals a constant: tested at once for all pairs, they say what evaluation says."""

from __future__ import annotations

from contextlib import nullcontext
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budget import times

from core.slots import Slot, of_kind, register, updates
from stqsh.core.matching import query_conditions
from stqsh.core.matching.condition_templates import split
from stqsh.core.matching.query_conditions import QueryConditions
from stqsh.spec.expression import AndExpr, ColumnExpr, CompareExpr, ContainsExpr, LiteralExpr, OrExpr

EVERYWHERE = {"type": "rect", "x1": -9.0, "y1": -9.0, "x2": 9.0, "y2": 9.0}
STATUS, NUMBER = ["col", "status"], ["col", "n"]


def text(value: str) -> list[object]:
    return ["cmp", "=", STATUS, ["lit", value, "STRING"]]


def number(value: int, operator: str = "=") -> list[object]:
    return ["cmp", operator, NUMBER, ["lit", value, "INT"]]


CONDITIONS = st.sampled_from(
    [
        None,
        *(text(value) for value in ("free", "busy", "", "never said")),
        *(number(value) for value in (0, 1, 2, -1)),
        ["cmp", "=", NUMBER, ["lit", 1.0, "DOUBLE"]],
        ["cmp", "=", ["col", "oid"], ["lit", "b", "STRING"]],
        ["cmp", "=", ["col", "x"], ["lit", 1, "INT"]],
        ["and", [text("free"), number(1)]],
        ["and", [number(1), number(2)]],
        ["and", [number(1), number(0, ">")]],
        ["and", [text("busy"), ["contains", STATUS, "busy", "all"]]],
        ["or", [text("free"), number(1)]],
        ["not", text("free")],
        ["cmp", "=", STATUS, ["lit", None, "STRING"]],
    ]
)
ROWS = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.sampled_from([-10.0, 0.0, 1.0, None]),
        st.sampled_from([None, "free", "busy", ""]),
        st.sampled_from([None, 0, 1, 2]),
    ),
    max_size=6,
)


@pytest.mark.parametrize("kind", ["moving", "event"])
@times(3)
@given(conditions=st.lists(CONDITIONS, min_size=1, max_size=6), batches=st.lists(ROWS, max_size=5))
def test_updates_are_those_of_evaluation(kind, conditions, batches) -> None:
    found = []
    for is_plain in (False, True):
        slot = Slot(kind=kind, keep_us=2_000_000 if kind == "event" else None)
        commands = [register(i, EVERYWHERE, condition) for i, condition in enumerate(conditions, 1)]
        plain = mock.patch.object(query_conditions, "clear_unequal_pairs", return_value=set())
        with plain if is_plain else nullcontext():
            out = []
            for step, rows in enumerate(batches, 1):
                given_ = [
                    (step, f"{key}{step}" if kind == "event" else key, x, 0.0, step, status, n)
                    for key, x, status, n in rows
                ]
                out.append(slot.batch(step, step, given_, commands if step == 1 else ()))
        found.append([(updates(one), [chunk.payload for chunk in of_kind(one, "rows")]) for one in out])
    assert found[0] == found[1]


def test_a_plain_equality_is_not_evaluated() -> None:
    slot = Slot()
    with mock.patch.object(QueryConditions, "_truth", side_effect=AssertionError("evaluated")):
        out = slot.batch(
            1,
            1,
            [(1, "a", 0, 0, 1, "free", 1), (1, "b", 0, 0, 1, "busy", 2), (1, "c", 0, 0, 1, None, None)],
            [register(1, EVERYWHERE, text("free")), register(2, EVERYWHERE, number(2))],
        )
        later = slot.batch(2, 2, [(2, "a", 0, 0, 2, "busy", 2), (2, "b", 0, 0, 2, "busy", None)])
    # What holds when a query begins is found in the same way.
    assert [one[:4] for one in sorted(updates(out))] == [(1, 1, "+", "a"), (1, 2, "+", "b")]
    assert [one[:4] for one in sorted(updates(later))] == [
        (2, 1, "-", "a"),
        (2, 2, "+", "a"),
        (2, 2, "-", "b"),
    ]


def test_templates_know_the_columns_that_must_equal_a_constant() -> None:
    status, n = ColumnExpr("status"), ColumnExpr("n")
    free, one = (
        CompareExpr("=", status, LiteralExpr("free", "STRING")),
        CompareExpr("=", n, LiteralExpr(1, "INT")),
    )
    both, _ = split(AndExpr((free, one)))
    assert (both.equalities, both.is_equality) == ({"status": 0, "n": 1}, True)
    more, _ = split(AndExpr((ContainsExpr(status, "free", "all"), one)))
    assert (more.equalities, more.is_equality) == ({"n": 1}, False)
    twice, _ = split(AndExpr((one, CompareExpr("=", n, LiteralExpr(2, "INT")))))
    assert not twice.is_equality
    either, _ = split(OrExpr((free, one)))
    assert (either.equalities, either.is_equality) == ({}, False)
    between, _ = split(CompareExpr("=", n, status))
    assert between.equalities == {}
