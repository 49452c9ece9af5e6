"""Prepare streams and tables of a session, and record the progress in their status.

Large ones are prepared in separate processes, so that they do not delay streams that play.
`PreparationProcesses` belongs to the engine; each of its processes runs `main` for one stream or table, and
exits as soon as the engine does.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from stqsh.engine.config import TUNING, EngineTuning
from stqsh.errors import SourceError, StqshError
from stqsh.sources.replay_store.manifest import MANIFEST, Manifest, manifest_seal
from stqsh.sources.replay_store.preparation import prepare, text_bytes
from stqsh.sources.source_files import find_files
from stqsh.sources.table_files import prepare_table
from stqsh.spec.stream import FileSourceSpec
from stqsh.storage.catalogue import live_streams, live_tables
from stqsh.storage.control_log import ControlDb
from stqsh.storage.home import SessionHome
from stqsh.storage.progress import set_stream_status
from stqsh.storage.rows import StreamRow, StreamStatus, TableRow

log = logging.getLogger("stqsh.engine")

Report = Callable[[float | None, str], None]
PreparedRow = StreamRow | TableRow


def prepare_row(
    home: SessionHome, control: ControlDb, row: PreparedRow, tuning: EngineTuning = TUNING
) -> StreamStatus:
    """Prepare a stream or table; write and return its status, which may be a failure."""
    report = _reporter(control, row.id, tuning)
    report(None, "reading")
    try:
        if isinstance(row, TableRow):
            found = prepare_table(row.spec, home.table(row.id), report=report)
            status = StreamStatus(row.id, "ready", rows=found.rows, dead=found.dead, progress=1.0)
        else:
            status = _prepare_stream(home, row, report)
    except StqshError as error:
        status = StreamStatus(row.id, "failed", message=error.message)
    except Exception as error:  # a failure of one must not stop the others
        log.exception("%s cannot be prepared", row.name)
        status = StreamStatus(row.id, "failed", message=f"{type(error).__name__}: {error}")
    set_stream_status(control, status)
    return status


def _prepare_stream(home: SessionHome, stream: StreamRow, report: Report) -> StreamStatus:
    directory = home.stream(stream.id)
    manifest = prepare(stream.spec, directory, report=report)
    status = _status_of(stream.id, manifest)
    if manifest.complete and (directory / MANIFEST).exists():
        status = replace(status, seal=manifest_seal(directory))
    return status


def _status_of(stream_id: int, manifest: Manifest) -> StreamStatus:
    return StreamStatus(
        stream_id,
        "ready" if manifest.complete else "endless",
        rows=manifest.rows,
        dead=manifest.dead,
        progress=1.0,
        duplicates=manifest.duplicates,
    )


def _reporter(control: ControlDb, row_id: int, tuning: EngineTuning) -> Report:
    """Return a function that writes a preparation's progress, a few times per second at most."""
    reported = 0.0

    def report(progress: float | None, message: str) -> None:
        nonlocal reported
        now = time.monotonic()
        if now - reported >= tuning.prepare_report_s:
            reported = now
            status = StreamStatus(row_id, "reading", message=message, progress=progress or 0.0)
            set_stream_status(control, status)

    return report


_TRIES = 2
_NICENESS = 5


def is_large(row: PreparedRow, tuning: EngineTuning = TUNING) -> bool:
    """Return whether a stream or table has files large enough for a process of their own."""
    if not isinstance(row.spec.source, FileSourceSpec):
        return False
    try:
        return sum(text_bytes(file) for file in find_files(row.spec.source)) > tuning.process_bytes
    except (SourceError, OSError):  # its preparation reports the error
        return False


@dataclass
class _Preparation:
    """A stream or table, its process, and the number of processes started for it."""

    row: PreparedRow
    process: subprocess.Popen[bytes] | None = None
    tries: int = 0


@dataclass
class PreparationProcesses:
    """The large streams and tables in preparation or waiting for it; at most one per core at a time."""

    home: SessionHome
    control: ControlDb
    _running: dict[int, _Preparation] = field(default_factory=dict)
    _waiting: deque[_Preparation] = field(default_factory=deque)

    def __contains__(self, row_id: int) -> bool:
        """Return whether a stream or table is in preparation or waiting."""
        return row_id in self._running or any(each.row.id == row_id for each in self._waiting)

    def add(self, row: PreparedRow) -> None:
        """Prepare a stream or table as soon as a core is free."""
        self._waiting.append(_Preparation(row))
        self.look()

    def look(self) -> None:
        """Handle processes that have exited, and start waiting ones in their place."""
        for row_id, preparation in list(self._running.items()):
            assert preparation.process is not None, "it was started"
            code = preparation.process.poll()
            if code is not None:
                del self._running[row_id]
                if code != 0:
                    self._try_again(preparation, code)
        while self._waiting and len(self._running) < (os.cpu_count() or 1):
            self._start(self._waiting.popleft())

    def keep(self, row_ids: set[int]) -> None:
        """Cancel the preparation of all streams and tables except these."""
        self._waiting = deque(each for each in self._waiting if each.row.id in row_ids)
        for row_id in self._running.keys() - row_ids:
            process = self._running.pop(row_id).process
            assert process is not None, "it was started"
            process.kill()
            process.wait()

    def stop(self) -> None:
        """Cancel all preparations; the next engine restarts them."""
        self.keep(set())

    def _start(self, preparation: _Preparation) -> None:
        command = [sys.executable, "-m", "stqsh.engine.ingest.preparation"]
        arguments = ["--home", str(self.home.path), "--row", str(preparation.row.id)]
        preparation.process = subprocess.Popen([*command, *arguments], stdin=subprocess.PIPE)
        preparation.tries += 1
        self._running[preparation.row.id] = preparation

    def _try_again(self, preparation: _Preparation, code: int) -> None:
        """Restart a process that exited without a result; fail if the restart did not help."""
        row = preparation.row
        how = f"was killed ({signal.Signals(-code).name})" if code < 0 else f"ended with code {code}"
        log.warning("the process that prepares %s %s", row.name, how)
        if preparation.tries < _TRIES:
            self._waiting.append(preparation)
            return
        message = f"the process that prepares it {how} {preparation.tries} times; is there enough memory?"
        set_stream_status(self.control, StreamStatus(row.id, "failed", message=message))


def main(arguments: list[str] | None = None) -> int:
    """Prepare one stream or table of a session, and return the exit code."""
    parser = argparse.ArgumentParser(prog="stqsh.engine.ingest.preparation")
    parser.add_argument("--home", type=Path, required=True, help="the session's directory")
    parser.add_argument("--row", type=int, required=True, help="the number of the stream or table")
    given = parser.parse_args(arguments)
    threading.Thread(target=_end_with_engine, daemon=True).start()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    os.nice(_NICENESS)
    control = ControlDb(given.home)
    rows: list[PreparedRow] = [*live_tables(control), *live_streams(control)]
    for row in rows:
        if row.id == given.row:
            prepare_row(SessionHome(given.home), control, row)
    return 0


def _end_with_engine() -> None:
    """Exit once the engine, which holds the other end of standard input, has exited."""
    os.read(0, 1)  # nothing is ever written there
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
