"""The answers to SHOW SINKS and SHOW ALERTS, and to DESCRIBE of a sink or an alert."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stqsh.checksums import DamagedFileError
from stqsh.client.connection import Connection
from stqsh.client.results import Rows
from stqsh.profile import Profile
from stqsh.spec.sink import AlertTargetSpec
from stqsh.storage import processes
from stqsh.storage.rows import SinkRow
from stqsh.storage.sinks.sink_catalogue import live_alerts, written_sinks
from stqsh.storage.sinks.sink_position import (
    SinkPosition,
    SinkReport,
    read_alert_state,
    read_position,
    read_report,
)
from stqsh.storage.update_log.files import batch_path, logged_files
from stqsh.storage.update_log.leases import kept_for_sink
from stqsh.units import format_age, format_duration, format_size

_COLUMNS = ("name", "to", "queries", "state", "updates", "steps behind", "behind", "age", "last error")

_ALERT_COLUMNS = (
    *("name", "query", "on", "every", "do", "state", "done", "held back", "failed", "last error"),
)


@dataclass(frozen=True, slots=True)
class SinkLag:
    """How far a sink is behind the log: in steps, in bytes, and the age in µs of the oldest update."""

    steps: int = 0
    size: int = 0
    age_us: int | None = None


def show_sinks(connection: Connection, profile: Profile) -> Iterator[Rows]:
    """Yield SHOW SINKS: each sink with what it has written and its lag."""
    del profile
    yield Rows("sinks", _COLUMNS, tuple(_row(connection, sink) for sink in written_sinks(connection.db)))


def describe_sink(connection: Connection, sink: SinkRow) -> Iterator[Rows]:
    """Yield the values of SHOW SINKS for one sink, one item per row."""
    items = zip(_COLUMNS, _row(connection, sink), strict=True)
    yield Rows(f"sink {sink.name}", ("item", "value"), tuple(items))


def show_alerts(connection: Connection, profile: Profile) -> Iterator[Rows]:
    """Yield SHOW ALERTS: each alert with how often it acted, was suppressed, and failed."""
    del profile
    yield Rows(
        "alerts", _ALERT_COLUMNS, tuple(_alert_row(connection, alert) for alert in live_alerts(connection.db))
    )


def describe_alert(connection: Connection, alert: SinkRow) -> Iterator[Rows]:
    """Yield the values of SHOW ALERTS for one alert, one item per row."""
    items = zip(_ALERT_COLUMNS, _alert_row(connection, alert), strict=True)
    yield Rows(f"alert {alert.name}", ("item", "value"), tuple(items))


def _alert_row(connection: Connection, alert: SinkRow) -> tuple[Any, ...]:
    target, state = alert.spec.target, read_alert_state(connection.home, alert.id)
    assert isinstance(target, AlertTargetSpec), f"{alert.name} is an alert"
    report = read_report(connection.home, alert.id)
    error = state.error or (report.error if report else "") or None
    return (
        *(alert.name, alert.spec.queries[0], target.edge or "enter, leave", format_duration(target.every_us)),
        *(target.text, sink_state(connection, alert, report), state.done, state.held, state.failed, error),
    )


def sink_lag(connection: Connection, sink: SinkRow, position: SinkPosition) -> SinkLag:
    """Return the lag of a sink behind the delivered updates."""
    progress = connection.progress()
    after = max(position.after, sink.spec.batch if position.begun else -1)
    waiting = logged_files(connection.db, after, progress.batch)
    if not waiting:
        return SinkLag()
    try:
        written_s = batch_path(connection.home.updates, waiting[0].batch).stat().st_mtime
    except FileNotFoundError:  # folded just now
        return SinkLag()
    steps = progress.step - max(position.step, sink.spec.step)
    age_us = max(0, connection.db.clock() - int(written_s * 1e6))
    return SinkLag(steps, sum(file.total for file in waiting), age_us)


def sink_state(connection: Connection, sink: SinkRow, report: SinkReport | None) -> str:
    """Return the state of a sink in a word or two."""
    if report is not None and report.state == "stopped":
        return "stopped"
    if kept_for_sink(connection.home, sink.id) is None:
        return "too far behind"
    if report is None or not processes.is_running(report.process):
        return "not started"
    return report.state


def _row(connection: Connection, sink: SinkRow) -> tuple[Any, ...]:
    spec, report = sink.spec, read_report(connection.home, sink.id)
    state, error = sink_state(connection, sink, report), (report.error if report else "") or None
    queries = ", ".join(spec.queries) or "all"
    try:
        position = read_position(connection.home, sink.id)
    except DamagedFileError as damage:
        return (sink.name, spec.place, queries, "stopped", None, None, None, None, damage.message)
    lag = sink_lag(connection, sink, position)
    age = None if lag.age_us is None else format_age(lag.age_us)
    size = format_size(lag.size) if lag.size else None
    return (sink.name, spec.place, queries, state, position.updates, lag.steps, size, age, error)
