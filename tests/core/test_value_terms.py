"""Queries that require values of columns: found like those that require words, they say the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.slots import SPEC, UNIT, Slot, of_kind, register, updates
from stqsh.core.matching import keyword_queries
from stqsh.core.state.interner import Interner
from stqsh.core.state.slot_state import SlotState, restore, snapshot
from stqsh.core.texts import access_path, keyword_index
from stqsh.core.texts.value_terms import ValueColumn, constant_term, required_values, stored_terms
from stqsh.spec.chunk import unpack
from stqsh.spec.expression import ColumnExpr, CompareExpr, LiteralExpr

COLUMNS = [
    *SPEC["columns"],  # status STRING, n BIGINT
    ["i", "INT"],
    ["f", "FLOAT"],
    ["d", "DOUBLE"],
    ["b", "BOOLEAN"],
    ["t", "TIMESTAMP"],
]
BIG = 2**53
REGIONS = [
    UNIT,
    {"type": "rect", "x1": -9.0, "y1": -9.0, "x2": 9.0, "y2": 9.0},
    {"type": "rect", "x1": 0.9, "y1": -0.1, "x2": 1.1, "y2": 0.1},
    {"type": "circle", "x": 0.0, "y": 0.0, "radius": 1.0},
]


def equals(column: str, value: object, kind: str) -> list[object]:
    return ["cmp", "=", ["col", column], ["lit", value, kind]]


EQUALITIES = [
    *(equals("status", word, "STRING") for word in ("fire", "Fire", "fire alarm", "", "never said", None)),
    *(equals("n", number, "BIGINT") for number in (0, 1, BIG + 1, None)),
    *(equals("n", number, "DOUBLE") for number in (1.0, -0.0, 0.5, float(BIG))),
    *(equals("i", number, kind) for number, kind in ((1, "BIGINT"), (1.0, "DOUBLE"))),
    *(equals("f", number, kind) for number, kind in ((0, "BIGINT"), (0.1, "DOUBLE"), (-0.0, "DOUBLE"))),
    *(equals("d", number, kind) for number, kind in ((0, "BIGINT"), (0.1, "DOUBLE"), (-0.0, "DOUBLE"))),
    *(equals("b", truth, "BOOLEAN") for truth in (True, False)),
    *(equals("t", instant, "TIMESTAMP") for instant in (0, 1_000_000)),
    ["cmp", "=", ["lit", 1, "BIGINT"], ["col", "n"]],
    equals("oid", "b", "STRING"),
    equals("x", 1, "BIGINT"),
]
WORDS = [
    ["contains", ["col", "status"], asked, how] for asked in ("fire", "fire alarm") for how in ("all", "any")
]
ATOMS = st.sampled_from([*EQUALITIES, *WORDS, ["cmp", ">", ["col", "n"], ["lit", 0, "BIGINT"]]])
PARTS = st.one_of(
    ATOMS,
    ATOMS,
    st.builds(lambda some: ["or", some], st.lists(ATOMS, min_size=2, max_size=2)),
    st.builds(lambda one: ["not", one], ATOMS),
)
CONDITIONS = st.lists(PARTS, max_size=3).map(
    lambda parts: ["and", parts] if len(parts) > 1 else (parts or [None])[0]
)
QUERIES = st.lists(st.tuples(st.sampled_from(REGIONS), CONDITIONS), min_size=1, max_size=5)
ROWS = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.sampled_from([0.0, 1.0, 5.0, None]),
        st.sampled_from([None, "fire", "Fire", "fire alarm", ""]),
        st.sampled_from([None, 0, 1, BIG, BIG + 1]),
        st.sampled_from([None, 0, 1]),
        st.sampled_from([None, 0.0, -0.0, 0.1, float("nan")]),
        st.sampled_from([None, 0.0, -0.0, 0.1, float("nan"), float("inf")]),
        st.sampled_from([None, True, False]),
        st.sampled_from([None, 0, 1_000_000]),
    ),
    max_size=6,
)


def run(
    kind: str, batches: list[list[tuple[object, ...]]], early: list[object], late: list[object]
) -> Iterator[tuple[object, ...]]:
    """Yield the updates of each batch: queries come in the first and third, and one is replaced."""
    slot = Slot(kind=kind, keep_us=2_000_000 if kind == "event" else None, columns=COLUMNS, text="status")
    count = len(early)
    commands = {
        1: [register(i, *query) for i, query in enumerate(early, 1)],
        3: [register(i, *query) for i, query in enumerate(late, count + 1)],
        4: [{"op": "drop", "id": 1}, register(count + len(late) + 1, *early[0])],
    }
    for step, rows in enumerate(batches, 1):
        slot.state = restore(snapshot(slot.state))
        given_ = [
            (step, f"{key}{step}" if kind == "event" else key, x, 0.0, step, *rest) for key, x, *rest in rows
        ]
        out = slot.batch(step, step, given_, commands.get(step, ()))
        shown = [row for chunk in of_kind(out, "rows") for row in unpack(chunk.payload).to_pylist()]
        yield sorted(updates(out)), sorted(map(repr, shown))


@pytest.mark.parametrize("kind", ["moving", "event"])
@given(early=QUERIES, late=QUERIES, batches=st.lists(ROWS, max_size=6), pairs=st.sampled_from([0, 24]))
def test_updates_are_the_same_with_values_as_terms_and_without(kind, early, late, batches, pairs) -> None:
    found = []
    for is_plain in (False, True):
        with ExitStack() as patches:
            patches.enter_context(mock.patch.object(keyword_index, "_FIRST_LOOK", 3))
            patches.enter_context(mock.patch.object(access_path, "_PAIRS", -1 if is_plain else pairs))
            if is_plain:
                patches.enter_context(mock.patch.object(keyword_queries, "required_values", return_value=()))
            found.append([*run(kind, batches, early, late)])
    assert found[0] == found[1]


def test_equal_numbers_have_one_term_and_others_have_not() -> None:
    pool = Interner(SlotState.fresh(0), "strings")
    double, integer = ValueColumn("d", "DOUBLE"), ValueColumn("n", "BIGINT")
    [zero] = constant_term(double, 0).to_pylist()
    stored = stored_terms(double, np.array([0.0, -0.0, 1.0], np.float32), pool).to_pylist()
    assert stored[:2] == [zero, zero] != stored[1:]
    assert stored[2] == constant_term(double, 1).to_pylist()[0] != constant_term(integer, 1).to_pylist()[0]
    assert stored_terms(integer, np.array([1]), pool) == constant_term(integer, 1)
    assert constant_term(ValueColumn("m", "BIGINT"), 1) != constant_term(integer, 1)


@pytest.mark.parametrize(
    ("column", "literal", "compared"),
    [
        ("INT", "BIGINT", "BIGINT"),
        ("BIGINT", "DOUBLE", "DOUBLE"),
        ("FLOAT", "BIGINT", "DOUBLE"),
        ("TIMESTAMP", "TIMESTAMP", "BIGINT"),
        ("STRING", "STRING", "STRING"),
        ("TIMESTAMP", "DOUBLE", None),
        ("STRING", "BIGINT", None),
    ],
)
def test_values_are_compared_as_conditions_compare_them(column, literal, compared) -> None:
    condition = CompareExpr("=", LiteralExpr(1, literal), ColumnExpr("c"))
    expected = () if compared is None else ((ValueColumn("c", compared), 1),)
    assert required_values(condition, {"c": column}) == expected
    assert required_values(condition, {"other": column}) == ()
    assert required_values(CompareExpr("=", ColumnExpr("c"), LiteralExpr(None, literal)), {"c": column}) == ()


TOPICS = 40


def posts(step: int, count: int = 200) -> list[tuple[object, ...]]:
    return [(step, f"{step} {i}", 0.5, 0.5, step, f"topic {i % TOPICS}", i % TOPICS) for i in range(count)]


def topical(slot: Slot, *, at: int = 1, each: int = 3) -> list[Slot]:
    """Register some queries about each topic, each with the whole area."""
    return [
        register(at + i, REGIONS[1], equals("status", f"topic {i % TOPICS}", "STRING"))
        for i in range(each * TOPICS)
    ]


def test_a_record_meets_only_the_queries_that_require_its_value() -> None:
    slot = Slot(kind="event", keep_us=0)
    slot.batch(1, 1, posts(1), topical(slot))
    slot.batch(2, 2, posts(2))
    assert slot.state.array("s1/range/matched").tolist() == [200 // TOPICS] * 3 * TOPICS
    assert (slot.state.array("s1/range/tested") == slot.state.array("s1/range/matched")).all()


def test_small_boxes_are_in_the_grid_and_come_back_to_the_trees_when_records_crowd_there(monkeypatch) -> None:
    monkeypatch.setattr(keyword_index, "_FIRST_LOOK", 100)
    slot = Slot(kind="event", keep_us=0, bounds=[-9.0, -9.0, 9.0, 9.0])
    far = [(1, f"far {i}", -5.0, -5.0, 1, "topic 0", 0) for i in range(150)]
    queries = [register(i, UNIT, equals("status", f"topic {i % TOPICS}", "STRING")) for i in range(1, 1000)]
    slot.batch(1, 1, far, queries)
    slot.batch(2, 2, posts(2, 1))
    in_trees = lambda: int((~np.isnan(slot.state.array("s1/range/keywords/asked/box")[::4])).sum())  # noqa: E731
    assert in_trees() == 0
    out = slot.batch(3, 3, posts(3, 800))
    assert len(updates(out)) == sum(800 // TOPICS for _ in range(1, 1000))
    slot.batch(4, 4, posts(4, 10))
    assert in_trees() == 999


def test_values_of_queries_that_are_gone_take_no_memory() -> None:
    slot = Slot(kind="event", keep_us=0)
    slot.batch(1, 1, posts(1), [register(1, REGIONS[1], equals("n", 0, "BIGINT"))])
    for step in range(2, 26, 2):
        some = range(1000 * step, 1000 * step + 2000)
        slot.batch(step, step, posts(step), [register(i, REGIONS[1], equals("n", i, "BIGINT")) for i in some])
        slot.batch(step + 1, step + 1, (), [{"op": "drop", "id": i} for i in some])
    assert len(slot.state.array("s1/terms/counts")) < 12_000
    slot.batch(26, 26, posts(26), [{"op": "drop", "id": 1}])
    assert not slot.state.names(("s1/terms/", "s1/range/keywords/"))
    assert not slot.state.entry("value_columns")


def test_queries_that_are_only_refreshed_are_in_no_tree() -> None:
    slot = Slot(kind="event", keep_us=None, text="status")
    aggregates = {
        "measures": [["count", None]],
        "select": [["c", ["col", "m0"], "BIGINT"]],
        "sync_us": 2_000_000,
    }
    condition = ["and", [["contains", ["col", "status"], "topic", "all"], equals("n", 1, "BIGINT")]]
    query = {"id": 1, "kind": "aggregate", "region": UNIT, "condition": condition, "aggregates": aggregates}
    slot.batch(1, 1, posts(1), [{"op": "register", "query": query}])
    out = slot.batch(2, 3, posts(2))
    assert np.isnan(slot.state.array("s1/aggregate/keywords/asked/box")).all()
    members = sum(row[6] == 1 for row in posts(1))  # those that the refresh counted; no other post was tested
    assert slot.state.array("s1/aggregate/tested").tolist() == [members]
    assert of_kind(out, "partial/aggregate")
