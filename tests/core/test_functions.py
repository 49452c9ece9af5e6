"""The functions of the language, CAST and CASE: from text to values, row by row."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from support.specs import stream_spec

import stqsh
from stqsh.core.conditions.evaluation import compute_shown
from stqsh.core.conditions.functions import _EVALUATORS
from stqsh.lang.ast.statements import Select
from stqsh.lang.binder.conditions import bind
from stqsh.lang.binder.scope import Scope, TypedExpression
from stqsh.lang.catalogue import Catalogue
from stqsh.lang.syntax.parse import parse
from stqsh.spec.expression import Expr
from stqsh.spec.functions import FUNCTIONS, PLACES

UTC = ZoneInfo("UTC")
TYPES = {
    "oid": "STRING", "x": "DOUBLE", "y": "DOUBLE", "ts": "TIMESTAMP", "s": "STRING", "n": "BIGINT",
    "m": "INT", "d": "DOUBLE", "f": "FLOAT", "b": "BOOLEAN", "u": "TIMESTAMP",
}  # fmt: skip
STREAM = stream_spec(columns=[list(column) for column in TYPES.items()])
SCOPE = Scope(STREAM, frozenset({"s"}), Catalogue())
NEW_YEAR = datetime(2008, 12, 31, 23, 59, 59, 123456, UTC)
LONG_AGO = datetime(1969, 12, 29, tzinfo=UTC)
IN_2009 = datetime(2009, 1, 1, tzinfo=UTC)
IN_2000 = datetime(2000, 1, 1, tzinfo=UTC)
COLUMNS: dict[str, Any] = {
    "oid": pa.array(["a", "b", "c"]),
    "x": pa.array([0.0, 0.0, 10.0]),
    "y": pa.array([0.0, 1.0, 50.0]),
    "ts": pa.array([NEW_YEAR, LONG_AGO, None], pa.timestamp("us", "UTC")),
    "s": pa.array([" Äpfel ", "", None]),
    "n": pa.array([7, -(2**63), None]),
    "m": pa.array([1, 2, None], pa.int32()),
    "d": pa.array([2.5, -0.5, None]),
    "f": pa.array([0.5, -1.5, None], pa.float32()),
    "b": pa.array([True, False, None]),
    "u": pa.array([IN_2009, None, None], pa.timestamp("us", "UTC")),
}


def bound(text: str) -> TypedExpression:
    [statement] = parse(f"SELECT {text} AS shown FROM s")
    assert isinstance(statement, Select)
    return bind(statement.items[0].expression, SCOPE)


def shown(expr: Expr, rows: slice = slice(None)) -> list[Any]:
    columns = {name: column[rows] for name, column in COLUMNS.items()}
    found: list[Any] = compute_shown(expr, columns, 0).to_pylist()
    return found


VALUES: list[tuple[str, str, list[Any]]] = [
    # numbers
    ("ABS(n)", "BIGINT", [7, None, None]),
    ("ABS(d)", "DOUBLE", [2.5, 0.5, None]),
    ("ABS(-3)", "BIGINT", [3, 3, 3]),
    ("CEIL(d)", "DOUBLE", [3.0, 0.0, None]),
    ("CEILING(n)", "BIGINT", [7, -(2**63), None]),
    ("FLOOR(d)", "DOUBLE", [2.0, -1.0, None]),
    ("TRUNC(d)", "DOUBLE", [2.0, 0.0, None]),
    ("ROUND(d)", "DOUBLE", [3.0, -1.0, None]),
    ("ROUND(0.49999999999999994)", "DOUBLE", [0.0] * 3),
    ("ROUND(2.125, 2)", "DOUBLE", [2.13] * 3),
    ("ROUND(123.456, -1)", "DOUBLE", [120.0] * 3),
    ("ROUND(1e300, 400)", "DOUBLE", [1e300] * 3),
    ("ROUND(1e300, -400)", "DOUBLE", [0.0] * 3),
    ("ROUND(9007199254740993.0, 1)", "DOUBLE", [9007199254740992.0] * 3),
    ("ROUND(d, m)", "DOUBLE", [2.5, -0.5, None]),
    ("ROUND(n, 2)", "BIGINT", [7, -(2**63), None]),
    ("ROUND(n, -1)", "BIGINT", [10, None, None]),
    ("ROUND(15, -1)", "BIGINT", [20] * 3),
    ("ROUND(-14, -1)", "BIGINT", [-10] * 3),
    ("ROUND(n, -19)", "BIGINT", [0, None, None]),
    ("ROUND(n, -20)", "BIGINT", [0, 0, None]),
    ("ROUND(n, NULL)", "BIGINT", [None] * 3),
    ("SIGN(n)", "BIGINT", [1, -1, None]),
    ("SIGN(d * 0)", "DOUBLE", [0.0, 0.0, None]),
    ("SQRT(d)", "DOUBLE", [2.5**0.5, None, None]),
    ("SQRT(16)", "DOUBLE", [4.0] * 3),
    ("MOD(n, 4)", "BIGINT", [3, 0, None]),
    ("n DIV 2", "BIGINT", [3, -(2**62), None]),
    ("-7 DIV 2", "BIGINT", [-3] * 3),
    ("n DIV -1", "BIGINT", [-7, None, None]),
    ("n DIV 0", "BIGINT", [None] * 3),
    ("n / 2", "DOUBLE", [3.5, -(2.0**62), None]),
    # choices
    ("COALESCE(n, m, 0)", "BIGINT", [7, -(2**63), 0]),
    ("COALESCE(m, 0.5)", "DOUBLE", [1.0, 2.0, 0.5]),
    ("COALESCE(NULL, s, 'none')", "STRING", [" Äpfel ", "", "none"]),
    ("COALESCE(u, ts)", "TIMESTAMP", [IN_2009, LONG_AGO, None]),
    (
        "COALESCE(u, '2000-01-01')",
        "TIMESTAMP",
        [IN_2009, *[IN_2000] * 2],
    ),
    ("COALESCE(NULL, NULL)", "STRING", [None] * 3),
    ("IFNULL(b, FALSE)", "BOOLEAN", [True, False, False]),
    ("LEAST(n, d)", "DOUBLE", [2.5, -(2.0**63), None]),
    ("LEAST(n, 5, NULL)", "BIGINT", [5, -(2**63), 5]),
    ("GREATEST('b', oid)", "STRING", ["b", "b", "c"]),
    ("GREATEST(ts, u)", "TIMESTAMP", [IN_2009, LONG_AGO, None]),
    ("NULLIF(s, '')", "STRING", [" Äpfel ", None, None]),
    ("NULLIF(m, 1.0)", "BIGINT", [None, 2, None]),
    ("NULLIF(m, NULL)", "BIGINT", [1, 2, None]),
    ("CASE WHEN n > 0 THEN 'much' WHEN n IS NULL THEN 'none' ELSE s END", "STRING", ["much", "", "none"]),
    ("CASE WHEN n > 0 THEN 1 END", "BIGINT", [1, None, None]),
    ("CASE m WHEN 1 THEN 0.5 WHEN 2 THEN n END", "DOUBLE", [0.5, -(2.0**63), None]),
    ("CASE NULL WHEN NULL THEN 1 ELSE 2 END", "BIGINT", [2] * 3),
    ("CASE WHEN TRUE THEN NULL ELSE ts END", "TIMESTAMP", [None] * 3),
    ("CASE oid WHEN 'a' THEN b ELSE NOT b END", "BOOLEAN", [True, True, None]),
    # texts
    ("UPPER(s) || LOWER('ÄB')", "STRING", [" ÄPFEL äb", "äb", None]),
    ("TRIM(s)", "STRING", ["Äpfel", "", None]),
    ("LTRIM(s) || '.'", "STRING", ["Äpfel .", ".", None]),
    ("RTRIM(s, ' l')", "STRING", [" Äpfe", "", None]),
    ("TRIM('aä' FROM 'aaxäa')", "STRING", ["x"] * 3),
    ("TRIM('abc', oid)", "STRING", ["bc", "abc", "ab"]),
    ("SUBSTRING(s, 2, 3)", "STRING", ["Äpf", "", None]),
    ("SUBSTRING(s FROM 3)", "STRING", ["pfel ", "", None]),
    ("SUBSTR('abcdef', -1, 3)", "STRING", ["a"] * 3),
    ("SUBSTRING('abcdef', m, m)", "STRING", ["a", "bc", None]),
    ("SUBSTRING('abc', 2, -1)", "STRING", [None] * 3),
    ("LEFT('abc', m)", "STRING", ["a", "ab", None]),
    ("LEFT('abc', -1)", "STRING", ["ab"] * 3),
    ("RIGHT('äbc', 2)", "STRING", ["bc"] * 3),
    ("RIGHT('äbc', 0)", "STRING", [""] * 3),
    ("RIGHT('äbc', -1)", "STRING", ["bc"] * 3),
    ("LENGTH(s)", "BIGINT", [7, 0, None]),
    ("REPLACE(s, 'pf', 'bb')", "STRING", [" Äbbel ", "", None]),
    ("REPLACE('aa', '', 'x')", "STRING", ["aa"] * 3),
    ("REPLACE('abc', oid, '')", "STRING", ["bc", "ac", "ab"]),
    ("REVERSE('aäb')", "STRING", ["bäa"] * 3),
    ("STARTS_WITH(s, ' Ä')", "BOOLEAN", [True, False, None]),
    ("STRPOS(s, 'fel')", "BIGINT", [4, 0, None]),
    ("STRPOS(s, '')", "BIGINT", [1, 1, None]),
    ("CONCAT(oid, n, d, b, NULL)", "STRING", ["a72.5true", "b-9223372036854775808-0.5false", "c"]),
    ("CONCAT(NULL)", "STRING", [""] * 3),
    # times
    ("YEAR(ts)", "BIGINT", [2008, 1969, None]),
    ("QUARTER(ts)", "BIGINT", [4, 4, None]),
    ("MONTH(ts)", "BIGINT", [12, 12, None]),
    ("WEEK(ts)", "BIGINT", [1, 1, None]),
    ("DAY(ts)", "BIGINT", [31, 29, None]),
    ("DOY(ts)", "BIGINT", [366, 363, None]),
    ("DOW(ts)", "BIGINT", [3, 1, None]),
    ("ISODOW(ts)", "BIGINT", [3, 1, None]),
    ("HOUR(ts)", "BIGINT", [23, 0, None]),
    ("EXTRACT(MINUTE FROM ts)", "BIGINT", [59, 0, None]),
    ("DATE_PART('second', ts)", "BIGINT", [59, 0, None]),
    ("EPOCH(ts)", "DOUBLE", [1230767999.123456, -259200.0, None]),
    ("DATE(ts)", "STRING", ["2008-12-31", "1969-12-29", None]),
    (
        "DATE_TRUNC('week', ts)",
        "TIMESTAMP",
        [datetime(2008, 12, 29, tzinfo=UTC), LONG_AGO, None],
    ),
    (
        "DATE_TRUNC('Quarters', ts)",
        "TIMESTAMP",
        [datetime(2008, 10, 1, tzinfo=UTC), datetime(1969, 10, 1, tzinfo=UTC), None],
    ),
    (
        "DATE_TRUNC('minute', ts)",
        "TIMESTAMP",
        [NEW_YEAR.replace(second=0, microsecond=0), LONG_AGO, None],
    ),
    (
        "TIME_BUCKET(90 min, ts)",
        "TIMESTAMP",
        [datetime(2008, 12, 31, 22, 30, tzinfo=UTC), LONG_AGO, None],
    ),
    ("TO_TIMESTAMP(1230767999.5)", "TIMESTAMP", [datetime(2008, 12, 31, 23, 59, 59, 500000, UTC)] * 3),
    ("TO_TIMESTAMP(n)", "TIMESTAMP", [datetime(1970, 1, 1, 0, 0, 7, tzinfo=UTC), None, None]),
    ("ts < DATE_TRUNC('year', u)", "BOOLEAN", [True, None, None]),
    ("DATE_TRUNC('day', ts) = '2008-12-31'", "BOOLEAN", [True, False, None]),
    ("CASE WHEN TRUE THEN ts END BETWEEN '2008-01-01' AND u", "BOOLEAN", [True, False, None]),
    # places
    ("ST_X(loc) + ST_Y(loc)", "DOUBLE", [0.0, 1.0, 60.0]),
    ("ST_DISTANCE(loc, ST_POINT(0, 0)) < 111195.1", "BOOLEAN", [True, True, False]),
    ("ST_DWITHIN(loc, ST_POINT(n * 0, 0), 112 km)", "BOOLEAN", [True, True, None]),
    # casts
    ("CAST(s AS BIGINT)", "BIGINT", [None] * 3),
    ("n::STRING", "STRING", ["7", "-9223372036854775808", None]),
    ("d::BIGINT", "BIGINT", [2, 0, None]),
    ("d::INT + f::DOUBLE", "DOUBLE", [2.5, -1.5, None]),
    ("CAST(n AS INT)", "BIGINT", [7, None, None]),
    ("CAST(n AS DOUBLE)", "DOUBLE", [7.0, -(2.0**63), None]),
    ("CAST(0.1 AS FLOAT)", "DOUBLE", [0.10000000149011612] * 3),
    ("CAST(b AS INT)", "BIGINT", [1, 0, None]),
    ("CAST(m - 1 AS BOOLEAN)", "BOOLEAN", [False, True, None]),
    ("b::TEXT || '!'", "STRING", ["true!", "false!", None]),
    ("CAST(ts AS STRING)", "STRING", ["2008-12-31T23:59:59.123456Z", "1969-12-29T00:00:00Z", None]),
    ("CAST(CAST(ts AS STRING) AS TIMESTAMP)", "TIMESTAMP", COLUMNS["ts"].to_pylist()),
]


@pytest.mark.parametrize(("text", "kind", "values"), VALUES, ids=[text for text, _, _ in VALUES])
def test_value_of_each_row(text: str, kind: str, values: list[Any]) -> None:
    typed = bound(text)
    assert typed.type == kind
    found = shown(typed.expr)
    assert [repr(one) for one in found] == [repr(one) for one in values]
    assert [shown(typed.expr, slice(row, row + 1))[0] for row in range(3)] == found
    assert shown(typed.expr, slice(0, 0)) == []


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        (" 12 ", "BIGINT", 12),
        ("+0000000000000000000000007", "BIGINT", 7),
        ("9223372036854775807", "BIGINT", 2**63 - 1),
        ("9223372036854775808", "BIGINT", None),
        ("-9223372036854775808", "BIGINT", -(2**63)),
        ("-9223372036854775809", "BIGINT", None),
        ("2147483648", "INT", None),
        ("1.5", "BIGINT", None),
        ("١٢", "BIGINT", None),
        ("+1.5e3", "DOUBLE", 1500.0),
        (".5", "DOUBLE", 0.5),
        ("1e999", "DOUBLE", None),
        ("nan", "DOUBLE", None),
        ("1e39", "FLOAT", None),
        ("0x10", "DOUBLE", None),
        (" Yes", "BOOLEAN", True),
        ("off", "BOOLEAN", False),
        ("maybe", "BOOLEAN", None),
        ("2008-02-29", "TIMESTAMP", datetime(2008, 2, 29, tzinfo=UTC)),
        ("2009-02-29", "TIMESTAMP", None),
        ("2008-13-01", "TIMESTAMP", None),
        ("2008-02-02 15:04", "TIMESTAMP", datetime(2008, 2, 2, 15, 4, tzinfo=UTC)),
        ("2008-02-02T15:04:05.1234567Z", "TIMESTAMP", datetime(2008, 2, 2, 15, 4, 5, 123456, UTC)),
        ("2008-02-02T15:04:05-01:30", "TIMESTAMP", datetime(2008, 2, 2, 16, 34, 5, tzinfo=UTC)),
        ("2008-02-02T24:00:00", "TIMESTAMP", None),
        ("yesterday", "TIMESTAMP", None),
    ],
)
def test_text_becomes_a_value_or_null(text: str, kind: str, value: Any) -> None:
    typed = bound(f"CAST(s AS {kind})")
    columns = {"s": pa.array([text, None, text])}
    assert compute_shown(typed.expr, columns, 0).to_pylist() == [value, None, value]


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1"), (0.1, "0.1"), (-0.0, "0"), (1e15, "1e+15"), (1e-7, "1e-7"), (float("inf"), None)],
)
def test_a_double_as_text_has_the_fewest_digits(value: float, text: str | None) -> None:
    assert compute_shown(bound("CAST(d AS STRING)").expr, {"d": pa.array([value])}, 0).to_pylist() == [text]


def test_each_function_of_the_table_has_an_evaluation() -> None:
    assert set(FUNCTIONS) <= set(_EVALUATORS)


def test_the_manual_lists_each_function() -> None:
    manual = (Path(stqsh.__file__).parent / "docs" / "language.md").read_text(encoding="utf-8")
    said = [(one.syntax, one.meaning) for one in FUNCTIONS.values()]
    for call, meaning in (*said, *PLACES.values()):
        assert f"| `{call}` | {meaning} |" in manual
