"""HTTP sources: receive JSON lines that local programs POST; respond once the lines count."""

from __future__ import annotations

import hmac
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import orjson

from stqsh.errors import HomeError
from stqsh.sources.live.decoding import MessageDecoder, Messages, PlacedRecords
from stqsh.sources.live.http_port import HOST, token_of
from stqsh.sources.live.inserted_records import RecordAppender
from stqsh.sources.live.line_spool import SPOOL
from stqsh.sources.live.protocol import write_problem
from stqsh.sources.live.record_spool import SpoolSegment
from stqsh.spec.stream import HttpSourceSpec, StreamSpec
from stqsh.storage.disk_space import is_full

log = logging.getLogger("stqsh.engine")

MOST_BYTES = 16 << 20
"""The maximum size of a post in bytes."""
_DRAINED_BYTES = 64 << 20
_RETRY_S, _PATIENCE_S = 1.0, 30.0
_PLACE = "http"
_EMPTY = "the post is empty: send one JSON object per line"
Store: TypeAlias = "Callable[[PlacedRecords], tuple[int, int]]"
"""What keeps the records of a post: returns how many it keeps, and how many lines are dead letters.

It raises `RefusedError` if the post is rejected, and `OSError` or `HomeError` if records cannot be kept.
"""


class RefusedError(Exception):
    """A rejected post: the status, and a sentence with the reason."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


def no_valid_line(line: int, reason: str) -> RefusedError:
    """Return the rejection of a post without a valid line; its first line that has content is bad."""
    return RefusedError(HTTPStatus.BAD_REQUEST, f"no line is a valid record; line {line}: {reason}")


def check_room(folder: Path) -> None:
    """Raise `RefusedError` if the disk of a folder is full."""
    if is_full(folder):
        raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "the disk is full: send it again later")


def spooled(folder: Path, stop: threading.Event) -> Store:
    """Return what appends the records of posts to a stream's spool until it is dropped: `stop` is set then.

    `folder` is the stream's folder.
    """
    appender = RecordAppender(folder / SPOOL)

    def store(found: PlacedRecords) -> tuple[int, int]:
        if stop.is_set():  # a connection may outlive the listener
            raise RefusedError(HTTPStatus.GONE, "the stream has been dropped")
        check_room(folder)
        appender.append(SpoolSegment(found.records, found.dead))
        return found.records.num_rows, len(found.dead)

    return store


@dataclass(frozen=True, slots=True)
class Post:
    """The headers of a post."""

    authorization: str
    length: str | None
    is_chunked: bool
    encoding: str


class HttpIntake:
    """Receives the posts of one stream, or query stream.

    Args:
        stream: its source is a port.
        folder: the stream's folder in the session's home.
        store: what keeps the records; it is called from several threads.
    """

    def __init__(self, stream: StreamSpec, folder: Path, store: Store) -> None:
        assert isinstance(stream.source, HttpSourceSpec), f"{stream.name} listens on no port"
        self.port, self._name = stream.source.port, stream.name
        self._spool = folder / SPOOL
        self._decoder = MessageDecoder.of(stream)
        self._store = store
        self._expected = f"Bearer {token_of(folder)}".encode()

    def listen(self, stop: threading.Event) -> None:
        """Listen until `stop` is set; retry while another program uses the port."""
        self._spool.mkdir(mode=0o700, parents=True, exist_ok=True)
        while not stop.is_set():
            try:
                server = _Server((HOST, self.port), self)
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                write_problem(self._spool, f"waiting for port {self.port}: {reason}")
                stop.wait(_RETRY_S)
                continue
            write_problem(self._spool, "")
            log.info("stream %s listens on port %d", self._name, self.port)
            with server:
                threading.Thread(target=server.serve_forever, name=f"port {self.port}", daemon=True).start()
                stop.wait()
                server.shutdown()

    def check(self, post: Post) -> int:
        """Return the number of bytes of a post.

        Raises:
            RefusedError: the post is rejected before its body is read.
        """
        if not hmac.compare_digest(post.authorization.encode("latin-1", "replace"), self._expected):
            raise RefusedError(
                HTTPStatus.UNAUTHORIZED,
                "send the token that was printed when the stream was made, in the header"
                " Authorization: Bearer TOKEN",
            )
        if post.is_chunked or post.length is None:
            raise RefusedError(HTTPStatus.LENGTH_REQUIRED, "send the header Content-Length")
        if not post.length.isascii() or not post.length.isdigit():
            raise RefusedError(HTTPStatus.BAD_REQUEST, f"Content-Length is not a number: {post.length[:20]}")
        if post.encoding not in ("", "identity"):
            raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send the lines as they are, uncompressed")
        if int(post.length) > MOST_BYTES:
            raise RefusedError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"a post has at most {MOST_BYTES >> 20} MB: send the lines in several posts",
            )
        return int(post.length)

    def take(self, body: bytes) -> tuple[int, int]:
        """Store the records of a post; return their number, and the number of dead letters.

        Raises:
            RefusedError: no line is a record, or the disk is full.
            OSError, HomeError: the records cannot be kept.
        """
        lines = [line for line in body.split(b"\n") if line.strip()]
        if not lines:
            raise RefusedError(HTTPStatus.BAD_REQUEST, _EMPTY)
        found = self._decoder.decode_placed(Messages(_PLACE, _line_numbers(body), lines))  # type: ignore[arg-type]
        if not found.records.num_rows and not found.dead:  # just a byte-order mark, which is not blank
            raise RefusedError(HTTPStatus.BAD_REQUEST, _EMPTY)
        if not found.records.num_rows:
            first = found.dead[0]
            raise no_valid_line(first.line, first.reason)
        return self._store(found)


def _line_numbers(body: bytes) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the numbers, from 1, of the lines that are not blank."""
    return np.array([at for at, line in enumerate(body.split(b"\n"), start=1) if line.strip()], np.int64)


