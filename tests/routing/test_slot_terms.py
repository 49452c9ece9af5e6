"""What records must contain to be of use to slots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies.conditions import ASKED

from stqsh.core.texts.tokenizer import needed_words, tokens
from stqsh.routing.cells import Cells
from stqsh.routing.slot_terms import FOR_EVER, NeededTerms, SlotTerms
from stqsh.routing.table import HASHED, RoutingTable
from stqsh.spec.command import RegisterCommand
from stqsh.spec.expression import (
    AndExpr,
    ColumnExpr,
    CompareExpr,
    ContainsExpr,
    Expr,
    LiteralExpr,
    Match,
    NotExpr,
    OrExpr,
)
from stqsh.spec.query import Members, SlotQuery
from stqsh.spec.query_rows import Path, QueryRows
from stqsh.spec.region import MovingCircleSpec, RectangleSpec, Region
from stqsh.spec.stream import ColumnSpec, FileSourceSpec, StreamSpec

BODY = ColumnExpr("body")
STREAM = StreamSpec(
    id=1,
    name="posts",
    kind="event",
    columns=tuple(
        ColumnSpec(*column)
        for column in {
            "id": "BIGINT",
            "x": "DOUBLE",
            "y": "DOUBLE",
            "ts": "TIMESTAMP",
            "body": "STRING",
        }.items()
    ),
    key="id",
    x="x",
    y="y",
    time="ts",
    text="body",
    keep_us=0,
    source=FileSourceSpec(""),
)
ANYWHERE = RectangleSpec(-9.0, -9.0, 9.0, 9.0)
FREE = CompareExpr("=", ColumnExpr("id"), LiteralExpr(3, "BIGINT"))


def contains(phrase: str, match: Match = "all") -> ContainsExpr:
    return ContainsExpr(BODY, phrase, match)


def query(condition: Expr | None, number: int = 1, region: Region = ANYWHERE) -> RegisterCommand:
    return RegisterCommand(
        query=SlotQuery(id=number, kind="range", members=Members(region=region, condition=condition))
    )


def needs(*queries: RegisterCommand | QueryRows, boxes: list[list[float]] | None = None) -> NeededTerms:
    count = sum(len(one.ids) if isinstance(one, QueryRows) else 1 for one in queries)
    places = np.tile(np.array([-9.0, -9.0, 9.0, 9.0]), (count, 1)) if boxes is None else np.array(boxes)
    return NeededTerms.of(queries, places, np.full(count, FOR_EVER), STREAM)


def useful(terms: SlotTerms, slot: int, *texts: str | None) -> list[bool]:
    found: list[bool] = terms.are_useful(slot, pa.array(texts, pa.string())).tolist()
    return found


def of_one_slot(*queries: RegisterCommand | QueryRows) -> SlotTerms:
    terms = SlotTerms.of_nothing(1)
    terms.add(needs(*queries), None)
    return terms


@pytest.mark.parametrize(
    ("phrase", "every", "words"),
    [
        ("a street light", True, ["street"]),
        ("Light LIGHT hole", True, ["light"]),
        ("hole pits", True, ["hole"]),
        ("a street light", False, ["a", "street", "light"]),
        ("!!!", True, []),
        ("", False, []),
    ],
)
def test_all_words_need_the_longest_and_any_of_them_each(phrase: str, every: bool, words: list[str]) -> None:
    count, found = needed_words(pa.array([phrase]), np.array([every]))
    assert (count.tolist(), found.to_pylist()) == ([len(words)], words)


def test_records_are_of_use_that_have_a_needed_word() -> None:
    terms = of_one_slot(query(contains("street light")), query(contains("hole pits", "any"), 2))
    assert not terms.needs_all(0)
    texts = ("Street art", "light", "no hole", "PITS!", None, "", "streets")
    assert useful(terms, 0, *texts) == [True, False, True, True, False, False, False]


def test_without_queries_no_record_is_of_use() -> None:
    assert useful(SlotTerms.of_nothing(1), 0, "a", None) == [False, False]


@pytest.mark.parametrize(
    "condition",
    [
        None,
        FREE,
        contains("!!!"),
        OrExpr((contains("light"), FREE)),
        NotExpr(contains("light")),
        ContainsExpr(ColumnExpr("other"), "light", "all"),
    ],
)
def test_queries_that_require_no_word_need_all_records(condition: Expr | None) -> None:
    assert of_one_slot(query(condition)).needs_all(0)


def test_moving_regions_need_all_records() -> None:
    around = MovingCircleSpec(focal=1, radius=2.0)
    assert of_one_slot(query(contains("light"), region=around)).needs_all(0)


def test_slots_need_what_the_queries_over_their_cells_need() -> None:
    cells = Cells((0.0, 0.0, 2.0, 2.0), 2)
    leaf = np.array([[0, 1], [0, 2]], np.int32)
    table = RoutingTable("grid", cells, leaf, np.array([0, 1, HASHED], np.int16), 3)
    terms = SlotTerms.of_nothing(3)
    boxes = [[0.1, 0.1, 0.2, 0.2], [1.1, 0.1, 1.2, 0.2], [1.1, 1.1, 1.2, 1.2]]
    words = ("left", "right", "split")
    terms.add(needs(*(query(contains(word), at) for at, word in enumerate(words)), boxes=boxes), table)
    assert [useful(terms, slot, *words) for slot in range(3)] == [
        [True, False, True],
        [False, True, True],
        [False, False, True],
    ]
    terms.add(needs(query(FREE, 4), boxes=boxes[:1]), table)
    assert [terms.needs_all(slot) for slot in range(3)] == [True, False, False]


def alike(condition: Expr, columns: dict[Path, list[Any]]) -> QueryRows:
    """Queries of one template, of which the first is the pattern."""
    count = len(next(iter(columns.values())))
    spec = SlotQuery(id=1, kind="range", members=Members(region=ANYWHERE, condition=condition))
    values = tuple(pa.array(some) for some in columns.values())
    return QueryRows(spec, np.arange(1, count + 1), tuple(columns), values)


phrases = st.lists(st.sampled_from([*ASKED, "", "!!!"]), min_size=1, max_size=4)


@given(phrases, st.sampled_from(["all", "any"]), st.sampled_from(["", "always there"]))
def test_queries_of_a_template_need_what_they_need_one_by_one(
    asked: list[str], match: Match, shared: str
) -> None:
    def condition(phrase: str) -> Expr:
        parts = (contains(phrase, match), *([contains(shared)] if shared else []), FREE)
        return AndExpr(parts)

    together = alike(
        condition(asked[0]),
        {("members", "condition", 1, 0, 2): asked, ("members", "region", "x1"): [0.0] * len(asked)},
    )
    one_by_one = [query(condition(phrase), number) for number, phrase in enumerate(asked, 1)]
    found, expected = needs(together), needs(*one_by_one)
    open_to_all = not tokens(pa.array(asked[:1]))[1].to_pylist() and not shared
    if open_to_all:  # the pattern requires no word
        assert found.is_open.all()
    else:
        for name, column in found._asdict().items():
            np.testing.assert_array_equal(column, getattr(expected, name))


def test_values_that_differ_elsewhere_are_no_phrases() -> None:
    status = CompareExpr("=", ColumnExpr("status"), LiteralExpr("free", "STRING"))
    rows = alike(
        AndExpr((contains("light"), status)), {("members", "condition", 1, 1, 3, 1): ["free", "busy"]}
    )
    assert useful(of_one_slot(rows), 0, "light", "free", "busy") == [True, False, False]


def test_a_phrase_that_looks_like_a_mark_is_not_taken_for_one() -> None:
    condition = AndExpr((contains("\x000\x00"), contains("x")))
    assert of_one_slot(alike(condition, {("members", "condition", 1, 1, 2): ["light", "hole"]})).needs_all(0)
