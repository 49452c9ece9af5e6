"""Scripts over standard input and sockets: each line's updates are out before the next line comes."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.shell.terminal import STQSH, environment

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
SCRIPT = """
CREATE MOVING STREAM buses (oid STRING, lon DOUBLE, lat DOUBLE, ts TIMESTAMP)
  KEY oid LOCATION (lon, lat) TIME ts FROM {source};
REGISTER QUERY centre AS SELECT oid, lon FROM buses INSIDE (10.0, 50.0, 10.1, 50.1);
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


def test_standard_input_is_followed_line_by_line_to_its_end(tmp_path: Path) -> None:
    with running(tmp_path, SCRIPT.format(source="STDIN") + "RUN; SHOW DEAD LETTERS;") as process:
        assert process.stdin is not None and process.stdout is not None
        for number, (oid, lon, ops) in enumerate(JOURNEY):
            process.stdin.write(line(oid, lon, number))
            process.stdin.flush()
            for op in ops:
                assert next_update(process) == (op, oid, lon)
        process.stdin.write(b"oops\n" + line("14", 10.05, 30).rstrip())
        process.stdin.close()  # the last line has no end
        assert next_update(process) == ("+", "14", 10.05)
        found = [json.loads(line)["row"] for line in process.stdout]
        assert found[0] == {"stream": "buses", "count": 1}
        assert tuple(found[1].values())[:3] == ("buses", "stdin", len(JOURNEY) + 1)
        assert process.wait(60) == 0


def test_a_socket_is_followed_and_connected_to_again(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        source = f"SOCKET '127.0.0.1:{server.getsockname()[1]}'"
        script = SCRIPT.format(source=source) + f"PLAY buses; TAIL centre LIMIT {len(JOURNEY)};"
        with running(tmp_path, script) as process:
            assert process.stdout is not None
            connection, _ = server.accept()
            for number, (oid, lon, ops) in enumerate(JOURNEY):
                connection.sendall(line(oid, lon, number))
                for op in ops:
                    assert next_update(process) == (op, oid, lon)
                if number == 2:  # the server breaks off within a line
                    connection.sendall(b'{"oid":"99","lon":10.0')
                    connection.close()
                    connection, _ = server.accept()
            assert b"snapshot" not in process.stdout.read()
            assert process.wait(60) == 0
            connection.close()


def test_a_directory_is_followed_file_by_file(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    script = SCRIPT.format(source="DIRECTORY 'in'") + f"PLAY buses; TAIL centre LIMIT {len(JOURNEY)};"
    with running(tmp_path, script) as process:
        for number, (oid, lon, ops) in enumerate(JOURNEY):
            hidden = tmp_path / "in" / f".{number}.jsonl"
            hidden.write_bytes(line(oid, lon, number) + b"no record\n")
            hidden.rename(tmp_path / "in" / f"{number}.jsonl")
            for op in ops:
                assert next_update(process) == (op, oid, lon)
        assert process.wait(60) == 0
