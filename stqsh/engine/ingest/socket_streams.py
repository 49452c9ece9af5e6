"""SOCKET sources: connect, and put the lines that come into the stream's spool."""

from __future__ import annotations

import logging
import socket
import threading
from pathlib import Path

from stqsh.sources.live.line_spool import SpoolWriter
from stqsh.sources.live.protocol import write_problem

log = logging.getLogger("stqsh.engine")

_CONNECT_S = 5.0
#: The wait before another try: it doubles up to the most.
_WAIT_S, _MOST_WAIT_S = 0.2, 10.0
#: How often a disk that takes nothing is tried again.
_FULL_S = 1.0
_RECEIVE_BYTES = 1 << 18
#: What follows a line within which a connection broke: no text, so that the line becomes a dead letter.
_BROKEN = b"\xff (the connection broke here)"


def receive_lines(address: str, spool: Path, stop: threading.Event) -> None:
    """Connect, and connect again when the server is away, until `stop`.

    A server that ends the connection has ended its last line, too. Where a connection breaks, the line that
    has begun becomes a dead letter. While the disk takes no lines, the server waits.
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
                _receive(found, writer, stop)
            writer.end_line()
            reason = "it has ended the connection"
        except (OSError, UnicodeError) as problem:  # a host's name that cannot be one is a UnicodeError
            writer.end_line(_BROKEN)
            reason = _reason(problem)
            log.warning("%s: %s; it is tried again in %.1f s", address, reason, wait)
        _keep(writer, stop)
        write_problem(spool, f"waiting for {address}: {reason}")
        stop.wait(wait)
        wait = min(2 * wait, _MOST_WAIT_S)


def _reason(problem: OSError | UnicodeError) -> str:
    return ((problem.strerror if isinstance(problem, OSError) else None) or str(problem)).lower()


def _receive(found: socket.socket, writer: SpoolWriter, stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            data = found.recv(_RECEIVE_BYTES)
        except TimeoutError:
            continue
        if not data:
            return
        writer.add(data)
        _keep(writer, stop)


def _keep(writer: SpoolWriter, stop: threading.Event) -> None:
    """Write what was received once the disk takes it, unless `stop` comes first; the server waits, too."""
    while not (stop.is_set() or writer.keep()):
        stop.wait(_FULL_S)
