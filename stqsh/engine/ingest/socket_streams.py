"""SOCKET sources: connect, and put the lines that come into the stream's spool."""

from __future__ import annotations

import logging
import socket
import threading

from stqsh.sources.live.line_spool import SpoolWriter

log = logging.getLogger("stqsh.engine")

_CONNECT_S = 5.0
#: The wait before another try: it doubles up to the most.
_WAIT_S, _MOST_WAIT_S = 0.2, 10.0
_RECEIVE_BYTES = 1 << 18


def receive_lines(address: str, writer: SpoolWriter, stop: threading.Event) -> None:
    """Connect, and connect again when the server is away, until `stop`; a line that broke off is dropped."""
    host, _, port = address.rpartition(":")
    wait = _WAIT_S
    while not stop.is_set():
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S) as found:
                found.settimeout(1.0)
                log.info("connected to %s", address)
                wait = _WAIT_S
                _receive(found, writer, stop)
        except OSError as problem:
            log.warning("%s: %s; it is tried again in %.1f s", address, problem, wait)
        if lost := writer.forget_rest():
            log.warning("%s broke off within a line of %d bytes, which is dropped", address, lost)
        stop.wait(wait)
        wait = min(2 * wait, _MOST_WAIT_S)


def _receive(found: socket.socket, writer: SpoolWriter, stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            data = found.recv(_RECEIVE_BYTES)
        except TimeoutError:
            continue
        if not data:
            return
        writer.write(data)
