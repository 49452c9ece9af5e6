"""Query streams FROM SOCKET, DIRECTORY and STDIN: rows arrive in a spool, and each counts once."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.killing import STOPPED_S
from support.posts import free_port
from support.query_streams import execute, intakes, session_without_engine

from stqsh.client.api import Session
from stqsh.client.read.stream_waits import AwaitedRows
from stqsh.client.results import Rows
from stqsh.client.statements.describe import dump
from stqsh.errors import StqshError
from stqsh.sources.live.line_spool import SPOOL, SpoolWriter
from stqsh.storage.queries.query_streams import QueryStreamRow, find_query_stream

CREATE = """CREATE MOVING STREAM taxis (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP)
  KEY oid LOCATION (lon, lat) TIME ts FROM INSERTS;
REGISTER QUERIES watch FROM {source} AS SELECT oid FROM taxis INSIDE CIRCLE(:x, 2, :r);"""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with session_without_engine(tmp_path / "session") as found:
        yield found


def stream_of(session: Session) -> QueryStreamRow:
    stream = find_query_stream(session.connection.db, "watch")
    assert stream is not None
    return stream


def wait_for(session: Session, rows: int) -> None:
    wait_until(lambda: stream_of(session).rows >= rows)


def wait_until(what: Callable[[], bool]) -> None:
    until = time.monotonic() + 3 * STOPPED_S
    while not what():
        assert time.monotonic() < until, "it does not happen"
        time.sleep(0.05)


def texts(session: Session) -> dict[str, str]:
    return {query.name: query.spec.text.partition("INSIDE ")[2] for query in session.queries()}


def shown(session: Session, text: str) -> list[tuple[Any, ...]]:
    return [row for outcome in session.outcomes(text) if isinstance(outcome, Rows) for row in outcome.rows]


def test_files_of_a_directory_register_change_and_drop(session: Session, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    execute(session, CREATE.format(source=f"DIRECTORY '{folder}' FORMAT CSV"))
    (folder / "1.csv").write_text("name,x,r,_drop\na,1,5,\n\nb,1,-5,\nc,1,5,\nc,,,true\na,2,5,\n")
    with intakes(session):
        wait_for(session, 5)
    assert texts(session) == {"a": "CIRCLE(2, 2, 5.0)"}
    (folder / "1.csv").unlink()  # it is read only once
    (folder / "2.csv").write_text("r,name,x\n7,d,1\n8,a,x\n")  # without a column to drop queries
    with intakes(session):
        wait_for(session, 7)
    assert texts(session) == {"a": "CIRCLE(2, 2, 5.0)", "d": "CIRCLE(1, 2, 7.0)"}
    letters = [row[1:4] for row in shown(session, "SHOW DEAD LETTERS;") if len(row) == 5]
    assert letters == [
        (str(folder / "1.csv"), 4, "r: a length must be more than 0, and -5 is not"),
        (str(folder / "2.csv"), 3, "x: 'x' is not a valid DOUBLE"),
    ]


def test_parquet_files_need_no_column_to_drop_queries(session: Session, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    execute(session, CREATE.format(source=f"DIRECTORY '{folder}' FORMAT PARQUET"))
    pq.write_table(pa.table({"name": ["a", "b"], "x": [1.0, 2.0], "r": [5.0, -5.0]}), folder / "1.parquet")
    with intakes(session):
        wait_for(session, 2)
    assert (texts(session), stream_of(session).dead) == ({"a": "CIRCLE(1, 2, 5.0)"}, 1)
    letters = [row[1:3] for row in shown(session, "SHOW DEAD LETTERS;") if len(row) == 5]
    assert letters == [(str(folder / "1.parquet"), 2)]


def test_a_directory_that_disappears_is_shown(session: Session, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    execute(session, CREATE.format(source=f"DIRECTORY '{folder}' FORMAT JSON"))
    folder.rmdir()
    with intakes(session):
        wait_until(lambda: "waiting for the directory" in shown(session, "SHOW QUERY STREAMS;")[0][-1])
        folder.mkdir()
        (folder / "1.jsonl").write_text('{"name": "a", "x": 1, "r": 5}\n')
        wait_for(session, 1)
        wait_until(lambda: shown(session, "SHOW QUERY STREAMS;")[0][-1] == "ready")
    assert texts(session) == {"a": "CIRCLE(1, 2, 5.0)"}


def test_files_that_are_there_before_a_run_are_awaited(session: Session, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.csv").write_text("name,x,r\na,1,5\n")
    execute(session, CREATE.format(source=f"DIRECTORY '{folder}' FORMAT CSV"))
    rows = AwaitedRows(session.connection)
    assert rows.stream() == stream_of(session)
    with intakes(session):
        wait_until(lambda: rows.stream() is None)
        assert texts(session) == {"a": "CIRCLE(1, 2, 5.0)"}
    (folder / "2.csv").write_text("name,x,r\n")
    rows = AwaitedRows(session.connection)
    assert rows.stream() is not None
    (folder / "2.csv").write_text("name,x,r\nb,1,5\n")  # it grows, perhaps for ever
    assert rows.stream() is None


def test_lines_of_a_socket_are_rows(session: Session) -> None:
    port = free_port()
    execute(session, CREATE.format(source=f"SOCKET '127.0.0.1:{port}' FORMAT CSV"))
    with socket.create_server(("127.0.0.1", port)) as server, intakes(session):
        for text in (b"name,x,r\na,1,5\nb,1\n", b"r,name,x,_drop\n6,b,1,\n,a,,true\n"):
            found, _ = server.accept()
            with found:
                found.sendall(text)
        wait_for(session, 4)
    assert texts(session) == {"b": "CIRCLE(1, 2, 6.0)"}
    assert stream_of(session).dead == 1


def test_lines_of_standard_input_wait_for_the_engine(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copied(folder: Path) -> threading.Thread:
        writer = SpoolWriter(folder)
        writer.add(b'{"name": "a", "x": 1, "r": 5}\n{"name": "b"}\n{"name": "a", "_drop": true}\n')
        writer.finish()
        return threading.current_thread()

    monkeypatch.setattr("stqsh.client.statements.register_queries.check_stdin", lambda _: None)
    monkeypatch.setattr("stqsh.client.statements.register_queries.pump_stdin", copied)
    execute(session, CREATE.format(source="STDIN"))
    assert (stream_of(session).spec.name, stream_of(session).rows) == ("watch", 0)
    with intakes(session):
        wait_for(session, 3)
    assert (texts(session), stream_of(session).dead) == ({}, 1)
    spool = session.home.stream(stream_of(session).id) / SPOOL
    assert spool.exists()
    execute(session, "DROP QUERIES watch;")
    with intakes(session):
        assert not session.queries()


def test_standard_input_with_the_script_is_no_source(session: Session) -> None:
    with pytest.raises(StqshError, match="standard input"):
        execute(session, CREATE.format(source="STDIN").partition(";")[0] + ";")
        list(session.outcomes(CREATE.format(source="STDIN").partition(";")[2], file="stdin"))


def test_dump_writes_the_rows(session: Session) -> None:
    port = free_port()
    execute(session, CREATE.format(source=f"SOCKET '127.0.0.1:{port}'"))
    execute(session, "INSERT INTO watch (name, x, r) VALUES ('a', 1, 5);")
    script = dump(session.connection).text
    assert script.endswith("INSERT INTO \"watch\" VALUES ('a', 1.0, 5.0, NULL);\n")


def test_rows_of_standard_input_are_awaited_up_to_its_end(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        execute(session, CREATE.format(source="STDIN FORMAT CSV"))
        with intakes(session):
            os.write(writing, b"name,x,r\na,1,5\n")
            wait_for(session, 1)
            rows = AwaitedRows(session.connection)
            assert rows.stream() == stream_of(session)
            os.write(writing, b"b,2,5")
            os.close(writing)
            wait_until(lambda: rows.stream() is None)
    assert texts(session) == {"a": "CIRCLE(1, 2, 5.0)", "b": "CIRCLE(2, 2, 5.0)"}
