"""Query streams: what rows of REGISTER QUERIES name FROM a live source do, and how they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.query_streams import execute, session_without_engine

from stqsh.client.api import Session
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
    assert execute(session, f"INSERT INTO watch VALUES {other};") == ["1 query replaced by watch"]
    assert session.queries()[-1].name == "a"
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
    assert execute(session, "INSERT INTO w VALUES ('b', 178, 179, NULL);") == ["1 query replaced by w"]


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
