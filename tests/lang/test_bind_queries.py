"""Queries, from text to their specs, and what is wrong with or missing for the others."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

from stqsh.lang.binder.bind import Catalogue
from stqsh.lang.binder.scope import NO_CENTRE
from stqsh.lang.errors import BindError, NotSupportedError
from stqsh.lang.printer.printer import to_sql
from stqsh.lang.syntax.parse import parse

from .binding import bound


def test_a_query_has_defaults(taxis: Catalogue) -> None:
    kind, spec, _ = bound("register query q as select oid, speed v from taxis", taxis)
    assert kind == "register"
    assert spec == {
        "id": 0, "name": "q", "stream": "taxis", "stream_id": 3, "text": "SELECT oid, speed AS v FROM taxis",
        "kind": "range", "region": {"type": "all"}, "condition": None,
        "select": [["oid", ["col", "oid"]], ["v", ["col", "speed"]]], "join": None, "areas": [],
        "aggregates": None, "order": [], "limit": None,
    }  # fmt: skip


RECT = {"type": "rect", "x1": 1.0, "y1": 2.0, "x2": 3.0, "y2": 4.0}


@pytest.mark.parametrize(
    ("region", "expected"),
    [
        ("INSIDE (1, 2, 3, 4)", RECT),
        ("INSIDE RECT(3, 2, 1, 4)", RECT),
        ("WHERE loc INSIDE (3, 4, 1, 2)", RECT),
        ("INSIDE ('M', '368', 2 km, 500)", {
            "type": "moving_rect", "focal": "368", "xdist": 2000.0, "ydist": 500.0
        }),
        ("INSIDE RECT(500 m, 1 mile) AROUND 368", {
            "type": "moving_rect", "focal": "368", "xdist": 500.0, "ydist": 1609.344
        }),
        ("INSIDE CIRCLE(116, 40, 2 km)", {"type": "circle", "x": 116.0, "y": 40.0, "radius": 2000.0}),
        ("INSIDE CIRCLE(500) AROUND 7", {"type": "moving_circle", "focal": "7", "radius": 500.0}),
        ("INSIDE POLYGON((0 0, 9 0, 9 9), (1 1, 2 1, 2 2, 1 1))", {
            "type": "polygon",
            "rings": [[[0.0, 0.0], [9.0, 0.0], [9.0, 9.0], [0.0, 0.0]],
                      [[1.0, 1.0], [2.0, 1.0], [2.0, 2.0], [1.0, 1.0]]],
        }),
        ("INSIDE campus", {"type": "area", "area": 20, "name": "campus", "member": None}),
        ("WHERE loc INSIDE zones[7]", {"type": "area", "area": 21, "name": "zones", "member": "7"}),
        ("NEAREST 5 TO (116, 40)", {"type": "nearest", "k": 5, "x": 116.0, "y": 40.0}),
        ("KNN (5, 116, 40)", {"type": "nearest", "k": 5, "x": 116.0, "y": 40.0}),
        ("KNN ('M', 5, 368)", {"type": "nearest", "k": 5, "focal": "368"}),
        ("NEAREST 5 TO '368'", {"type": "nearest", "k": 5, "focal": "368"}),
    ],
)  # fmt: skip
def test_regions(region: str, expected: dict[str, Any], taxis: Catalogue) -> None:
    spec = bound(f"SUBSCRIBE SELECT * FROM taxis {region}", taxis, name="sub_1").spec
    assert (spec["region"], spec["condition"], spec["name"]) == (expected, None, "sub_1")
    assert spec["kind"] == ("nearest" if expected["type"] == "nearest" else "range")
    assert spec["areas"] == ([expected["area"]] if expected["type"] == "area" else [])


def test_a_region_in_where_leaves_the_rest_of_the_condition(taxis: Catalogue) -> None:
    spec = bound("SUBSCRIBE SELECT * FROM taxis WHERE active AND loc INSIDE (1,2,3,4) AND n = 1", taxis).spec
    assert spec["region"] == RECT
    assert spec["condition"] == ["and", [["col", "active"], ["cmp", "=", ["col", "n"], ["lit", 1, "BIGINT"]]]]


def test_a_condition_before_inside(taxis: Catalogue) -> None:
    spec = bound("SUBSCRIBE SELECT * FROM taxis WHERE active INSIDE (1, 2, 3, 4)", taxis).spec
    assert (spec["region"], spec["condition"]) == (RECT, ["col", "active"])


def test_whole_keys_of_focal_objects(taxis: Catalogue) -> None:
    for key in ("7", "'7'"):
        assert (
            bound(f"SUBSCRIBE SELECT * FROM robots INSIDE ('M', {key}, 1, 1)", taxis).spec["region"]["focal"]
            == 7
        )


def test_columns_of_the_select_list_are_named_by_number(taxis: Catalogue) -> None:
    by_number, by_name = (
        bound(f"SELECT status AS s, COUNT(*) AS n FROM taxis GROUP BY {s} ORDER BY {n} DESC", taxis).spec
        for s, n in ((1, 2), ("status", "n"))
    )
    assert by_number["aggregates"] == by_name["aggregates"]


@pytest.mark.parametrize(
    ("shown", "groups", "plain"),
    [
        ("status", "status, n", "status"),
        ("status AS s", "s, n, HOUR(ts)", "s"),
        ("status AS s, 1 AS one", "n, 1", "1"),
        ("HOUR(ts) AS h, status", "status, n, HOUR(ts)", "status, HOUR(ts)"),
    ],
)
def test_distinct_leaves_out_groups_that_are_not_shown(
    shown: str, groups: str, plain: str, taxis: Catalogue
) -> None:
    distinct = bound(f"SELECT DISTINCT {shown} FROM taxis GROUP BY {groups} ORDER BY 1 LIMIT 2", taxis).spec
    same = bound(f"SELECT {shown} FROM taxis GROUP BY {plain} ORDER BY 1 LIMIT 2", taxis).spec
    assert distinct["aggregates"] == same["aggregates"]


def test_distinct_adds_nothing_to_groups_that_are_shown(taxis: Catalogue) -> None:
    plain, distinct = (
        bound(f"SELECT {word} status AS s, n FROM taxis GROUP BY s, n", taxis).spec
        for word in ("", "DISTINCT")
    )
    assert plain["aggregates"] == distinct["aggregates"]


def test_calls_of_one_name_are_numbered(taxis: Catalogue) -> None:
    selected = bound("SELECT HOUR(ts), HOUR(seen), oid AS hour_1 FROM taxis", taxis).spec["select"]
    assert [name for name, _ in selected] == ["hour", "hour_2", "hour_1"]


def test_a_name_that_was_meant_as_a_text_is_told_of_quotes(taxis: Catalogue) -> None:
    with pytest.raises(BindError, match=r"; a text takes single quotes: 'free'"):
        bound("SELECT oid FROM taxis WHERE status = free", taxis)


def test_for(taxis: Catalogue) -> None:
    assert bound("REGISTER QUERY q FOR 10 min AS SELECT * FROM taxis", taxis).spec["for_us"] == 600_000_000


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT * FROM taxi", "unknown stream 'taxi'"),
        ("SELECT oid, oid FROM taxis", "two columns of the answer are called 'oid'"),
        ("SELECT *, oid FROM taxis", "two columns of the answer are called 'oid'"),
        ("SELECT x.* FROM taxis", "unknown stream or alias 'x'"),
        ("SELECT DISTANCE FROM taxis", NO_CENTRE),
        ("SELECT DISTANCE FROM taxis INSIDE (1, 2, 3, 4)",
         NO_CENTRE),
        ("SELECT 5 min FROM taxis", "5 min is a duration, which cannot be a column of an answer"),
        ("SELECT oid AS hour, ts AS hour FROM taxis", "two columns of the answer are called 'hour'"),
        ("SELECT * FROM favourites", "favourites is a table, but a query needs a stream"),
        ("SELECT * FROM taxis INSIDE campsu", "unknown region 'campsu'"),
        ("SELECT * FROM taxis INSIDE taxis", "unknown region 'taxis'"),
        ("SELECT * FROM taxis INSIDE campus['a']", "campus is a single region and has no members"),
        ("SELECT * FROM taxis INSIDE zones['suth']", "zones has no region 'suth'"),
        ("SELECT * FROM taxis INSIDE zones", "zones is a set of regions, but a query asks about one of them"),
        ("SELECT * FROM taxis WHERE active OR loc INSIDE zones",
         "zones is a set of regions, but a query asks about one of them"),
        ("SELECT * FROM taxis NEAREST 9999999999 TO (1, 2)",
         "NEAREST 9999999999: the number must be at most 2147483647"),
        ("SELECT * FROM taxis INSIDE POLYGON((10 50, 1e51 50, 10 51))",
         "a longitude of 1e+51 is beyond 36000"),
        ("SELECT * FROM taxis INSIDE CIRCLE(1, 2, 0)", "a length must be more than 0, such as 500 m"),
        ("SELECT * FROM taxis INSIDE CIRCLE(40, 116, 5)",
         "a latitude of 116 is beyond 90; lat and lon seem to be swapped"),
        ("SELECT * FROM taxis INSIDE POLYGON((0 0, 1 1, 0 0, 1 1))",
         "a polygon's ring has at least three different corners"),
        ("SELECT * FROM taxis INSIDE POLYGON((100 0, 101 0, 101 91))", "a latitude of 91 is beyond 90"),
        ("SELECT * FROM taxis NEAREST 0 TO (1, 2)", "NEAREST 0: the number must be at least 1"),
        ("SELECT * FROM taxis NEAREST 5 TO (1, 200)",
         "a latitude of 200 is beyond 90; lat and lon seem to be swapped"),
        ("SELECT * FROM robots NEAREST 5 TO 'r'", "the key is an INT, but 'r' is not one"),
        ("SELECT * FROM posts NEAREST 5 TO 7", "events do not move: posts has no focal objects"),
        ("SELECT * FROM posts INSIDE CIRCLE(5) AROUND 7", "events do not move: posts has no focal objects"),
        ("SELECT * FROM taxis INSIDE (39, 116, 40, 117)",
         "a latitude of 117 is beyond 90; lat and lon seem to be swapped"),
        ("SELECT * FROM taxis INSIDE (116, 39, 117, 99)", "a latitude of 99 is beyond 90"),
        ("SELECT * FROM taxis WHERE loca INSIDE (1, 2, 3, 4) AND active",
         "INSIDE takes the location, not 'loca'"),
        ("SELECT * FROM taxis INSIDE ('M', 1, 0, 5)", "a length must be more than 0, such as 500 m"),
        ("SELECT * FROM taxis INSIDE ('M', 1, -1, 5)", "a length must be more than 0, such as 500 m"),
        ("SELECT * FROM robots INSIDE ('M', 'r', 1, 5)", "the key is an INT, but 'r' is not one"),
    ],
)  # fmt: skip
def test_wrong_queries(query: str, message: str, taxis: Catalogue) -> None:
    with pytest.raises(BindError) as caught:
        bound(f"REGISTER QUERY q AS {query}", taxis)
    assert caught.value.message == message
    assert caught.value.place is not None
    assert caught.value.span.end > 0


@pytest.mark.parametrize(
    ("query", "place"),
    [("NEAREST 0 TO (1, 2)", "0"), ("KNN (0, 1, 2)", "0"), ("KNN ('M', -3, 7)", "-3")],
)
def test_a_wrong_number_of_neighbours_is_shown_where_it_stands(
    query: str, place: str, taxis: Catalogue
) -> None:
    text = f"SELECT * FROM taxis {query}"
    with pytest.raises(BindError, match="the number must be at least 1") as caught:
        bound(text, taxis)
    assert text[caught.value.span.start : caught.value.span.end] == place


def test_planar_rectangles_know_no_poles(taxis: Catalogue) -> None:
    assert (
        bound("SUBSCRIBE SELECT * FROM robots INSIDE (0, 0, 500, 500)", taxis).spec["region"]["y2"] == 500.0
    )


def test_more_regions_are_conditions(taxis: Catalogue) -> None:
    text = "SUBSCRIBE SELECT * FROM taxis WHERE loc INSIDE zones['north'] AND n = 1 AND loc INSIDE campus"
    spec = bound(text, taxis).spec
    north = {"type": "area", "area": 21, "name": "zones", "member": "north"}
    campus = {"type": "area", "area": 20, "name": "campus", "member": None}
    assert spec["region"] == north
    assert spec["condition"] == [
        "and",
        [["cmp", "=", ["col", "n"], ["lit", 1, "BIGINT"]], ["inside", campus]],
    ]
    assert spec["areas"] == [20, 21]


@pytest.mark.parametrize(
    "text",
    [
        "WHERE loc INSIDE (1, 2, 3, 4) INSIDE CIRCLE(5) AROUND '7'",
        "WHERE loc INSIDE CIRCLE(5) AROUND '7' INSIDE (1, 2, 3, 4)",
        "WHERE loc INSIDE (1, 2, 3, 4) AND loc INSIDE CIRCLE(5) AROUND '7'",
    ],
)
def test_of_several_regions_the_moving_one_is_the_query_s(text: str, taxis: Catalogue) -> None:
    spec = bound(f"SUBSCRIBE SELECT * FROM taxis {text}", taxis).spec
    assert spec["region"] == {"type": "moving_circle", "focal": "7", "radius": 5.0}
    assert spec["condition"] == ["inside", RECT]


def test_beside_nearest_regions_are_conditions(taxis: Catalogue) -> None:
    spec = bound("SUBSCRIBE SELECT * FROM taxis INSIDE (1, 2, 3, 4) NEAREST 3 TO (1, 2)", taxis).spec
    assert (spec["region"]["type"], spec["condition"]) == ("nearest", ["inside", RECT])


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ("speed * 2", [["speed * 2", ["arith", "*", ["col", "speed"], ["lit", 2, "BIGINT"]]]]),
        ("-n AS back", [["back", ["neg", ["col", "n"]]]]),
        ("HOUR(ts), DATE(time) day", [
            ["hour", ["fn", "HOUR", ["col", "ts"], [], ""]], ["day", ["fn", "DATE", ["col", "ts"], [], ""]]
        ]),
        ("DISTANCE", [["distance", ["distance"]]]),
        ("distance / 1000 AS km", [["km", ["arith", "/", ["distance"], ["lit", 1000, "BIGINT"]]]]),
        ("speed > 5 AS fast", [["fast", ["cmp", ">", ["col", "speed"], ["lit", 5, "BIGINT"]]]]),
        ("'x', NULL AS none", [["'x'", ["lit", "x", "STRING"]], ["none", ["lit", None, "STRING"]]]),
    ],
)  # fmt: skip
def test_select_lists(items: str, expected: Any, taxis: Catalogue) -> None:
    for text in ("REGISTER QUERY q AS ", ""):
        query = f"{text}SELECT {items} FROM taxis INSIDE CIRCLE(1, 2, 3)"
        assert bound(query, taxis).spec["select"] == expected


# --- options ---


def test_options_of_a_query(taxis: Catalogue) -> None:
    spec = bound("REGISTER QUERY q WITH (dwell => 5 s, kind => 'fence') AS SELECT * FROM taxis", taxis).spec
    assert (spec["kind"], spec["dwell_us"]) == ("fence", 5_000_000)


@pytest.mark.parametrize(("given", "share"), [("0.9", 0.9), ("0", 0.0), ("1", 1.0)])
def test_the_least_accuracy_of_a_query_is_a_share(given: str, share: float, taxis: Catalogue) -> None:
    text = f"REGISTER QUERY q WITH (min_accuracy => {given}) AS SELECT * FROM taxis"
    assert bound(text, taxis).spec["min_accuracy"] == share
    [statement] = parse(text)
    assert to_sql(statement) == text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("dwel => 5 s", "a query has no option 'dwel'"),
        ("dwell => 5", "dwell must be a duration, such as 5 s"),
        ("dwell => 5 m", "dwell must be a duration such as 30 s"),
        ("min_accuracy => 1.1", "min_accuracy must be a number from 0 to 1, such as 0.9"),
        ("min_accuracy => '90 %'", "min_accuracy must be a number from 0 to 1, such as 0.9"),
        ("min_accuracy => 5 s", "min_accuracy must be a number from 0 to 1, such as 0.9"),
        ("min_accuracy => TRUE", "min_accuracy must be a number from 0 to 1, such as 0.9"),
        ("kind => 5", "kind must be the name of a kind of query, in quotes"),
        ("kind => 'nearest'", "this is a range query, not a nearest query"),
    ],
)
def test_wrong_options(options: str, message: str, taxis: Catalogue) -> None:
    with pytest.raises(BindError) as caught:
        bound(f"REGISTER QUERY q WITH ({options}) AS SELECT * FROM taxis", taxis)
    assert caught.value.message == message


def test_an_option_that_does_not_exist_is_told_at_its_name(taxis: Catalogue) -> None:
    text = "REGISTER QUERY q WITH (changes => TRUE, Dwel\n => 5 s) AS SELECT * FROM taxis"
    with pytest.raises(BindError) as caught:
        bound(text, taxis)
    assert text[slice(*caught.value.span)] == "Dwel"


# --- queries with LIMIT ---


def test_a_continuous_query_with_limit_is_of_a_kind_of_its_own(taxis: Catalogue) -> None:
    text = "REGISTER QUERY q AS SELECT oid AS cab FROM taxis ORDER BY cab DESC, speed * 2 NULLS FIRST LIMIT"
    _, spec, _ = bound(f"{text} 5", taxis)
    order = [
        [["col", "oid"], True, False],
        [["arith", "*", ["col", "speed"], ["lit", 2, "BIGINT"]], False, True],
    ]
    assert (spec["kind"], spec["order"], spec["limit"]) == ("first", order, 5)


def test_order_by_alone_changes_no_continuous_query(taxis: Catalogue) -> None:
    _, spec, _ = bound("REGISTER QUERY q AS SELECT oid FROM taxis ORDER BY speed", taxis)
    assert (spec["kind"], spec["order"], spec["limit"]) == ("range", [], None)
    with pytest.raises(BindError) as caught:
        bound("REGISTER QUERY q AS SELECT oid FROM taxis ORDER BY sped", taxis)
    assert caught.value.message == "stream taxis has no column 'sped'"


@pytest.mark.parametrize(
    ("query", "kind", "order", "limit", "each_step"),
    [
        ("FROM taxis NEAREST 5 TO (1, 1) LIMIT 2", "nearest", [], None, False),
        ("FROM taxis NEAREST 5 TO (1, 1) ORDER BY DISTANCE LIMIT 2", "nearest", [], None, False),
        ("FROM taxis NEAREST 5 TO (1, 1) ORDER BY DISTANCE LIMIT 0", "nearest_first",
         [[["distance"], False, False]], 0, False),
        ("FROM taxis NEAREST 5 TO '1' ORDER BY speed DESC LIMIT 2", "nearest_first",
         [[["col", "speed"], True, False]], 2, False),
        ("FROM taxis INSIDE CIRCLE(3) AROUND '7' ORDER BY DISTANCE LIMIT 2", "first",
         [[["distance"], False, False]], 2, True),
        ("FROM taxis INSIDE CIRCLE(1, 2, 3) ORDER BY DISTANCE LIMIT 2", "first",
         [[["distance_to", 1.0, 2.0], False, False]], 2, False),
        ("FROM taxis ORDER BY ts > NOW LIMIT 2", "first",
         [[["cmp", ">", ["col", "ts"], ["now"]], False, False]], 2, True),
    ],
)  # fmt: skip
def test_the_order_decides_how_the_first_are_found(
    query: str, kind: str, order: Any, limit: int | None, each_step: bool, taxis: Catalogue
) -> None:
    spec = bound(f"REGISTER QUERY q AS SELECT oid {query}", taxis).spec
    assert (spec["kind"], spec["order"], spec["limit"]) == (kind, order, limit)
    assert spec.get("each_step", False) == each_step


@pytest.mark.parametrize(
    ("query", "kind", "each_step"),
    [
        ("COUNT(*) FROM taxis NEAREST 3 TO '7'", "nearest_aggregate", False),
        ("COUNT(*) FROM taxis NEAREST 3 TO '7' GROUP BY ts > NOW - 5 s", "refreshed_nearest", True),
        ("COUNT(*) FROM taxis NEAREST 3 TO '7' GROUP BY ts > NOW SYNC 2 s", "refreshed_nearest", False),
        ("COUNT(*) FROM taxis GROUP BY ts > NOW - 5 s", "aggregate", True),
    ],
)
def test_what_reads_now_of_members_is_computed_in_each_step(
    query: str, kind: str, each_step: bool, taxis: Catalogue
) -> None:
    spec = bound(f"REGISTER QUERY q AS SELECT {query}", taxis).spec
    assert (spec["kind"], spec.get("each_step", False)) == (kind, each_step)


def test_changes_of_a_distance_from_a_moving_object_are_looked_for_in_each_step(taxis: Catalogue) -> None:
    select = "SELECT oid, DISTANCE FROM taxis INSIDE CIRCLE(5) AROUND '1'"
    spec = bound(f"REGISTER QUERY q WITH (changes => true) AS {select}", taxis).spec
    assert (spec["kind"], spec["order"], spec["limit"], spec["each_step"]) == ("first", [], None, True)
    assert bound(f"REGISTER QUERY q AS {select}", taxis).spec["kind"] == "range"


def test_what_significant_objects_are_not_enough_for(taxis: Catalogue) -> None:
    significant = replace(taxis.streams["taxis"], retain="significant", max_speed=10.0)
    known = Catalogue({"taxis": significant}, settings=taxis.settings)
    assert bound("REGISTER QUERY q AS SELECT oid FROM taxis LIMIT 3", known).spec["kind"] == "first"
    spec = bound("REGISTER QUERY q WITH (changes => true, dwell => 1 s) AS SELECT oid FROM taxis", known).spec
    assert (spec["kind"], spec["order"], spec["limit"]) == ("first", [], None)
    spec = bound("REGISTER QUERY q WITH (dwell => 1 s) AS SELECT COUNT(*) FROM taxis", known).spec
    assert (spec["kind"], spec["order"], spec["limit"]) == ("first", [], None)


def test_moving_regions_need_not_retain_all(taxis: Catalogue) -> None:
    significant = replace(taxis.streams["taxis"], retain="significant", max_speed=10.0)
    known = Catalogue({"taxis": significant}, settings=taxis.settings)
    where = "loc INSIDE CIRCLE(3) AROUND '7' OR NOT loc INSIDE RECT(1, 2) AROUND '8'"
    spec = bound(f"REGISTER QUERY q AS SELECT oid FROM taxis WHERE {where}", known).spec
    same = bound(f"REGISTER QUERY q AS SELECT oid FROM taxis WHERE {where}", taxis).spec
    assert spec["condition"] == same["condition"]


# --- snapshots ---


def test_a_snapshot_is_a_query_that_answers_once(taxis: Catalogue) -> None:
    text = (
        "SELECT oid AS cab FROM taxis INSIDE CIRCLE(1, 2, 3) ORDER BY cab DESC, "
        "speed * 2 NULLS FIRST, DISTANCE LIMIT 5"
    )
    kind, spec, _ = bound(text, taxis)
    assert kind == "select"
    assert {"id", "name", "for_us", "dwell_us"}.isdisjoint(spec)
    assert spec["order"] == [
        [["col", "oid"], True, False],
        [["arith", "*", ["col", "speed"], ["lit", 2, "BIGINT"]], False, True],
        [["distance"], False, False],
    ]
    assert (spec["limit"], spec["lookup"], spec["aggregate"]) == (5, None, None)


@pytest.mark.parametrize(
    ("where", "lookup"),
    [
        ("oid = '368'", "368"),
        ("368 = oid", "368"),
        ("active AND oid = 368 AND n = 1", "368"),
        ("oid = 368 OR active", None),
        ("NOT oid = 368", None),
        ("oid = NULL", None),
        ("oid = status", None),
        ("status = '368'", None),
    ],
)
def test_a_key_that_equals_a_constant_is_looked_up(where: str, lookup: Any, taxis: Catalogue) -> None:
    spec = bound(f"SELECT * FROM taxis WHERE {where}", taxis).spec
    assert spec["lookup"] == lookup
    assert spec["condition"] is not None


@pytest.mark.parametrize(("item", "name"), [("COUNT(*)", "count"), ("count(*) AS cabs", "cabs")])
def test_count_is_an_aggregate(item: str, name: str, taxis: Catalogue) -> None:
    spec = bound(f"SELECT {item} FROM taxis INSIDE campus", taxis).spec
    assert (spec["aggregate"], spec["output"], spec["select"], spec["order"]) == ("count", name, [], [])


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT oid FROM taxis ORDER BY sped", "stream taxis has no column 'sped'"),
        ("SELECT oid FROM taxis ORDER BY 'a'", "ORDER BY takes columns and expressions, not constants"),
        ("SELECT oid FROM taxis ORDER BY 2", "ORDER BY 2: the last column of the select list is 1"),
        ("SELECT oid FROM taxis ORDER BY DISTANCE",
         NO_CENTRE),
        ("SELECT COUNT(*) FROM taxis ORDER BY oid", "oid is neither grouped nor within an aggregate"),
    ],
)  # fmt: skip
def test_wrong_snapshots(query: str, message: str, taxis: Catalogue) -> None:
    with pytest.raises(BindError) as caught:
        bound(query, taxis)
    assert caught.value.message == message


def test_explain_shows_a_query_or_a_select(taxis: Catalogue) -> None:
    kind, spec, _ = bound("EXPLAIN SELECT * FROM taxis INSIDE campus LIMIT 3", taxis)
    assert (kind, spec["kind"], spec["limit"]) == ("explain", "range", 3)
    for text, analyze in (("EXPLAIN free", False), ("EXPLAIN ANALYZE QUERY free", True)):
        kind, spec, _ = bound(text, taxis)
        assert (kind, spec["query"]["id"], spec["analyze"]) == ("explain", 7, analyze)


# --- TAIL ---


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("free WHERE cab = 5", ["cmp", "=", ["col", "oid"], ["lit", "5", "STRING"]]),
        ("free WHERE oid = 5", ["cmp", "=", ["col", "oid"], ["lit", "5", "STRING"]]),
        ("close WHERE kmh > 5", [
            "cmp", ">", ["arith", "*", ["col", "speed"], ["lit", 3.6, "DOUBLE"]], ["lit", 5, "BIGINT"]
        ]),
        ("close WHERE DISTANCE < 500", ["cmp", "<", ["distance"], ["lit", 500, "BIGINT"]]),
        ("close WHERE far < 500", ["cmp", "<", ["distance"], ["lit", 500, "BIGINT"]]),
        ("close WHERE hour = 7", ["cmp", "=", ["fn", "HOUR", ["col", "ts"], [], ""], ["lit", 7, "BIGINT"]]),
        ("liked WHERE name = 'x'", ["cmp", "=", ["join", 10, "oid", "name"], ["lit", "x", "STRING"]]),
        ("liked WHERE favourites.stars = 1", [
            "cmp", "=", ["join", 10, "oid", "stars"], ["lit", 1, "BIGINT"]
        ]),
    ],
)  # fmt: skip
def test_tail_sees_the_select_list_and_the_columns(text: str, where: Any, taxis: Catalogue) -> None:
    assert bound(f"TAIL {text}", taxis).spec["where"] == where


def test_tail(taxis: Catalogue) -> None:
    kind, spec, _ = bound("TAIL free FROM START ONLY - LIMIT 3", taxis)
    assert kind == "tail"
    assert spec == {
        "query": "free", "query_id": 7, "from_step": 0, "from_us": None, "since_us": None, "only": "-",
        "limit": 3, "where": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("begin", "field", "value"),
    [
        ("FROM STEP 5", "from_step", 5),
        ("FROM '1970-01-01T00:00:02Z'", "from_us", 2_000_000),
        ("SINCE 10 min", "since_us", 600_000_000),
    ],
)
def test_where_a_tail_begins(begin: str, field: str, value: int, taxis: Catalogue) -> None:
    spec = bound(f"TAIL free {begin}", taxis).spec
    assert {name: spec[name] for name in ("from_step", "from_us", "since_us") if spec[name] is not None} == {
        field: value
    }


@pytest.mark.parametrize(
    ("begin", "message"),
    [
        ("FROM 'yesterday'", "'yesterday' is not a timestamp"),
        ("SINCE 0 s", "SINCE must be at least a microsecond"),
    ],
)
def test_no_place_to_begin_a_tail(begin: str, message: str, taxis: Catalogue) -> None:
    with pytest.raises(BindError) as caught:
        bound(f"TAIL free {begin}", taxis)
    assert caught.value.message == message


def test_tail_knows_no_distance_that_is_not_selected(taxis: Catalogue) -> None:
    with pytest.raises(BindError, match="the query does not select DISTANCE"):
        bound("TAIL free WHERE DISTANCE < 5", taxis)


# --- what is to come ---


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("SELECT * FROM taxis M, robots R", "joins of streams with each other"),
        ("SELECT loc INSIDE CIRCLE(5) AROUND '7' AS near FROM taxis", "a moving region outside of WHERE"),
    ],
)  # fmt: skip
def test_queries_to_come(query: str, what: str, taxis: Catalogue) -> None:
    for text in (f"REGISTER QUERY q AS {query}", f"SUBSCRIBE {query}"):
        with pytest.raises(NotSupportedError) as caught:
            bound(text, taxis)
        assert caught.value.message == f"not supported yet: {what}"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT id FROM passing", "passing keeps no events (KEEP NONE)"),
        ("SELECT COUNT(*) FROM passing", "passing keeps no events (KEEP NONE)"),
        (
            "REGISTER QUERY q AS SELECT COUNT(*) FROM passing",
            "passing keeps no events (KEEP NONE), so there is nothing to aggregate",
        ),
        (
            "REGISTER QUERY q AS SELECT id FROM passing NEAREST 3 TO (1, 2)",
            "passing keeps no events (KEEP NONE), so none is among the nearest",
        ),
        (
            "REGISTER QUERY q AS SELECT id FROM passing LIMIT 3",
            "passing keeps no events (KEEP NONE), so none is among the first",
        ),
        (
            "REGISTER QUERY q WITH (dwell => 5 s) AS SELECT id FROM passing",
            "passing keeps no events (KEEP NONE), so none can dwell",
        ),
    ],
)
def test_events_that_are_not_kept_are_matched_only(query: str, message: str) -> None:
    create = "CREATE EVENT STREAM passing (id INT, x DOUBLE, y DOUBLE, ts TIMESTAMP) FROM FILE 'f' KEEP NONE"
    known = Catalogue({"passing": bound(create, Catalogue()).spec})
    assert bound("REGISTER QUERY q AS SELECT id FROM passing", known).spec["kind"] == "range"
    with pytest.raises(BindError) as caught:
        bound(query, known)
    assert caught.value.message == message


def test_since_now_is_for_events(taxis: Catalogue) -> None:
    query = bound("REGISTER QUERY q SINCE NOW AS SELECT id FROM posts", taxis).spec
    assert query["since_now"]
    with pytest.raises(BindError, match="SINCE NOW is for event streams; taxis is a moving stream"):
        bound("REGISTER QUERY q SINCE NOW AS SELECT oid FROM taxis", taxis)


@pytest.mark.parametrize(
    ("select", "kind", "timing"),
    [
        ("COUNT(*) FROM taxis", "dwelling_aggregate", {}),
        ("COUNT(*) FROM taxis SYNC 10 s", "refreshed_first", {"sync_us": 10_000_000}),
        ("AVG(DISTANCE) FROM taxis INSIDE CIRCLE(1 km) AROUND 'a' SYNC 10 s", "refreshed_first",
         {"sync_us": 10_000_000, "each_step": True}),
        ("AVG(DISTANCE) FROM taxis INSIDE CIRCLE(1 km) AROUND 'a'", "first", {"each_step": True}),
        ("COUNT(*) FROM taxis NEAREST 3 TO (1, 2)", "nearest_first", {}),
        ("COUNT(*) FROM taxis NEAREST 3 TO (1, 2) WINDOW 9 s", "refreshed_nearest_first",
         {"sync_us": 9_000_000, "window_us": 9_000_000}),
    ],
)  # fmt: skip
def test_members_of_aggregates_dwell(
    select: str, kind: str, timing: dict[str, Any], taxis: Catalogue
) -> None:
    spec = bound(f"REGISTER QUERY q WITH (dwell => 5 s) AS SELECT {select}", taxis).spec
    order = [[["distance"], False, False]] if "nearest" in kind else []
    assert (spec["kind"], spec["order"], spec["limit"]) == (kind, order, None)
    found = {name: spec[name] for name in ("each_step", "sync_us", "window_us", "dwell_us") if name in spec}
    assert found == timing | {"dwell_us": 5_000_000}


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT COUNT(*) FROM taxis WITH (error => 0.1)", "error is for TOPK"),
        ("SELECT status FROM taxis WITH (error => 0.1)", "error is for TOPK"),
        ("SELECT TOPK(status, 3) FROM taxis WITH (error => 1)", "error must be a number between 0 and 1"),
        ("SELECT TOPK(status, 3) FROM taxis WITH (dwell => 5 s)", "a SELECT has no option 'dwell'"),
        ("SELECT TOPK(status, 3) FROM taxis NEAREST 3 TO (1, 2) WITH (error => 0.1)", "not supported yet"),
        ("SUBSCRIBE SELECT TOPK(status, 3) FROM taxis SYNC 1 s WITH (error => 0.1)", "is for snapshots"),
        (
            "CREATE VIEW v AS SELECT TOPK(status, 3) AS top FROM taxis WITH (error => 0.1)",
            "not supported yet",
        ),
    ],
)
def test_only_a_snapshot_of_topk_takes_an_error_after_it(
    statement: str, message: str, taxis: Catalogue
) -> None:
    with pytest.raises((BindError, NotSupportedError), match=re.escape(message)):
        bound(f"{statement};", taxis)


def test_a_snapshot_of_topk_may_be_approximate(taxis: Catalogue) -> None:
    spec = bound("SELECT TOPK(status, 3) FROM taxis WITH (error => 0.1);", taxis).spec
    assert spec["aggregates"]["error"] == 0.1


def test_counts_of_members_that_dwell_are_exact(taxis: Catalogue) -> None:
    select = "SELECT TOPK(status, 3) FROM taxis SYNC 10 s"
    approximate = bound(f"REGISTER QUERY q WITH (error => 0.1) AS {select}", taxis).spec
    assert approximate["aggregates"]["error"] == 0.1
    exact = bound(f"REGISTER QUERY q WITH (error => 0.1, dwell => 5 s) AS {select}", taxis).spec
    assert exact["aggregates"]["error"] == 0


@pytest.mark.parametrize("rest", ["", " NEAREST 3 TO (1, 2)"])
def test_members_of_what_now_changes_dwell(rest: str, taxis: Catalogue) -> None:
    select = f"SELECT ts > NOW - 5 s AS fresh, COUNT(*) FROM taxis{rest} GROUP BY fresh"
    spec = bound(f"REGISTER QUERY q WITH (dwell => 5 s) AS {select}", taxis).spec
    assert spec["kind"] == ("refreshed_nearest_first" if rest else "first")
    assert spec["each_step"]


@pytest.mark.parametrize(
    ("rest", "kind"),
    [
        ("NEAREST 3 TO (1, 2)", "nearest"),
        ("NEAREST 3 TO (1, 2) ORDER BY oid LIMIT 2", "nearest_first"),
        ("ORDER BY oid LIMIT 2", "first"),
        ("SYNC 10 s", "refreshed_first"),
        ("LIMIT 2 WINDOW 10 s SLIDE 5 s", "refreshed_first"),
        ("NEAREST 3 TO (1, 2) SYNC 10 s", "refreshed_nearest_first"),
    ],
)
def test_rows_of_merged_answers_dwell(rest: str, kind: str, taxis: Catalogue) -> None:
    spec = bound(f"REGISTER QUERY q WITH (dwell => 5 s) AS SELECT * FROM taxis {rest}", taxis).spec
    assert (spec["kind"], spec["dwell_us"]) == (kind, 5_000_000)


@pytest.mark.parametrize(
    ("x1", "x2", "parts"),
    [
        (170, 190, [(170, 180), (-180, -170)]),
        (-190, -170, [(170, 180), (-180, -170)]),
        (530, 560, [(170, 180), (-180, -160)]),
        (190, 200, [(-170, -160)]),
        (-180, 181, [(-180, 180)]),
        (180, 180.5, [(180, 180), (-180, -179.5)]),
    ],
)
def test_a_rectangle_goes_on_beyond_the_meridian(
    x1: float, x2: float, parts: list[Any], taxis: Catalogue
) -> None:
    spec = bound(f"SELECT oid FROM taxis INSIDE RECT({x1}, 1, {x2}, 2)", taxis).spec
    inside = [["inside", {"type": "rect", "x1": a, "y1": 1.0, "x2": b, "y2": 2.0}] for a, b in parts]
    assert spec["region"] == {"type": "rect", "x1": -180.0, "y1": 1.0, "x2": 180.0, "y2": 2.0}
    assert spec["condition"] == (inside[0] if len(inside) == 1 else ["or", inside])
    same = bound(f"SELECT oid FROM taxis WHERE FALSE OR loc INSIDE ({x1}, 1, {x2}, 2)", taxis).spec
    assert same["region"] == {"type": "all"}


def test_a_polygon_goes_on_beyond_the_meridian(taxis: Catalogue) -> None:
    spec = bound("SELECT oid FROM taxis INSIDE POLYGON ((170 -1, 200 0, 170 3))", taxis).spec
    east, west = ([[x, -1.0], [x + 30, 0.0], [x, 3.0], [x, -1.0]] for x in (170.0, -190.0))
    parts = [["inside", {"type": "polygon", "rings": [ring]}] for ring in (east, west)]
    assert spec["region"] == {"type": "rect", "x1": -180.0, "y1": -1.0, "x2": 180.0, "y2": 3.0}
    assert spec["condition"] == ["or", parts]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("(changes => 1) AS SELECT oid FROM taxis", BindError, "changes must be true or false"),
    ],
)
def test_what_cannot_send_changes(text: str, error: type[Exception], message: str, taxis: Catalogue) -> None:
    with pytest.raises(error, match=message):
        bound(f"REGISTER QUERY q WITH {text}", taxis)
    spec = bound("REGISTER QUERY q WITH (changes => false) AS SELECT oid FROM taxis", taxis).spec
    assert "changes" not in spec


def test_a_column_of_an_object_within_an_object_is_read_with_a_dot(taxis: Catalogue) -> None:
    text = """CREATE MOVING STREAM nested (oid STRING, "at.lon" DOUBLE, "at.lat" DOUBLE, ts TIMESTAMP)
      KEY oid LOCATION ("at.lon", "at.lat") TIME ts FROM FILE 'x.json'"""
    nested = Catalogue({"nested": bound(text, taxis).spec})
    spec = bound("SELECT oid, at.lon FROM nested n WHERE at.lat > 1", nested).spec
    assert spec["select"] == [["oid", ["col", "oid"]], ["at.lon", ["col", "at.lon"]]]
    assert spec["condition"][2] == ["col", "at.lat"]
    with pytest.raises(BindError, match="unknown stream or alias 'at'"):
        bound("SELECT at.height FROM nested", nested)
