"""`stqsh logs`: what a session's engine printed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from stqsh.errors import HomeError
from stqsh.shell.guard import say

POLL_S = 0.2


def show_logs(session: str | None, profile: str | None, lines: int, follow: bool) -> int:
    """Print the last lines of an engine's log, and those that come with `follow`; raises `HomeError`."""
    from stqsh.shell.sessions import session_home

    home = session_home(session, profile)
    log = home.engine_log
    if not log.exists():
        raise HomeError(f"session {home.name} has no log: no engine was started", hint="stqsh doctor")
    say(f"-- {log}")
    for line in last_lines(log, lines):
        print(line)
    sys.stdout.flush()
    if follow:
        for text in followed(log):
            print(text, end="", flush=True)
    return 0


def last_lines(log: Path, count: int) -> list[str]:
    """The last lines of a file, whatever its length."""
    with log.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 400 * count - 4096))
        text = file.read().decode(errors="replace")
    return text.splitlines()[-count:] if count else []


def followed(log: Path) -> Iterator[str]:
    """What is added to a file, as it comes, without end; a new file in its place is read from its start."""
    file = log.open(encoding="utf-8", errors="replace")
    try:
        file.seek(0, 2)
        while True:
            text = file.read()
            if text:
                yield text
                continue
            time.sleep(POLL_S)
            if not _is_same(file.fileno(), log):
                file.close()
                file = log.open(encoding="utf-8", errors="replace")
    finally:
        file.close()


def _is_same(descriptor: int, log: Path) -> bool:
    import os

    try:
        return os.fstat(descriptor).st_ino == log.stat().st_ino
    except FileNotFoundError:
        return True  # a new engine is about to make it
