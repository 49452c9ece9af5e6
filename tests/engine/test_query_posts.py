"""Query streams FROM HTTP: what a post does, and that what is answered with 200 counts once."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest
from support.posts import connected, free_port, post
from support.query_streams import commands, execute, intakes, session_without_engine

from stqsh.client.api import Session
from stqsh.client.results import Rows
from stqsh.client.statements.describe import dump
from stqsh.lang.errors import BindError
from stqsh.sources.live.http_port import token_of
from stqsh.storage.control_log import read_log
from stqsh.storage.queries.query_streams import QueryStreamRow, find_query_stream

CREATE = """CREATE MOVING STREAM taxis (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP, status STRING)
  KEY oid LOCATION (lon, lat) TIME ts FROM INSERTS;
REGISTER QUERIES watch FROM HTTP PORT {port}
  AS SELECT oid FROM taxis WHERE status = :s INSIDE CIRCLE(:x, 2, 100);"""
PROCESS = """
import os, signal, sys, time
from itertools import count
from pathlib import Path
from stqsh.engine.ingest import query_intakes
from stqsh.sources import query_rows
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import SessionHome

home, times, last = SessionHome(Path(sys.argv[1])), count(1), int(sys.argv[2])
note, apply = query_rows.note_applied, query_intakes.apply_rows

def die_at_last():
    if next(times) == last:
        os.kill(os.getpid(), signal.SIGKILL)

def before_commit(*given, **named):
    note(*given, **named)
    die_at_last()

def after_commit(*given, **named):
    done = apply(*given, **named)
    die_at_last()
    return done

