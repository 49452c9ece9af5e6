"""Alerts: an action for updates of a query, at most one in EVERY of the session's clock.

What an alert does takes its own thread's time only. An action that takes longer than EVERY misses the updates
that come while it runs, so an alert never falls behind.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import msgspec
import numpy as np

from stqsh.client.connection import Connection
from stqsh.client.results import Updates
from stqsh.control_characters import shorten
from stqsh.sinks.alert_command import AlertFailedError, run_command
from stqsh.sinks.file_target import json_lines
from stqsh.sinks.http_target import HttpSink
from stqsh.sinks.sink_reader import SinkPart
from stqsh.sinks.target import TargetBusyError, TargetRefusedError
from stqsh.spec.sink import AlertTargetSpec, BellActionSpec, NotifyActionSpec, PostActionSpec, RunActionSpec
from stqsh.storage.rows import SinkRow
from stqsh.storage.sinks.alert_state import AlertState, read_alert_state, write_alert_state
from stqsh.storage.sinks.notices import Notice, post_notice
from stqsh.storage.sinks.sink_position import SinkPosition
from stqsh.units import format_instant

POST_S = 10.0
"""How long a server may take for an answer."""
_SHOWN = 200
_FAILURES = (AlertFailedError, TargetBusyError, TargetRefusedError, OSError)


class AlertTarget:
    """Acts on the updates of one alert.

    Args:
        link: the session.
        alert: the alert.
        target: what it does.
        identity: what distinguishes it from all others.
        authorization: the header of that name for POST.
    """

    rows = 10_000

    def __init__(
        self, link: Connection, alert: SinkRow, target: AlertTargetSpec, identity: str, authorization: str
    ) -> None:
        self._link, self._alert, self._target = link, alert, target
        self._act = self._action(identity, authorization)
        self._state = read_alert_state(link.home, alert.id)
        self._late_until = -1

    def open(self, position: SinkPosition) -> SinkPosition:
        """Return the position: it is what the file says."""
        return position

    def write(self, part: SinkPart) -> SinkPosition:
        """Act on what is due in a part; an action that fails is counted."""
        before = self._state
        held = sum(self._consider(part, updates) for updates in part.updates if not updates.snapshot)
        after = msgspec.structs.replace(self._state, held=self._state.held + held)
        if after != before:
            self._record(after)
        return part.reached

    def settle(self, position: SinkPosition) -> None:
        """Do nothing: what is done is done."""

    def close(self) -> None:
        """Leave: nothing stays open."""

    def _record(self, state: AlertState) -> None:
        """Record how the alert is doing; what cannot be written has not happened."""
        write_alert_state(self._link.home, self._alert.id, state)
        self._state = state

    def _consider(self, part: SinkPart, updates: Updates) -> int:
        """Act on the first update, then on the first that comes EVERY after it, and so on.

        Returns:
            How many updates it has left out.
        """
        ops = updates.table.column("op").to_numpy()
        wanted = {"enter": ops > 0, "leave": ops < 0}.get(self._target.edge or "", ops != 0)
        rows = np.flatnonzero(wanted)
        times = updates.table.column("at_us").to_numpy()[rows]
        acted, at = 0, 0
        while part.batch > self._late_until:
            if self._state.last_us is not None:
                at = int(np.searchsorted(times, self._state.last_us + self._target.every_us))
            if at >= len(rows):
                break
            self._take(replace(updates, table=updates.table.slice(int(rows[at]), 1)), int(times[at]), part)
            acted += 1
        return len(rows) - acted

    def _take(self, update: Updates, at_us: int, part: SinkPart) -> None:
        """Act on one update; before that it is noted, so that it is not acted on again."""
        self._record(msgspec.structs.replace(self._state, last_us=at_us))
        began = time.monotonic()
        try:
            self._act(update, part)
        except _FAILURES as failure:
            text = shorten(str(getattr(failure, "message", failure)), _SHOWN)
            self._state = msgspec.structs.replace(self._state, failed=self._state.failed + 1, error=text)
        else:
            self._state = msgspec.structs.replace(self._state, done=self._state.done + 1, error="")
        if (time.monotonic() - began) * 1e6 > self._target.every_us:
            self._late_until = self._link.progress().batch

    def _action(self, identity: str, authorization: str) -> Callable[[Updates, SinkPart], None]:
        match self._target.action:
            case RunActionSpec(command, folder):
                return lambda update, part: run_command(command, folder, json_lines((update,)))
            case PostActionSpec(url):
                return lambda update, part: self._post(
                    HttpSink(url, identity, authorization, POST_S), update, part
                )
            case NotifyActionSpec() | BellActionSpec():
                return lambda update, part: self._say(update)

    def _post(self, target: HttpSink, update: Updates, part: SinkPart) -> None:
        # EVERY is longer than nothing, so an alert acts at most once in a step: the step makes the key.
        step = int(update.table.column("step")[0].as_py())
        try:
            target.write(replace(part, step=step, number=0, updates=(update,)))
        finally:
            target.close()

    def _say(self, update: Updates) -> None:
        row = update.table.select(["step", "at_us", "op", "key"]).to_pylist()[0]
        sign, key = "+" if row["op"] > 0 else "-", row["key"]
        shown = ", ".join(map(str, key)) if isinstance(key, list) else str(key)
        text = f"alert {self._alert.name}: {self._alert.spec.queries[0]} {sign} {shown}"
        place = f"step {row['step']}, {format_instant(row['at_us'])}"
        bell = isinstance(self._target.action, BellActionSpec)
        post_notice(self._link.home, Notice(f"{shorten(text, _SHOWN)} ({place})", bell))
