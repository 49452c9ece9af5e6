"""Streams FROM HTTP: who may post, what is refused and why, and that what is answered with 200 is kept."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.local import local_session
from support.posts import free_port, post

from stqsh.client.api import Session
from stqsh.client.results import Message, Rows
from stqsh.engine.ingest import http_streams
from stqsh.engine.ingest.http_streams import HttpIntake, spooled
from stqsh.lang.errors import BindError, StatementSyntaxError
from stqsh.sources.live.http_port import token_of
from stqsh.sources.live.inserted_records import InsertedSource
from stqsh.sources.live.line_spool import SPOOL
from stqsh.sources.live.protocol import MessageRange
from stqsh.sources.live.record_spool import PART, RecordReader
from stqsh.spec.stream import ColumnSpec, HttpSourceSpec, StreamSpec

COLUMNS = (("oid", "STRING"), ("lon", "DOUBLE"), ("lat", "DOUBLE"), ("ts", "TIMESTAMP"))


def stream(port: int) -> StreamSpec:
    columns = tuple(ColumnSpec(name, kind) for name, kind in COLUMNS)
    return StreamSpec(
        name="s", columns=columns, key="oid", x="lon", y="lat", time="ts", source=HttpSourceSpec(port)
    )


class Listener:
    """An intake that listens in a thread."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port, self._stop = folder, port, threading.Event()
        intake = HttpIntake(stream(port), folder, spooled(folder, self._stop))
        self._thread = threading.Thread(target=intake.listen, args=(self._stop,))
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def post(
        self, body: bytes, *, method: str = "POST", token: str | None = None, **headers: str
    ) -> tuple[int, dict[str, object]]:
        token = token_of(self.folder) if token is None else token
        return post(self.port, token, body, method=method, **headers)

    def kept(self) -> list[str]:
        """Return the objects of the records that are kept."""
        spool = self.folder / SPOOL
        end = InsertedSource(spool).state().ends[PART]
        found = RecordReader(spool).read(MessageRange(PART, 0, end)) if end else iter(())
        return [oid for part in found for oid in part.records.column("oid").to_pylist()]


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    listener = Listener(tmp_path, free_port())
    yield listener
    listener.stop()


def line(oid: str) -> bytes:
    return json.dumps({"oid": oid, "lon": 10, "lat": 50, "ts": "2026-01-01T00:00:00Z"}).encode()


def test_what_is_answered_with_200_is_kept(listener: Listener) -> None:
    assert listener.post(line("a") + b"\n\n" + line("b")) == (200, {"records": 2, "dead_letters": 0})
    assert listener.kept() == ["a", "b"]
    assert listener.post(line("c") + b"\noops\n") == (200, {"records": 1, "dead_letters": 1})
    assert listener.kept() == ["a", "b", "c"]
    *_, last = RecordReader(listener.folder / SPOOL).read(MessageRange(PART, 3, 5))
    assert [(letter.file, letter.line, letter.text) for letter in last.dead] == [("http", 2, "oops")]


@pytest.mark.parametrize("token", ["", "wrong", "ä"])
def test_nobody_posts_without_the_token(listener: Listener, token: str) -> None:
    status, said = listener.post(line("a"), token=token)
    assert (status, list(said)) == (401, ["error"])
    assert token_of(listener.folder) not in str(said)
    assert listener.kept() == []


def test_what_is_refused_is_explained(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_streams, "MOST_BYTES", 1 << 20)
    for status, why, body, headers in (
        (400, "the post is empty: send one JSON object per line", b"\n \n", {}),
        (400, "the post is empty: send one JSON object per line", b"\xef\xbb\xbf\n", {}),
        (400, "no line is a valid record; line 2: not JSON: invalid literal, expected 'false'", b"\nfoo", {}),
        (400, "no line is a valid record; line 1: oid: the key is empty", b'{"lon":1,"lat":2,"ts":5}', {}),
        (413, "a post has at most 1 MB: send the lines in several posts", b"x" * (3 << 20), {}),
        (415, "send the lines as they are, uncompressed", b"x", {"Content_Encoding": "gzip"}),
        (411, "send the header Content-Length", b"", {"Transfer_Encoding": "chunked"}),
        (400, "Content-Length is not a number: many", b"", {"Content_Length": "many"}),
    ):
        assert listener.post(body, **headers) == (status, {"error": why})  # type: ignore[arg-type]
    assert listener.post(b"", method="GET")[0] == 405
    assert listener.kept() == []


