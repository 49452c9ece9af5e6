"""`stqsh logs`: prints the log of a session's engine."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from stqsh.cli.sessions import session_home
from stqsh.control_characters import escape_controls, escape_json
from stqsh.errors import HomeError
from stqsh.program import program
from stqsh.shell.messages import print_message

POLL_S = 0.2


_HEAD = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d{3}) (?P<level>[A-Z]+) (?P<source>[^\s:]+): (?P<text>.*)"
)
"""The head of a log entry of Spark or the engine; further lines of an entry have none."""


def show_logs(session: str | None, profile: str | None, lines: int, follow: bool, *, json: bool) -> int:
    """Print the last lines of an engine's log, and new ones with `follow`.

    Args:
        session: Name of the session; by default `default`.
        profile: Name or file of the profile.
        lines: Number of lines to print.
        follow: Keep printing new lines until Ctrl-C.
        json: Print each line as an object, see `Structured`.

    Raises:
        HomeError: The session has no log.
    """
    home = session_home(session, profile)
    log = home.engine_log
    if not log.exists():
        raise HomeError(f"session {home.name} has no log: no engine was started", hint=f"{program()} doctor")
    print_message(f"-- {log}")
    # A terminal gets the text of a log without control characters, a pipe the log as it is.
    plain = partial(escape_controls, keep="\t") if sys.stdout.isatty() else str
    written = Structured().line if json else plain
    end = log.stat().st_size  # later lines are followed, and none is lost
    for line in last_lines(log, lines, end):
        print(written(line))
    sys.stdout.flush()
    if follow:
        for line in whole_lines(followed(log, end)):
            print(written(line), flush=True)
    return 0


class LogEntry(NamedTuple):
    """The head of a log entry; None before the first."""

    at: str | None = None
    level: str | None = None
    source: str | None = None


class Structured:
    """Turns the lines of a log into JSON objects: `{"at", "level", "source", "text"}`.

    A further line of an entry, such as one of a traceback, repeats its time, level and source.
    """

    def __init__(self) -> None:
        self._entry = LogEntry()

    def line(self, line: str) -> str:
        """Return the next line of the log as JSON."""
        found, text = _HEAD.fullmatch(line), line
        if found is not None:
            at, level, source, text = found.groups()
            self._entry = LogEntry(_instant(at), level, source)
        written = json.dumps({**self._entry._asdict(), "text": text}, ensure_ascii=False)
        return escape_json(written.encode()).decode()


def _instant(text: str) -> str:
    """Return a local time as ISO 8601 in UTC."""
    at = datetime.fromisoformat(text.replace(",", ".")).astimezone(UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def whole_lines(pieces: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a text that comes in pieces, each once it is complete."""
    rest = ""
    for piece in pieces:
        *lines, rest = (rest + piece).split("\n")
        yield from lines


def last_lines(log: Path, count: int, end: int | None = None) -> list[str]:
    """Return the last `count` lines of a file, or of its first `end` bytes."""
    with log.open("rb") as file:
        end = file.seek(0, 2) if end is None else end
        begin = file.seek(max(0, end - 400 * count - 4096))
        text = file.read(end - begin).decode(errors="replace")
    lines = text.removesuffix("\n").split("\n") if text else []
    return lines[-count:] if count else []


def followed(log: Path, begin: int) -> Iterator[str]:
    """Yield the text of a file from byte `begin` on, and what is appended; never ends.

    A new file in its place is read from its beginning.
    """
    file = log.open(encoding="utf-8", errors="replace", newline="\n")
    try:
        file.seek(begin)
        while True:
            text = file.read()
            if text:
                yield text
                continue
            time.sleep(POLL_S)
            if not _is_same(file.fileno(), log):
                file.close()
                file = log.open(encoding="utf-8", errors="replace", newline="\n")
    finally:
        file.close()


def _is_same(descriptor: int, log: Path) -> bool:
    try:
        return os.fstat(descriptor).st_ino == log.stat().st_ino
    except FileNotFoundError:
        return True  # a new engine is about to make it
