"""Aggregates bind as language.md section 7 says; each mistake is told at its place."""

from __future__ import annotations

from typing import Any

import pytest

from lang.binding import bound
from stqsh.lang.binder.bind import Catalogue
from stqsh.lang.errors import BindError
from stqsh.lang.printer.printer import to_sql
from stqsh.lang.syntax.parse import parse

SPEED, STATUS, TS = ["col", "speed"], ["col", "status"], ["col", "ts"]
M0, G0 = ["col", "m0"], ["col", "g0"]


def aggregates(text: str, catalogue: Catalogue) -> dict[str, Any]:
    spec = bound(f"SELECT {text}", catalogue).spec
    found: dict[str, Any] = spec["aggregates"]
    return found


def lit(value: int) -> list[Any]:
    return ["lit", value, "BIGINT"]


@pytest.mark.parametrize(
    ("item", "measure", "output"),
    [
        (
            "COUNT(*) + 1",
            ["count", None, "BIGINT", 0],
            ["COUNT(*) + 1", ["arith", "+", M0, lit(1)], "BIGINT"],
        ),
        ("count(speed)", ["count", SPEED, "DOUBLE", 0], ["count", M0, "BIGINT"]),
        ("COUNT(DISTINCT status) AS n", ["distinct", STATUS, "STRING", 0], ["n", M0, "BIGINT"]),
        ("SUM(small)", ["sum", ["col", "small"], "INT", 0], ["sum", M0, "BIGINT"]),
        ("SUM(level)", ["sum", ["col", "level"], "FLOAT", 0], ["sum", M0, "DOUBLE"]),
        ("AVG(n)", ["avg", ["col", "n"], "BIGINT", 0], ["avg", M0, "DOUBLE"]),
        ("MIN(ts)", ["min", TS, "TIMESTAMP", 0], ["min", M0, "TIMESTAMP"]),
        ("MAX(status)", ["max", STATUS, "STRING", 0], ["max", M0, "STRING"]),
        ("TOPK(status, 3)", ["topk", STATUS, "STRING", 3], ["topk", M0, "TOPK"]),
        ("TOPK(status)", ["topk", STATUS, "STRING", 10], ["topk", M0, "TOPK"]),
        ("HOUR(MIN(ts))", ["min", TS, "TIMESTAMP", 0], ["hour", ["fn", "HOUR", M0, [], ""], "BIGINT"]),
        (
            "AVG(LENGTH(status))",
            ["avg", ["fn", "LENGTH", STATUS, [], ""], "BIGINT", 0],
            ["avg", M0, "DOUBLE"],
        ),
    ],
)
def test_an_aggregate_binds(item: str, measure: Any, output: Any, taxis: Catalogue) -> None:
    found = aggregates(f"{item} FROM taxis", taxis)
    assert (found["measures"], found["select"]) == ([measure], [output])


@pytest.mark.parametrize(
    ("text", "group", "output"),
    [
        ("status FROM taxis GROUP BY status", [STATUS, "STRING"], ["status", G0, "STRING"]),
        ("M.status FROM taxis M GROUP BY status", [STATUS, "STRING"], ["status", G0, "STRING"]),
        ("HOUR(ts) AS h FROM taxis GROUP BY h", [["fn", "HOUR", TS, [], ""], "BIGINT"], ["h", G0, "BIGINT"]),
        ("HOUR(ts) + 1 AS h FROM taxis GROUP BY HOUR(ts)", [["fn", "HOUR", TS, [], ""], "BIGINT"],
         ["h", ["arith", "+", G0, lit(1)], "BIGINT"]),
        ("n / 2 FROM taxis GROUP BY n / 2", [["arith", "/", ["col", "n"], lit(2)], "DOUBLE"],
         ["n / 2", G0, "DOUBLE"]),
        ("REGION(zones) FROM taxis GROUP BY REGION(zones)", [["region_of", 21, None], "STRING"],
         ["region", G0, "STRING"]),
        ("active FROM taxis GROUP BY active", [["col", "active"], "BOOLEAN"], ["active", G0, "BOOLEAN"]),
        ("name FROM taxis M, favourites F WHERE M.oid = F.oid GROUP BY F.name",
         [["join", 10, "oid", "name"], "STRING"], ["name", G0, "STRING"]),
    ],
)  # fmt: skip
def test_a_group_binds(text: str, group: Any, output: Any, taxis: Catalogue) -> None:
    found = aggregates(text, taxis)
    assert (found["groups"], found["select"]) == ([group], [output])


