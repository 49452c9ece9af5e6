"""Streams from sockets, directories, ports and by hand: wrong statements, and what SHOW STREAMS says."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.local import local_session

from stqsh.client.api import Session
from stqsh.client.results import Rows
from stqsh.errors import StqshError
from stqsh.lang.errors import BindError

COLUMNS = "(oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP) KEY oid LOCATION (lon, lat) TIME ts"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with local_session(tmp_path / "home", slots=2, published=True) as session:
        yield session


def stream(name: str, source: str, kind: str = "MOVING") -> str:
    return f"CREATE {kind} STREAM {name} {COLUMNS} FROM {source};"


def message_of(session: Session, name: str) -> Any:
    [rows] = (one for one in session.outcomes("SHOW STREAMS;") if isinstance(one, Rows))
    at = rows.columns.index("message")
    return next(row[at] for row in rows.rows if row[0] == name)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (stream("s", "HTTP PORT 99999"), "99999 is not a port"),
        (stream("s", "DIRECTORY ''"), "there is no folder ''"),
        (stream("s", "FILE ''"), "the name of the file is empty"),
        (stream("s", "INSERTS FORMAT JSON (heder => true)"), "FORMAT JSON has no option heder"),
        (stream("s", "DIRECTORY '/' FORMAT PARQUET (header => true)"), "FORMAT PARQUET has no option header"),
        (stream("s", "INSERTS KEEP 5 s ARCHIVE TO ''", "EVENT"), "the name of the folder is empty"),
        (
            stream("s", "KAFKA 'localhost:1' TOPIC 't' FORMAT CSV (header => true)"),
            "messages of Kafka have no header",
        ),
        (
            "CREATE SINK k FOR ALL TO FILE '/dev/null' FORMAT CSV;",
            "files cannot be written to /dev/null: not a folder",
        ),
        ("CREATE SINK k FOR ALL TO FILE '' FORMAT CSV;", "the name of the folder is empty"),
    ],
)
def test_what_a_statement_gets_wrong_is_told_at_its_place(
    session: Session, statement: str, message: str
) -> None:
    with pytest.raises(BindError) as caught:
        list(session.execute(statement))
    assert caught.value.message == message
    assert caught.value.place is not None
    assert not session.streams()


def test_an_option_of_a_format_is_told_at_its_name_whatever_stands_before_it(
    session: Session, tmp_path: Path
) -> None:
    file = tmp_path / "große_straße.csv"
    file.write_text("oid,lon,lat,ts\n")
    text = stream("s", f"FILE '{file}' FORMAT CSV (Heder => true)")
    with pytest.raises(BindError, match="FORMAT CSV has no option heder") as caught:
        list(session.execute(text))
    assert text[slice(*caught.value.span)] == "Heder"


def test_a_folder_in_place_of_a_file_is_called_so(session: Session, tmp_path: Path) -> None:
    with pytest.raises(BindError, match=f"no file matches '{tmp_path}'") as caught:
        list(session.execute(stream("s", f"FILE '{tmp_path}'")))
    assert caught.value.hint == f"it is a folder: '{tmp_path}/*' names the files in it"


def test_letters_cannot_be_written_beyond_folders_that_there_are(session: Session, tmp_path: Path) -> None:
    file = tmp_path / "nowhere" / "bad.jsonl"
    with pytest.raises(StqshError, match=f"cannot write {file}: no such file or directory"):
        list(session.execute(f"EXPORT DEAD LETTERS TO '{file}';"))


def test_show_streams_says_why_nothing_comes(session: Session, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    list(session.execute(stream("lines", f"SOCKET '{address}'") + stream("files", f"DIRECTORY '{folder}'")))
    folder.rmdir()
    until(session, "lines", f"waiting for {address}: connection refused")
    until(session, "files", f"waiting for the directory {folder}")
    folder.mkdir()
    until(session, "files", "")
    with socket.create_server(("127.0.0.1", int(address.rpartition(":")[2]))) as server:
        server.settimeout(30)
        connection, _ = server.accept()
        until(session, "lines", "")
        connection.close()


def test_show_streams_says_how_much_a_stream_has_yet_to_take(session: Session) -> None:
    insert = "INSERT INTO rows VALUES ('a', 1, 2, NOW), ('b', 1, 2, NOW);"
    list(session.execute(stream("rows", "INSERTS") + stream("others", "INSERTS") + "PLAY others;" + insert))
    session.progress()
    assert message_of(session, "rows") == "behind: up to 2 rows"
    assert message_of(session, "others") == ""
    list(session.execute("RUN 1 STEPS;"))
    assert message_of(session, "rows") == ""


def until(session: Session, name: str, message: str) -> None:
    """Let time pass until SHOW STREAMS has a message of a stream."""
    for _ in range(100):
        list(session.execute("RUN 1 STEPS;"))
        if message_of(session, name) == message:
            return
        time.sleep(0.05)
    raise AssertionError(f"{message_of(session, name)!r} is shown, not {message!r}")
