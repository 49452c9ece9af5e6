"""SELECT without FROM, and FROM a registered query: its current answer, as a snapshot of it would be."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.local import local_session

from stqsh.client.api import Session
from stqsh.client.results import Answer
from stqsh.errors import StqshError

TAXIS = """oid,lon,lat,ts,speed,status
t1,10.0,50.0,2025-01-01T00:00:01Z,3,free
t2,10.01,50.0,2025-01-01T00:00:01Z,1.5,busy
t3,10.02,50.01,2025-01-01T00:00:02Z,,free
t4,10.3,50.3,2025-01-01T00:00:02Z,9,
t1,10.001,50.0,2025-01-01T00:00:05Z,4,free
t2,11.0,50.0,2025-01-01T00:00:06Z,2,busy
"""
DEFINITIONS = """
CREATE MOVING STREAM taxis FROM FILE 'taxis.csv';
CREATE REGION near AS CIRCLE(10, 50, 3 km);
"""
SELECTS = {
    "ranges": "SELECT oid, lon, lat, ts, speed * 2 AS twice, status FROM taxis INSIDE near",
    "neighbours": "SELECT oid, DISTANCE FROM taxis NEAREST 2 TO (10.02, 50.0)",
    "groups": "SELECT status, COUNT(*) AS n, AVG(speed) AS mean, MAX(ts) AS last, TOPK(oid, 2) AS top"
    " FROM taxis GROUP BY status",
    "whole": "SELECT COUNT(*) AS n FROM taxis WHERE speed > 100",
    "firsts": "SELECT oid, speed, DISTANCE FROM taxis INSIDE near ORDER BY speed DESC LIMIT 2",
    "times": "SELECT oid, DATE_TRUNC('minute', ts) AS minute, CASE WHEN speed > 3 THEN ts END AS t"
    " FROM taxis",
}
"""Queries with rows in the order of keys, or of distances."""
REGISTERED = "".join(
    f"REGISTER QUERY {name}{'' if 'COUNT' in text else ' WITH (changes => true)'} AS {text};"
    for name, text in SELECTS.items()
)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    (tmp_path / "taxis.csv").write_text(TAXIS)
    with local_session(tmp_path / "homes", slots=2) as session:
        yield session


def do(session: Session, folder: Path, text: str) -> list[Any]:
    return list(session.execute(text, file=str(folder / "script.stq")))


def rows(session: Session, folder: Path, text: str) -> list[dict[str, Any]]:
    *_, answer = do(session, folder, text)
    assert isinstance(answer, Answer)
    found: list[dict[str, Any]] = answer.table.to_pylist()
    return found


def by_first(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda row: str(next(iter(row.values()))))


def test_a_querys_answer_is_that_of_its_select(session: Session, tmp_path: Path) -> None:
    do(session, tmp_path, DEFINITIONS + REGISTERED + "RUN 4 STEPS;")
    for step in ("RUN 1 STEPS;", "RUN;"):
        for name, text in SELECTS.items():
            of_query = rows(session, tmp_path, f"SELECT * FROM {name};")
            plain = rows(session, tmp_path, f"{text};")
            if name == "firsts":  # an answer is a set: its own order is that of keys
                of_query, plain = by_first(of_query), by_first(plain)
            assert of_query == plain, name
            [answer] = do(session, tmp_path, f"SELECT * FROM {name};")
            [asked] = do(session, tmp_path, f"{text};")
            assert (answer.names, answer.step, answer.at_us) == (asked.names, asked.step, asked.at_us)
        do(session, tmp_path, step)


def test_an_answer_is_asked_like_any_stream(session: Session, tmp_path: Path) -> None:
    do(session, tmp_path, DEFINITIONS + REGISTERED + "RUN;")

    def asked(text: str) -> list[dict[str, Any]]:
        return rows(session, tmp_path, text)

    assert asked("SELECT oid, ROUND(twice) AS r FROM ranges WHERE twice > 1 ORDER BY oid DESC;") == [
        {"oid": "t1", "r": 8.0}
    ]
    assert asked("SELECT status, COUNT(*) AS n FROM ranges GROUP BY status;") == [{"status": "free", "n": 2}]
    assert asked("SELECT r.oid FROM ranges r INSIDE CIRCLE(10.02, 50.01, 10 m);") == [{"oid": "t3"}]
    assert asked("SELECT oid FROM ranges WHERE ts > '2025-01-01T00:00:04' NEAREST 1 TO (10.5, 50);") == [
        {"oid": "t1"}
    ]
    assert asked("SELECT SUM(n) AS n FROM groups WHERE mean IS NOT NULL;") == [{"n": 4}]
    assert asked("SELECT COUNT(*) FROM ranges;") == [{"count": 2}]
    assert asked("SELECT oid FROM neighbours LIMIT 1;") == [{"oid": "t3"}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT speed FROM ranges;", "stream ranges has no column 'speed'"),
        ("SELECT oid FROM neighbours INSIDE near;", "the rows of neighbours have no location"),
        ("SELECT * FROM ranges WINDOW 5 s;", "WINDOW is for streams: an answer is asked once"),
        ("SELECT * FROM ranges a, neighbours b WHERE a.oid = b.oid;", "joins with a query's answer"),
        ("REGISTER QUERY q AS SELECT * FROM ranges;", "ranges is a query: only a SELECT that answers once"),
        ("CREATE VIEW v AS SELECT * FROM ranges;", "ranges is a query: only a SELECT that answers once"),
        ("SELECT a;", "there is no FROM, so there is no column 'a'"),
        ("SELECT *;", "[*] stands for columns, and there is no FROM"),
        ("SELECT 1 INSIDE near;", "there is no FROM, so there are no places"),
        ("SUBSCRIBE SELECT 1;", "a continuous query needs a FROM"),
        ("EXPLAIN SELECT 1;", "EXPLAIN needs a FROM"),
        ("CREATE VIEW v AS SELECT 1;", "a view needs a FROM"),
    ],
)
def test_what_cannot_be_asked_is_told(session: Session, tmp_path: Path, text: str, message: str) -> None:
    do(session, tmp_path, DEFINITIONS + REGISTERED)
    with pytest.raises(StqshError, match=message):
        do(session, tmp_path, text)


def test_without_changes_the_rows_are_those_that_came_in(session: Session, tmp_path: Path) -> None:
    do(session, tmp_path, DEFINITIONS + "REGISTER QUERY q AS SELECT oid, speed FROM taxis INSIDE near; RUN;")
    assert rows(session, tmp_path, "SELECT * FROM q;") == [
        {"oid": "t1", "speed": 3.0}, {"oid": "t3", "speed": None}
    ]  # fmt: skip


def test_a_query_that_has_not_begun_is_empty(session: Session, tmp_path: Path) -> None:
    do(session, tmp_path, DEFINITIONS + f"REGISTER QUERY ranges AS {SELECTS['ranges']};")
    assert rows(session, tmp_path, "SELECT * FROM ranges;") == []
    assert rows(session, tmp_path, "SELECT COUNT(*) AS n, MAX(ts) AS last FROM ranges;") == [
        {"n": 0, "last": None}
    ]


def test_events_that_are_not_kept_make_no_answer(session: Session, tmp_path: Path) -> None:
    do(session, tmp_path, "CREATE EVENT STREAM e FROM FILE 'taxis.csv' KEY oid KEEP NONE;")
    do(session, tmp_path, "REGISTER QUERY q AS SELECT oid FROM e;")
    with pytest.raises(StqshError, match="e keeps no events"):
        do(session, tmp_path, "SELECT * FROM q;")


def test_one_row_without_from(session: Session, tmp_path: Path) -> None:
    assert rows(session, tmp_path, "SELECT 1;") == [{"1": 1}]
    assert rows(session, tmp_path, "SELECT 1 + 2 AS n, UPPER('ä') AS u, 7 DIV 2, NULL AS nothing;") == [
        {"n": 3, "u": "Ä", "7 DIV 2": 3, "nothing": None}
    ]
    assert rows(session, tmp_path, "SELECT CAST('2008-02-02' AS TIMESTAMP) AS t;") == [
        {"t": datetime(2008, 2, 2, tzinfo=UTC)}
    ]
    assert rows(session, tmp_path, "SELECT COUNT(*), SUM(5) AS s WHERE FALSE;") == [{"count": 0, "s": None}]
    assert rows(session, tmp_path, "SELECT 1 WHERE 1 > 2;") == []
    assert rows(session, tmp_path, "SELECT 'x' LIMIT 0;") == []
    assert rows(session, tmp_path, "SELECT ROUND(ST_DISTANCE(ST_POINT(10, 50), ST_POINT(10, 51))) AS m;") == [
        {"m": 111195.0}
    ]
