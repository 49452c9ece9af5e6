"""Conditions, from text to bound expressions, and what is wrong with the others."""

from __future__ import annotations

from typing import Any

import pytest
from support.typed import plain

from stqsh.lang.binder.bind import Catalogue, bind
from stqsh.lang.errors import BindError
from stqsh.lang.syntax.parse import parse
from stqsh.spec.query import QuerySpec

MINUTE = 60_000_000
T0 = 1_201_964_400_000_000  # 2008-02-02T15:00:00Z


RECT = {"type": "rect", "x1": 1.0, "y1": 2.0, "x2": 3.0, "y2": 4.0}


def col(name: str) -> list[Any]:
    return ["col", name]


def lit(value: Any, kind: str) -> list[Any]:
    return ["lit", value, kind]


def ago(us: int) -> list[Any]:
    return ["arith", "-", ["now"], ["dur", us]]


BOUND: list[tuple[str, Any]] = [
    ("status = 'free'", ["cmp", "=", col("status"), lit("free", "STRING")]),
    ("taxis.status <> 'free'", ["cmp", "<>", col("status"), lit("free", "STRING")]),
    ("m.status != 'free'", ["cmp", "<>", col("status"), lit("free", "STRING")]),
    ("oid = 368", ["cmp", "=", col("oid"), lit("368", "STRING")]),
    ("368 = oid", ["cmp", "=", lit("368", "STRING"), col("oid")]),
    ("oid IN (1, '2')", ["in", col("oid"), [lit("1", "STRING"), lit("2", "STRING")]]),
    ("speed > 5", ["cmp", ">", col("speed"), lit(5, "BIGINT")]),
    ("n > 0.5", ["cmp", ">", col("n"), lit(0.5, "DOUBLE")]),
    ("small <= n", ["cmp", "<=", col("small"), col("n")]),
    ("speed >= 36 km/h", ["cmp", ">=", col("speed"), lit(10.0, "DOUBLE")]),
    ("speed < 2 km", ["cmp", "<", col("speed"), lit(2000.0, "DOUBLE")]),
    ("active", col("active")),
    ("NOT active", ["not", col("active")]),
    ("active = TRUE", ["cmp", "=", col("active"), lit(True, "BOOLEAN")]),
    ("TRUE", lit(True, "BOOLEAN")),
    ("status IS NULL", ["isnull", col("status")]),
    ("ts IS NOT NULL", ["not", ["isnull", col("ts")]]),
    ("status = NULL", ["cmp", "=", col("status"), lit(None, "STRING")]),
    ("speed IN (1, NULL)", ["in", col("speed"), [lit(1, "BIGINT"), lit(None, "DOUBLE")]]),
    ("status LIKE 'a%'", ["like", col("status"), "a%"]),
    ("status NOT LIKE 'a_'", ["not", ["like", col("status"), "a_"]]),
    ("n BETWEEN 1 AND 2", ["between", col("n"), lit(1, "BIGINT"), lit(2, "BIGINT")]),
    ("n NOT BETWEEN 1 AND 2", ["not", ["between", col("n"), lit(1, "BIGINT"), lit(2, "BIGINT")]]),
    ("-n < 3", ["cmp", "<", ["neg", col("n")], lit(3, "BIGINT")]),
    ("n + 1 = small * 2", [
        "cmp", "=", ["arith", "+", col("n"), lit(1, "BIGINT")], ["arith", "*", col("small"), lit(2, "BIGINT")]
    ]),
    ("n % 2 = small % -3 * 2", [
        "cmp", "=", ["arith", "%", col("n"), lit(2, "BIGINT")],
        ["arith", "*", ["arith", "%", col("small"), lit(-3, "BIGINT")], lit(2, "BIGINT")],
    ]),
    ("status || n + 1 || active = 'a'", [
        "cmp", "=",
        ["concat", ["concat", col("status"), ["arith", "+", col("n"), lit(1, "BIGINT")]], col("active")],
        lit("a", "STRING"),
    ]),
    ("NULL || status LIKE 'a%'", ["like", ["concat", lit(None, "STRING"), col("status")], "a%"]),
    ("n % NULL IS NULL", ["isnull", ["arith", "%", col("n"), lit(None, "BIGINT")]]),
    ("n / 2 > 1", ["cmp", ">", ["arith", "/", col("n"), lit(2, "BIGINT")], lit(1, "BIGINT")]),
    ("active AND n = 1 OR speed IS NULL", [
        "or", [["and", [col("active"), ["cmp", "=", col("n"), lit(1, "BIGINT")]]], ["isnull", col("speed")]]
    ]),
    ("n DIV 2 = 1", ["cmp", "=", ["arith", "DIV", col("n"), lit(2, "BIGINT")], lit(1, "BIGINT")]),
    # functions
    ("ROUND(speed, 1) = 1", [
        "cmp", "=", ["fn", "ROUND", col("speed"), [lit(1, "BIGINT")], "DOUBLE"], lit(1, "BIGINT")
    ]),
    ("substr(status, 2) = 'a'", [
        "cmp", "=", ["fn", "SUBSTRING", col("status"), [lit(2, "BIGINT")], ""], lit("a", "STRING")
    ]),
    ("COALESCE(n, NULL, 0.5) > 0", [
        "cmp", ">", ["fn", "COALESCE", col("n"), [lit(None, "BIGINT"), lit(0.5, "DOUBLE")], "DOUBLE"],
        lit(0, "BIGINT"),
    ]),
    ("n::STRING = '1'", ["cmp", "=", ["cast", col("n"), "BIGINT", "STRING"], lit("1", "STRING")]),
    ("CAST(small AS BIGINT) = 1", ["cmp", "=", col("small"), lit(1, "BIGINT")]),
    ("CASE oid WHEN 7 THEN active END", [
        "case", [["cmp", "=", col("oid"), lit("7", "STRING")]],
        [col("active"), lit(None, "BOOLEAN")], "BOOLEAN",
    ]),
    ("DATE_TRUNC('hour', ts) > NOW - 1 min", [
        "cmp", ">", ["fn", "DATE_TRUNC", lit("hour", "STRING"), [col("ts")], ""], ago(MINUTE)
    ]),
    ("ts < CAST('2008-02-02T15:00:00' AS TIMESTAMP)", ["cmp", "<", col("ts"), lit(T0, "TIMESTAMP")]),
    ("active OR ST_DWITHIN(loc, ST_POINT(speed, 2), 1 km)", [
        "or", [col("active"), ["cmp", "<=", ["fn", "ST_DISTANCE", col("lon"), [
            col("lat"), col("speed"), lit(2, "BIGINT")], "DOUBLE"], lit(1000.0, "DOUBLE")]]
    ]),
    # times
    ("ts > '2008-02-02T15:00:00'", ["cmp", ">", col("ts"), lit(T0, "TIMESTAMP")]),
    ("ts > '2008-02-02T15:00:00Z'", ["cmp", ">", col("ts"), lit(T0, "TIMESTAMP")]),
    ("'2008-02-02 16:00:00+01:00' < ts", ["cmp", ">", col("ts"), lit(T0, "TIMESTAMP")]),
    ("time > '2008-02-02T15:00:00.000001'", ["cmp", ">", col("ts"), lit(T0 + 1, "TIMESTAMP")]),
    ("ts = seen", ["cmp", "=", col("ts"), col("seen")]),
    ("ts > NOW - 10 min", ["cmp", ">", col("ts"), ago(10 * MINUTE)]),
    ("NOW - 10 min < ts", ["cmp", ">", col("ts"), ago(10 * MINUTE)]),
    ("ts + 1 min >= NOW", ["cmp", ">=", col("ts"), ago(MINUTE)]),
    ("ts - 1 min >= NOW - 1 min", ["cmp", ">=", col("ts"), ["now"]]),
    ("ts < NOW + 1 min", ["cmp", "<", col("ts"), ["arith", "+", ["now"], ["dur", MINUTE]]]),
    ("ts - 1 min = '2008-02-02T15:00:00'", ["cmp", "=", col("ts"), lit(T0 + MINUTE, "TIMESTAMP")]),
    ("ts > seen + 1 min", ["cmp", ">", col("ts"), ["arith", "+", col("seen"), ["dur", MINUTE]]]),
    ("seen - 1 min = ts + 1 min", [
        "cmp", "=", col("seen"), ["arith", "+", col("ts"), ["dur", 2 * MINUTE]]
    ]),
    ("NOW - ts > 10 min", ["cmp", "<", col("ts"), ago(10 * MINUTE)]),
    ("600 >= NOW - ts", ["cmp", ">=", col("ts"), ago(10 * MINUTE)]),
    ("ts - '2008-02-02T15:00:00' < -1 min", ["cmp", "<", col("ts"), lit(T0 - MINUTE, "TIMESTAMP")]),
    ("ts - seen BETWEEN 1 min AND 2 min", ["and", [
        ["cmp", ">=", col("ts"), ["arith", "+", col("seen"), ["dur", MINUTE]]],
        ["cmp", "<=", col("ts"), ["arith", "+", col("seen"), ["dur", 2 * MINUTE]]],
    ]]),
    ("(ts - seen) / 1 min > speed * 2 s", [
        "cmp", ">",
        ["arith", "/", ["arith", "/", ["arith", "-", col("ts"), col("seen")], ["dur", MINUTE // 60]],
         lit(60.0, "DOUBLE")],
        ["arith", "*", col("speed"), lit(2.0, "DOUBLE")],
    ]),
    ("ts - seen = speed", ["cmp", "=", ["arith", "/", ["arith", "-", col("ts"), col("seen")],
        ["dur", MINUTE // 60]], col("speed")]),
    ("HOUR(ts + 30 min) = 7", ["cmp", "=", ["fn", "HOUR", ["arith", "+", col("ts"), ["dur", 30 * MINUTE]],
        [], ""], lit(7, "BIGINT")]),
    ("time AFTER '10 mins ago'", ["cmp", ">", col("ts"), ago(10 * MINUTE)]),
    ("seen AFTER '2008-02-02T15:00:00'", ["cmp", ">", col("seen"), lit(T0, "TIMESTAMP")]),
    ("ts = NULL", ["cmp", "=", col("ts"), lit(None, "TIMESTAMP")]),
    ("ts BETWEEN NOW - 1 min AND NOW", [
        "and", [["cmp", ">=", col("ts"), ago(MINUTE)], ["cmp", "<=", col("ts"), ["now"]]]
    ]),
    ("HOUR(ts) BETWEEN 7 AND 9", [
        "between", ["fn", "HOUR", col("ts"), [], ""], lit(7, "BIGINT"), lit(9, "BIGINT")
    ]),
    ("date(seen) = '2008'", ["cmp", "=", ["fn", "DATE", col("seen"), [], ""], lit("2008", "STRING")]),
    ("minute(time) = small", ["cmp", "=", ["fn", "MINUTE", col("ts"), [], ""], col("small")]),
    ("status CONTAINS 'Coffee & tea'", ["contains", col("status"), "Coffee & tea", "all"]),
    ("NOT status contains any '茶 1'", ["not", ["contains", col("status"), "茶 1", "any"]]),
    ("(active AND n = 1) AND (n = 2 AND active)", [
        "and", [col("active"), ["cmp", "=", col("n"), lit(1, "BIGINT")],
        ["cmp", "=", col("n"), lit(2, "BIGINT")], col("active")],
    ]),
    ("NULL OR active", ["or", [lit(None, "BOOLEAN"), col("active")]]),
    ("NULL = NULL", ["cmp", "=", lit(None, "STRING"), lit(None, "STRING")]),
    ("NOT loc INSIDE (1, 2, 3, 4)", ["not", ["inside", RECT]]),
    ("active OR loc INSIDE CIRCLE(1, 2, 1 km)", [
        "or", [col("active"), ["inside", {"type": "circle", "x": 1.0, "y": 2.0, "radius": 1000.0}]]
    ]),
    ("active OR location INSIDE zones['north']", [
        "or", [col("active"),
        ["inside", {"type": "area", "area": 21, "name": "zones", "member": "north"}]],
    ]),
    ("ts NOT IN ('2008-02-02T15:00:00')", ["not", ["cmp", "=", col("ts"), lit(T0, "TIMESTAMP")]]),
]  # fmt: skip

WRONG = [
    ("sped > 5", "stream taxis has no column 'sped'", "speed"),
    ("x.speed > 5", "unknown stream or alias 'x'", None),
    ("speed > 'abc'", "cannot compare: speed is a DOUBLE, 'abc' is a STRING", None),
    ("status = 5", "cannot compare: status is a STRING, 5 is a BIGINT", None),
    ("active > 5", "cannot compare: active is a BOOLEAN, 5 is a BIGINT", None),
    ("speed > 5 min", "cannot compare: speed is a DOUBLE, 5 min is a duration", None),
    ("status IN ('a', 1)", "cannot compare: status is a STRING, 1 is a BIGINT", None),
    ("speed", "a condition is TRUE or FALSE, but speed is a DOUBLE", None),
    ("active AND status", "a condition is TRUE or FALSE, but status is a STRING", None),
    ("status + 1 > 2", "arithmetic takes numbers, but status is a STRING", None),
    ("speed % 2 = 0", "% takes whole numbers, but speed is a DOUBLE", None),
    ("n % 2.5 = 0", "% takes whole numbers, but 2.5 is a DOUBLE", None),
    ("n || 1 = '1'", "one side of || is a STRING, but n is a BIGINT", None),
    (
        "status || speed = ''",
        "|| takes strings, whole numbers and BOOLEANs, but speed is a DOUBLE",
        None,
    ),
    ("status || 1 > 2", "cannot compare: status || 1 is a STRING, 2 is a BIGINT", None),
    ("n CONTAINS 'a'", "CONTAINS takes a STRING, but n is a BIGINT", None),
    ("status CONTAINS ' -- '", "there is no word to look for in ' -- '", None),
    ("LENTH(status) > 3", "there is no function LENTH", "LENGTH"),
    ("COUNT(n) > 3", "an aggregate cannot be tested in WHERE", None),
    ("LENGTH(n) > 3", "LENGTH takes a STRING, but n is a BIGINT", None),
    ("REGION(campus) = 'a'", "campus is a single region", None),
    ("REGION(zonse) = 'a'", "unknown region 'zonse'", "zones"),
    ("REGION(zones, 1) = 'a'", "REGION takes the name of a set of regions", None),
    ("HOUR(DISTINCT ts) = 1", "DISTINCT is for COUNT, not for HOUR", None),
    ("HUOR(ts) > 3", "there is no function HUOR", "HOUR"),
    ("HOUR(n) > 3", "HOUR takes a TIMESTAMP, but n is a BIGINT", None),
    ("ROUND(speed, 1.5) > 3", "ROUND takes a whole number, but 1.5 is a DOUBLE", None),
    ("ROUND(status) > 3", "ROUND takes a number, but status is a STRING", None),
    ("SUBSTRING(status) = ''", "SUBSTRING takes 2 or 3 arguments, and got 1", None),
    ("COALESCE() = ''", "COALESCE takes 1 or more arguments, and got 0", None),
    (
        "COALESCE(n, status) = 1",
        "COALESCE takes values of one type, but n is a BIGINT, and status is a STRING",
        None,
    ),
    (
        "CASE WHEN n = 1 THEN 'a' ELSE 2 END = 'a'",
        "CASE takes values of one type, but 'a' is a STRING, and 2 is a BIGINT",
        None,
    ),
    ("CASE WHEN n THEN 1 END = 1", "WHEN takes a condition, but n is a BIGINT", None),
    ("CASE n WHEN 'a' THEN 1 END = 1", "cannot compare: n is a BIGINT, 'a' is a STRING", None),
    ("CAST(n AS INTEGR) = 1", "unknown type 'INTEGR'", "INTEGER"),
    ("CAST(n AS TIMESTAMP) > NOW", "n is a BIGINT, which cannot become a TIMESTAMP", None),
    ("ts::INT > 3", "ts is a TIMESTAMP, which cannot become an INT", None),
    ("COALESCE(ts, 'noon') > NOW", "'noon' is not a timestamp", None),
    ("DATE_TRUNC('fortnight', ts) > NOW", "DATE_TRUNC knows no unit 'fortnight'", None),
    ("DATE_TRUNC('hours', n) > NOW", "DATE_TRUNC takes a TIMESTAMP, but n is a BIGINT", None),
    ("DATE_TRUNC(status, ts) > NOW", "DATE_TRUNC takes the name of a unit", None),
    ("TIME_BUCKET(5, ts) > NOW", "TIME_BUCKET takes a duration such as 15 min, but 5 is a BIGINT", None),
    ("TIME_BUCKET(0 s, ts) > NOW", "TIME_BUCKET takes a duration of more than 0", None),
    ("CONCAT(5 min) = ''", "CONCAT takes values, but 5 min is a duration", None),
    ("ST_X(lon) = 1", "ST_X takes a place, but not lon", None),
    ("ST_X() = 1", "ST_X is called ST_X(loc)", None),
    ("ST_WITHIN(loc, 5)", "ST_WITHIN is called ST_WITHIN(loc, region)", None),
    ("ST_WITHIN(loc, campsu)", "unknown region 'campsu'", "campus"),
    ("ST_POINT(1, 2) IS NULL", "ST_POINT stands within another function of places", None),
    ("ST_DISTANCE(loc, ST_POINT('a', 2)) = 1", "ST_POINT takes numbers, but 'a' is a STRING", None),
    ("speed DIV 2 = 1", "DIV takes whole numbers, but speed is a DOUBLE", None),
    ("HOUR() > 3", "HOUR takes 1 argument, and got 0", None),
    ("active OR loc INSIDE campsu", "unknown region 'campsu'", "campus"),
    ("active OR loc INSIDE zones['nort']", "zones has no region 'nort'", "north"),
    ("active OR lon INSIDE zones AND n = 1", "INSIDE takes the location, not 'lon'", None),
    ("DISTANCE < 500", "DISTANCE cannot be tested in WHERE", None),
    (f"status LIKE '{'_' * 10_001}'", "a pattern has at most 10,000 characters, and this one 10,001", None),
    ("ts > NOW - 50000000 days - 50000000 days", "the durations are too long together", None),
    ("ts + 50000000 days > '2008-02-02' - 50000000 days", "the durations are too long together", None),
    ("n LIKE 'a'", "LIKE takes a STRING, but n is a BIGINT", None),
    ("ts > 'noon'", "'noon' is not a timestamp", None),
    ("ts > 5", "cannot compare a time with 5", None),
    ("ts > speed", "cannot compare a time with speed, a DOUBLE", None),
    ("ts + 5 > NOW", "ts + 5 is not a time", None),
    ("ts > NOW - 10", "NOW - 10 is not a time", None),
    ("ts > NOW - 10 m", "10 m is no duration", None),
    ("ts + ts > NOW", "ts + ts is not a time", None),
    ("NOW * 2 > ts", "NOW * 2 is not a time", None),
    ("ts - 'noon' > 1 min", "'noon' is not a timestamp", None),
    ("NOW - ts > 5 m", "5 m is no duration", None),
    ("speed AFTER '10 mins ago'", "speed is not a TIMESTAMP", None),
    ("ts AFTER '10 fortnights ago'", "'10 fortnights ago' is not a time span", None),
]
RESTLESS = ["NOW > '2008-02-02'", "(NOW - ts) / 1 min > 5", "NOW - ts > speed", "NOW > NOW - 1 s"]
"""Conditions that NOW changes at instants that no comparison of times names."""


@pytest.mark.parametrize(("text", "expected"), BOUND, ids=[text for text, _ in BOUND])
def test_a_condition_binds(text: str, expected: Any, taxis: Catalogue) -> None:
    [statement] = parse(f"REGISTER QUERY q AS SELECT * FROM taxis m WHERE {text}")
    assert plain(bind(statement, taxis).spec.condition) == expected


def test_a_wrong_condition_says_what_was_expected(taxis: Catalogue) -> None:
    for text, expected in (
        ("ts AFTER 'noon'", ("something like '10 mins ago'", "a timestamp such as '2008-02-02T15:00:00'")),
        ("loc INSIDE zones['x']", ("zones['north']", "zones['south']", "zones['7']")),
    ):
        [statement] = parse(f"REGISTER QUERY q AS SELECT * FROM taxis WHERE {text}")
        with pytest.raises(BindError) as caught:
            bind(statement, taxis)
        assert caught.value.expected == expected


@pytest.mark.parametrize(("text", "message", "close"), WRONG)
def test_a_wrong_condition_is_told(text: str, message: str, close: str | None, taxis: Catalogue) -> None:
    [statement] = parse(f"REGISTER QUERY q AS SELECT * FROM taxis WHERE {text}")
    with pytest.raises(BindError) as caught:
        bind(statement, taxis)
    assert (caught.value.message, caught.value.near) == (message, close)
    assert caught.value.place is not None


@pytest.mark.parametrize("text", RESTLESS)
def test_what_time_alone_changes_is_looked_at_in_each_step(text: str, taxis: Catalogue) -> None:
    def bound(clauses: str, shown: str = "*") -> QuerySpec:
        [statement] = parse(f"REGISTER QUERY q AS SELECT {shown} FROM taxis WHERE {clauses}")
        found = bind(statement, taxis).spec
        assert isinstance(found, QuerySpec)
        return found

    asked = {
        "first": bound(text),
        "aggregate": bound(text, "COUNT(*)"),
        "refreshed_nearest_first": bound(f"{text} NEAREST 3 TO 'ambulance'"),
        "refreshed_nearest": bound(f"{text} NEAREST 3 TO 'ambulance'", "COUNT(*)"),
    }
    assert {name: (one.kind, one.timing.each_step) for name, one in asked.items()} == {
        name: (name, True) for name in asked
    }
    refreshed = bound(f"{text} SYNC 10 s")
    assert (refreshed.kind, refreshed.timing.each_step) == ("refreshed_first", False)
    calm = bound("ts > NOW - 1 min")
    assert (calm.kind, calm.timing.each_step) == ("range", False)


def test_whole_keys_take_numbers_in_quotes_and_nothing_else(taxis: Catalogue) -> None:
    [good, bad, big] = parse(
        "SUBSCRIBE SELECT * FROM robots WHERE id = '7'; SUBSCRIBE SELECT * FROM robots WHERE id = 'r2';"
        "SUBSCRIBE SELECT * FROM robots WHERE id = 2147483648"
    )
    assert plain(bind(good, taxis).spec.condition) == ["cmp", "=", col("id"), lit(7, "INT")]
    for statement in (bad, big):
        with pytest.raises(BindError, match="the key is an INT"):
            bind(statement, taxis)


def test_a_column_called_time_is_itself(taxis: Catalogue) -> None:
    [statement] = parse("SUBSCRIBE SELECT * FROM robots WHERE time > NOW")
    assert plain(bind(statement, taxis).spec.condition) == ["cmp", ">", col("time"), ["now"]]
