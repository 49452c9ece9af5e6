"""Scripts over standard input and sockets: each line's updates are out before the next line comes."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shell.terminal import STQSH, environment

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
SCRIPT = """
CREATE MOVING STREAM {stream} (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP)
  KEY oid LOCATION (lon, lat) TIME ts FROM {source};
REGISTER QUERY {stream}_here AS SELECT oid, lon FROM {stream} INSIDE (10.0, 50.0, 10.1, 50.1);
"""
#: A record's object and longitude, and the updates that it makes.
JOURNEY = [
    ("12", 10.02, ["+"]),
    ("13", 10.03, ["+"]),
    ("12", 10.2, ["-"]),
    ("12", 10.04, ["+"]),
    ("13", 11.0, ["-"]),
]


def line(oid: str, lon: float, number: int) -> bytes:
    record = {"oid": oid, "lon": lon, "lat": 50.03, "ts": f"2026-01-01T12:00:{number:02d}Z"}
    return json.dumps(record).encode() + b"\n"


@contextmanager
def running(folder: Path, script: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a script with pipes; it is killed if the test leaves it behind."""
    (folder / "live.stq").write_text(script, "utf-8")
    with environment(folder / "home") as environ, (folder / "errors").open("wb") as errors:
        pipe = subprocess.PIPE
        command = [*STQSH, "run", "live.stq"]
        process = subprocess.Popen(command, cwd=folder, env=environ, stdin=pipe, stdout=pipe, stderr=errors)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def next_update(process: subprocess.Popen[bytes]) -> tuple[str, str, float]:
    """Return the operation, object and longitude of the next update that the script prints."""
    assert process.stdout is not None
    while "snapshot" in (found := json.loads(process.stdout.readline())):
        pass
    return found["op"], found["key"], found["row"]["lon"]


def follow(stream: str, source: str) -> str:
    """A part of a script that prints the updates of a journey and goes on."""
    create = SCRIPT.format(stream=stream, source=source)
    return create + f"PLAY {stream}; TAIL {stream}_here LIMIT {len(JOURNEY)};"


def test_each_kind_of_live_source_is_followed_line_by_line(tmp_path: Path) -> None:
    """One script, and so one engine, follows standard input to its end, then a socket, then a directory."""
    (tmp_path / "in").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        script = SCRIPT.format(stream="buses", source="STDIN") + "RUN; SHOW DEAD LETTERS;"
        script += follow("trams", f"SOCKET '{address}'") + follow("bikes", "DIRECTORY 'in'")
        with running(tmp_path, script) as process:
            standard_input_is_followed_to_its_end(process)
            a_socket_is_followed_and_connected_to_again(process, server)
            a_directory_is_followed_file_by_file(process, tmp_path / "in")
            assert process.stdout is not None
            assert b"snapshot" not in process.stdout.read()
            assert process.wait(60) == 0


def test_a_run_begins_once_all_queries_have_come_from_standard_input(tmp_path: Path) -> None:
    (tmp_path / "buses.jsonl").write_bytes(b"".join(line("12", 10.02 + at / 100, at) for at in range(3)))
    script = SCRIPT.format(stream="buses", source="FILE 'buses.jsonl'").partition("REGISTER")[0]
    script += "REGISTER QUERIES w FROM STDIN FORMAT CSV AS SELECT oid, lon FROM buses WHERE lon < :x;"
    with running(tmp_path, script) as process:  # the end of the script is a RUN
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"name,x\na,10.025\n")
        process.stdin.flush()
        time.sleep(3)
        process.stdin.write(b"b,10.035")
        process.stdin.close()
        found = [json.loads(text) for text in process.stdout]
        assert process.wait(60) == 0
    updates = [(one["query"], one["step"], one["op"]) for one in found]
    assert updates == [("a", 1, "+"), ("b", 1, "+"), ("a", 2, "-"), ("b", 3, "-")]


def standard_input_is_followed_to_its_end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None and process.stdout is not None
    for number, (oid, lon, ops) in enumerate(JOURNEY):
        process.stdin.write(line(oid, lon, number))
        process.stdin.flush()
        for op in ops:
            assert next_update(process) == (op, oid, lon)
    process.stdin.write(b"oops\n" + line("14", 10.05, 30).rstrip())
    process.stdin.close()  # the last line has no end
    assert next_update(process) == ("+", "14", 10.05)
    counts, letter = (json.loads(process.stdout.readline())["row"] for _ in range(2))
    assert counts == {"stream": "buses", "count": 1}
    assert tuple(letter.values())[:3] == ("buses", "stdin", len(JOURNEY) + 1)


def a_socket_is_followed_and_connected_to_again(
    process: subprocess.Popen[bytes], server: socket.socket
) -> None:
    connection, _ = server.accept()
    for number, (oid, lon, ops) in enumerate(JOURNEY):
        connection.sendall(line(oid, lon, number))
        for op in ops:
            assert next_update(process) == (op, oid, lon)
        if number == 2:  # the server breaks off within a line
            connection.sendall(b'{"oid":"99","lon":10.0')
            connection.close()
            connection, _ = server.accept()
    connection.close()


def a_directory_is_followed_file_by_file(process: subprocess.Popen[bytes], folder: Path) -> None:
    for number, (oid, lon, ops) in enumerate(JOURNEY):
        hidden = folder / f".{number}.jsonl"
        hidden.write_bytes(line(oid, lon, number) + b"no record\n")
        hidden.rename(folder / f"{number}.jsonl")
        for op in ops:
            assert next_update(process) == (op, oid, lon)
