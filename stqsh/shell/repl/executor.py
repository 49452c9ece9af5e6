"""Execute the text typed at the prompt: its statements, one block after another.

While the user waits for a statement, a status line shows which one, how long, and the session's activity.
After an interrupt, a message reports whether the statement took effect, and what is not run.

The shell imports this module at the first statement, so that the prompt does not wait for the language.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from stqsh.shell.messages import print_text
from stqsh.shell.outcomes import render
from stqsh.shell.render import PromptRenderer
from stqsh.shell.scripting.blocks import StatementBlock
from stqsh.shell.scripting.console import Stopwatch
from stqsh.shell.scripting.scripts import check_read_only, read_scripts
from stqsh.shell.status import READY, status_text
from stqsh.shell.terminal.interrupts import overwrite_echo
from stqsh.shell.terminal.screen import open_screen
from stqsh.shell.user_files import script_text
from stqsh.storage.control_log import last_seq
from stqsh.storage.session_settings import session_settings

if TYPE_CHECKING:
    from stqsh.client.api import Session
    from stqsh.lang.ast.statements import Statement
    from stqsh.shell.repl.session_thread import SessionThread
    from stqsh.shell.scripting.console import Console
    from stqsh.shell.scripting.watch_interval import WatchInterval
    from stqsh.shell.terminal.screen import Screen


class StatementExecutor:
    """Executes statements in the session of `backend` and renders their outcomes.

    Args:
        takes_session_format: Whether results use the session's format until the user sets another.
    """

    def __init__(self, console: Console, backend: SessionThread, *, takes_session_format: bool) -> None:
        self._console, self._backend = console, backend
        self._takes_session_format = takes_session_format

    def execute(self, text: str, file: str | None = None) -> None:
        """Execute statements and commands. Raises `StqshError` at the first that fails."""
        for step in read_scripts([(text, file)], self._console.variables):
            if not isinstance(step, StatementBlock):
                step.run(self._console)
            elif not self._execute(step):
                break

    def include(self, file: str) -> None:
        """Execute a script file. Raises `StqshError` at the first statement that fails."""
        self.execute(script_text(file), file)

    def repeat(self, block: StatementBlock, interval: WatchInterval) -> None:
        r"""Repeat a statement (`\watch`) until Ctrl-C."""
        check_read_only(block.statements[-1])
        session = self._ready_session()

        def once() -> None:
            if not self._execute(block):
                raise KeyboardInterrupt

        try:
            PromptRenderer(self._console, session).repeat(block, interval, once)
        except KeyboardInterrupt:
            print_text(r"left \watch; the session goes on")

    def _execute(self, block: StatementBlock) -> bool:
        """Execute statements; return False if the user interrupted one, so that the rest is not run."""
        session = self._ready_session()
        self._console.last = replace(block, statements=block.statements[-1:])
        renderer, watch = PromptRenderer(self._console, session), Stopwatch(self._console)
        notice = InterruptNotice(session)
        waiting = WaitIndicator(lambda: open_screen(sys.stdout), self._activity)

        def begin(number: int) -> None:
            statement = block.statements[number - 1]
            watch.begin()
            waiting.begin(statement.text)
            notice.begin(block.statements, number)
            renderer.statement, renderer.format = number, statement.format

        is_finished = True
        try:
            with waiting:
                for outcome in session.outcomes(block.statements, file=block.file, on_statement=begin):
                    waiting.heard()
                    is_finished = render(outcome, renderer)
                    if not is_finished:
                        self._remark(notice.rest_text())
                        break
        except KeyboardInterrupt:
            print_text(overwrite_echo(notice.text()))
            is_finished = False
        watch.done()
        self._backend.look()
        return is_finished

    def _ready_session(self) -> Session:
        """Return the session; adopt its format once, and restart its engine if it has died."""
        session = self._backend.session()
        if self._takes_session_format:
            self._takes_session_format = False
            wanted = session_settings(session.connection.db).text("shell.format")
            self._console.format = None if wanted == "auto" else wanted
        summary = self._backend.summary
        if summary.failed:
            print_text(f"{summary.engine}; starting it again")
            session.start_engine(wait=False)
        return session

    def _activity(self) -> str:
        """Return the session's activity as of the last check."""
        summary = self._backend.summary
        if summary.engine == READY and summary.progress is not None:
            return status_text(summary.progress)
        return summary.engine

    def _remark(self, text: str) -> None:
        if text and not self._console.quiet:
            print_text(text)


SILENCE_S = 1.5
"""The time before the status line appears; most answers arrive sooner."""
_EVERY_S = 0.5
_WORDS = 4


class WaitIndicator:
    """Draws a status line if an answer takes a while; used as a context manager.

    A thread draws it: between `begin` and `heard`, nothing else may write to the terminal.

    Args:
        screen: Returns the screen; called when it is first needed.
        alive: Returns the session's activity.
    """

    def __init__(self, screen: Callable[[], Screen], alive: Callable[[], str]) -> None:
        self._screen, self._alive = screen, alive
        self._drawn: Screen | None = None
        self._asked: tuple[float, str] | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="patience", daemon=True)

    def __enter__(self) -> WaitIndicator:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Clear the line and stop the thread."""
        self.heard()
        self._over.set()
        self._thread.join()

    def begin(self, statement: str) -> None:
        """Record the start of a statement."""
        with self._lock:
            self._asked = time.monotonic(), " ".join(statement.split()[:_WORDS])

    def heard(self) -> None:
        """Record an outcome: clear the line, and draw none until the next statement begins."""
        with self._lock:
            self._asked = None
            if self._drawn is not None:
                self._drawn.close()
                self._drawn = None

    def _work(self) -> None:
        while not self._over.wait(_EVERY_S):
            with self._lock:
                if self._asked is not None and time.monotonic() - self._asked[0] >= SILENCE_S:
                    self._draw(*self._asked)

    def _draw(self, since: float, words: str) -> None:
        self._drawn = self._drawn or self._screen()
        waited = int(time.monotonic() - since)
        self._drawn.status(f"{words} …  {waited} s  Ctrl-C leaves  {self._alive()}", now=True)


class InterruptNotice:
    """Builds the message for Ctrl-C during a statement of `session`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._statements: list[Statement] = []
        self._number = self._logged = 0

    def begin(self, statements: list[Statement], number: int) -> None:
        """Record the start of a statement; `number` counts from 1."""
        self._statements, self._number = statements, number
        self._logged = last_seq(self._session.connection.db)

    def text(self) -> str:
        """Return whether the statement took effect, and what happens to those after it."""
        name = " ".join(self._statements[self._number - 1].text.split()[:_WORDS])
        done = f"interrupted: {name} … is {'done' if self._is_logged() else 'not done'}"
        return "; ".join(filter(None, [done, self.rest_text(), "queries and streams go on"]))

    def rest_text(self) -> str:
        """Return what happens to the statements after the interrupted one; "" if there are none."""
        rest = len(self._statements) - self._number
        if not rest:
            return ""
        return (
            "the statement after it is not run"
            if rest == 1
            else f"the {rest} statements after it are not run"
        )

    def _is_logged(self) -> bool:
        """Return whether the session's log has changed since the statement began."""
        rows = self._session.connection.db.query(
            "SELECT 1 FROM log WHERE seq > ? AND kind <> 'ask' LIMIT 1", self._logged
        )
        return bool(rows)
