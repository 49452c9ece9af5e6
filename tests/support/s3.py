"""A server of S3, and a gate before it that fails when a test wants it to.

`python -m support.s3 ADDRESS PORT TARGET FILE` is a gate on a host before the server at another port of it.
The file says what is wrong: the status of all answers, `close`, or the seconds after which they come.
"""

from __future__ import annotations

import http.client
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

BUCKET = "sessions"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""The environment of those who use the server."""


class Gate:
    """Stands between clients and the server; `fails` says of each request whether it is to fail, and how.

    It gets the number of the request, from 0, its method and its path. It returns the status to answer
    with instead of the server, 0 to close the connection without an answer, or None to let it through.
    """

    def __init__(self, port: int, address: str = "127.0.0.1", own_port: int = 0) -> None:
        self.fails: Callable[[int, str, str], int | None] = lambda number, method, path: None
        self.asked: list[tuple[str, str]] = []
        self._target = address, port
        gate = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _pass(self) -> None:
                body = self._body()
                number = len(gate.asked)
                gate.asked.append((self.command, self.path))
                status = gate.fails(number, self.command, self.path)
                if status == 0:
                    self.close_connection = True
                elif status is not None:
                    self.send_response(status)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                else:
                    self._forward(body)

            def _body(self) -> bytes:
                if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                chunks = []
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    chunks.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(chunks)

            def _forward(self, body: bytes) -> None:
                server = http.client.HTTPConnection(*gate._target, timeout=30)
                own = ("transfer-encoding", "expect", "content-length")
                headers = {name: value for name, value in self.headers.items() if name.lower() not in own}
                server.request(self.command, self.path, body, headers | {"Content-Length": str(len(body))})
                answer = server.getresponse()
                content = answer.read()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                        self.send_header(name, value)
                if answer.getheader("Content-Length") is None:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
                server.close()

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer((address, own_port), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    def uri(self, folder: str) -> str:
        """Return the URI of a folder in the bucket, by way of this gate."""
        return f"s3://{BUCKET}/{folder}?endpoint_override=127.0.0.1:{self.port}&scheme=http&region=us-east-1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def fault_of(file: Path) -> int | None:
    """What a file says of a request that has come, after its delay; see `Gate.fails`."""
    text = file.read_text(encoding="ascii") if file.exists() else ""
    if text == "close":
        return 0
    if text.isdecimal():
        return int(text)
    if text:
        time.sleep(float(text.removesuffix("s")))
    return None


@contextmanager
def s3_gate() -> Iterator[Gate]:
    """Run a server with an empty bucket, and give the gate before it."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    port = server.get_host_and_port()[1]
    gate = Gate(port)
    try:
        made = Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT")
        made.add_header(
            "Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request"
        )
        with urlopen(made):
            pass
        yield gate
    finally:
        gate.close()
        server.stop()


@contextmanager
def s3_environment() -> Iterator[None]:
    """Have the environment of those who use the server."""
    before = dict(os.environ)
    os.environ.update(CREDENTIALS)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


if __name__ == "__main__":
    _, where, own, behind, told = sys.argv
    standing = Gate(int(behind), where, int(own))
    standing.fails = lambda number, method, path: fault_of(Path(told))
    threading.Event().wait()
