"""Snapshot SELECTs through Spark: the same as without it, both ways, at rest and while steps are taken."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.local import local_session
from test_snapshots import CREATE, ask, execute, write_files

from stqsh.session.client import Session, connect
from stqsh.session.process import stop_engine
from stqsh.session.results import Answer

ASKED = [
    "SELECT * FROM taxis WHERE oid = 'o7';",
    "SELECT oid, n / 2 AS half FROM taxis INSIDE (0, 0, 1, 1) ORDER BY n DESC LIMIT 5;",
    "SELECT COUNT(*) FROM taxis INSIDE corner;",
    "SELECT oid, distance FROM taxis WHERE status = 'free' NEAREST 4 TO 'o3';",
    "SELECT oid FROM taxis INSIDE CIRCLE(60 km) AROUND 'o5';",
    "SELECT T.oid, F.who, F.since FROM taxis T, favourites F WHERE T.oid = F.oid INSIDE (0, 0, 2, 1);",
    "SELECT id FROM posts WHERE body CONTAINS 'rain' NEAREST 3 TO (1, 1);",
]


def asked(session: Session, *, direct: bool) -> list[Answer]:
    return [ask(session, text, direct=direct) for text in ASKED]


def tables(answers: list[Answer]) -> list[list[dict[str, object]]]:
    return [answer.table.to_pylist() for answer in answers]


@pytest.mark.spark
def test_answers_are_those_of_the_engine_without_spark(tmp_path: Path) -> None:
    write_files(tmp_path)
    script = CREATE.format(folder=tmp_path) + "RUN FOR 50 s;"
    with local_session(tmp_path) as session:
        list(session.execute(script))
        expected = tables(asked(session, direct=False))
    with connect(home=tmp_path / "sessions", temporary=True, autoplay=False) as session:
        list(session.execute(script))
        direct = asked(session, direct=True)
        assert tables(direct) == expected
        assert {answer.step for answer in direct} == {50}
        assert tables(asked(session, direct=False)) == expected
        stop_engine(session.home)
        assert tables(asked(session, direct=True)) == expected
        shutil.rmtree(session.home.arena())
        assert tables(asked(session, direct=True)) == expected


@pytest.mark.spark
def test_while_steps_are_taken_every_answer_is_of_one_of_them(tmp_path: Path) -> None:
    """Each object reports once a second which second it is, so an answer of one step has one second."""
    lines = [f"o{i},1,1,2008-02-02T15:{s // 60:02d}:{s % 60:02d}Z,{s}" for s in range(300) for i in range(20)]
    (tmp_path / "ticks.csv").write_text("\n".join(["oid,x,y,ts,s", *lines, ""]))
    create = (
        "CREATE MOVING STREAM ticks (oid STRING, x DOUBLE, y DOUBLE, ts TIMESTAMP, s BIGINT) "
        f"KEY oid LOCATION (x, y) TIME ts FROM FILE '{tmp_path}/ticks.csv' PLANAR; "
        "RUN 1 STEPS; PLAY ticks AT 60x;"
    )
    with connect(home=tmp_path / "sessions", temporary=True, autoplay=False) as session:
        list(session.execute(create))
        steps = []
        while not steps or steps[-1] < 300:
            for direct in (True, False):
                answer = ask(session, "SELECT oid, s FROM ticks;", direct=direct)
                assert answer.table["s"].to_pylist() == [answer.step - 1] * 20
                steps.append(answer.step)
        assert steps == sorted(steps)
        assert len(set(steps)) > 2
        assert execute(session, "SELECT COUNT(*) FROM ticks;")[0].step == 300
