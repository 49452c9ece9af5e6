"""Prepare one stream or table of a session, and record in its status how that goes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from stqsh.engine.config import TUNING, EngineTuning
from stqsh.errors import StqshError
from stqsh.sources.replay_store.manifest import MANIFEST, Manifest, manifest_seal
from stqsh.sources.replay_store.preparation import prepare
from stqsh.sources.table_files import prepare_table
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
    """Prepare a stream or table; write its status, and return it. A failure is a status, too."""
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
    except Exception as error:  # a failure of one must not end the others
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
