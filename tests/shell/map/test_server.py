"""The map's server answers whoever knows its address, and no page of another origin."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from http.client import HTTPMessage
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from stqsh.shell.map.page.server import HOST, MapServer, StateBoard


@pytest.fixture
def server() -> Iterator[MapServer]:
    board = StateBoard()
    board.post(b'{"stamp": "1"}')
    with MapServer((HOST, 0), board) as opened:
        thread = threading.Thread(target=opened.serve_forever, daemon=True)
        thread.start()
        yield opened
        opened.shutdown()
        thread.join()


def get(address: str, **headers: str) -> tuple[int, HTTPMessage, bytes]:
    try:
        with urlopen(Request(address, headers=headers), timeout=20) as answer:
            return answer.status, answer.headers, answer.read1(100)
    except HTTPError as error:
        return error.code, error.headers, error.read()


def test_no_answer_may_be_framed_or_kept(server: MapServer) -> None:
    for address in (server.address, server.address + "events", server.address + "nothing"):
        _, headers, _ = get(address)
        assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Cache-Control"] == "no-store"


def test_only_the_whole_address_is_answered(server: MapServer) -> None:
    assert get(server.address)[0] == 200
    assert get(server.address + "events")[2].startswith(b'data: {"stamp"')
    root = f"http://{HOST}:{server.server_port}/"
    for path in ("", "events", "x" * 22 + "/", server.path.strip("/")):
        status, _, body = get(root + path)
        assert (status, body) == (403, b"open the whole address that stqsh printed\n")
    assert get(server.address, Host="evil.example")[0] == 403
    assert get(server.address + "nothing")[0] == 404


def test_a_served_page_hands_nothing_to_whoever_frames_it(server: MapServer) -> None:
    with urlopen(server.address, timeout=20) as answer:
        page = answer.read().decode()
    assert 'location.protocol === "file:" && window !== parent' in page


def test_a_client_that_hangs_up_prints_nothing(
    server: MapServer, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STQSH_HOME", str(tmp_path))
    for _ in range(5):
        with socket.create_connection((HOST, server.server_port)) as client:
            client.sendall(f"GET {server.path} HTTP/1.1\r\nHost: {HOST}:{server.server_port}\r\n".encode())
            # Without lingering, closing resets the connection.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert get(server.address)[0] == 200
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())
