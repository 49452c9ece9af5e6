"""A sink's position and report: two small files in `sinks/ID/` of the session's home.

The position is sealed, and replaced atomically after the data that it counts has been written. The report is
only for SHOW SINKS; nothing depends on it. An alert has a third file, written before and after each action:
an update whose action was running when the process died is not acted on again.
"""

from __future__ import annotations

import shutil
from collections.abc import Container
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from stqsh.checksums import DamagedFileError, without_seal, write_sealed
from stqsh.fs import atomic_write, force, is_durable
from stqsh.storage.home import SessionHome

SinkState = Literal["running", "waiting", "stopped"]


class SinkPosition(Struct, frozen=True, omit_defaults=True):
    """How far a sink has written.

    Attributes:
        after: the last batch that is completely written, or -1.
        parts: the number of parts of the next batch that are written.
        begun: whether the answers with which the sink begins are written.
        updates: the number of updates written.
        step: the last step that is written.
        placed: files that are complete and get their final names next.
    """

    after: int = -1
    parts: int = 0
    begun: bool = False
    updates: int = 0
    step: int = 0
    placed: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[bool, int, int]:
        """The sort key of a sink's positions, which only grows."""
        return self.begun, self.after, self.parts


class SinkReport(Struct, frozen=True):
    """A report of a sink's process.

    Attributes:
        process: the process, as named by `stqsh.storage.processes.identity`.
        error: the last error, "" if there was none since the last success.
        error_us: when the error occurred.
    """

    process: str = ""
    state: SinkState = "running"
    error: str = ""
    error_us: int = 0


def sink_folder(home: SessionHome, sink: int) -> Path:
    """Return the folder of a sink in the session's home."""
    return home.path / "sinks" / str(sink)


def file_to_write(home: SessionHome, sink: int, name: str) -> Path:
    """Return the path of a file in a sink's folder; create the folder if needed."""
    folder = sink_folder(home, sink)
    path = folder / name
    if not path.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if is_durable():
            force(folder.parent)
            force(home.path)
    return path


def remove_dropped(home: SessionHome, live: Container[int]) -> None:
    """Remove the folders of all sinks whose numbers are not in `live`."""
    for folder in (home.path / "sinks").glob("[0-9]*"):
        if int(folder.name) not in live:
            shutil.rmtree(folder, ignore_errors=True)


def read_position(home: SessionHome, sink: int) -> SinkPosition:
    """Return how far a sink has written; the initial position if it has written nothing.

    Raises:
        DamagedFileError: the file is damaged.
    """
    path = sink_folder(home, sink) / "position"
    name = f"sinks/{sink}/{path.name}"
    try:
        return msgspec.json.decode(without_seal(path.read_bytes(), name), type=SinkPosition)
    except FileNotFoundError:
        return SinkPosition()
    except msgspec.MsgspecError as error:
        raise DamagedFileError(name) from error


def write_position(home: SessionHome, sink: int, position: SinkPosition) -> None:
    """Record how far a sink has written."""
    write_sealed(file_to_write(home, sink, "position"), msgspec.json.encode(position))


def read_report(home: SessionHome, sink: int) -> SinkReport | None:
    """Return the last report of a sink's process; None if there is none, or it is unreadable."""
    try:
        return msgspec.json.decode((sink_folder(home, sink) / "report").read_bytes(), type=SinkReport)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def write_report(home: SessionHome, sink: int, report: SinkReport) -> None:
    """Record the report of a sink."""
    atomic_write(file_to_write(home, sink, "report"), msgspec.json.encode(report))


class AlertState(Struct, frozen=True):
    """The state of an alert.

    Attributes:
        last_us: the time of the last update that it acted on, µs; None before the first.
        done: the number of its actions.
        held: the number of updates that it skipped because they came too soon after another.
        failed: the number of failed actions.
        error: the last failure, "" if the last action succeeded.
    """

    last_us: int | None = None
    done: int = 0
    held: int = 0
    failed: int = 0
    error: str = ""


def read_alert_state(home: SessionHome, alert: int) -> AlertState:
    """Return the state of an alert; the initial state if it has done nothing, or its file is damaged."""
    try:
        return msgspec.json.decode((sink_folder(home, alert) / "alert").read_bytes(), type=AlertState)
    except (FileNotFoundError, msgspec.MsgspecError):
        return AlertState()


def write_alert_state(home: SessionHome, alert: int, state: AlertState) -> None:
    """Record the state of an alert."""
    atomic_write(file_to_write(home, alert, "alert"), msgspec.json.encode(state))
