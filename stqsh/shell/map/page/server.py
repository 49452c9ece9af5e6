"""`stqsh map --serve`: serve the page on this machine, updated by server-sent events.

The server listens on 127.0.0.1. Its address has a random token, so that other users of the machine cannot
read the page. It refuses requests with another host name and forbids frames, so that other web pages cannot
read it.
"""

from __future__ import annotations

import hmac
import secrets
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from stqsh.errors import StqshError
from stqsh.shell.map.page.page_loop import STOPPED, follow
from stqsh.shell.map.page.page_state import PageStates, page
from stqsh.shell.messages import file_error_reason
from stqsh.shell.user_files import write_traceback
from stqsh.units import group_digits

if TYPE_CHECKING:
    from stqsh.client.map.scene import MapFeed
    from stqsh.shell.terminal.screen import Screen

HOST = "127.0.0.1"
_BEAT_S = 5.0
_GOODBYE_S = 0.5
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""The headers of every response."""


class StateBoard:
    """The newest state, shared with all threads that wait for it."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._state = b""
        self._number = 0
        self.is_over = False

    def post(self, state: bytes, *, last: bool = False) -> None:
        """Publish a state; after the last one, threads no longer wait."""
        with self._news:
            self._state, self._number, self.is_over = state, self._number + 1, last
            self._news.notify_all()

    def read(self, known: int = 0, patience_s: float | None = None) -> tuple[int, bytes]:
        """Return the newest state and its number once it exceeds `known`, or after `patience_s` seconds."""
        with self._news:
            self._news.wait_for(lambda: self._number > known or self.is_over, patience_s)
            return self._number, self._state


def serve_map(feed: MapFeed, port: int, screen: Screen) -> str:
    """Serve a map until Ctrl-C, or until the engine has stopped; return the message for the user.

    Args:
        feed: The map's scenes.
        port: The port to listen on; 0 selects a free one.
        screen: Where messages and the status line are drawn.

    Raises:
        StqshError: The port is taken, or the session cannot be read.
    """
    board, states = StateBoard(), PageStates(feed)
    try:
        server = MapServer((HOST, port), board, states.tiles)
    except OSError as error:
        reason = file_error_reason(error)
        raise StqshError(
            f"cannot serve on port {port}: {reason}", hint="--serve without a port takes a free one"
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="map server", daemon=True)
    thread.start()
    screen.message(f"{server.address} shows {feed.stream.name}; Ctrl-C ends it")

    def take(state: bytes) -> None:
        board.post(state)
        screen.status(f"served  step {group_digits(states.step)}  Ctrl-C ends it", now=True)

    try:
        why = follow(states, take)
    finally:
        screen.close()
    board.post(states.last(why) or b"", last=True)
    time.sleep(_GOODBYE_S)  # open pages receive the last state
    server.shutdown()
    server.server_close()
    ends = "the session's engine has stopped" if why == STOPPED else f"{feed.stream.name} goes on"
    return f"the map is not served any more; {ends}"


class MapServer(ThreadingHTTPServer):
    """Serves the newest state of a board at `address`, which contains the token."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], board: StateBoard, tiles: str = "off") -> None:
        super().__init__(address, _Answers)
        self.tiles = tiles
        self.board, self.path = board, f"/{secrets.token_urlsafe(16)}/"

    @property
    def address(self) -> str:
        """The page's address."""
        return f"http://{HOST}:{self.server_port}{self.path}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that disconnects; log the traceback of other errors."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError | TimeoutError):
            write_traceback()


class _Answers(BaseHTTPRequestHandler):
    """Answers requests with the page, or with a stream of states."""

    server: MapServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer a request."""
        names = {f"{name}:{self.server.server_port}" for name in (HOST, "localhost")}
        path = self.path.partition("?")[0]
        start = path[: len(self.server.path)]
        if self.headers.get("Host") not in names:
            self._plain(HTTPStatus.FORBIDDEN, b"this map is for 127.0.0.1 only\n")
        elif not hmac.compare_digest(start.encode(), self.server.path.encode()):
            self._plain(HTTPStatus.FORBIDDEN, b"open the whole address that stqsh printed\n")
        elif path == self.server.path:
            self._plain(
                HTTPStatus.OK,
                page(self.server.board.read()[1], self.server.tiles),
                "text/html; charset=utf-8",
            )
        elif path == self.server.path + "events":
            self._events()
        else:
            self._plain(HTTPStatus.NOT_FOUND, b"there is only the map\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the terminal belongs to the map."""

    def _head(self, status: HTTPStatus, kind: str) -> None:
        self.send_response(status)
        for name, value in (_HEADERS | {"Content-Type": kind}).items():
            self.send_header(name, value)

    def _plain(self, status: HTTPStatus, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self._head(status, kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _events(self) -> None:
        """Send each new state until the browser disconnects or the map ends."""
        self._head(HTTPStatus.OK, "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        known, board = 0, self.server.board
        try:
            while not board.is_over or known < board.read(known, 0)[0]:
                number, state = board.read(known, _BEAT_S)
                self.wfile.write(b"data: " + state + b"\n\n" if number > known else b": still here\n\n")
                self.wfile.flush()
                known = number
        except (BrokenPipeError, ConnectionResetError):
            return
