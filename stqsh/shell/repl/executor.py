"""Executes what is typed at the prompt: the statements of a text, one block after another.

The shell imports this module with the first statement, so that the prompt does not wait for the language.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from stqsh.shell.messages import print_text
from stqsh.shell.outcomes import render
from stqsh.shell.render import PromptRenderer
from stqsh.shell.repl.waiting import WaitIndicator
from stqsh.shell.scripting.blocks import StatementBlock
from stqsh.shell.scripting.console import Stopwatch
from stqsh.shell.scripting.interrupt_notice import InterruptNotice
from stqsh.shell.scripting.scripts import check_read_only, read_scripts
from stqsh.shell.status import READY, status_text
from stqsh.shell.terminal.interrupts import overwrite_echo
from stqsh.shell.terminal.screen import open_screen
from stqsh.shell.user_files import script_text
from stqsh.storage.session_settings import session_settings

if TYPE_CHECKING:
    from stqsh.client.api import Session
    from stqsh.shell.repl.session_thread import SessionThread
    from stqsh.shell.scripting.console import Console
    from stqsh.shell.scripting.watch_interval import WatchInterval


class StatementExecutor:
    """Executes statements in the session of `backend` and renders their outcomes.

    Args:
        takes_session_format: Whether results have the session's format until the user sets another.
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
        """Execute statements; return False where the user interrupted one and the rest is not to be run."""
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
        """Return the session; adopt its format once, and restart its engine where it has died."""
        session = self._backend.session()
        if self._takes_session_format:
            self._takes_session_format = False
            wanted = session_settings(session.link.db).text("shell.format")
            self._console.format = None if wanted == "auto" else wanted
        summary = self._backend.glance
        if summary.failed:
            print_text(f"{summary.engine}; starting it again")
            session.start_engine(wait=False)
        return session

    def _activity(self) -> str:
        """Return what the session is doing, as of the last look."""
        summary = self._backend.glance
        if summary.engine == READY and summary.progress is not None:
            return status_text(summary.progress)
        return summary.engine

    def _remark(self, text: str) -> None:
        if text and not self._console.quiet:
            print_text(text)
