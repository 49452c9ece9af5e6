"""SOCKET sources: connect, and put the lines that come into the stream's spool."""

from __future__ import annotations

import logging
import socket
import threading
from pathlib import Path

from stqsh.sources.live.line_spool import SpoolWriter
from stqsh.sources.live.protocol import write_problem
from stqsh.storage.disk_space import is_full

log = logging.getLogger("stqsh.engine")

_CONNECT_S = 5.0
#: The wait before another try: it doubles up to the most.
_WAIT_S, _MOST_WAIT_S = 0.2, 10.0
_RECEIVE_BYTES = 1 << 18
#: What follows a line within which a connection broke: no text, so that the line becomes a dead letter.
_BROKEN = b"\xff (the connection broke here)"


def receive_lines(address: str, spool: Path, stop: threading.Event) -> None:
    """Connect, and connect again when the server is away, until `stop`.

    A server that ends the connection has ended its last line, too. Where a connection breaks, the line that
    has begun becomes a dead letter.
    """
    writer, wait = SpoolWriter(spool), _WAIT_S
    host, _, port = address.rpartition(":")
    while not stop.is_set():
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S) as found:
                found.settimeout(1.0)
                log.info("connected to %s", address)
                write_problem(spool, "")
                writer.begin_text()
                wait = _WAIT_S
                _receive(found, spool, writer, stop)
            writer.end_line()
            reason = "it has ended the connection"
        except OSError as problem:
            writer.end_line(_BROKEN)
            reason = (problem.strerror or str(problem)).lower()
            log.warning("%s: %s; it is tried again in %.1f s", address, reason, wait)
        write_problem(spool, f"waiting for {address}: {reason}")
        stop.wait(wait)
        wait = min(2 * wait, _MOST_WAIT_S)


def _receive(found: socket.socket, spool: Path, writer: SpoolWriter, stop: threading.Event) -> None:
    while not stop.is_set():
        if is_full(spool):  # the server waits, too
            stop.wait(1.0)
            continue
        try:
            data = found.recv(_RECEIVE_BYTES)
        except TimeoutError:
            continue
        if not data:
            return
        writer.write(data)
