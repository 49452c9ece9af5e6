"""The answers to SHOW SINKS and to DESCRIBE of a sink."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stqsh.checksums import DamagedFileError
from stqsh.client.connection import Connection
from stqsh.client.results import Rows
from stqsh.profile import Profile
from stqsh.storage import processes
from stqsh.storage.rows import SinkRow
from stqsh.storage.sinks.sink_catalogue import live_sinks
from stqsh.storage.sinks.sink_position import SinkPosition, SinkReport, read_position, read_report
from stqsh.storage.update_log.files import batch_path, logged_files
from stqsh.storage.update_log.leases import kept_for_sink
from stqsh.units import format_age, format_size

_COLUMNS = ("name", "to", "queries", "state", "updates", "steps behind", "behind", "age", "last error")


@dataclass(frozen=True, slots=True)
class SinkLag:
    """How far a sink is behind the log: in steps, in bytes, and the age in µs of the oldest update."""

    steps: int = 0
    size: int = 0
    age_us: int | None = None


def show_sinks(link: Connection, profile: Profile) -> Iterator[Rows]:
    """Yield SHOW SINKS: each sink with what it has written, and how far it is behind."""
    del profile
    yield Rows("sinks", _COLUMNS, tuple(_row(link, sink) for sink in live_sinks(link.db)))


def describe_sink(link: Connection, sink: SinkRow) -> Iterator[Rows]:
    """Yield what SHOW SINKS has of one sink, one item a row."""
    items = zip(_COLUMNS, _row(link, sink), strict=True)
    yield Rows(f"sink {sink.name}", ("item", "value"), tuple(items))


def sink_lag(link: Connection, sink: SinkRow, position: SinkPosition) -> SinkLag:
    """Return how far a sink is behind what has been delivered."""
    progress = link.progress()
    after = max(position.after, sink.spec.batch if position.begun else -1)
    waiting = logged_files(link.db, after, progress.batch)
    if not waiting:
        return SinkLag()
    try:
        written_s = batch_path(link.home.updates, waiting[0].batch).stat().st_mtime
    except FileNotFoundError:  # folded just now
        return SinkLag()
    steps = progress.step - max(position.step, sink.spec.step)
    age_us = max(0, link.db.clock() - int(written_s * 1e6))
    return SinkLag(steps, sum(file.total for file in waiting), age_us)


def sink_state(link: Connection, sink: SinkRow, report: SinkReport | None) -> str:
    """Return in a word or two what a sink is doing."""
    if report is not None and report.state == "stopped":
        return "stopped"
    if kept_for_sink(link.home, sink.id) is None:
        return "too far behind"
    if report is None or not processes.is_running(report.process):
        return "not started"
    return report.state


def _row(link: Connection, sink: SinkRow) -> tuple[Any, ...]:
    spec, report = sink.spec, read_report(link.home, sink.id)
    state, error = sink_state(link, sink, report), (report.error if report else "") or None
    queries = ", ".join(spec.queries) or "all"
    try:
        position = read_position(link.home, sink.id)
    except DamagedFileError as damage:
        return (sink.name, spec.place, queries, "stopped", None, None, None, None, damage.message)
    lag = sink_lag(link, sink, position)
    age = None if lag.age_us is None else format_age(lag.age_us)
    size = format_size(lag.size) if lag.size else None
    return (sink.name, spec.place, queries, state, position.updates, lag.steps, size, age, error)
