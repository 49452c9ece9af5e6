"""Intakes: a thread for each SOCKET, DIRECTORY and HTTP source writes its input into the stream's spool."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from stqsh.engine.ingest.http_streams import HttpIntake, spooled
from stqsh.sources.live.directory_spool import DirectoryTaker
from stqsh.sources.live.line_spool import SPOOL, SpoolWriter
from stqsh.sources.live.protocol import write_problem
from stqsh.spec.stream import DirectorySourceSpec, HttpSourceSpec, SocketSourceSpec, StreamSpec
from stqsh.storage.disk_space import is_full
from stqsh.storage.home import SessionHome
from stqsh.storage.rows import StreamRow

log = logging.getLogger("stqsh.engine")

#: How often a directory is scanned, and how long a retry waits after a failure.
_LOOK_S, _FAILED_S = 0.25, 5.0


class Intakes:
    """The intake threads of a session, by stream id."""

    def __init__(self, home: SessionHome) -> None:
        self._home = home
        self._stops: dict[int, threading.Event] = {}

    def begin(self, stream: StreamRow) -> None:
        """Start the thread of a stream if it needs one and has none yet."""
        if stream.id in self._stops:
            return
        stop = threading.Event()
        work = self._work(stream, stop)
        if work is not None:
            self._stops[stream.id] = stop
            threading.Thread(target=work, name=stream.name, daemon=True).start()

    def _work(self, stream: StreamRow, stop: threading.Event) -> Callable[[], None] | None:
        """Return the function that the thread of a stream runs until `stop` is set."""
        folder = self._home.stream(stream.id)
        if isinstance(stream.spec.source, HttpSourceSpec):
            intake = HttpIntake(stream.spec, folder, spooled(folder, stop))
            return lambda: intake.listen(stop)
        work = spool_input(stream.spec, folder)
        return None if work is None else lambda: work(stop)

    def keep(self, stream_ids: set[int]) -> None:
        """Stop the threads of all streams except these."""
        for id_ in self._stops.keys() - stream_ids:
            self._stops.pop(id_).set()


def spool_input(
    stream: StreamSpec, folder: Path, *, keeps_lines: bool = False
) -> Callable[[threading.Event], None] | None:
    """Return the function that writes the input of a SOCKET or DIRECTORY into a spool until an event is set.

    Args:
        stream: what has the source; None is returned for other sources.
        folder: its folder in the session's home.
        keeps_lines: as in `DirectoryTaker`.
    """
    source, spool = stream.source, folder / SPOOL
    if isinstance(source, SocketSourceSpec):
        return lambda stop: receive_lines(source.address, spool, stop)
    if isinstance(source, DirectorySourceSpec):
        return lambda stop: _take_files(stream, spool, stop, keeps_lines=keeps_lines)
    return None


def _take_files(stream: StreamSpec, spool: Path, stop: threading.Event, *, keeps_lines: bool) -> None:
    """Read the files of a directory as they appear; after a failure, resume from the ledger."""
    taker = None
    while not stop.is_set():
        wait = _LOOK_S
        try:
            taker = taker or DirectoryTaker(stream, spool, keeps_lines=keeps_lines)
            if not is_full(spool):
                taker.look()
            write_problem(spool, "")
        except Exception as error:
            log.exception("stream %s: files cannot be taken; it is tried again", stream.name)
            taker, wait = None, _FAILED_S
            write_problem(spool, f"files cannot be taken: {error}; it is tried again")
        stop.wait(wait)


_CONNECT_S = 5.0
#: The wait before a retry, which doubles up to a maximum.
_WAIT_S, _MOST_WAIT_S = 0.2, 10.0
#: How often a write to a full disk is retried.
_FULL_S = 1.0
_RECEIVE_BYTES = 1 << 18
#: Appended to a line in which a connection broke: it is not text, so the line becomes a dead letter.
_BROKEN = b"\xff (the connection broke here)"


def receive_lines(address: str, spool: Path, stop: threading.Event) -> None:
    """Receive lines until `stop` is set, and reconnect when the server is unavailable.

    If a server closes the connection, its last line is complete. If a connection breaks, the unfinished line
    becomes a dead letter. While the disk is full, the server waits.
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
        except (OSError, UnicodeError) as problem:  # an invalid host name raises UnicodeError
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
    """Write the received lines once the disk has room, unless `stop` is set first. The server waits."""
    while not (stop.is_set() or writer.keep()):
        stop.wait(_FULL_S)
