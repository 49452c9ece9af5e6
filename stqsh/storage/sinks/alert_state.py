"""What an alert has done: a small file in its folder, written before an action and after it.

So an update whose action was under way when the process died is not acted on again.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from stqsh.fs import atomic_write
from stqsh.storage.home import SessionHome
from stqsh.storage.sinks.sink_position import file_to_write, sink_folder


class AlertState(Struct, frozen=True):
    """How an alert is doing.

    Attributes:
        last_us: the time of the last update that it acted on, µs; None before the first.
        done: how often it acted.
        held: how many updates it left out, since they came too soon after another.
        failed: how often its action failed.
        error: the last failure, "" if the last action succeeded.
    """

    last_us: int | None = None
    done: int = 0
    held: int = 0
    failed: int = 0
    error: str = ""


def read_alert_state(home: SessionHome, alert: int) -> AlertState:
    """Return how an alert is doing; the beginning if it has done nothing, or its file is damaged."""
    try:
        return msgspec.json.decode((sink_folder(home, alert) / "alert").read_bytes(), type=AlertState)
    except (FileNotFoundError, msgspec.MsgspecError):
        return AlertState()


def write_alert_state(home: SessionHome, alert: int, state: AlertState) -> None:
    """Record how an alert is doing."""
    atomic_write(file_to_write(home, alert, "alert"), msgspec.json.encode(state))
