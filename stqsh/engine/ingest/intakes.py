"""Intakes: a thread for each SOCKET, DIRECTORY and HTTP port puts what comes into the stream's spool."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from stqsh.engine.ingest.http_streams import HttpIntake
from stqsh.engine.ingest.socket_streams import receive_lines
from stqsh.sources.live.directory_spool import DirectoryTaker
from stqsh.sources.live.line_spool import SPOOL
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