def test_having_order_and_limit_see_groups_and_names(taxis: Catalogue) -> None:
    text = """status, COUNT(*) AS cabs FROM taxis GROUP BY status
        HAVING cabs > 1 AND status <> 'x' AND AVG(speed) > 3
        ORDER BY cabs DESC, MAX(ts) NULLS FIRST, status LIMIT 4"""
    found = aggregates(text, taxis)
    assert [measure[0] for measure in found["measures"]] == ["count", "avg", "max"]
    assert found["having"] == [
        "and",
        [
            ["cmp", ">", M0, lit(1)],
            ["cmp", "<>", G0, ["lit", "x", "STRING"]],
            ["cmp", ">", ["col", "m1"], lit(3)],
        ],
    ]
    assert (found["order"], found["limit"]) == (
        [[M0, True, False], [["col", "m2"], False, True], [G0, False, False]],
        4,
    )


def test_times_of_groups_compare_with_now(taxis: Catalogue) -> None:
    found = aggregates("COUNT(*) FROM taxis HAVING MAX(ts) > NOW - 5 s AND MIN(ts) < '1970-01-01'", taxis)
    late, early = found["having"][1]
    assert late == ["cmp", ">", ["col", "m1"], ["arith", "-", ["now"], ["dur", 5_000_000]]]
    assert early == ["cmp", "<", ["col", "m2"], ["lit", 0, "TIMESTAMP"]]


def test_a_window_has_a_length(taxis: Catalogue) -> None:
    assert (
        bound("SELECT COUNT(*) FROM taxis WINDOW 5 min SLIDE 1 min", taxis).spec["window_us"] == 300_000_000
    )


@pytest.mark.parametrize(
    ("text", "kind", "every_us", "window_us"),
    [
        ("FROM taxis NEAREST 3 TO '7'", "nearest_aggregate", None, None),
        ("FROM taxis NEAREST 3 TO '7' SYNC 5 s", "refreshed_nearest", 5_000_000, None),
        ("FROM posts NEAREST 3 TO (1, 2) WINDOW 5 s", "refreshed_nearest", 5_000_000, 5_000_000),
        (
            "FROM taxis WHERE loc INSIDE campus NEAREST 3 TO '7' WINDOW 5 s SLIDE 1 s",
            "refreshed_nearest",
            1_000_000,
            5_000_000,
        ),
        (
            "FROM taxis T, favourites F WHERE T.oid = F.oid AND stars > 3 NEAREST 3 TO '7' SYNC 5 s",
            "refreshed_nearest",
            5_000_000,
            None,
        ),
        ("FROM taxis SYNC 5 s", "aggregate", 5_000_000, None),
    ],
)
def test_the_kind_says_whether_neighbours_are_followed_or_refreshed(
    text: str, kind: str, every_us: int | None, window_us: int | None, taxis: Catalogue
) -> None:
    spec = bound(f"REGISTER QUERY q AS SELECT COUNT(*) {text}", taxis).spec
    assert (spec["kind"], spec.get("sync_us"), spec.get("window_us")) == (kind, every_us, window_us)


def test_regions_that_groups_use_are_those_of_the_query(taxis: Catalogue) -> None:
    text = "SELECT REGION(zones), COUNT(*) FROM taxis INSIDE campus GROUP BY REGION(zones)"
    assert bound(text, taxis).spec["areas"] == [20, 21]
    assert bound("SELECT REGION(zones) FROM taxis", taxis).spec["areas"] == [21]


