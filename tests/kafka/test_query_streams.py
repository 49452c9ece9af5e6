"""Query streams FROM KAFKA against a real broker: each row counts once, whatever is killed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from support.kafka import add_partitions, make_topic, send
from support.killing import STOPPED_S
from support.local import local_session
from support.query_streams import commands, execute, intakes, session_without_engine
from support.running import log_so_far

from stqsh.broker.kafka import KafkaBroker
from stqsh.client.api import Session, connect
from stqsh.client.results import Rows
from stqsh.client.run import RunHandle
from stqsh.storage.control_log import read_log
from stqsh.storage.queries.query_streams import find_query_stream

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]
CREATE = """CREATE MOVING STREAM taxis (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, status STRING)
  KEY oid LOCATION (lon, lat) TIME ts FROM INSERTS;
REGISTER QUERIES watch FROM KAFKA '{address}' TOPIC '{topic}' {more}
  AS SELECT oid FROM taxis WHERE status = :s INSIDE CIRCLE(:x, 2, 100);"""
ROWS = 240
PROCESS = """
import os, random, signal, sys, time
from pathlib import Path
from stqsh.engine.ingest import query_intakes
from stqsh.sources import query_rows
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import SessionHome

home, dice = SessionHome(Path(sys.argv[1])), random.Random(int(sys.argv[2]))
note, apply, query_intakes._ROOM = query_rows.note_applied, query_intakes.apply_rows, 60

def die_sometimes():
    if dice.random() < 0.3:
        os.kill(os.getpid(), signal.SIGKILL)

def before_commit(*given, **named):
    note(*given, **named)
    die_sometimes()

def after_commit(*given):
    apply(*given)
    die_sometimes()

query_rows.note_applied, query_intakes.apply_rows = before_commit, after_commit
query_intakes.QueryIntakes(home, ControlDb(home.path)).start()
time.sleep(600)
"""
"""Applies rows in small parts, and kills itself now and then before and after commits."""


def row(name: str, s: str = "free", x: float = 0.0) -> tuple[bytes, bytes]:
    return name.encode(), orjson.dumps({"name": name, "s": s, "x": x})


def wait_until(what: Callable[[], bool]) -> None:
    until = time.monotonic() + 3 * STOPPED_S
    while not what():
        assert time.monotonic() < until, "it does not happen"
        time.sleep(0.05)


def counts(session: Session) -> tuple[int, int]:
    stream = find_query_stream(session.connection.db, "watch")
    assert stream is not None
    return stream.rows, stream.dead


def is_done(session: Session) -> bool:
    return counts(session)[0] >= ROWS


def shown(session: Session, text: str) -> list[tuple[Any, ...]]:
    return [row for outcome in session.outcomes(text) if isinstance(outcome, Rows) for row in outcome.rows]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with session_without_engine(tmp_path) as found:
        yield found


def test_messages_register_change_and_drop(session: Session, broker: KafkaBroker, topic: str) -> None:
    execute(session, CREATE.format(address=broker.address, topic=topic, more=""))
    send(broker.address, topic, [row("a"), row("b"), row("taxis")])
    with intakes(session):
        wait_until(lambda: counts(session) == (3, 1))
        send(broker.address, topic, [row("a", x=1.0), (b"b", None), (b"c", b"{"), row("d", "it's")])
        wait_until(lambda: counts(session) == (7, 2))
    assert {query.name: query.spec.text for query in session.queries()} == {
        "a": "SELECT oid FROM taxis WHERE status = 'free' INSIDE CIRCLE(1, 2, 100)",
        "d": "SELECT oid FROM taxis WHERE status = 'it''s' INSIDE CIRCLE(0, 2, 100)",
    }
    kinds = [kind for kind, _ in commands(read_log(session.connection.db))]
    assert sorted(kinds) == ["alter", "drop", "register", "register", "register"]
    letters = shown(session, "SHOW DEAD LETTERS;")
    assert ("watch", 2) in letters
    reasons = {letter[3] for letter in letters if len(letter) == 5}
    assert "the name taxis is in use" in reasons
    assert len(reasons) == 2
    execute(session, "DROP QUERIES watch;")
    assert not session.queries()


def test_an_intake_continues_where_the_last_one_was(session: Session, broker: KafkaBroker) -> None:
    topic = make_topic(broker.address, f"q-{random.random()}", 1)
    send(broker.address, topic, [row("old")])
    execute(session, CREATE.format(address=broker.address, topic=topic, more="FROM LATEST"))
    stream = find_query_stream(session.connection.db, "watch")
    assert stream is not None
    with intakes(session):
        wait_until(lambda: find_query_stream(session.connection.db, "watch").position != {})  # type: ignore[union-attr]
    send(broker.address, topic, [row("a")])  # while nothing reads
    add_partitions(broker.address, topic, 2)
    send(broker.address, topic, [row("b")], 1)
    with intakes(session):
        wait_until(lambda: counts(session) == (2, 0))
    assert sorted(query.name for query in session.queries()) == ["a", "b"]


def test_a_broker_that_is_away_is_told(session: Session) -> None:
    execute(session, CREATE.format(address="127.0.0.1:1", topic="t", more=""))
    with intakes(session):
        wait_until(lambda: "waits" in str(shown(session, "SHOW QUERY STREAMS;")[0][-1]))


def test_each_row_counts_once_whatever_is_killed(tmp_path: Path, broker: KafkaBroker) -> None:
    topic = make_topic(broker.address, f"q-{random.random()}", 1)
    dice = random.Random(5)
    rows = [
        row(f"q{dice.randrange(300)}", dice.choice(["free", "busy"]), dice.randrange(3) / 2)
        if dice.random() < 0.9
        else (f"q{dice.randrange(300)}".encode(), None)
        for _ in range(ROWS)
    ]
    made = CREATE.format(address=broker.address, topic=topic, more="")
    with session_without_engine(tmp_path / "killed") as killed, session_without_engine(tmp_path) as calm:
        execute(killed, made)
        execute(calm, made)
        send(broker.address, topic, rows)
        deaths = 0
        while not is_done(killed):
            command = [sys.executable, "-c", PROCESS, str(killed.home.path), str(deaths)]
            with subprocess.Popen(command) as process:
                wait_until(lambda process=process: process.poll() is not None or is_done(killed))  # type: ignore[misc]
                process.kill()
            deaths += 1
        with intakes(calm):
            wait_until(lambda: is_done(calm))
        assert deaths > 2
        assert counts(killed) == counts(calm) == (ROWS, 0)
        assert commands(read_log(killed.connection.db)) == commands(read_log(calm.connection.db))


FLEET = """CREATE MOVING STREAM taxis FROM GENERATOR 'network'
  (objects => 200, bounds => '0, 0, 0.2, 0.2') TICK 1 s;
