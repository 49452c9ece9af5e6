"""The port of a stream or query stream FROM HTTP: whether it is free, and the token that posts need.

The token is stored only in a file of the stream's folder that only the session's user can read; it is neither
in the control log nor in DUMP. It stays the same for the life of the stream.
"""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

from stqsh.fs import atomic_write, file_lock
from stqsh.lang.ast.statements import HttpSource
from stqsh.lang.errors import BindError
from stqsh.spec.stream import HttpSourceSpec
from stqsh.storage.catalogue import live_streams
from stqsh.storage.control_log import ControlDb
from stqsh.storage.queries.query_streams import live_query_streams

HOST = "127.0.0.1"
"""The address on which HTTP streams listen."""
_TOKEN, _LOCK = "token", "token.lock"


def token_of(folder: Path) -> str:
    """Return the token of the stream with this folder; create it on first use."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / _TOKEN
    with file_lock(folder / _LOCK):
        if not path.exists():
            atomic_write(path, secrets.token_urlsafe(24).encode(), private=True)
        return path.read_text("ascii")


def check_port(db: ControlDb, source: HttpSource) -> None:
    """Raise `BindError` if another stream or program uses the port."""
    used = [(f"stream {stream.name}", stream.spec.source) for stream in live_streams(db)]
    used += ((f"query stream {stream.name}", stream.spec.rows.source) for stream in live_query_streams(db))
    for name, other in used:
        if isinstance(other, HttpSourceSpec) and other.port == source.port:
            hint = "choose another port"
            raise BindError(f"port {source.port} is that of {name}", source.span, hint=hint)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, source.port))
            probe.listen()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise BindError(
                f"cannot listen on port {source.port}: {reason}", source.span, hint="choose another port"
            ) from error


def posting_notes(folder: Path, source: HttpSourceSpec) -> list[str]:
    """Return where to post to the stream with this folder, and its token, which is not shown again."""
    return [
        f"POST JSON lines to http://{HOST}:{source.port}/",
        f"with the header Authorization: Bearer {token_of(folder)}",
    ]
