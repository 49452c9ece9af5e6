"""Words that name no column: a double-quoted one is a text, and `hour` is HOUR of the stream's time."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from stqsh.lang.binder.bare_words import read_words
from stqsh.lang.binder.bind import Catalogue, bind
from stqsh.lang.errors import BindError, StatementSyntaxError
from stqsh.lang.printer.printer import to_sql
from stqsh.lang.syntax.parse import parse
from stqsh.spec.query import QuerySpec
from stqsh.spec.stream import ColumnSpec
from stqsh.spec.view import ViewSpec


def read(text: str, catalogue: Catalogue) -> tuple[str, tuple[str, ...]]:
    [statement] = parse(text)
    reading = read_words(statement, catalogue)
    bind(reading.statement, catalogue)
    assert bind(statement, catalogue).spec == bind(reading.statement, catalogue).spec
    return to_sql(reading.statement), reading.notes


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ('SELECT oid FROM taxis WHERE status = "free"', "SELECT oid FROM taxis WHERE status = 'free'"),
        (
            "SELECT oid FROM taxis T WHERE T.status IN (\"free\", 'busy')",
            "SELECT oid FROM taxis T WHERE T.status IN ('free', 'busy')",
        ),
        ("SELECT COUNT(*) FROM taxis GROUP BY hour", "SELECT COUNT(*) FROM taxis GROUP BY HOUR(ts)"),
        (
            "SELECT Date, COUNT(*) FROM taxis GROUP BY date",
            "SELECT DATE(ts), COUNT(*) FROM taxis GROUP BY DATE(ts)",
        ),
        (
            "SELECT oid FROM taxis WHERE hour > 3 ORDER BY minute",
            "SELECT oid FROM taxis WHERE HOUR(ts) > 3 ORDER BY MINUTE(ts)",
        ),
        ("SELECT status AS hour FROM taxis ORDER BY hour", "SELECT status AS hour FROM taxis ORDER BY hour"),
        (
            "SELECT hour AS hour, COUNT(*) FROM taxis GROUP BY hour",
            "SELECT HOUR(ts) AS hour, COUNT(*) FROM taxis GROUP BY hour",
        ),
        (
            "SELECT HOUR(ts), COUNT(*) FROM taxis GROUP BY HOUR(ts) ORDER BY hour",
            "SELECT HOUR(ts), COUNT(*) FROM taxis GROUP BY HOUR(ts) ORDER BY hour",
        ),
        (
            'REGISTER QUERY q AS SELECT oid FROM taxis WHERE status = "it\'s ""free"""',
            "REGISTER QUERY q AS SELECT oid FROM taxis WHERE status = 'it''s \"free\"'",
        ),
        (
            'SELECT T.oid FROM taxis T, favourites F WHERE T.oid = F.oid AND minute = 3 AND name = "Ada"',
            "SELECT T.oid FROM taxis T, favourites F "
            "WHERE T.oid = F.oid AND MINUTE(T.ts) = 3 AND name = 'Ada'",
        ),
    ],
)
def test_bare_words_are_read_as_they_are_meant(typed: str, meant: str, taxis: Catalogue) -> None:
    assert read(typed, taxis)[0] == meant


def test_a_text_is_told_of_once(taxis: Catalogue) -> None:
    _, notes = read('SELECT oid FROM taxis WHERE status = "free" OR oid = "free" OR status = "off"', taxis)
    told = "is a text: taxis has no column of that name"
    assert notes == (f"'free' {told}", f"'off' {told}")
    assert read("SELECT oid FROM taxis WHERE hour = 3", taxis)[1] == ()


def test_a_column_comes_first(taxis: Catalogue) -> None:
    stream = taxis.streams["taxis"]
    dated = msgspec.structs.replace(stream, columns=(*stream.columns, ColumnSpec("Hour", "BIGINT")))
    catalogue = replace(taxis, streams={"taxis": dated})
    text = 'SELECT oid FROM taxis WHERE "status" = oid AND "Hour" = 3'
    [statement] = parse(text)
    assert read_words(statement, catalogue).statement is statement
    with pytest.raises(BindError, match="has no column 'hour'"):
        bind(parse("SELECT hour FROM taxis")[0], catalogue)


