"""Views as a user makes, asks, shows and drops them, with an engine in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.local import local_session
from support.running import parsed, run_script

from stqsh.client.api import Session
from stqsh.client.results import Answer, Message, Rows, Script
from stqsh.errors import StqshError

TAXIS = """oid,lon,lat,ts,speed
t1,10.0,50.0,2025-01-01T00:00:02Z,3
t1,10.2,50.2,2025-01-01T00:00:10Z,4
t2,10.05,50.0,2025-01-01T00:00:12Z,1
"""
DEFINITIONS = """
CREATE MOVING STREAM taxis FROM FILE 'taxis.csv' REPORT EVERY 15 s;
CREATE VIEW cabs AS SELECT oid AS cab, speed * 2 AS twice FROM taxis;
CREATE VIEW fast AS SELECT cab FROM cabs WHERE twice > 7;
"""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    (tmp_path / "taxis.csv").write_text(TAXIS)
    with local_session(tmp_path / "homes", slots=2) as session:
        yield session


def do(session: Session, folder: Path, text: str) -> list[Any]:
    return list(session.execute(text, file=str(folder / "script.stq")))


def rows(answer: Any) -> list[dict[str, Any]]:
    assert isinstance(answer, Answer)
    found: list[dict[str, Any]] = answer.table.to_pylist()
    return found


def test_views_answer_once_and_follow(session: Session, tmp_path: Path) -> None:
    text = (
        DEFINITIONS + "REGISTER QUERY q AS SELECT * FROM fast; RUN; SELECT cab, twice FROM cabs ORDER BY cab;"
    )
    lines = parsed(run_script(session, text, tmp_path / "script.stq"))
    followed = [(line["step"], line["op"], line["row"]) for line in lines if "query" in line]
    assert followed == [(9, "+", {"cab": "t1"})]
    assert [line["row"] for line in lines if "statement" in line] == [
        {"cab": "t1", "twice": 8}, {"cab": "t2", "twice": 2}
    ]  # fmt: skip


def test_views_are_listed_described_dumped_and_dropped(session: Session, tmp_path: Path) -> None:
    do(session, tmp_path, DEFINITIONS)
    [listed] = do(session, tmp_path, "SHOW VIEWS LIKE 'f%';")
    assert isinstance(listed, Rows)
    assert listed.rows == (("fast", "SELECT cab FROM cabs WHERE twice > 7"),)
    [described] = do(session, tmp_path, "DESCRIBE cabs;")
    assert dict(described.rows) == {
        "columns": "cab, twice",
        "select": "SELECT oid AS cab, speed * 2 AS twice FROM taxis",
    }
    [script] = do(session, tmp_path, "DUMP;")
    assert isinstance(script, Script)
    assert script.text.splitlines()[-2:] == [
        'CREATE VIEW "cabs" AS SELECT oid AS cab, speed * 2 AS twice FROM taxis;',
        'CREATE VIEW "fast" AS SELECT cab FROM cabs WHERE twice > 7;',
    ]
    told = do(
        session, tmp_path, "CREATE VIEW IF NOT EXISTS cabs AS SELECT * FROM taxis; DROP VIEW fast, cabs;"
    )
    assert told == [Message("view cabs exists already"), Message("views fast, cabs dropped")]
    [none] = do(session, tmp_path, "SHOW VIEWS;")
    assert none.rows == ()


def test_a_view_that_is_made_anew_is_asked_anew(session: Session, tmp_path: Path) -> None:
    do(session, tmp_path, DEFINITIONS + "RUN;")
    asked = "SELECT * FROM cabs WHERE cab = 't1';"
    [before] = do(session, tmp_path, asked)
    do(session, tmp_path, "DROP VIEW cabs; CREATE VIEW cabs AS SELECT oid AS cab FROM taxis;")
    [after] = do(session, tmp_path, asked)
    assert (rows(before), rows(after)) == ([{"cab": "t1", "twice": 8}], [{"cab": "t1"}])


def test_a_name_in_use_and_a_stream_that_is_gone(session: Session, tmp_path: Path) -> None:
    do(session, tmp_path, DEFINITIONS)
    with pytest.raises(StqshError, match="the name 'cabs' is in use by a view"):
        do(session, tmp_path, "CREATE REGION cabs AS CIRCLE(10, 50, 3);")
    do(session, tmp_path, "DROP STREAM taxis;")
    with pytest.raises(StqshError, match="unknown stream 'taxis'"):
        do(session, tmp_path, "SELECT * FROM fast;")