query_rows.note_applied, query_intakes.apply_rows = before_commit, after_commit
query_intakes.QueryIntakes(home, ControlDb(home.path)).start()
time.sleep(600)
"""
"""Applies posts, and kills itself: 1 is before the first commit, 2 after it, 3 before the second, …."""
DEATHS = (1, 4, 3, 0)


def row(name: str, s: str | None = "free", x: float = 0.0, **more: bool) -> bytes:
    return json.dumps({"name": name, "s": s, "x": x, **more}).encode()


def found(session: Session) -> QueryStreamRow:
    stream = find_query_stream(session.connection.db, "watch")
    assert stream is not None
    return stream


def shown(session: Session, text: str) -> list[tuple[Any, ...]]:
    return [row for outcome in session.outcomes(text) if isinstance(outcome, Rows) for row in outcome.rows]


class Watched:
    """A session with a query stream, whose intake listens."""

    def __init__(self, session: Session) -> None:
        self.session, self.port = session, free_port()
        _, self.told = execute(session, CREATE.format(port=self.port))
        self.folder = session.home.stream(found(session).id)
        self.token = self.told.split()[-1]

    def post(self, *lines: bytes, token: str | None = None) -> tuple[int, dict[str, object]]:
        return post(self.port, self.token if token is None else token, b"\n".join(lines))

    def queries(self) -> dict[str, str]:
        return {query.name: query.spec.text for query in self.session.queries()}


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    with session_without_engine(tmp_path) as session:
        watched = Watched(session)
        with intakes(session):
            yield watched


def test_posts_register_change_and_drop(watched: Watched) -> None:
    assert watched.post(row("a"), b"", row("b")) == (200, {"records": 2, "dead_letters": 0})
    assert [*watched.queries()] == ["a", "b"]
    told = watched.post(
        row("a", x=1.5), b'{"name": "b", "_drop": true}', b"oops", row("taxis"), row("c", None)
    )
    assert told == (200, {"records": 2, "dead_letters": 3})
    assert watched.queries() == {
        "a": "SELECT oid FROM taxis WHERE status = 'free' INSIDE CIRCLE(1.5, 2, 100)"
    }
    kinds = [kind for kind, _ in commands(read_log(watched.session.connection.db))]
    assert kinds == ["register", "register", "alter", "drop"]
    source = f"http port {watched.port}"
    assert shown(watched.session, "SHOW QUERY STREAMS;") == [("watch", "taxis", source, 1, 7, 3, "ready")]
    letters = [letter for letter in shown(watched.session, "SHOW DEAD LETTERS;") if len(letter) == 5]
    assert [letter[1:4] for letter in letters] == [
        ("http", 3, "not JSON: unexpected character, expected a JSON value"),
        ("http", 4, "the name taxis is in use"),
        ("http", 5, "s: the value is missing"),
    ]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([b"", row("taxis")], "line 2: the name taxis is in use"),
        ([row("a", None), b"oops"], "line 1: s: the value is missing"),
        ([b'{"s": "free", "x": 1}', row("taxis")], "line 1: name: the key is empty"),
    ],
)
def test_a_post_without_a_valid_row_changes_nothing(
    watched: Watched, lines: list[bytes], reason: str
) -> None:
    assert watched.post(*lines) == (400, {"error": f"no line is a valid record; {reason}"})
    stream = found(watched.session)
    assert (stream.rows, stream.dead, stream.parts) == (0, 0, 0)
    assert not [letter for letter in shown(watched.session, "SHOW DEAD LETTERS;") if len(letter) == 5]


def test_only_who_has_the_token_posts_and_only_register_shows_it(watched: Watched) -> None:
    assert f"http://127.0.0.1:{watched.port}/" in watched.told
    assert watched.token == token_of(watched.folder)
    assert watched.post(row("a"), token="wrong")[0] == 401
    assert not watched.queries()
    said = [str(told) for told in watched.session.outcomes("SHOW QUERY STREAMS; DESCRIBE watch; DUMP;")]
    assert any(f"http port {watched.port}" in text for text in said)
    assert not any(watched.token in text for text in said)


def test_a_dump_has_the_rows_that_were_posted(watched: Watched, tmp_path: Path) -> None:
    watched.post(row("a"), row("it's", "busy", 2.5), row("a", x=0.5))
    script = dump(watched.session.connection).text.replace(str(watched.port), str(free_port()))
    with session_without_engine(tmp_path / "again") as again:
        execute(again, script)
        assert {query.name: query.spec.text for query in again.queries()} == watched.queries()
        assert execute(again, "INSERT INTO watch (name, _drop) VALUES ('a', TRUE);") == [
            "1 query dropped by watch"
        ]


def test_a_dropped_query_stream_takes_no_posts(watched: Watched) -> None:
    headers = {"Authorization": f"Bearer {watched.token}"}
    connection = connected(watched.port)
    connection.request("POST", "/", row("a"), headers)
    assert connection.getresponse().read()
    execute(watched.session, "DROP QUERIES watch;")
    connection.request("POST", "/", row("b"), headers)
    answer = connection.getresponse()
    assert (answer.status, b"has been dropped" in answer.read()) == (410, True)
    assert not watched.queries()
    assert not watched.folder.exists()
    with pytest.raises(ConnectionRefusedError):
        for _ in range(500):
            socket.create_connection(("127.0.0.1", watched.port)).close()
            time.sleep(0.02)


def test_a_taken_port_is_an_error(tmp_path: Path) -> None:
    with session_without_engine(tmp_path) as session:
        port = Watched(session).port
        more = "(oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP) FROM HTTP PORT"
        with pytest.raises(BindError, match=f"port {port} is that of query stream watch"):
            execute(session, f"CREATE MOVING STREAM bikes {more} {port};")
        other = free_port()
        execute(session, f"CREATE MOVING STREAM bikes {more} {other};")
        register = "REGISTER QUERIES w FROM HTTP PORT {} AS SELECT oid FROM taxis WHERE status = :s;"
        with pytest.raises(BindError, match=f"port {other} is that of stream bikes"):
            execute(session, register.format(other))
        with socket.create_server(("127.0.0.1", 0)) as server:
            taken = server.getsockname()[1]
            with pytest.raises(BindError, match=f"cannot listen on port {taken}"):
                execute(session, register.format(taken))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_is_posted_until_it_is_answered_counts_once_whatever_is_killed(tmp_path: Path) -> None:
    dice = random.Random(5)
    rows = [
        row(f"q{dice.randrange(8)}", dice.choice(["free", "busy"]), _drop=dice.random() < 0.2)
        for _ in range(12)
    ]
    with session_without_engine(tmp_path / "killed") as killed, session_without_engine(tmp_path) as calm:
        watched, undisturbed = Watched(killed), Watched(calm)
        deaths, process = iter(DEATHS), None
        for line in rows:
            status = 0
            while status != 200:
                if process is None or process.poll() is not None:
                    command = [sys.executable, "-c", PROCESS, str(killed.home.path), str(next(deaths))]
                    process = subprocess.Popen(command)
                try:
                    status, _ = watched.post(line)
                except (OSError, HTTPException):
                    with suppress(subprocess.TimeoutExpired):  # it may be about to listen
                        process.wait(1)
        assert process is not None
        process.kill()
        process.wait()
        with intakes(calm):
            for line in rows:
                assert undisturbed.post(line)[0] == 200
        assert next(deaths, None) is None
        assert commands(read_log(killed.connection.db)) == commands(read_log(calm.connection.db))
