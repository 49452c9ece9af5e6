"""Running and administration, from text to what they ask for, and what is wrong with the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stqsh.lang.binder.bind import Catalogue, bind
from stqsh.lang.errors import BindError, NotSupportedError
from stqsh.lang.syntax.parse import parse
from stqsh.spec.sink import NotifyActionSpec

from .binding import bound


@pytest.mark.parametrize(
    ("text", "kind", "spec"),
    [
        ("RUN", "run", {"mode": "end"}),
        ("RUN UNTIL '2008-02-02T15:00:00'", "run", {"mode": "until", "t_us": 1_201_964_400_000_000}),
        ("RUN UNTIL '1969-12-31T23:59:59.5'", "run", {"mode": "until", "t_us": -500_000}),
        ("RUN FOR 10 min", "run", {"mode": "for", "us": 600_000_000}),
        ("RUN 100 STEPS", "run", {"mode": "steps", "n": 100}),
        ("PLAY taxis AT MAX", "play", {"id": 3, "name": "taxis", "pace": "max"}),
        ("PLAY taxis AT 10x", "play", {"id": 3, "name": "taxis", "pace": 10.0}),
        ("PAUSE taxis", "pause", {"id": 3, "name": "taxis"}),
        ("PAUSE QUERY free", "pause_query", {"id": 7, "stream_id": 3, "name": "free"}),
        ("RESUME QUERY free", "resume_query", {"id": 7, "stream_id": 3, "name": "free"}),
        ("DROP QUERY free", "drop", [{"id": 7, "stream_id": 3, "name": "free"}]),
        ("DROP STREAM taxis", "drop_stream", [{"id": 3, "name": "taxis"}]),
        (
            "DROP STREAM IF EXISTS taxis, nothing, taxis",
            "drop_stream",
            [{"id": 3, "name": "taxis"}, {"id": 3, "name": "taxis"}],
        ),
        ("DROP QUERIES LIKE 'f%'", "nothing", []),
        ("SHOW QUERIES LIKE 'f%'", "show", "QUERIES"),
        ("DROP QUERY IF EXISTS nothing", "nothing", []),
        ("DROP STREAM IF EXISTS nothing", "nothing", []),
        ("DROP TABLE favourites", "drop_table", [{"id": 10, "name": "favourites"}]),
        ("DROP REGION campus", "drop_area", [{"id": 20, "name": "campus"}]),
        ("DROP REGIONS IF EXISTS zones", "drop_area", [{"id": 21, "name": "zones"}]),
        ("DROP REGION IF EXISTS nothing", "nothing", []),
        ("CREATE TABLE IF NOT EXISTS favourites FROM FILE 'f'", "nothing", None),
        ("CREATE REGIONS IF NOT EXISTS zones FROM FILE 'f'", "nothing", None),
        ("DESCRIBE favourites", "describe", {"kind": "table", "name": "favourites"}),
        ("DESCRIBE zones", "describe", {"kind": "region", "name": "zones"}),
        ("SHOW QUERY free", "show_query", "free"),
        ("SHOW TABLES", "show", "TABLES"),
        ("SHOW REGIONS", "show", "REGIONS"),
        ("SHOW DEAD LETTERS", "show", "DEAD LETTERS"),
        ("DESCRIBE free", "describe", {"kind": "query", "name": "free"}),
        ("DESCRIBE taxis", "describe", {"kind": "stream", "name": "taxis"}),
        ("SET engine.slots = 4", "set", {"key": "engine.slots", "value": 4}),
        ("SET shell.format = jsonl", "set", {"key": "shell.format", "value": "jsonl"}),
        ("SET shedding = object", "set", {"key": "shedding", "value": "object"}),
        ("SET shedding.budget = 200000", "set", {"key": "shedding.budget", "value": 200000}),
        ("SET shedding.budget = '64 MB'", "set", {"key": "shedding.budget", "value": "64 MB"}),
        ("SET shedding.keep = 0.9", "set", {"key": "shedding.keep", "value": 0.9}),
        ("SET cache.factor = 0", "set", {"key": "cache.factor", "value": 0}),
        ("SAVE TO '/backup/monday'", "save", "/backup/monday"),
        ("EXPORT DEAD LETTERS OF taxis TO 'bad.jsonl'", "export", {"name": "taxis", "file": "bad.jsonl"}),
    ],
)
def test_commands(text: str, kind: str, spec: Any, taxis: Catalogue) -> None:
    assert bound(text, taxis)[:2] == (kind, spec)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("PLAY nothing", "SHOW STREAMS lists the streams"),
        ("TAIL nothing", "SHOW QUERIES lists the queries"),
        ("MAP nothing", "SHOW STREAMS and SHOW QUERIES list them"),
        ("SELECT * FROM nothing n, favourites f", "SHOW STREAMS and SHOW TABLES list them"),
        (
            "SELECT zzz(oid) FROM taxis",
            "HELP FUNCTIONS lists them; CREATE FUNCTION makes one of a Python file",
        ),
        (
            "DESCRIBE nothing",
            "SHOW STREAMS, QUERIES, TABLES, REGIONS, VIEWS, SINKS or ALERTS lists the names in use",
        ),
    ],
)
def test_a_name_that_is_like_no_other_tells_what_lists_the_names(
    text: str, hint: str, taxis: Catalogue
) -> None:
    with pytest.raises(BindError) as caught:
        bound(text, taxis)
    assert (caught.value.near, caught.value.hint) == (None, hint)


@pytest.mark.parametrize(
    ("text", "message", "close"),
    [
        ("DROP STREAM taxi", "unknown stream 'taxi'", "taxis"),
        ("DROP QUERY fre", "unknown query 'fre'", "free"),
        ("PAUSE QUERY taxis", "unknown query 'taxis'", None),
        ("TAIL frei", "unknown query 'frei'", "free"),
        ("PLAY robot", "unknown stream 'robot'", "robots"),
        ("DESCRIBE robot", "nothing is called 'robot'", "robots"),
        ("DESCRIBE campsu", "nothing is called 'campsu'", "campus"),
        ("DROP TABLE favorites", "unknown table 'favorites'", "favourites"),
        ("DROP REGION campsu", "unknown region 'campsu'", "campus"),
        ("DROP REGION zones", "zones is a set of regions", "DROP REGIONS zones"),
        ("DROP REGIONS campus", "campus is a single region", "DROP REGION campus"),
        ("EXPLAIN ANALYZE fre", "unknown query 'fre'", "free"),
        ("SHOW QUERY fre", "unknown query 'fre'", "free"),
        ("SET engine.slot = 4", "unknown setting 'engine.slot'", "engine.slots"),
        ("SET sheding = off", "unknown setting 'sheding'", "shedding"),
        ("SET shedding = objct", "shedding is 'objct', expected one of off, object, query", "object"),
        (
            "SET shedding.budget = 0",
            "shedding.budget is '0', expected a number of objects of at least 1, or a size such as '64 MB'",
            None,
        ),
        ("SET shedding.keep = 1.5", "shedding.keep is '1.5', expected a number from 0 to 1", None),
        ("SET cache.factor = -1", "cache.factor is '-1', expected a number from 0 to 1", None),
        ("SET engine.slots = 0", "engine.slots is '0', expected a whole number of at least 1", None),
        ("SET session.home_root = '/x'", "session.home_root counts before a session is open", None),
        ("RUN 0 STEPS", "RUN takes one step or more", None),
        ("RUN UNTIL 'noon'", "'noon' is not a timestamp", None),
    ],
)
def test_wrong_commands(text: str, message: str, close: str | None, taxis: Catalogue) -> None:
    with pytest.raises(BindError) as caught:
        bound(text, taxis)
    assert (caught.value.message, caught.value.near) == (message, close)


@pytest.mark.parametrize("slots", ["0", "1025"])
def test_a_wrong_number_of_slots_is_shown_where_it_stands(slots: str, taxis: Catalogue) -> None:
    text = f"REPARTITION taxis USING grid INTO {slots} SLOTS"
    with pytest.raises(BindError, match="INTO takes 1 to 1,024 slots") as caught:
        bound(text, taxis)
    assert text[caught.value.span.start : caught.value.span.end] == slots


BUSES = (
    "CREATE MOVING STREAM buses (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, n INT, ok BOOLEAN)"
    " KEY oid LOCATION (lon, lat) TIME ts FROM INSERTS"
)


@pytest.mark.parametrize(
    ("values", "message", "at"),
    [
        ("VALUES ('a')", "1 value for 6 columns", "'a'"),
        ("(oid, ts) VALUES ('a', NOW, 1)", "3 values for 2 columns", "'a', NOW, 1"),
        ("VALUES ('a', 1, 'x', NOW, 1, TRUE)", "lat is a DOUBLE, but 'x' is a STRING", "'x'"),
        ("VALUES (5, 1, 2, NOW, 1, TRUE)", "oid is a STRING, but 5 is a BIGINT", "5"),
        ("VALUES ('a', 1, 2, 5, 1, TRUE)", "ts is a TIMESTAMP, but 5 is a BIGINT", "5"),
        ("VALUES ('a', 1, 2, 'noon', 1, TRUE)", "'noon' is not a timestamp", "'noon'"),
        ("VALUES ('a', 1, 2, NOW + 5, 1, TRUE)", "NOW + 5 is not a time", "NOW + 5"),
        ("VALUES ('a', NOW, 2, NOW, 1, TRUE)", "lon is a DOUBLE, but NOW is a time", "NOW"),
        ("VALUES ('a', 5 s, 2, NOW, 1, TRUE)", "lon is a DOUBLE, but 5 s is a duration", "5 s"),
        ("VALUES ('a', 1, 2, NOW, 1.5, TRUE)", "n is an INT, but 1.5 is a DOUBLE", "1.5"),
        ("VALUES ('a', 1, 2, NOW, 3000000000, TRUE)", "n is an INT, and 3000000000 does not fit", "30000"),
        (
            "VALUES (bus, 1, 2, NOW, 1, TRUE)",
            "bus is not a constant, and INSERT INTO takes only constants",
            "bus",
        ),
        ("(oid, lonn) VALUES ('a', 1)", "stream buses has no column 'lonn'", "lonn"),
        ("(oid, ts, oid) VALUES ('a', NOW, 'b')", "oid is listed twice", "oid)"),
        ("(oid, lon) VALUES ('a', 1)", "a record needs ts, the TIME of buses", "oid"),
    ],
)
def test_values_that_do_not_fit(values: str, message: str, at: str, taxis: Catalogue) -> None:
    catalogue = replace(taxis, streams={**taxis.streams, "buses": bound(BUSES, taxis).spec})
    with pytest.raises(BindError) as caught:
        bound(f"INSERT INTO buses {values}", catalogue)
    assert caught.value.message == message
    assert f"INSERT INTO buses {values}"[caught.value.span.start :].startswith(at)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE ALERT a ON nothing DO NOTIFY", "unknown query 'nothing'"),
        ("CREATE ALERT taxis ON free DO NOTIFY", "the name 'taxis' is in use by a stream"),
        ("CREATE ALERT a ON free EVERY 0 s DO NOTIFY", "EVERY must be at least a microsecond"),
        ("CREATE ALERT a ON free DO RUN ' '", "RUN takes a command"),
        ("CREATE ALERT a ON free DO POST 'localhost'", "POST takes a complete address"),
        ("DROP ALERT a", "unknown alert 'a'"),
    ],
)
def test_alerts_that_do_not_fit(text: str, message: str, taxis: Catalogue) -> None:
    with pytest.raises(BindError) as caught:
        bound(text, taxis)
    assert caught.value.message == message


def with_near(taxis: Catalogue) -> Catalogue:
    """Return the catalogue with a query of two columns."""
    [statement] = parse("REGISTER QUERY near AS SELECT oid, lon FROM taxis")
    return replace(taxis, queries={**taxis.queries, "near": bind(statement, taxis).spec})


@pytest.mark.parametrize(
    ("said", "at", "message"),
    [
        ("{oid} is at {lonn}", "{lonn}", "near has no column 'lonn' for the text"),
        ("it''s {}", "{}", "near has no column '' for the text"),
        ("it''s {{here}}, {oid", "{oid", "a { alone; write {{ for one, or {oid} for a column"),
        ("{oid}} here", "} here", "a } alone; write }} for one, or {oid} for a column"),
    ],
)
@pytest.mark.parametrize("action", ["NOTIFY", "BELL", "RUN 'x' WITH", "POST 'http://localhost' WITH"])
def test_a_field_of_an_alerts_text_that_is_unknown_is_an_error_at_its_place(
    action: str, said: str, at: str, message: str, taxis: Catalogue
) -> None:
    text = f"CREATE ALERT a ON near DO {action} '{said}'"
    with pytest.raises(BindError) as caught:
        bound(text, with_near(taxis))
    assert caught.value.message == message
    assert text[caught.value.span.start :].startswith(at)


def test_an_alerts_text_may_use_columns_and_what_every_update_has(taxis: Catalogue) -> None:
    said = "{oid} {{x}} { alert }{query}{key}{op}{why}{step}{at}{row}"
    spec = bound(f"CREATE ALERT a ON near DO NOTIFY '{said}'", with_near(taxis)).spec
    assert spec.target.action == NotifyActionSpec(said)


def test_a_live_stream_plays_at_no_pace(taxis: Catalogue) -> None:
    catalogue = replace(taxis, streams={**taxis.streams, "buses": bound(BUSES, taxis).spec})
    assert bound("PLAY buses", catalogue).kind == "play"
    with pytest.raises(BindError, match="a live stream is not replayed, so PLAY buses takes no pace"):
        bound("PLAY buses AT 10x", catalogue)


def test_streams_of_files_take_no_values(taxis: Catalogue) -> None:
    with pytest.raises(BindError, match="stream taxis does not take INSERT INTO"):
        bound("INSERT INTO taxis VALUES ('1')", taxis)
    with pytest.raises(BindError, match="0 is not a port"):
        bound("CREATE MOVING STREAM e (id INT, lon DOUBLE, lat DOUBLE, ts TIMESTAMP) FROM HTTP PORT 0", taxis)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("CREATE REGIONS t FROM KAFKA 'b' TOPIC 't'", "KAFKA of other things than streams"),
        ("CREATE TABLE t (a INT) FROM STDIN", "STDIN of other things than streams"),
        ("CREATE REGIONS t FROM GENERATOR 'g'", "generators of other things than streams"),
        ("CREATE TABLE t (a INT) FROM INSERTS", "INSERTS of other things than streams"),
        ("CREATE TABLE t (a INT) FROM HTTP PORT 8080", "HTTP of other things than streams"),
    ],
)
def test_statements_to_come(text: str, what: str, taxis: Catalogue) -> None:
    with pytest.raises(NotSupportedError) as caught:
        bound(text, taxis)
    assert caught.value.message == f"not supported yet: {what}"
    assert caught.value.place is not None
    assert caught.value.exit_code == 2
