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
from numpy.typing import NDArray

from stqsh.client.connection import Connection
from stqsh.client.results import Updates
from stqsh.control_characters import shorten
from stqsh.sinks.alert_command import AlertFailedError, run_command
from stqsh.sinks.alert_text import filled, is_json_text, row_in_words
from stqsh.sinks.file_target import json_lines
from stqsh.sinks.http_target import JSON_LINES, HttpSink
from stqsh.sinks.sink_reader import SinkPart
from stqsh.sinks.target import TargetBusyError, TargetRefusedError
from stqsh.spec.chunk import WHY
from stqsh.spec.sink import (
    AlertEdge,
    AlertTargetSpec,
    BellActionSpec,
    NotifyActionSpec,
    PostActionSpec,
    RunActionSpec,
)
from stqsh.storage.rows import SinkRow
from stqsh.storage.sinks.alert_state import AlertState, read_alert_state, write_alert_state
from stqsh.storage.sinks.notices import Notice, post_notice
from stqsh.storage.sinks.sink_position import SinkPosition
from stqsh.storage.update_log.reader import key_ranks
from stqsh.units import format_instant

POST_S = 10.0
"""How long a server may take for an answer."""
_SHOWN = 400
_PLAIN = "text/plain; charset=utf-8"
_CHANGED = WHY.index("changed")
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
        rows = np.flatnonzero(_counting(updates, self._target.edge))
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
            self._act(update)
        except _FAILURES as failure:
            text = shorten(str(getattr(failure, "message", failure)), _SHOWN)
            self._state = msgspec.structs.replace(self._state, failed=self._state.failed + 1, error=text)
        else:
            self._state = msgspec.structs.replace(self._state, done=self._state.done + 1, error="")
        if (time.monotonic() - began) * 1e6 > self._target.every_us:
            self._late_until = self._link.progress().batch

    def _action(self, identity: str, authorization: str) -> Callable[[Updates], None]:
        match self._target.action:
            case RunActionSpec(command, folder):
                return lambda update: run_command(command, folder, self._body(update))
            case PostActionSpec(url):
                return lambda update: self._post(HttpSink(url, identity, authorization, POST_S), update)
            case NotifyActionSpec() | BellActionSpec():
                return self._say

    def _body(self, update: Updates) -> bytes:
        """Return what an action sends: its text, or the update as a line of JSON."""
        text = self._target.action.text
        return filled(text, self._alert.name, update).encode() if text else json_lines((update,))

    def _post(self, target: HttpSink, update: Updates) -> None:
        # EVERY is longer than nothing, so an alert acts at most once in a step: the step makes the key.
        step = int(update.table.column("step")[0].as_py())
        text = self._target.action.text
        kind = JSON_LINES if not text else "application/json" if is_json_text(text) else _PLAIN
        try:
            target.send(self._body(update), kind, step)
        finally:
            target.close()

    def _say(self, update: Updates) -> None:
        text, bell = self._target.action.text, isinstance(self._target.action, BellActionSpec)
        if text:
            said = shorten(filled(text, self._alert.name, update), _SHOWN)
        else:
            [row] = update.table.select(["step", "at_us"]).to_pylist()
            place = f"step {row['step']}, {format_instant(row['at_us'])}"
            said = f"{shorten(row_in_words(update), _SHOWN)} ({place})"
        post_notice(self._link.home, Notice(f"alert {self._alert.name}: {said}", bell))


def _counting(updates: Updates, edge: AlertEdge | None) -> NDArray[np.bool_]:
    """Return which updates count for an alert.

    A row that changes is one update, its new row, and neither comes in nor leaves.
    """
    ops, why = (updates.table.column(name).to_numpy() for name in ("op", "why"))
    is_old = (ops < 0) & (why == _CHANGED)
    if edge == "leave":
        left: NDArray[np.bool_] = (ops < 0) & ~is_old
        return left
    if edge is None or not is_old.any():
        came: NDArray[np.bool_] = ~is_old if edge is None else ops > 0
        return came
    steps, queries = (updates.table.column(name).to_numpy() for name in ("step", "query"))
    rows = np.stack([steps, queries, key_ranks(updates.table.column("key"))])
    numbers = np.unique(rows, axis=1, return_inverse=True)[1].reshape(-1)
    entered: NDArray[np.bool_] = (ops > 0) & ~np.isin(numbers, numbers[is_old])
    return entered
