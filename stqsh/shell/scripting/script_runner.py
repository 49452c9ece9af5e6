"""Run scripts in an open session: execute their steps, and render the outcomes of statements and RUNs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from stqsh.client import results
from stqsh.client.engine_process import has_engine
from stqsh.client.show.unread import UnreadRecords
from stqsh.lang.ast import statements as ast
from stqsh.shell.messages import print_message
from stqsh.shell.outcomes import render
from stqsh.shell.scripting.backslash_commands import ExitShell
from stqsh.shell.scripting.blocks import CommandCall, StatementBlock, statements_in
from stqsh.shell.scripting.console import Stopwatch
from stqsh.shell.scripting.output_choice import OutputChoice
from stqsh.shell.scripting.scripts import check_read_only
from stqsh.shell.scripting.watch_interval import repeat
from stqsh.shell.status import alive_text, waiting_text
from stqsh.shell.user_files import is_new_session
from stqsh.shell.writers.columns import occurring
from stqsh.shell.writers.opening import write_data, write_item

if TYPE_CHECKING:
    from stqsh.client.api import Session
    from stqsh.client.map.scene import MapFeed
    from stqsh.client.read.subscription import OnIdle, Subscription
    from stqsh.client.read.watch import WatchFeed
    from stqsh.client.results import Updates, WaitNotice
    from stqsh.client.run import RunHandle
    from stqsh.shell.live.prefetch import Source
    from stqsh.shell.live.tail import LiveView
    from stqsh.shell.scripting.watch_interval import WatchInterval
    from stqsh.shell.terminal.screen import Screen
    from stqsh.shell.writers.opening import Data
    from stqsh.shell.writers.writer import Writer
    from stqsh.storage.rows import Progress


PHASE_S = 5.0
"""The time between two reports of a wait."""


class Remark:
    """A changing text: shown once it has been stable for a while, and again after each change."""

    def __init__(self, seconds: float = 2.0) -> None:
        self._seconds, self._text, self._since = seconds, "", 0.0
        self._shown = ""

    def look(self, text: str) -> str:
        """Return the text if it should be shown now, else ""."""
        if text != self._text:
            self._text, self._since = text, time.monotonic()
        if text == self._shown or time.monotonic() - self._since < self._seconds:
            return ""
        self._shown = text
        return text


class ScriptRenderer:
    """Renders outcomes of a script: data through a writer, messages and status on the screen.

    Attributes:
        statement: The number of the current statement in the whole script, from 1.
        format: The format that the current statement itself requests.
        run_handle: The last RUN, None before the first.
    """

    def __init__(self, session: Session, place: OutputChoice, *, one_query: bool) -> None:
        self.statement = 1
        self.format: str | None = None
        self.run_handle: RunHandle | None = None
        self.screen = place.screen()
        self._session, self._place, self._one_query = session, place, one_query
        self._waiting = Remark()
        self._tells_at = 0.0
        self._view = _live_view(self.screen, session, one_query=one_query) if place.live else None

    def wait(self, notice: WaitNotice) -> None:
        """Show what the session waits for; the next outcome performs the wait."""
        self.message(notice.text)

    def message(self, text: str) -> None:
        """Show a message, unless the console is quiet."""
        if text and not self._place.console.quiet:
            self.screen.message(text)

    def data(self, data: Data) -> None:
        """Write rows in the statement's format, and a script in the format of the whole run."""
        self.screen.close()
        write_data(self._writer(), data, self.statement)
        if isinstance(data, results.Answer):
            self.message(data.remark)

    def follow(self, subscription: Subscription) -> None:
        """Show the updates of a TAIL or SUBSCRIBE."""
        view = self._live()
        if view is not None:
            view.warning = lambda: subscription.accuracy_text
        else:
            subscription.on_notice = self.message

        def source(on_idle: OnIdle) -> Subscription:
            subscription.on_idle = on_idle
            return subscription

        try:
            self._show(source)
        finally:
            subscription.close()

    def watch(self, feed: WatchFeed) -> None:
        """Show the dashboard of WATCH."""
        from stqsh.shell.watch.dashboard import show_dashboard  # prompt_toolkit

        self.message(show_dashboard(feed, self._session.settings().text("shell.scheme")))

    def run(self, handle: RunHandle) -> bool:
        """Show the updates of all registered queries until the RUN is done."""
        self.run_handle = handle

        def source(on_idle: OnIdle) -> Iterator[Updates]:
            return map(_registered, self._session.updates(until=handle, on_idle=on_idle))

        self.format = None
        self._show(source)
        self.screen.close()
        accuracy = self._session.accuracy()
        if not accuracy.is_exact:
            self.message(f"answers: {accuracy.text()}")
        return True

    def map(self, feed: MapFeed) -> None:
        """Print one frame of a map, or write its page."""
        # Only maps need the page, its server and what draws them.
        from stqsh.shell.map.dispatch import print_or_write

        self.screen.close()
        self.message(print_or_write(feed, self.screen))

    def _show(self, source: Source) -> None:
        """Show the items of a source: in the live view if there is one and no format was requested."""
        view = self._live()
        if view is not None:
            view.follow(source)
            return
        for item in source(self._status):
            write_item(self._writer(), item)

    def _writer(self) -> Writer:
        return self._place.writer(self._session, one_query=self._one_query, asked=self.format)

    def _live(self) -> LiveView | None:
        return self._view if self.format is None and self._place.console.outlet is None else None

    def _status(self, progress: Progress) -> None:
        said = self._waiting.look(waiting_text(self._session.home, progress))
        if said:
            self.message(said)
        alive = alive_text(self._session.home, progress)
        self.screen.status(alive)
        if progress.step == 0 and self._place.console.tells_phases and time.monotonic() >= self._tells_at:
            self._tells_at = time.monotonic() + PHASE_S
            self.message(f"  {alive}")


