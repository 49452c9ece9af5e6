"""Intakes: a thread for each SOCKET, DIRECTORY and HTTP port puts what comes into the stream's spool."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from stqsh.engine.ingest.http_streams import HttpIntake
from stqsh.sources.live.directory_spool import DirectoryTaker
from stqsh.sources.live.line_spool import SPOOL, SpoolWriter
from stqsh.sources.live.protocol import write_problem
from stqsh.spec.stream import DirectorySourceSpec, HttpSourceSpec, SocketSourceSpec
from stqsh.storage.disk_space import is_full
from stqsh.storage.home import SessionHome
from stqsh.storage.rows import StreamRow

log = logging.getLogger("stqsh.engine")

#: How often a directory is looked at, and after which failures wait.
_LOOK_S, _FAILED_S = 0.25, 5.0


class Intakes:
    """The threads of a session's streams that have one, by the streams' ids."""

    def __init__(self, home: SessionHome) -> None:
        self._home = home
        self._stops: dict[int, threading.Event] = {}

    def begin(self, stream: StreamRow) -> None:
        """Start the thread of a stream, if it needs one and has none yet."""
        if stream.id in self._stops:
            return
        stop = threading.Event()
        work = self._work(stream, stop)
        if work is not None:
            self._stops[stream.id] = stop
            threading.Thread(target=work, name=stream.name, daemon=True).start()

    def _work(self, stream: StreamRow, stop: threading.Event) -> Callable[[], None] | None:
        """Return what the thread of a stream does until `stop`."""
        source, spool = stream.spec.source, self._home.stream(stream.id) / SPOOL
        if isinstance(source, SocketSourceSpec):
            return lambda: receive_lines(source.address, spool, stop)
        if isinstance(source, HttpSourceSpec):
            intake = HttpIntake(stream.spec, self._home.stream(stream.id))
            return lambda: intake.listen(stop)
        if isinstance(source, DirectorySourceSpec):
            return lambda: self._take_files(stream, stop)
        return None

    def _take_files(self, stream: StreamRow, stop: threading.Event) -> None:
        """Take the files of a directory as they appear; after a failure it is tried again from the ledger."""
        taker, spool = None, self._home.stream(stream.id) / SPOOL
        while not stop.is_set():
            wait = _LOOK_S
            try:
                taker = taker or DirectoryTaker(stream.spec, spool)
                if not is_full(self._home.path):
                    taker.look()
                write_problem(spool, "")
            except Exception as error:
                log.exception("stream %s: files cannot be taken; it is tried again", stream.name)
                taker, wait = None, _FAILED_S
                write_problem(spool, f"files cannot be taken: {error}; it is tried again")
            stop.wait(wait)

    def keep(self, stream_ids: set[int]) -> None:
        """End the threads of all streams except these."""
        for id_ in self._stops.keys() - stream_ids:
            self._stops.pop(id_).set()


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