def test_a_client_that_asks_first_is_answered_first(listener: Listener) -> None:
    assert listener.post(line("a"))[0] == 200  # it listens
    with socket.create_connection(("127.0.0.1", listener.port), 60) as asking:
        head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\nExpect: 100-continue\r\n"
        asking.sendall(f"{head}Authorization: Bearer {token_of(listener.folder)}\r\n\r\n".encode())
        assert asking.recv(100).startswith(b"HTTP/1.1 413 ")


def test_several_posts_at_once(listener: Listener) -> None:
    statuses: list[int] = []

    def post_some(number: int) -> None:
        for k in range(10):
            statuses.append(listener.post(line(f"{number}-{k}"))[0])

    threads = [threading.Thread(target=post_some, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 60
    assert sorted(listener.kept()) == sorted(f"{n}-{k}" for n in range(6) for k in range(10))


def test_a_port_in_use_is_told_and_awaited(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        listener = Listener(tmp_path, int(other.getsockname()[1]))
        source, message = InsertedSource(tmp_path / SPOOL), ""
        while not message:
            message = source.state().message
        assert message == f"waiting for port {listener.port}: address already in use"
    assert listener.post(line("a"))[0] == 200
    assert source.state().message == ""
    listener.stop()
    again = Listener(tmp_path, listener.port)  # as after a restart: the same token counts
    assert again.post(line("b"), token=token_of(tmp_path))[0] == 200
    assert again.kept() == ["a", "b"]
    again.stop()


def test_a_connection_that_outlives_its_stream_is_refused(tmp_path: Path) -> None:
    listener = Listener(tmp_path, free_port())
    assert listener.post(line("a"))[0] == 200
    connection = http.client.HTTPConnection("127.0.0.1", listener.port, timeout=10)
    headers = {"Authorization": f"Bearer {token_of(tmp_path)}"}
    connection.request("POST", "/", line("b"), headers)
    assert connection.getresponse().read()
    listener.stop()
    connection.request("POST", "/", line("c"), headers)
    assert connection.getresponse().status == 410
    assert listener.kept() == ["a", "b"]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with local_session(tmp_path / "home", published=True) as session:
        yield session


def create(port: int, name: str = "bikes") -> str:
    columns = ", ".join(f"{column} {kind}" for column, kind in COLUMNS)
    return f"CREATE MOVING STREAM {name} ({columns}) FROM HTTP PORT {port};"


def test_only_create_shows_the_token(session: Session) -> None:
    port = free_port()
    [told] = session.execute(create(port))
    assert isinstance(told, Message)
    token = told.text.split()[-1]
    assert f"http://127.0.0.1:{port}/" in told.text and len(token) >= 32
    list(session.execute("RUN 1 STEPS;"))
    shown = [
        str(outcome) for outcome in session.outcomes("SHOW STREAMS; DESCRIBE bikes; DUMP; SHOW SETTINGS;")
    ]
    assert any(f"http port {port}" in text for text in shown)
    assert not any(token in text for text in shown)
    assert not session.connection.db.query(
        "SELECT 1 FROM log WHERE text LIKE ? OR spec LIKE ?", *[f"%{token}%"] * 2
    )
    [folder] = (session.home.path / "streams").iterdir()
    assert (folder / "token").read_text() == token and (folder / "token").stat().st_mode & 0o77 == 0


def test_a_taken_port_is_an_error_of_create(session: Session) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = int(other.getsockname()[1])
        with pytest.raises(BindError, match=f"cannot listen on port {port}: address already in use"):
            list(session.execute(create(port)))
    list(session.execute(create(port)))
    with pytest.raises(BindError, match=f"port {port} is that of stream bikes"):
        list(session.execute(create(port, "others")))
    with pytest.raises(StatementSyntaxError, match="this source does not take format 'CSV'"):
        list(session.execute(create(free_port(), "others").replace(";", " FORMAT CSV;")))
    [rows] = session.execute("SHOW STREAMS;")
    assert isinstance(rows, Rows) and len(rows.rows) == 1
