"""Query streams: what rows of REGISTER QUERIES name FROM a live source do, and how they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.query_streams import execute, session_without_engine

from stqsh.client.api import Session
from stqsh.client.feed import FeedCount, feed
from stqsh.client.results import Rows
from stqsh.client.statements.describe import dump
from stqsh.errors import StqshError
from stqsh.lang.errors import BindError

CREATE = """
CREATE MOVING STREAM taxis (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, status STRING, n INT)
  KEY oid LOCATION (lon, lat) TIME ts FROM INSERTS;
REGISTER QUERIES watch FROM INSERTS AS
  SELECT oid FROM taxis WHERE status = :wanted AND n < :n INSIDE CIRCLE(:x, :y, :r);
"""
A = "('a', 'free', 3, 1.5, 2, 100, NULL)"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with session_without_engine(tmp_path) as session:
        execute(session, CREATE)
        yield session


def shown(session: Session, text: str) -> list[tuple[Any, ...]]:
    return [row for outcome in session.outcomes(text) if isinstance(outcome, Rows) for row in outcome.rows]


def queries(session: Session) -> dict[str, str]:
    return {query.name: query.spec.text for query in session.queries()}


def test_rows_register_change_and_drop(session: Session) -> None:
    assert execute(session, f"INSERT INTO watch VALUES {A}, ('b', 'free', 3, 0, 0, 5, FALSE);") == [
        "2 queries registered by watch"
    ]
    text = "SELECT oid FROM taxis WHERE status = 'free' AND n < 3 INSIDE CIRCLE(1.5, 2, 100.0)"
    assert queries(session)["a"] == text
    assert execute(session, f"INSERT INTO watch VALUES {A};") == ["no query changed by watch"]
    ids = {query.name: query.id for query in session.queries()}
    moved = A.replace("100", "50")
    assert execute(session, f"INSERT INTO watch VALUES {moved};") == ["1 query altered by watch"]
    assert {query.name: query.id for query in session.queries()} == ids
    other = moved.replace("free", "busy")
    assert execute(session, f"INSERT INTO watch VALUES {other};") == ["1 query altered by watch"]
    assert {query.name: query.id for query in session.queries()} == ids
    assert queries(session)["a"] == text.replace("free", "busy").replace("100", "50")
    assert execute(session, "INSERT INTO watch (name, _drop) VALUES ('b', TRUE), ('c', TRUE);") == [
        "1 query dropped by watch"
    ]
    assert [*queries(session)] == ["a"]
    assert shown(session, "SHOW QUERY STREAMS;") == [("watch", "taxis", "inserts", 1, 7, 0, "ready")]


@pytest.mark.parametrize(
    ("rows", "reason", "at"),
    [
        (f"{A}, ('b', 'free', 3, 1, 91, 5, NULL)", "y: a latitude of 91 is beyond 90", "'b'"),
        ("('b', NULL, 3, 1, 2, 5, NULL)", "wanted: the value is missing", "'b'"),
        ("('b', 'free', 3, 1, 2, 0, NULL)", "r: a length must be more than 0, and 0 is not", "'b'"),
        (f"{A}, ('taxis', 'free', 3, 1, 2, 5, NULL)", "the name taxis is in use", "'taxis'"),
        ("('mine', 'free', 3, 1, 2, 5, NULL)", "the name mine is in use", "'mine'"),
        ("('', 'free', 3, 1, 2, 5, NULL)", "the key is empty", "''"),
    ],
)
def test_a_bad_row_refuses_its_statement(session: Session, rows: str, reason: str, at: str) -> None:
    execute(session, "REGISTER QUERY mine AS SELECT oid FROM taxis;")
    statement = f"INSERT INTO watch VALUES {rows};"
    with pytest.raises(BindError, match=reason) as error:
        execute(session, statement)
    assert error.value.span is not None
    assert statement[error.value.span.start :].startswith(at)
    assert [*queries(session)] == ["mine"]
    assert shown(session, "SHOW QUERY STREAMS;")[0][4:6] == (0, 0)


def test_a_region_over_the_180th_meridian_is_registered_in_parts(session: Session) -> None:
    execute(session, "REGISTER QUERIES w FROM INSERTS AS SELECT oid FROM taxis INSIDE RECT(:x, 0, :y, 2);")
    execute(session, "INSERT INTO w VALUES ('a', 178, 179, NULL), ('b', 179, 181, NULL);")
    execute(session, "REGISTER QUERY typed AS SELECT oid FROM taxis INSIDE RECT(179, 0, 181, 2);")
    specs = {query.name: query.spec for query in session.queries()}
    assert replace(specs["b"], id=0, name="") == replace(specs["typed"], id=0, name="")
    assert execute(session, "INSERT INTO w VALUES ('b', 178, 179, NULL);") == ["1 query altered by w"]
    assert execute(session, "INSERT INTO w VALUES ('b', 179, 181, NULL);") == ["1 query altered by w"]
    [_, changed, typed] = [replace(query.spec, id=0, name="") for query in session.queries()]
    assert changed == typed


def test_a_query_that_selects_something_else_is_registered_again(session: Session) -> None:
    select = "SELECT oid, n > :n AS many FROM taxis INSIDE CIRCLE(:x, 1, 2)"
    execute(session, f"REGISTER QUERIES w FROM INSERTS AS {select}; INSERT INTO w VALUES ('b', 1, 2, NULL);")
    [before] = session.queries()
    assert execute(session, "INSERT INTO w VALUES ('b', 3, 2, NULL);") == ["1 query replaced by w"]
    [after] = session.queries()
    assert after.id > before.id
    assert after.spec.text == "SELECT oid, n > 3 AS many FROM taxis INSIDE CIRCLE(2, 1, 2)"


def test_rows_of_files_and_tables_are_fed(session: Session, tmp_path: Path) -> None:
    file = tmp_path / "q.csv"
    file.write_text(
        "name,wanted,n,x,y,r\na,free,3,1.5,2,100\nb,free,3,1,91,5\nc,free,x,0,0,5\nd,free,3,0,0,5\n"
    )
    assert feed(session, "watch", file) == FeedCount(2, 2)
    rows = [{"name": "a", "_drop": True}, {"name": "d", "wanted": "busy", "n": 3, "x": 0, "y": 0, "r": 5}]
    assert feed(session, "watch", rows) == FeedCount(2, 0)
    assert queries(session) == {
        "d": "SELECT oid FROM taxis WHERE status = 'busy' AND n < 3 INSIDE CIRCLE(0, 0, 5.0)"
    }
    letters = [row[1:4] for row in shown(session, "SHOW DEAD LETTERS;") if len(row) == 5]
    assert letters == [
        (str(file), 3, "y: a latitude of 91 is beyond 90"),
        (str(file), 4, "n: 'x' is not a valid BIGINT"),
    ]
    (tmp_path / "drops.jsonl").write_text('{"name": "d", "_drop": true}')
    assert feed(session, "watch", tmp_path / "drops.jsonl") == FeedCount(1, 0)
    assert queries(session) == {}


def test_what_takes_no_rows_by_hand_cannot_be_fed(session: Session) -> None:
    kafka = "REGISTER QUERIES k FROM KAFKA 'localhost:1' TOPIC 't' AS SELECT oid FROM taxis WHERE n = :n;"
    execute(session, kafka)
    with pytest.raises(StqshError, match="stream k cannot be fed"):
        feed(session, "k", [{"name": "a", "n": 1}])
    with pytest.raises(StqshError, match="there is no stream wach") as raised:
        feed(session, "wach", [])
    assert raised.value.hint == "streams that can be fed: taxis, watch"


def test_a_query_that_was_dropped_by_hand_is_registered_again(session: Session) -> None:
    execute(session, f"INSERT INTO watch VALUES {A}; DROP QUERY a;")
    assert execute(session, f"INSERT INTO watch VALUES {A};") == ["1 query registered by watch"]


def test_what_a_query_stream_uses_cannot_be_dropped(session: Session) -> None:
    with pytest.raises(StqshError, match="the query stream watch registers queries over stream taxis"):
        execute(session, "DROP STREAM taxis;")
    execute(session, f"INSERT INTO watch VALUES {A};")
    assert execute(session, "DROP QUERIES watch; DROP STREAM taxis;") == [
        "queries watch dropped; its query is dropped with it",
        "stream taxis dropped",
    ]
    assert queries(session) == {}


def test_a_dump_has_the_rows(session: Session, tmp_path: Path) -> None:
    execute(session, f"INSERT INTO watch VALUES {A}, ('b''s', 'free', 4, 0, 0, 5, NULL); PAUSE QUERY a;")
    execute(session, f"INSERT INTO watch VALUES {A.replace('100', '70')};")
    script = dump(session.connection).text
    with session_without_engine(tmp_path / "again") as again:
        execute(again, script)
        assert queries(again) == queries(session)
        assert [query.state for query in again.queries()] == ["paused", "active"]
        assert dump(again.connection).text == script
        assert execute(again, f"INSERT INTO watch VALUES {A};") == ["1 query altered by watch"]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("REGISTER QUERIES FROM INSERTS AS SELECT oid FROM taxis INSIDE CIRCLE(:x, 2, 3);", "needs a name"),
        ("REGISTER QUERIES w FROM INSERTS AS SELECT oid FROM taxis;", "has no parameter"),
        ("REGISTER QUERIES w FROM INSERTS AS SELECT oid FROM taxis WHERE n = :_drop;", "a parameter _drop"),
        ("REGISTER QUERIES taxis FROM INSERTS AS SELECT oid FROM taxis WHERE n = :n;", "in use by a stream"),
        ("REGISTER QUERIES w FROM FILE 'q.csv' AS SELECT oid FROM taxis WHERE n = :n;", "need no name"),
        ("CREATE REGION watch AS RECT(0, 0, 1, 1);", "in use by a query stream"),
        ("DROP QUERIES taxis;", "unknown query stream 'taxis'"),
        ("INSERT INTO watch (wanted) VALUES ('x');", "a record needs name, the KEY of watch"),
    ],
)
def test_mistakes(session: Session, statement: str, reason: str) -> None:
    with pytest.raises(StqshError, match=reason):
        execute(session, statement)
