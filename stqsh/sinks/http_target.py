"""Sinks TO HTTP: JSON lines by POST.

Each request has an `Idempotency-Key` that names session, sink, batch and part. A server that received a
request but could not respond gets the repeated request with the same key and the same bytes.
"""

from __future__ import annotations

import http.client
import re
import socket
import ssl
from email.utils import parsedate_to_datetime
from string import punctuation
from urllib.parse import SplitResult, quote, urlsplit

from stqsh.control_characters import shorten
from stqsh.sinks.file_target import json_lines
from stqsh.sinks.sink_reader import SinkPart
from stqsh.sinks.target import TargetBusyError, TargetRefusedError
from stqsh.storage.control_log import wall_clock_us
from stqsh.storage.sinks.sink_position import SinkPosition

TIMEOUT_S = 30.0
"""How long to wait for a server's response."""
JSON_LINES = "application/x-ndjson"
_LATER = frozenset({408, 425, 429})
"""Statuses below 500 after which the same request may be repeated."""
_SHOWN = 200
"""The maximum number of characters shown of a server's response."""
_HEADER = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")
_NO_HEADER = "sinks.http.authorization cannot be sent: it has a character that no header may have"


class HttpTarget:
    """POSTs a sink's parts to one address."""

    rows = 10_000

    def __init__(self, url: str, identity: str, authorization: str, timeout_s: float = TIMEOUT_S) -> None:
        self._url: SplitResult = urlsplit(url)
        self._identity, self._authorization, self._timeout_s = identity, authorization, timeout_s
        self._connection: http.client.HTTPConnection | None = None

    def open(self, position: SinkPosition) -> SinkPosition:
        """Return the position unchanged: the server has no newer one than the file."""
        self.close()
        self._headers("")  # refuse an unusable header before there is anything to send
        return position

    def write(self, part: SinkPart) -> SinkPosition:
        """POST a part; the position advances once the server has accepted it."""
        self.send(json_lines(part.updates), JSON_LINES, part.step, part.number)
        return part.reached

    def send(self, body: bytes, content_type: str, step: int, number: int = 0) -> None:
        """POST a body, which is identified by its step and its number within the step.

        Raises:
            TargetBusyError: the request may be repeated.
            TargetRefusedError: the request must not be repeated.
        """
        key = f"{self._identity}-{step}-{number}"
        try:
            status, reason, text, wait_s = self._post(body, content_type, key)
        except (OSError, http.client.HTTPException, ssl.SSLError) as error:
            self.close()
            raise TargetBusyError(f"{self._url.netloc} cannot be reached: {_reason(error)}") from error
        if 200 <= status < 300:
            return
        said = f"{self._url.netloc} answers {status} {reason}" + (f": {text}" if text else "")
        if status >= 500 or status in _LATER:
            raise TargetBusyError(said, wait_s)
        raise TargetRefusedError(f"{said}; step {step} is not repeated")

    def settle(self, position: SinkPosition) -> None:
        """Do nothing: written parts are complete."""

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _post(self, body: bytes, content_type: str, key: str) -> tuple[int, str, str, float]:
        """Return the status, the reason, the beginning of the text, and the wait requested by the server."""
        connection = self._connection or self._connect()
        self._connection = connection
        headers = self._headers(key, content_type)
        try:
            connection.request("POST", self._path(), body, headers)
        except ssl.SSLError:  # the error of an untrusted certificate is also a ValueError
            raise
        except ValueError:  # its text may contain the data sent
            raise TargetRefusedError(f"{self._url.netloc} cannot be the name of a host") from None
        answer = connection.getresponse()
        text = answer.read(1 << 16).decode(errors="replace")
        if answer.will_close or not answer.isclosed():
            self.close()
        wait_s = _wait_s(answer.getheader("Retry-After"))
        return answer.status, answer.reason, shorten(text.strip(), _SHOWN), wait_s

    def _path(self) -> str:
        """Return the path and the query of the address, with non-ASCII characters percent-encoded."""
        path = self._url.path or "/"
        return quote(f"{path}?{self._url.query}" if self._url.query else path, safe=punctuation)

    def _headers(self, key: str, content_type: str = JSON_LINES) -> dict[str, str]:
        """Return the headers of a request.

        Raises:
            TargetRefusedError: the setting is not a valid header; its value is secret, and is not shown.
        """
        headers = {"Content-Type": content_type, "Idempotency-Key": key, "User-Agent": "stqsh"}
        if not _HEADER.fullmatch(self._authorization):
            raise TargetRefusedError(_NO_HEADER)
        if self._authorization:
            headers["Authorization"] = self._authorization
        return headers

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=self._timeout_s)
        return http.client.HTTPConnection(host, port, timeout=self._timeout_s)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError | socket.timeout):
        return "no answer in time"
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text).lower()


def _wait_s(retry_after: str | None) -> float:
    """Return the wait that a server requests, in seconds: from a number or a date."""
    if not retry_after:
        return 0.0
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - wall_clock_us() / 1e6)
    except ValueError:
        return 0.0
