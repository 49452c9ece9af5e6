"""The port of a stream FROM HTTP: whether it is free, and how records get there."""

from __future__ import annotations

import socket

from stqsh.lang.ast.statements import HttpSource
from stqsh.lang.errors import BindError
from stqsh.sources.live.http_token import HOST, token_of
from stqsh.spec.stream import HttpSourceSpec
from stqsh.storage.catalogue import live_streams
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import SessionHome
from stqsh.storage.rows import StreamRow


def check_port(db: ControlDb, source: HttpSource) -> None:
    """Raise `BindError` for a port that another stream or program uses."""
    for stream in live_streams(db):
        if isinstance(stream.spec.source, HttpSourceSpec) and stream.spec.source.port == source.port:
            raise BindError(
                f"port {source.port} is that of stream {stream.name}", source.span, hint="choose another port"
            )
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


def posting_notes(home: SessionHome, stream: StreamRow, source: HttpSourceSpec) -> list[str]:
    """Return where to post records, and the token, which nothing shows again."""
    return [
        f"POST JSON lines to http://{HOST}:{source.port}/",
        f"with the header Authorization: Bearer {token_of(home.stream(stream.id))}",
    ]