class ScriptRunner:
    """One run of scripts in an open session."""

    def __init__(
        self, session: Session, steps: Sequence[StatementBlock | CommandCall], place: OutputChoice
    ) -> None:
        self._session, self._steps, self._place = session, steps, place
        place.console.repeater = self._repeat
        self._is_new = is_new_session(session)
        self._is_own = self._is_new and not has_engine(session.home)  # a shell may have created it
        existing = {query.name for query in session.queries(2)}
        one_query = shows_one_query(statements_in(steps), existing, is_own=self._is_own)
        self._renderer = ScriptRenderer(session, place, one_query=one_query)
        self._unread = UnreadRecords(session.connection)

    @property
    def screen(self) -> Screen:
        """The screen for messages and the status line."""
        return self._renderer.screen

    def run(self, opening: Sequence[StatementBlock | CommandCall] = ()) -> None:
        """Execute the statements and commands, then the implicit end of a script in its own session.

        In an existing session, nothing runs unless a statement requests it (language.md, section 4).

        Args:
            opening: the steps that the profile runs first in a new session.
        """
        with suppress(ExitShell):
            for step in (*(opening if self._is_new else ()), *self._steps):
                if isinstance(step, StatementBlock):
                    self._execute(step)
                else:
                    step.run(self._place.console)
        last = self._session.finish_script(self._renderer.wait) if self._is_own else None
        if last is not None:
            self._renderer.run(last)
        self._tell_unread()

    def _tell_unread(self) -> None:
        """Report the records of the script's streams that could not be read."""
        if said := self._unread.text():
            again = "" if self._session.home.temporary else "; SHOW DEAD LETTERS lists them"
            self._renderer.message(said + again)

    def stop(self) -> None:
        """Stop the RUN under way after an interrupt, and print a message on what continues."""
        self._tell_unread()
        self.screen.close()
        name = self._session.home.name
        if self._session.home.temporary:
            print_message("interrupted; the script's session is stopped")
            return
        handle, stopped = self._renderer.run_handle, ""
        if handle is not None and not handle.finished:
            handle.cancel()
            stopped = "RUN is stopped, "
        print_message(f"interrupted; {stopped}session {name} and its queries go on")

    def _repeat(self, block: StatementBlock, interval: WatchInterval) -> None:
        r"""Repeat a statement (`\watch`)."""
        check_read_only(block.statements[-1])
        if self._place.terminal:
            from stqsh.shell.render import PromptRenderer  # prompt_toolkit

            renderer = PromptRenderer(self._place.console, self._session)
            renderer.repeat(block, interval, lambda: self._execute(block))
        else:
            repeat(interval, lambda: self._execute(block))

    def _execute(self, block: StatementBlock) -> None:
        console = self._place.console
        console.last = replace(
            block, statements=block.statements[-1:], number=block.number + len(block.statements) - 1
        )
        watch = Stopwatch(console)

        def begin(number: int) -> None:
            watch.begin()
            self._renderer.statement = block.number + number - 1
            self._renderer.format = block.statements[number - 1].format

        for outcome in self._session.outcomes(block.statements, file=block.file, on_statement=begin):
            render(outcome, self._renderer)
        watch.done()


def _live_view(screen: Screen, session: Session, *, one_query: bool) -> LiveView:
    from stqsh.shell.live.tail import LiveView  # prompt_toolkit

    return LiveView(screen, "", session.home, one_query, scheme=session.settings().text("shell.scheme"))


def _registered(updates: Updates) -> Updates:
    """Return the updates without those of subscriptions, which are shown by their own statements."""
    owned = [query.id for query in occurring(updates) if query.owner is not None]
    if not owned:
        return updates
    keep = ~np.isin(updates.table.column("query").to_numpy(), owned)
    return replace(updates, table=updates.table.filter(pa.array(keep)))


def shows_one_query(statements: list[ast.Statement], existing: set[str], *, is_own: bool) -> bool:
    """Return whether a script shows updates of one query only.

    A RUN shows all queries, and so does the end of a script in its own session; a TAIL shows its query.
    REGISTER QUERIES counts as several queries, whatever its file contains.

    Args:
        statements: the statements of the script.
        existing: the names of the session's queries, or two of them.
        is_own: whether the script created its session.
    """
    shows_all = is_own or any(isinstance(statement, ast.Run) for statement in statements)
    if shows_all and any(isinstance(statement, ast.RegisterQueries) for statement in statements):
        return False
    wanted = ast.RegisterQuery if shows_all else ast.Tail
    names = {statement.name.text for statement in statements if isinstance(statement, wanted)}
    subscriptions = sum(
        isinstance(statement, ast.Subscribe | ast.Follow)
        or (isinstance(statement, ast.Select) and statement.sync is not None)
        for statement in statements
    )
    return len(names | (existing if shows_all else set())) + subscriptions <= 1