MISTAKES = [
    ("oid, COUNT(*) FROM taxis", "oid", "oid is neither grouped nor within an aggregate"),
    ("status, speed FROM taxis GROUP BY status", "speed",
     "speed is neither grouped nor within an aggregate"),
    ("COUNT(*) FROM taxis GROUP BY status ORDER BY oid", "oid",
     "oid is neither grouped nor within an aggregate"),
    ("COUNT(*) FROM taxis HAVING speed > 3", "speed", "speed is neither grouped nor within an aggregate"),
    ("status FROM taxis HAVING COUNT(*) > 3", "status", "status is neither grouped nor within an aggregate"),
    ("REGION(zones), COUNT(*) FROM taxis", "REGION",
     "REGION(zones) is neither grouped nor within an aggregate"),
    ("COUNT(*) FROM taxis GROUP BY status ORDER BY REGION(zones)", "REGION",
     "REGION(zones) is neither grouped nor within an aggregate"),
    ("COUNT(*) FROM taxis HAVING loc INSIDE campus", "loc",
     "loc INSIDE campus is neither grouped nor within an aggregate"),
    ("COUNT(*) FROM taxis WHERE SUM(n) > 3", "SUM", "an aggregate cannot be tested in WHERE"),
    ("COUNT(*) FROM taxis GROUP BY MAX(n)", "MAX", "an aggregate cannot stand in GROUP BY"),
    ("COUNT(*) AS c FROM taxis GROUP BY c", "COUNT", "an aggregate cannot stand in GROUP BY"),
    ("SUM(MAX(n)) FROM taxis", "MAX", "an aggregate cannot stand within another"),
    ("MIN(n + COUNT(*)) FROM taxis", "COUNT", "an aggregate cannot stand within another"),
    ("* FROM taxis GROUP BY status", "*", "* stands for all columns, which are not grouped"),
    ("COUNT(*) FROM taxis GROUP BY 1.5", "1.5", "GROUP BY takes columns and expressions, not constants"),
    ("COUNT(*) AS c FROM taxis GROUP BY 2", "2", "GROUP BY 2: the last column of the select list is 1"),
    ("COUNT(*) FROM taxis GROUP BY sped", "sped", "stream taxis has no column 'sped'"),
    ("SUM(status) FROM taxis", "status", "SUM takes numbers, but status is a STRING"),
    ("AVG(status) FROM taxis", "status", "AVG takes numbers, but status is a STRING"),
    ("SUM(ts) FROM taxis", "ts", "SUM takes numbers, but ts is a TIMESTAMP"),
    ("MIN(active) FROM taxis", "active",
     "MIN takes numbers, timestamps and strings, but active is a BOOLEAN"),
    ("AVG(5 min) FROM taxis", "5 min", "AVG takes numbers, but 5 min is a duration"),
    ("TOPK(n, 3) FROM taxis", "n", "TOPK takes a text, but n is a BIGINT"),
    ("TOPK(status, 0) FROM taxis", "0", "the number of terms must be a whole number from 1 to 10000"),
    ("TOPK(status, 1.5) FROM taxis", "1.5", "the number of terms must be a whole number from 1 to 10000"),
    ("TOPK(status, n) FROM taxis", "n", "the number of terms must be a whole number from 1 to 10000"),
    ("TOPK(status, 3, 4) FROM taxis", "TOPK", "TOPK takes a text and a number of terms"),
    ("COUNT() FROM taxis", "COUNT", "COUNT takes one argument"),
    ("COUNT(DISTINCT *) FROM taxis", "COUNT", "COUNT takes one argument"),
    ("SUM(*) FROM taxis", "SUM", "SUM takes one argument"),
    ("SUM(DISTINCT n) FROM taxis", "SUM", "DISTINCT is for COUNT, not for SUM"),
    ("TOPK(status, 3) FROM taxis HAVING TOPK(status, 3) = 'x'", "TOPK",
     "TOPK(status, 3) is a list of terms, and cannot be compared"),
    ("TOPK(status, 3) FROM taxis ORDER BY TOPK(status, 3)", "TOPK", "cannot order by TOPK(status, 3)"),
    ("TOPK(status, 3) FROM taxis ORDER BY 1", "1", "cannot order by 1"),
    ("COUNT(*) AS c, SUM(n) AS c FROM taxis", "SUM", "two columns of the answer are called 'c'"),
    ("COUNT(*) FROM taxis WINDOW 1 min SLIDE 5 s SYNC 10 s", "5 s",
     "SYNC and SLIDE differ, but both say when the query is refreshed"),
    ("COUNT(*) FROM taxis WINDOW 0 s", "0 s", "WINDOW must be at least a microsecond"),
    ("AVG(DISTANCE) FROM taxis", "DISTANCE",
     "DISTANCE is for CIRCLE and NEAREST: there is no place to measure from"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "place", "message"), MISTAKES)