@pytest.mark.parametrize(
    "text",
    [
        'SELECT "free" FROM taxis',
        'SELECT oid FROM taxis ORDER BY "free"',
        'SELECT oid FROM taxis T WHERE T."free" = 3',
        "SELECT oid FROM taxis WHERE T.hour = 3",
        "SELECT hours FROM taxis",
    ],
)
def test_what_is_no_text_and_no_time_is_an_unknown_column(text: str, taxis: Catalogue) -> None:
    with pytest.raises(BindError):
        bind(parse(text)[0], taxis)


def test_a_view_keeps_what_was_meant(taxis: Catalogue) -> None:
    [statement] = parse('CREATE VIEW v AS SELECT oid, hour FROM taxis WHERE status = "free"')
    view: ViewSpec = bind(statement, taxis).spec
    assert view.text == "SELECT oid, HOUR(ts) FROM taxis WHERE status = 'free'"
    over = replace(taxis, views={"v": view})
    [asked] = parse('SELECT oid FROM v WHERE hour = 3 AND oid = "taxi"')
    reading = read_words(asked, over)
    assert to_sql(reading.statement) == "SELECT oid FROM v WHERE hour = 3 AND oid = 'taxi'"
    bind(asked, over)


def test_the_filter_of_a_tail_is_read_as_that_of_a_select(taxis: Catalogue) -> None:
    rows: QuerySpec = bind(
        parse("REGISTER QUERY near AS SELECT oid, speed AS pace FROM taxis")[0], taxis
    ).spec
    groups: QuerySpec = bind(
        parse("REGISTER QUERY sums AS SELECT status, COUNT(*) AS n FROM taxis GROUP BY status")[0], taxis
    ).spec
    over = replace(taxis, queries={"near": rows, "sums": groups})
    text, notes = read('TAIL near WHERE status = "free" AND pace > 1 AND hour = 3', over)
    assert text == "TAIL near WHERE status = 'free' AND pace > 1 AND HOUR(ts) = 3"
    assert notes == ("'free' is a text: near has no column of that name",)
    assert read('TAIL sums WHERE "status" = "free" AND n > 1', over)[0].endswith("= 'free' AND n > 1")
    with pytest.raises(BindError, match="hour"):
        bind(parse("TAIL sums WHERE hour = 3")[0], over)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ('SELECT oid FROM taxis WHERE status LIKE "f%"', "SELECT oid FROM taxis WHERE status LIKE 'f%'"),
        (
            'SELECT oid FROM taxis WHERE status CONTAINS ANY "a ""b"""',
            "SELECT oid FROM taxis WHERE status CONTAINS ANY 'a \"b\"'",
        ),
        (
            'SELECT oid FROM taxis WHERE ts AFTER "10 mins ago"',
            "SELECT oid FROM taxis WHERE ts AFTER '10 mins ago'",
        ),
        ('SELECT oid FROM taxis NEAREST 3 TO "taxi"', "SELECT oid FROM taxis NEAREST 3 TO 'taxi'"),
        ('RUN UNTIL "2025-06-14"', "RUN UNTIL '2025-06-14'"),
    ],
)
def test_double_quotes_do_where_only_a_text_may_stand(typed: str, meant: str) -> None:
    assert to_sql(parse(typed)[0]) == meant


def test_a_name_of_the_same_form_is_no_text() -> None:
    """What is kept of a statement's form tells double quotes from none."""
    assert parse('SELECT oid FROM taxis WHERE status LIKE "f%"')
    with pytest.raises(StatementSyntaxError, match="unexpected 'f'"):
        parse("SELECT oid FROM taxis WHERE status LIKE f")
    long = "x" * 300
    assert parse(f'SELECT oid FROM taxis WHERE status LIKE "{long}"')
    with pytest.raises(StatementSyntaxError, match="at most 255"):
        parse(f'SELECT "{long}" FROM taxis')
