"""Posts to a port of this machine."""

from __future__ import annotations

import http.client
import json
import socket
import time


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def connected(port: int) -> http.client.HTTPConnection:
    """A connection, once somebody listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for _ in range(500):
        try:
            connection.connect()
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
    return connection


def post(
    port: int, token: str, body: bytes, *, method: str = "POST", **headers: str
) -> tuple[int, dict[str, object]]:
    """The status and the body of the answer to one post."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    connection = connected(port)
    connection.request(method, "/", body, {"Authorization": f"Bearer {token}", **sent})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, json.loads(content) if content else {}
