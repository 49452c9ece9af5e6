"""Snapshot SELECTs through Spark: the same as without it, both ways, at rest and while steps are taken."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.killing import kill_all
from support.local import local_session

from stqsh.client.api import Session, connect
from stqsh.client.connection import ENGINE_LOOK_S
from stqsh.client.engine_process import stop_engine
from stqsh.client.results import Answer, Message
from stqsh.storage.engine_info import is_alive, read_engine
from system.test_snapshots import CREATE, ask, execute, write_files

ASKED = [
    "SELECT * FROM taxis WHERE oid = 'o7';",
    "SELECT oid, n / 2 AS half FROM taxis INSIDE (0, 0, 1, 1) ORDER BY n DESC LIMIT 5;",
    "SELECT COUNT(*) FROM taxis INSIDE corner;",
    "SELECT oid, distance FROM taxis WHERE status = 'free' NEAREST 4 TO 'o3';",
    "SELECT oid FROM taxis INSIDE CIRCLE(60 km) AROUND 'o5';",
    "SELECT T.oid, F.who, F.since FROM taxis T, favourites F WHERE T.oid = F.oid INSIDE (0, 0, 2, 1);",
    "SELECT id FROM posts WHERE body CONTAINS 'rain' NEAREST 3 TO (1, 1);",
]


SECONDS = 300
TICKS = (
    "CREATE MOVING STREAM ticks (oid STRING, x DOUBLE, y DOUBLE, ts TIMESTAMP, s BIGINT) "
    "KEY oid LOCATION (x, y) TIME ts FROM FILE '{folder}/ticks.csv' PLANAR; RUN 1 STEPS;"
)


def write_ticks(folder: Path) -> None:
    """Each object reports once a second which second it is, so an answer of one step has one second.

    The last second is the one before the first of `write_files`.
    """
    times = [(s, f"2008-02-02T14:{55 + s // 60:02d}:{s % 60:02d}Z") for s in range(SECONDS)]
    lines = [f"o{i},1,1,{time},{s}" for s, time in times for i in range(20)]
    (folder / "ticks.csv").write_text("\n".join(["oid,x,y,ts,s", *lines, ""]))


def asked(session: Session, *, direct: bool) -> list[Answer]:
    return [ask(session, text, direct=direct) for text in ASKED]


def tables(answers: list[Answer]) -> list[list[dict[str, object]]]:
    return [answer.table.to_pylist() for answer in answers]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write_files(folder)
    write_ticks(folder)
    return folder


@pytest.fixture(scope="module")
def playing(files: Path) -> Iterator[Session]:
    """A session whose engine both tests use, one after the other; its first stream is played to its end."""
    with connect(home=files / "sessions", temporary=True, autoplay=False) as session:
        list(session.execute(TICKS.format(folder=files)))
        yield session


@pytest.mark.spark
def test_while_steps_are_taken_every_answer_is_of_one_of_them(playing: Session) -> None:
    list(playing.execute("PLAY ticks AT 60x;"))
    steps = []
    while not steps or steps[-1] < SECONDS:
        for direct in (True, False):
            answer = ask(playing, "SELECT oid, s FROM ticks;", direct=direct)
            assert answer.table["s"].to_pylist() == [answer.step - 1] * 20
            steps.append(answer.step)
    assert steps == sorted(steps)
    assert len(set(steps)) > 2
    assert execute(playing, "SELECT COUNT(*) FROM ticks;")[0].step == SECONDS


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_select_starts_an_engine_again_that_was_killed_with_its_parent(files: Path) -> None:
    with connect(home=files / "killed", temporary=True, autoplay=False) as session:
        list(session.execute(TICKS.format(folder=files)))
        list(session.execute("PLAY ticks AT 1x;"))
        while ask(session, "SELECT COUNT(*) FROM ticks;", direct=True).step < 3:
            time.sleep(0.1)
        kill_all(session)
        step = session.progress().step
        time.sleep(2 * ENGINE_LOOK_S)
        assert not is_alive(read_engine(session.home))
        said, answer = session.execute("SELECT oid, s FROM ticks;")
        assert isinstance(said, Message) and isinstance(answer, Answer)
        assert said.text.startswith(f"the engine had died after step {step}; it is started again")
        # The engine may be killed after a step and before it says so.
        assert step <= answer.step <= step + 1
        assert answer.table["s"].to_pylist() == [answer.step - 1] * 20
        assert is_alive(read_engine(session.home))
        while session.progress().step <= answer.step:  # it plays on
            time.sleep(0.1)
        kill_all(session)
        time.sleep(2 * ENGINE_LOOK_S)
        _, rows = session.execute("SHOW STATUS;")
        assert dict(rows.rows)["engine"] == "starting"


@pytest.mark.spark
def test_answers_are_those_of_the_engine_without_spark(playing: Session, files: Path) -> None:
    list(playing.execute("PAUSE ticks; RUN;"))
    script = CREATE.format(folder=files) + "RUN FOR 50 s;"
    with local_session(files) as session:
        list(session.execute(TICKS.format(folder=files) + "RUN;" + script))
        expected = tables(asked(session, direct=False))
    assert all(expected)
    list(playing.execute(script))
    direct = asked(playing, direct=True)
    assert tables(direct) == expected
    assert {answer.step for answer in direct} == {SECONDS + 50}
    assert tables(asked(playing, direct=False)) == expected
    stop_engine(playing.home)
    assert tables(asked(playing, direct=True)) == expected
    shutil.rmtree(playing.home.arena.folder)
    assert tables(asked(playing, direct=True)) == expected
