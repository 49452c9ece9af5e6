"""Alerts: an action on updates of a query, at most once per EVERY of the session's clock.

An action runs in the alert's own thread and delays nothing else. If an action
takes longer than EVERY, updates that arrive meanwhile are skipped, so an alert never falls behind. A command
reads the update on its standard input; the update is never part of the command's text.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stqsh.client.connection import Connection
from stqsh.client.results import Updates
from stqsh.control_characters import shorten
from stqsh.errors import StqshError
from stqsh.shell.writers.columns import AnyColumn, head_columns, occurring, selected_columns
from stqsh.shell.writers.text_columns import NULL
from stqsh.sinks.file_target import json_lines
from stqsh.sinks.http_target import JSON_LINES, HttpTarget
from stqsh.sinks.sink_reader import SinkPart
from stqsh.sinks.target import TargetBusyError, TargetRefusedError
from stqsh.spec.aggregate import group_column
from stqsh.spec.chunk import WHY
from stqsh.spec.expression import ColumnExpr
from stqsh.spec.message import message_parts
from stqsh.spec.sink import (
    AlertEdge,
    AlertTargetSpec,
    BellActionSpec,
    NotifyActionSpec,
    PostActionSpec,
    RunActionSpec,
)
from stqsh.storage.rows import SinkRow
from stqsh.storage.sinks.notices import Notice, post_notice
from stqsh.storage.sinks.sink_position import AlertState, SinkPosition, read_alert_state, write_alert_state
from stqsh.storage.update_log.reader import key_ranks
from stqsh.units import format_instant


class AlertFailedError(StqshError):
    """An action failed."""


POST_S = 10.0
"""How long to wait for a server's response."""
_SHOWN = 400
_PLAIN = "text/plain; charset=utf-8"
_CHANGED = WHY.index("changed")
_FAILURES = (AlertFailedError, TargetBusyError, TargetRefusedError, OSError)


class AlertTarget:
    """Acts on the updates of one alert.

    Args:
        connection: the session.
        alert: the alert.
        target: the action.
        identity: an id that is unique among all alerts.
        authorization: the value of the `Authorization` header for POST.
    """

    rows = 10_000

    def __init__(
        self,
        connection: Connection,
        alert: SinkRow,
        target: AlertTargetSpec,
        identity: str,
        authorization: str,
    ) -> None:
        self._connection, self._alert, self._target = connection, alert, target
        self._act = self._action(identity, authorization)
        self._state = read_alert_state(connection.home, alert.id)
        self._late_until = -1

    def open(self, position: SinkPosition) -> SinkPosition:
        """Return the position unchanged: the file in the session's home is authoritative."""
        return position

    def write(self, part: SinkPart) -> SinkPosition:
        """Act on the updates of a part that are due; count failed actions."""
        before = self._state
        held = sum(self._consider(part, updates) for updates in part.updates if not updates.snapshot)
        after = msgspec.structs.replace(self._state, held=self._state.held + held)
        if after != before:
            self._record(after)
        return part.reached

    def settle(self, position: SinkPosition) -> None:
        """Do nothing: actions are final."""

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def _record(self, state: AlertState) -> None:
        """Record the state of the alert; if the write fails, the state in memory is unchanged."""
        write_alert_state(self._connection.home, self._alert.id, state)
        self._state = state

    def _consider(self, part: SinkPart, updates: Updates) -> int:
        """Act on the first update, then on the first that comes EVERY after it, and so on.

        Returns:
            The number of skipped updates.
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
        """Act on one update; record it first, so that it is not acted on twice."""
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
            self._late_until = self._connection.progress().batch

    def _action(self, identity: str, authorization: str) -> Callable[[Updates], None]:
        match self._target.action:
            case RunActionSpec(command, folder):
                return lambda update: run_command(command, folder, self._body(update))
            case PostActionSpec(url):
                return lambda update: self._post(HttpTarget(url, identity, authorization, POST_S), update)
            case NotifyActionSpec() | BellActionSpec():
                return self._say

    def _body(self, update: Updates) -> bytes:
        """Return the content that an action sends: its text, or the update as a line of JSON."""
        text = self._target.action.text
        return filled(text, self._alert.name, update).encode() if text else json_lines((update,))

    def _post(self, target: HttpTarget, update: Updates) -> None:
        # EVERY is positive, so an alert acts at most once per step: the step is the key.
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
        post_notice(self._connection.home, Notice(f"alert {self._alert.name}: {said}", bell))


def _counting(updates: Updates, edge: AlertEdge | None) -> NDArray[np.bool_]:
    """Return which updates trigger an alert.

    A changed row is one update, its new row; it counts neither as entering nor as leaving.
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