REGISTER QUERIES watch FROM KAFKA '{address}' TOPIC '{topic}'
  AS SELECT oid, status FROM taxis WHERE status = :s INSIDE CIRCLE(:x, 0.1, 9 km);"""


@pytest.mark.spark
@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_rows_ask_of_a_cluster_what_they_ask_of_one_machine(tmp_path: Path, broker: KafkaBroker) -> None:
    dice = random.Random(3)
    first = [row(f"q{at}", dice.choice(["free", "busy"]), dice.random() / 5) for at in range(30)]
    then = [row(f"q{at}", dice.choice(["free", "busy"]), dice.random() / 5) for at in range(20, 40)]
    parts = [first, [*then, *((f"q{at}".encode(), None) for at in range(10))], [row("q3"), row("q25", x=0.1)]]

    def told(session: Session) -> bytes:
        """All updates, while rows register, change and drop queries between runs."""
        topic, sent = make_topic(broker.address, f"q-{random.random()}", 1), 0
        execute(session, FLEET.format(address=broker.address, topic=topic))
        for part in parts:
            send(broker.address, topic, part)
            sent += len(part)
            wait_until(lambda sent=sent: counts(session) == (sent, 0))  # type: ignore[misc]
            running = next(one for one in session.outcomes("RUN 4 STEPS;") if isinstance(one, RunHandle))
            running.wait()
        return log_so_far(session, running)

    with local_session(tmp_path / "one", slots=2, published=True) as session, intakes(session):
        expected = told(session)
    told_of = {line.split(b'"')[3] for line in expected.splitlines()}
    assert told_of >= {b"q3", b"q9", b"q25"}, "changed, dropped and changed again"
    assert any(f"q{at}".encode() in told_of for at in range(30, 40)), "registered by later rows"
    profile = tmp_path / "cluster.yaml"
    profile.write_text(PROFILE, encoding="utf-8")
    with connect(home=tmp_path / "homes", temporary=True, autoplay=False, profile=str(profile)) as session:
        session.start_engine()
        assert told(session) == expected


PROFILE = """
spark: {master: "local-cluster[2,1,1024]", executor.memory: 700m}
engine: {slots: 2, memory: 1g}
"""
