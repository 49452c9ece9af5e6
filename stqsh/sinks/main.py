"""The process of a session's sinks: one thread per sink, so that sinks lag independently.

The engine starts it, `python -m stqsh.sinks.main --home DIR`, while there are sinks, and restarts it if it
dies. It ends with the engine, or after the last sink. A lock in the session's home prevents a second process.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path

from stqsh.client.connection import Connection
from stqsh.errors import StqshError
from stqsh.fs import DURABILITY, file_lock
from stqsh.profile import Profile
from stqsh.sinks.alert_target import AlertTarget
from stqsh.sinks.file_target import FileSink
from stqsh.sinks.http_target import HttpTarget
from stqsh.sinks.sink_runner import SinkRunner
from stqsh.sinks.target import SinkTarget
from stqsh.spec.sink import AlertTargetSpec, FileTargetSpec, HttpTargetSpec, KafkaTargetSpec
from stqsh.storage.control_log import ControlDb, get_meta, set_meta
from stqsh.storage.home import SessionHome
from stqsh.storage.processes import StopRequest
from stqsh.storage.rows import SinkRow
from stqsh.storage.session_settings import session_settings
from stqsh.storage.sinks.sink_catalogue import live_sinks
from stqsh.storage.sinks.sink_position import remove_dropped

log = logging.getLogger("stqsh.sinks")

LOOK_S = 0.25
"""How often the list of sinks and the engine are checked."""
_AGAIN_S = 5.0
"""How long to wait before a sink is restarted after an unexpected error."""
_LEAVE_S = 5.0
"""How long a sink may take to complete its current part when the process ends."""


def target_of(connection: Connection, sink: SinkRow, settings: Profile, session: str) -> SinkTarget:
    """Return the target of a sink or an alert.

    Args:
        connection: the session.
        sink: the sink.
        settings: the session's settings, which contain credentials.
        session: the unique id of this session.
    """
    spec = sink.spec
    identity, authorization = f"{session}-{spec.id}", settings.text("sinks.http.authorization")
    match spec.target:
        case FileTargetSpec():
            return FileSink(spec, spec.target)
        case HttpTargetSpec(url):
            return HttpTarget(url, identity, authorization)
        case AlertTargetSpec():
            return AlertTarget(connection, sink, spec.target, identity, authorization)
        case KafkaTargetSpec():
            from stqsh.sinks.kafka_target import KafkaSink  # the import of its client is slow

            return KafkaSink(spec.target, f"stqsh-{identity}", str(settings.path or settings.name))


def session_identity(db: ControlDb) -> str:
    """Return the unique id of this session, by which targets distinguish it from a copy."""
    known = get_meta(db, "session")
    if known is None:
        with db.transaction():
            known = get_meta(db, "session") or uuid.uuid4().hex
            set_meta(db, "session", known)
    return known


@dataclass
class _Running:
    """A sink's thread."""

    thread: threading.Thread
    stopping: threading.Event
    has_failed: bool = False


class SinkProcess:
    """Runs the sinks of a session."""

    def __init__(self, home: SessionHome) -> None:
        self._home, self._control = home, ControlDb(home.path)
        self._settings = session_settings(self._control)
        self._session = session_identity(self._control)
        os.environ[DURABILITY] = self._settings.text("durability")
        self._running: dict[int, _Running] = {}
        self._stopping = StopRequest()

    def run(self) -> None:
        """Run until the process is asked to stop, the engine has ended, or there are no sinks."""
        engine = os.getppid()
        while not self._stopping.is_set() and os.getppid() == engine:
            sinks = {sink.id: sink for sink in live_sinks(self._control)}
            for sink_id in [known for known in self._running if known not in sinks]:
                self._leave(sink_id)
            remove_dropped(self._home, sinks)
            if not sinks:
                break
            for sink in sinks.values():
                if sink.id not in self._running or self._running[sink.id].has_failed:
                    self._start(sink)
            self._stopping.wait(LOOK_S)
        for running in self._running.values():
            running.stopping.set()
        for sink_id in list(self._running):
            self._leave(sink_id)

    def stop(self) -> None:
        """Stop all sinks; each completes its current part."""
        self._stopping.set()

    def _start(self, sink: SinkRow) -> None:
        stopping = threading.Event()
        thread = threading.Thread(
            target=self._run_sink, args=(sink, stopping), name=f"sink {sink.name}", daemon=True
        )
        self._running[sink.id] = _Running(thread, stopping)
        thread.start()

    def _run_sink(self, sink: SinkRow, stopping: threading.Event) -> None:
        """Run a sink until it stops; restart it after an unexpected error."""
        running = self._running[sink.id]
        try:
            connection = Connection(self._home, self._control)
            target = target_of(connection, sink, self._settings, self._session)
            SinkRunner(connection, sink, target, stopping).run()
        except Exception:
            log.exception("sink %s is started again", sink.name)
            stopping.wait(_AGAIN_S)
            running.has_failed = True

    def _leave(self, sink_id: int) -> None:
        running = self._running.pop(sink_id)
        running.stopping.set()
        running.thread.join(_LEAVE_S)


def main(arguments: list[str] | None = None) -> int:
    """Run the sinks of a session."""
    parser = argparse.ArgumentParser(
        prog="stqsh.sinks.main", description="Write what a session's sinks read."
    )
    parser.add_argument("--home", type=Path, required=True, help="the session's directory")
    given = parser.parse_args(arguments)
    home = SessionHome(given.home.absolute())
    os.umask(0o077)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    try:
        (home.path / "sinks").mkdir(mode=0o700, exist_ok=True)
        with file_lock(home.path / "sinks" / ".lock"):
            process = SinkProcess(home)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: process.stop())
            process.run()
    except StqshError as error:
        log.error("%s", error)
        return error.exit_code
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # A thread may hang in a library if its broker is unavailable; its position is recorded.
    os._exit(code)
