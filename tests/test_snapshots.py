"""Snapshot SELECTs in a session: both ways of asking give the same, at the step that RUN came to."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.budget import share
from support.local import local_session

from stqsh.client.api import Session
from stqsh.client.read.snapshots import SnapshotReader
from stqsh.client.read.stream_waits import is_about_to_play, wait_for_first
from stqsh.client.results import Answer
from stqsh.errors import StqshError

CREATE = """
CREATE MOVING STREAM taxis (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, n BIGINT, status STRING)
  KEY oid LOCATION (lon, lat) TIME ts FROM FILE '{folder}/taxis.csv' REPORT EVERY 40 s;
CREATE EVENT STREAM posts (id BIGINT, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, body STRING)
  KEY id LOCATION (lon, lat) TIME ts TEXT body FROM FILE '{folder}/posts.csv' KEEP 30 s;
CREATE TABLE favourites (oid STRING, who STRING, since TIMESTAMP) KEY oid
  FROM FILE '{folder}/favourites.csv';
CREATE REGION corner AS POLYGON ((0 0, 1 0, 1 1, 0 0));
"""
WORDS = ["rain", "sun", "Markt", "fish", "free"]


def write_files(folder: Path) -> None:
    rng = random.Random(7)

    def place() -> str:
        return f"{rng.randint(0, 20) / 10},{rng.randint(0, 20) / 10}"

    def second() -> str:
        return f"2008-02-02T15:00:{rng.randint(0, 59):02d}Z"

    taxis = [
        f"o{rng.randint(0, 59)},{place() if rng.random() < 0.9 else ','},{second()},"
        f"{rng.randint(0, 9) if rng.random() < 0.8 else ''},{rng.choice(['free', 'busy', ''])}"
        for _ in range(300)
    ]
    posts = [f"{i},{place()},{second()},{' '.join(rng.choices(WORDS, k=3))}" for i in range(150)]
    favourites = [f"o{i},{rng.choice(WORDS)},{second()}" for i in range(0, 60, 2)]
    for name, head, lines in (
        ("taxis", "oid,lon,lat,ts,n,status", taxis),
        ("posts", "id,lon,lat,ts,body", posts),
        ("favourites", "oid,who,since", favourites),
    ):
        (folder / f"{name}.csv").write_text("\n".join([head, *lines, ""]))


@pytest.fixture(scope="module", params=[1, 3])
def session(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("snapshots")
    write_files(folder)
    with local_session(folder, slots=request.param, published=True) as session:
        execute(session, CREATE.format(folder=folder) + "RUN FOR 50 s;")
        yield session


def execute(session: Session, text: str) -> list[Answer]:
    return [outcome for outcome in session.outcomes(text) if isinstance(outcome, Answer)]


def ask(session: Session, text: str, *, direct: bool) -> Answer:
    session.snapshots.direct = direct
    [answer] = execute(session, text)
    return answer


NUMBER = st.integers(-2, 22).map(lambda tenth: tenth / 10)
OID = st.integers(0, 62).map(lambda i: f"'o{i}'")
K = st.integers(1, 9)
STILL = st.one_of(
    st.builds("INSIDE ({}, {}, {}, {})".format, NUMBER, NUMBER, NUMBER, NUMBER),
    st.builds("INSIDE CIRCLE({}, {}, {} km)".format, NUMBER, NUMBER, st.integers(1, 150)),
    st.just("INSIDE POLYGON((0 0, 2 0, 2 2, 0 2, 0 0), (0.5 0.5, 1 0.5, 1 1, 0.5 0.5))"),
    st.just("INSIDE corner"),
    st.builds("NEAREST {} TO ({}, {})".format, K, NUMBER, NUMBER),
    st.just(""),
)
MOVING = st.one_of(
    st.builds("INSIDE RECT({0} km, {0} km) AROUND {1}".format, st.integers(1, 150), OID),
    st.builds("INSIDE CIRCLE({} km) AROUND {}".format, st.integers(1, 150), OID),
    st.builds("NEAREST {} TO {}".format, K, OID),
)
TAXI_CONDITION = st.one_of(
    st.just(""),
    st.builds("WHERE oid = {}".format, OID),
    st.just("WHERE status = 'free' OR n IS NULL"),
    st.just("WHERE n * 2 > 7"),
    st.just("WHERE ts > NOW - 10 s"),
    st.just("WHERE n > 3 OR loc INSIDE corner"),
)
TAXI_LIST = st.sampled_from(["*", "oid, n / 2 AS half", "oid, status, ts", "COUNT(*)", "COUNT(*) AS many"])
ORDER = st.sampled_from(["", "ORDER BY n DESC", "ORDER BY status, ts", "ORDER BY oid DESC", "ORDER BY n + 1"])
LIMIT = st.sampled_from(["", "LIMIT 3"])


@st.composite
def selects(draw):
    kind = draw(st.sampled_from(["taxis", "posts", "join", "groups"]))
    if kind == "posts":
        text = draw(
            st.sampled_from(["", "WHERE body CONTAINS 'rain sun'", "WHERE body CONTAINS ANY 'fish markt'"])
        )
        return f"SELECT id, body FROM posts {text} {draw(STILL)} {draw(LIMIT)};"
    if kind == "join":
        where = draw(st.sampled_from(["", "AND F.who = 'fish'", "AND F.since > T.ts"]))
        relations = f"FROM taxis T, favourites F WHERE T.oid = F.oid {where}"
        return f"SELECT T.oid, F.who, F.since {relations} {draw(st.one_of(STILL, MOVING))};"
    if kind == "groups":
        group = draw(st.sampled_from(["status", "n", "status, n"]))
        measures = "COUNT(*) AS many, AVG(lon) AS mean, MAX(oid) AS last"
        where = f"{draw(TAXI_CONDITION)} {draw(st.one_of(STILL, MOVING))}"
        return f"SELECT {group}, {measures} FROM taxis {where} GROUP BY {group};"
    items = draw(TAXI_LIST)
    order = "" if items.startswith("COUNT") else f"{draw(ORDER)} {draw(LIMIT)}"
    return f"SELECT {items} FROM taxis {draw(TAXI_CONDITION)} {draw(st.one_of(STILL, MOVING))} {order};"


@share(5)
@given(text=selects())
def test_both_ways_of_asking_give_the_same(session, text):
    direct, by_log = ask(session, text, direct=True), ask(session, text, direct=False)
    assert direct.table.equals(by_log.table)
    assert (direct.step, direct.at_us) == (by_log.step, by_log.at_us) == (50, direct.at_us)
    assert direct.names == by_log.names


@pytest.mark.parametrize(
    "text",
    [
        "SELECT T.oid, F.who, F.since FROM taxis T, favourites F WHERE T.oid = F.oid INSIDE (8, 8, 9, 9);",
        "SELECT oid, n + 1 AS more FROM taxis INSIDE (8, 8, 9, 9) ORDER BY n + 1 LIMIT 3;",
        "SELECT COUNT(*) FROM taxis INSIDE (8, 8, 9, 9);",
        "SELECT COUNT(*) AS n, MAX(n) AS most, SUM(n) AS all_of_them FROM taxis INSIDE (8, 8, 9, 9);",
        "SELECT COUNT(*) AS n FROM posts WINDOW 20 s INSIDE (8, 8, 9, 9) HAVING COUNT(*) = 0;",
        "SELECT F.who, COUNT(*) AS n FROM taxis T, favourites F WHERE T.oid = F.oid INSIDE (8, 8, 9, 9)"
        " GROUP BY F.who;",
    ],
)
def test_where_no_slot_has_objects_the_answer_is_that_of_slots_that_looked(session, text):
    direct, by_log = ask(session, text, direct=True), ask(session, text, direct=False)
    assert direct.table.equals(by_log.table) and direct.at_us == by_log.at_us


def test_an_idle_engine_is_not_needed_to_read_what_is_published(session, monkeypatch):
    monkeypatch.setattr(SnapshotReader, "_answer_by_log", lambda *_: pytest.fail("went by the log"))
    assert ask(session, "SELECT COUNT(*) FROM taxis;", direct=True).table["count"][0].as_py() > 0


def test_answers_that_were_taken_leave_nothing_behind(session):
    ask(session, "SELECT oid FROM taxis NEAREST 2 TO 'o1';", direct=False)
    assert list(session.home.answers.iterdir()) == []


@pytest.mark.parametrize("published", [True, False])
def test_before_the_first_step_nothing_is_there(tmp_path, published):
    write_files(tmp_path)
    with local_session(tmp_path, published=published) as session:
        list(session.execute(CREATE.format(folder=tmp_path)))
        rows, counted = execute(session, "SELECT * FROM taxis; SELECT COUNT(*) FROM taxis NEAREST 1 TO 'o1';")
        assert (rows.step, rows.at_us, rows.table.num_rows) == (0, None, 0)
        assert rows.names == ("oid", "lon", "lat", "ts", "n", "status")
        assert counted.table.to_pylist() == [{"count": 0}]
        joined = (
            "SELECT T.oid, F.who FROM taxis T, favourites F WHERE T.oid = F.oid INSIDE corner ORDER BY F.who;"
        )
        [joined] = execute(session, joined)
        assert (joined.table.num_rows, joined.names) == (0, ("oid", "who"))


def test_a_stream_that_plays_is_waited_for_until_it_has_begun(tmp_path):
    write_files(tmp_path)
    with local_session(tmp_path) as session:
        list(session.execute(CREATE.format(folder=tmp_path)))
        connection, engine = session.connection, session.connection.engine
        stream = next(stream.spec for stream in session.streams() if stream.name == "taxis")
        assert not is_about_to_play(connection, stream)
        session.connection.engine = None  # an engine that has not come up yet
        list(session.execute("PLAY taxis AT MAX;"))
        assert is_about_to_play(connection, stream)
        session.connection.engine = engine
        wait_for_first(connection, stream)
        assert not is_about_to_play(connection, stream)
        assert execute(session, "SELECT COUNT(*) FROM taxis;")[0].table["count"][0].as_py() > 0


@pytest.mark.parametrize("published", [True, False])
def test_a_script_sees_the_end_of_its_last_run_and_numbers_its_statements(tmp_path, published):
    write_files(tmp_path)
    script = CREATE + "RUN 10 STEPS; SELECT COUNT(*) FROM posts; RUN 5 STEPS; SELECT COUNT(*) FROM posts;"
    with local_session(tmp_path, slots=2, published=published) as session:
        answers = execute(session, script.format(folder=tmp_path))
        assert [(answer.statement, answer.step) for answer in answers] == [(6, 10), (8, 15)]
        assert answers[0].table["count"][0].as_py() < answers[1].table["count"][0].as_py()


@pytest.mark.parametrize("direct", [True, False])
def test_a_table_or_stream_that_came_after_the_last_step_is_known(tmp_path, direct):
    write_files(tmp_path)
    moving, event, table = (f"{text};" for text in CREATE.format(folder=tmp_path).split(";")[:3])
    with local_session(tmp_path, slots=2, published=True) as session:
        execute(session, moving + "RUN 40 STEPS;" + table + event)
        join = "SELECT COUNT(*) FROM taxis T, favourites F WHERE T.oid = F.oid;"
        assert ask(session, join, direct=direct).table["count"][0].as_py() > 0
        assert ask(session, "SELECT * FROM posts;", direct=direct).table.num_rows == 0


def test_a_select_that_does_not_fit_says_so(session):
    with pytest.raises(StqshError, match="unknown stream"):
        execute(session, "SELECT * FROM nowhere;")
