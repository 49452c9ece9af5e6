"""Joins of a stream with a table, from text to their specs, and what is wrong with the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stqsh.lang.binder.bind import Catalogue
from stqsh.lang.errors import BindError
from stqsh.spec.stream import FileSourceSpec, TableSpec

from .binding import bound

HAS_ROW = ["not", ["isnull", ["join", 10, "oid", "oid"]]]
JOIN = {"table": "favourites", "table_id": 10, "key": "oid", "column": "oid"}
NOTHING = "no condition joins taxis and favourites"
NAME = ["join", 10, "oid", "name"]


@pytest.mark.parametrize(
    "source",
    [
        "FROM taxis M, favourites F WHERE M.oid = F.oid",
        "FROM favourites F, taxis WHERE F.oid = taxis.oid",
        "FROM taxis, favourites AS F WHERE taxis.oid = F.oid",
    ],
)
def test_a_join_is_the_condition_that_the_table_has_a_row(source: str, taxis: Catalogue) -> None:
    spec = bound(f"SUBSCRIBE SELECT status, F.name {source}", taxis).spec
    assert (spec["join"], spec["condition"]) == (JOIN, HAS_ROW)
    assert spec["select"] == [["status", ["col", "status"]], ["name", NAME]]


def test_any_column_of_the_stream_may_be_joined_with_the_key(taxis: Catalogue) -> None:
    spec = bound(
        "SUBSCRIBE SELECT n FROM taxis, favourites F WHERE status = F.oid AND name IS NULL", taxis
    ).spec
    assert spec["join"]["column"] == "status"
    assert spec["condition"] == [
        "and",
        [["isnull", ["join", 10, "status", "name"]], ["not", ["isnull", ["join", 10, "status", "oid"]]]],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("stars > 3", ["cmp", ">", ["join", 10, "oid", "stars"], ["lit", 3, "BIGINT"]]),
        ("F.name = status", ["cmp", "=", NAME, ["col", "status"]]),
        ("F.oid = 5", ["cmp", "=", ["join", 10, "oid", "oid"], ["lit", "5", "STRING"]]),
        ("oid = 5", ["cmp", "=", ["col", "oid"], ["lit", "5", "STRING"]]),
        ("since > NOW - 1 min", [
            "cmp", ">", ["join", 10, "oid", "since"], ["arith", "-", ["now"], ["dur", 60_000_000]]
        ]),
        ("name CONTAINS 'bar'", ["contains", NAME, "bar", "all"]),
    ],
)  # fmt: skip
def test_columns_of_the_table_are_tested(condition: str, expected: Any, taxis: Catalogue) -> None:
    text = f"SELECT M.* FROM taxis M, favourites F WHERE {condition} AND M.oid = F.oid"
    for query in (text, f"SUBSCRIBE {text}"):
        assert bound(query, taxis).spec["condition"] == ["and", [expected, HAS_ROW]]


def test_a_star_gives_the_table_s_columns_too(taxis: Catalogue) -> None:
    every = bound("SELECT * FROM taxis M, favourites F WHERE M.oid = F.oid", taxis).spec["select"]
    assert [name for name, _ in every][-3:] == ["name", "stars", "since"]
    of_table = bound("SELECT F.* FROM taxis M, favourites F WHERE M.oid = F.oid", taxis).spec["select"]
    assert of_table[0] == ["oid", ["join", 10, "oid", "oid"]]


def test_a_joined_object_is_looked_up(taxis: Catalogue) -> None:
    text = "SELECT name FROM taxis M, favourites F WHERE M.oid = F.oid AND M.oid = 7"
    assert bound(text, taxis).spec["lookup"] == "7"


LABELS = TableSpec(
    id=11,
    name="labels",
    columns=(("label", "STRING"), ("rank", "INT")),
    key="label",
    source=FileSourceSpec(""),
)
RANKS = TableSpec(
    id=12, name="ranks", columns=(("rank", "INT"), ("title", "STRING")), key="rank", source=FileSourceSpec("")
)


@pytest.mark.parametrize(
    "query",
    [
        "FROM taxis M, favourites F, labels L, ranks R"
        " WHERE M.oid = F.oid AND F.name = L.label AND L.rank = R.rank",
        "FROM ranks R, labels L, favourites F, taxis M"
        " WHERE R.rank = L.rank AND L.label = F.name AND F.oid = M.oid",
        "FROM ranks, favourites, taxis, labels"
        " WHERE name = label AND taxis.oid = favourites.oid AND labels.rank = ranks.rank",
    ],
)
def test_tables_are_joined_one_after_the_other(query: str, taxis: Catalogue) -> None:
    known = replace(taxis, tables={**taxis.tables, "labels": LABELS, "ranks": RANKS})
    spec = bound(f"SUBSCRIBE SELECT title, rank {query}", known).spec
    by = ["join", 11, NAME, "rank"]
    assert spec["join"] == JOIN | {
        "further": [
            {"table": "labels", "table_id": 11, "key": "label", "column": NAME},
            {"table": "ranks", "table_id": 12, "key": "rank", "column": by},
        ]
    }
    assert spec["select"] == [["title", ["join", 12, by, "title"]], ["rank", by]]
    has_row = [["not", ["isnull", one]] for one in (["join", 11, NAME, "label"], ["join", 12, by, "rank"])]
    assert spec["condition"] == ["and", [HAS_ROW, *has_row]]


def test_tables_without_a_way_to_the_stream_cannot_be_joined(taxis: Catalogue) -> None:
    known = replace(taxis, tables={**taxis.tables, "labels": LABELS, "ranks": RANKS})
    with pytest.raises(BindError) as caught:
        bound(
            "SELECT title FROM taxis M, favourites F, labels L, ranks R"
            " WHERE M.oid = F.oid AND L.rank = R.rank",
            known,
        )
    assert caught.value.message == "no condition joins taxis or a table before it and labels"


@pytest.mark.parametrize(
    ("query", "message", "hint"),
    [
        ("FROM taxis M, favourits F WHERE M.oid = F.oid", "unknown stream or table 'favourits'", None),
        ("FROM taxis M, favourites F", NOTHING, None),
        ("FROM taxis M, favourites F WHERE M.oid = F.oid OR active", NOTHING, None),
        ("FROM taxis M, favourites F WHERE M.oid < F.oid", NOTHING, None),
        ("FROM taxis M, favourites F WHERE M.status = F.name", "F.name is not the key of favourites",
         "its key is oid"),
        ("FROM taxis M, favourites F WHERE M.oid = F.oid AND M.status = F.oid", "favourites is joined twice",
         None),
        ("FROM robots R, favourites F WHERE R.id = F.oid", "cannot join: R.id is an INT, F.oid is a STRING",
         "the types of the columns of a stream or a table may be listed after its name"),
        ("FROM taxis M, favourites M WHERE M.oid = M.oid", "'M' may mean either one",
         "choose another alias"),
        ("FROM taxis M, favourites F WHERE M.oid = F.oid AND F.nam = 'x'",
         "table favourites has no column 'nam'", "its columns are oid, name, stars, since"),
        ("FROM taxis M, favourites F WHERE M.status = F.oid AND oid = 'x'",
         "'oid' is a column of both; write taxis.oid or favourites.oid", None),
    ],
)  # fmt: skip
def test_wrong_joins(query: str, message: str, hint: str | None, taxis: Catalogue) -> None:
    with pytest.raises(BindError) as caught:
        bound(f"SUBSCRIBE SELECT 1 AS one {query}", taxis)
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert caught.value.span.end > 0
