"""At the end of a temporary session, wait until its sinks have written everything."""

from __future__ import annotations

import time

from stqsh.checksums import DamagedFileError
from stqsh.client.connection import POLL_S, Connection
from stqsh.errors import StqshError
from stqsh.storage.engine_info import is_alive, read_engine
from stqsh.storage.session_settings import session_settings
from stqsh.storage.sinks.sink_catalogue import live_sinks
from stqsh.storage.sinks.sink_position import SinkPosition, read_position, read_report
from stqsh.storage.update_log.files import logged_files
from stqsh.units import parse_duration


def finish_sinks(connection: Connection) -> None:
    """Wait until all sinks have written all delivered updates.

    Raises:
        StqshError: a sink has stopped, or makes no progress for `sinks.wait`.
    """
    patience_s = parse_duration(session_settings(connection.db).text("sinks.wait")) / 1e6
    last, since = _behind(connection), time.monotonic()
    while last:
        stopped = [name for name, (id_, _) in last.items() if _is_stopped(connection, id_)]
        is_late = time.monotonic() - since > patience_s
        if stopped or is_late or not is_alive(read_engine(connection.home)):
            raise _unwritten(connection, last, (stopped or list(last))[0])
        time.sleep(POLL_S)
        now = _behind(connection)
        if now != last:
            last, since = now, time.monotonic()


def _behind(connection: Connection) -> dict[str, tuple[int, SinkPosition | None]]:
    """Return the sinks that have not written everything: id and position by name."""
    up_to = connection.progress().batch
    behind: dict[str, tuple[int, SinkPosition | None]] = {}
    for sink in live_sinks(connection.db):
        try:
            position = read_position(connection.home, sink.id)
        except DamagedFileError:
            behind[sink.name] = (sink.id, None)
            continue
        # The initial answer counts too.
        is_owed = not position.begun and sink.spec.batch >= 0
        after = position.after if position.begun else sink.spec.batch
        if is_owed or logged_files(connection.db, after, up_to):
            behind[sink.name] = (sink.id, position)
    return behind


def _is_stopped(connection: Connection, sink: int) -> bool:
    report = read_report(connection.home, sink)
    return report is not None and report.state == "stopped"


def _unwritten(
    connection: Connection, behind: dict[str, tuple[int, SinkPosition | None]], name: str
) -> StqshError:
    sink, position = behind[name]
    report = read_report(connection.home, sink)
    reason = report.error if report is not None and report.error else "it gets no further"
    step = position.step if position is not None else 0
    others = f" (and {len(behind) - 1} more)" if len(behind) > 1 else ""
    return StqshError(
        f"sink {name}{others} has not written everything: {reason}",
        hint=f"it has written up to step {step}; in a named session (stqsh -s NAME) it would go on writing",
    )
