"""Snapshots by way of the log: asked before further steps, and never in the way of the engine."""

from __future__ import annotations

import pytest
from support.local import local_session

from stqsh.client.results import Answer
from stqsh.engine.delivery.deliver import collect_answers
from stqsh.lang.syntax.parse import parse
from stqsh.spec.log import RunSteps, SnapshotAsked
from stqsh.spec.query import AskSpec, Members, SnapshotSpec
from stqsh.spec.region import NearestSpec
from stqsh.storage.control_log import append
from stqsh.storage.snapshot_answers import read_answer, take_answer

CREATE = """
CREATE MOVING STREAM t (oid STRING, x DOUBLE, y DOUBLE, ts TIMESTAMP)
  KEY oid LOCATION (x, y) TIME ts FROM FILE '{folder}/t.csv' PLANAR;
CREATE REGION corner AS POLYGON ((0 0, 9 0, 9 9, 0 0));
RUN 3 STEPS;
"""


@pytest.fixture
def session(tmp_path):
    rows = [f"o{i},{s},{i},2008-02-02T15:00:{s:02d}Z" for s in range(20) for i in range(4)]
    (tmp_path / "t.csv").write_text("\n".join(["oid,x,y,ts", *rows, ""]))
    with local_session(tmp_path, slots=2) as session:
        list(session.execute(CREATE.format(folder=tmp_path)))
        yield session


def bound(session, text):
    """The spec of a SELECT and its stream's."""
    [statement] = parse(text)
    return session.snapshots.bound(statement, session._context.view)


def later(session, *entries):
    """Append rows to the log while the engine looks elsewhere, then let it go on."""
    engine, session.connection.engine = session.connection.engine, None
    numbers = [append(session.connection.db, entry).seq for entry in entries]
    session.connection.engine = engine
    engine.advance()
    return numbers


@pytest.mark.parametrize("region", ["INSIDE (0, 0, 50, 50)", "INSIDE CIRCLE(50) AROUND 'o1'"])
def test_questions_that_wait_are_answered_before_the_next_step(session, region):
    spec, _ = bound(session, f"SELECT oid FROM t {region};")
    _, one, other = later(session, RunSteps(5), SnapshotAsked(spec), SnapshotAsked(spec))
    for number in (one, other):
        _, progress = read_answer(take_answer(session.home, number))
        assert progress.step == 3
    assert session.progress().step == 8


def test_a_question_about_what_was_dropped_meanwhile_is_answered_by_nothing(session):
    spec, _ = bound(session, "SELECT oid FROM t INSIDE corner;")
    list(session.execute("DROP REGION corner; RUN 1 STEPS;"))
    (number,) = later(session, SnapshotAsked(spec))
    shares, _ = read_answer(take_answer(session.home, number))
    assert shares == []
    [answer] = [out for out in session.outcomes("SELECT COUNT(*) FROM t;") if isinstance(out, Answer)]
    assert answer.table.to_pylist() == [{"count": 4}]


def test_a_question_for_a_place_becomes_one_with_the_place():
    ask = AskSpec(
        ask=7,
        spec=SnapshotSpec(stream_id=1, kind="nearest", members=Members(region=NearestSpec(1, focal="o1"))),
    )
    answers, again = collect_answers([ask], [])
    assert answers == {}
    assert again == [SnapshotAsked(ask.spec, None, 7)]
    assert collect_answers([AskSpec(ask=7, spec=ask.spec, place=None)], []) == ({7: []}, [])