def test_a_mistake_is_told_at_its_place(text: str, place: str, message: str, taxis: Catalogue) -> None:
    statement = f"SELECT {text}"
    with pytest.raises(BindError) as caught:
        bound(statement, taxis)
    assert caught.value.message == message
    span = caught.value.span
    assert statement[span.start : span.end].startswith(place)


def test_a_place_is_grouped_as_a_whole(taxis: Catalogue) -> None:
    found = aggregates(
        "loc INSIDE campus AS home, COUNT(*) FROM taxis GROUP BY home HAVING loc INSIDE campus", taxis
    )
    assert found["having"] == ["col", "g0"]


def test_a_remedy_fits_the_type_of_the_column(taxis: Catalogue) -> None:
    for column, remedy in (
        ("speed", "put it into GROUP BY, or choose one of its values: MIN(speed)"),
        ("active", "put it into GROUP BY"),
        ("loc INSIDE campus", "put it into GROUP BY"),
        ("SUM(active)", "COUNT(x) takes other values"),
        ("SUM(ts)", "COUNT(x), MIN and MAX take other values"),
    ):
        with pytest.raises(BindError) as caught:
            bound(f"SELECT {column}, COUNT(*) FROM taxis", taxis)
        assert caught.value.hint == remedy


def test_calls_print_as_they_are_read() -> None:
    text = "SELECT COUNT(DISTINCT status) AS n, TOPK(body, 3) AS top FROM posts GROUP BY HOUR(ts)"
    [statement] = parse(text)
    assert to_sql(statement) == text
    assert parse(to_sql(statement)) == [statement]


def test_distinct_groups_by_the_whole_select_list(taxis: Catalogue) -> None:
    found = aggregates("DISTINCT status, HOUR(ts) AS h FROM taxis ORDER BY h LIMIT 3", taxis)
    same = "status, HOUR(ts) AS h FROM taxis GROUP BY status, HOUR(ts) ORDER BY h LIMIT 3"
    assert found == aggregates(same, taxis)
    assert bound("SELECT DISTINCT * FROM taxis", taxis).spec.get("aggregates") is None


def test_a_distinct_query_orders_by_what_it_shows(taxis: Catalogue) -> None:
    with pytest.raises(BindError, match="speed is neither grouped nor within an aggregate"):
        bound("SELECT DISTINCT status FROM taxis ORDER BY speed", taxis)


@pytest.mark.parametrize(
    "query",
    [
        "status, COUNT(*) AS c FROM taxis GROUP BY status, n",
        "status FROM taxis GROUP BY status, n HAVING n > 3",
        "COALESCE(n, 0) AS c FROM taxis GROUP BY n, status",
        "COUNT(*) + 1 AS c FROM taxis GROUP BY status ORDER BY c DESC, 1 LIMIT 2",
    ],
)
def test_a_distinct_query_that_computes_values_of_hidden_groups_counts_equal_rows_once(
    query: str, taxis: Catalogue
) -> None:
    found, all_rows = aggregates(f"DISTINCT {query}", taxis), aggregates(query, taxis)
    assert found == all_rows | {"distinct": True}


def test_such_a_query_is_ordered_by_what_it_shows(taxis: Catalogue) -> None:
    with pytest.raises(BindError) as caught:
        bound("SELECT DISTINCT status, COUNT(*) FROM taxis GROUP BY status, n ORDER BY 1, MAX(n)", taxis)
    assert caught.value.message == "SELECT DISTINCT is ordered by what it shows, and MAX(n) is not shown"
    order = aggregates("DISTINCT status, COUNT(*) AS c FROM taxis GROUP BY status, n ORDER BY c + 1", taxis)
    assert order["distinct"] and len(order["order"]) == 1