COMMAND_S = 30.0
"""The maximum run time of a command."""
_READ_BYTES = 4096


def run_command(command: str, folder: str, record: bytes, patience_s: float = COMMAND_S) -> None:
    """Run a command of the shell with a record on its standard input.

    Raises:
        AlertFailedError: its exit code is not 0, or it was killed because it took too long.
    """
    # Files instead of pipes: a command may ignore its input, and its background processes may keep them open.
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
        given.write(record)
        given.seek(0)
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", command],
                stdin=given,
                stdout=subprocess.DEVNULL,
                stderr=said,
                cwd=folder,
                start_new_session=True,
            )
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise AlertFailedError(f"the command cannot be run in {folder}: {reason}") from error
        try:
            code = process.wait(patience_s)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise AlertFailedError(f"the command was ended after {patience_s:g} s") from None
        if code != 0:
            said.seek(0)
            lines = said.read(_READ_BYTES).decode(errors="replace").strip().splitlines()
            raise AlertFailedError(f"exit code {code}" + (f": {lines[-1]}" if lines else ""))


def row_in_words(update: Updates) -> str:
    """Return an update of one row as a text: `near + 368: lon 116.4, status free`.

    The key is first, and is not repeated among the columns; the key of a group is omitted if all its values
    are among the columns: `jams +: district north, cars 12`.
    """
    head, [query] = head_columns(update), occurring(update)
    op, why = _value(head.op), _value(head.why)
    columns = selected_columns(update, query)
    keys = _key_values(update)
    if (form := query.spec.aggregates) is not None:
        shown = [column.value for column in form.select]
        if form.distinct or all(group_column(number) in shown for number in range(len(form.groups))):
            keys = []
    else:
        key = ColumnExpr(update.stream.spec.key)
        listed = zip(columns, query.spec.result.select, strict=True)
        columns = [column for column, choice in listed if choice.value != key]
    said = ", ".join(f"{column.name} {_value(column)}" for column in columns)
    reason = f" ({why})" if op == "-" else ""
    beginning = " ".join(filter(None, (query.name, op, ", ".join(keys)))) + reason
    return f"{beginning}: {said}" if said else beginning


def filled(text: str, alert: str, update: Updates) -> str:
    """Return a text with its placeholders replaced by the values of an update of one row.

    In a text that begins like JSON, with a brace or a bracket, values are inserted as JSON: a value between
    double quotes is escaped as a JSON string.

    Raises:
        AlertFailedError: the query's select list differs from the one at the alert's creation.
    """
    head, [query] = head_columns(update), occurring(update)
    known: dict[str, AnyColumn] = {column.name: column for column in head}
    known |= {column.name: column for column in selected_columns(update, query)}
    is_json = is_json_text(text)
    parts: list[str] = []
    for part in message_parts(text):
        if part.kind != "field":
            parts.append(part.text)
            continue
        if part.text in known:
            value = _value(known[part.text])
        elif part.text == "alert":
            value = alert
        elif part.text == "row":
            value = row_in_words(update)
        else:
            raise AlertFailedError(f"{query.name} has no column {part.text!r} for the text any more")
        parts.append(json.dumps(value, ensure_ascii=False)[1:-1] if is_json else value)
    return "".join(parts)


def is_json_text(text: str) -> bool:
    """Return whether a text is a JSON template: it begins with `{{` or `[`."""
    return text.lstrip().startswith(("{{", "["))


def _value(column: AnyColumn) -> str:
    """Return the only value of a column for people; `null` for a null."""
    [shown], [fragment] = column.readable(), column.json()
    return "null" if fragment == NULL else shown


def _key_values(update: Updates) -> list[str]:
    """Return the values of an update's key as texts."""
    [text] = head_columns(update).key.json()
    key: Any = json.loads(text)
    values = key if isinstance(key, list) else [key]
    return [value if isinstance(value, str) else json.dumps(value) for value in values]