class _Server(ThreadingHTTPServer):
    """Answers each connection in a thread of its own."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], intake: HttpIntake) -> None:
        self.intake = intake
        super().__init__(address, _Answers)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log that a connection broke, without the content sent."""
        log.info("a connection to port %d has broken off", self.intake.port)


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "stqsh", ""
    timeout = _PATIENCE_S
    server: _Server

    def do_POST(self) -> None:
        """Handle a post."""
        intake = self.server.intake
        try:
            size = intake.check(self._post())
            body = self.rfile.read(size)
            if len(body) < size:
                self.close_connection = True
                return
            records, dead = intake.take(body)
        except RefusedError as refused:
            self._refuse(refused)
        except (OSError, HomeError) as error:
            log.exception("records that were posted to port %d cannot be kept", intake.port)
            strerror = error.strerror if isinstance(error, OSError) else None
            reason = strerror.lower() if strerror else str(error)
            self._refuse(RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, f"cannot keep the records: {reason}"))
        else:
            self._answer(HTTPStatus.OK, {"records": records, "dead_letters": dead})

    def _refuse_method(self) -> None:
        self._refuse(RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "POST JSON lines, one record per line"))

    do_GET = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_HEAD = _refuse_method

    def handle_expect_100(self) -> bool:
        """Reject a post before its body is sent if it would be rejected afterwards."""
        try:
            self.server.intake.check(self._post())
        except RefusedError as refused:
            self._refuse(refused)
            return False
        return super().handle_expect_100()

    def log_message(self, format: str, *args: object) -> None:
        """Keep requests out of the log."""

    def _post(self) -> Post:
        headers = self.headers
        return Post(
            headers.get("Authorization", ""),
            headers.get("Content-Length"),
            "Transfer-Encoding" in headers,
            headers.get("Content-Encoding", "").strip().lower(),
        )

    def _refuse(self, refused: RefusedError) -> None:
        """Respond with the reason and close the connection, because the body may not have been read."""
        self.close_connection = True
        self._answer(refused.status, {"error": refused.sentence})
        self._drain()

    def _drain(self) -> None:
        """Read the rest of the body, up to a limit, so that the client can read the response."""
        length = self.headers.get("Content-Length", "")
        left = min(int(length), _DRAINED_BYTES) if length.isascii() and length.isdigit() else 0
        try:
            self.connection.settimeout(1.0)
            while left > 0 and (found := self.rfile.read1(min(left, 1 << 16))):
                left -= len(found)
        except OSError:
            return  # the client has left

    def _answer(self, status: HTTPStatus, content: dict[str, object]) -> None:
        body = orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        if status == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "POST")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
