r"""Render outcomes at the prompt: on the terminal, in the pager if long, or to the outlet of `\o`."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from stqsh.client import results
from stqsh.control_characters import escape_controls
from stqsh.shell.live.export import export
from stqsh.shell.live.run_progress import run_with_progress
from stqsh.shell.live.tail import drain, watch
from stqsh.shell.messages import print_text, watch_needs_terminal
from stqsh.shell.scripting import watch_command
from stqsh.shell.scripting.watch_interval import repeat
from stqsh.shell.status import alive_text
from stqsh.shell.terminal.capabilities import has_colour, is_interactive
from stqsh.shell.terminal.pager import page_output, page_sideways
from stqsh.shell.terminal.screen import open_screen
from stqsh.shell.watch.dashboard import show_dashboard
from stqsh.shell.writers.opening import open_writer, write_data
from stqsh.shell.writers.writer import Target

if TYPE_CHECKING:
    from stqsh.client.api import Session
    from stqsh.client.map.scene import MapFeed
    from stqsh.client.read.subscription import Subscription
    from stqsh.client.read.watch import WatchFeed
    from stqsh.client.results import WaitNotice
    from stqsh.client.run import RunHandle
    from stqsh.shell.scripting.blocks import StatementBlock
    from stqsh.shell.scripting.console import Console
    from stqsh.shell.scripting.watch_interval import WatchInterval
    from stqsh.shell.writers.opening import Data
    from stqsh.shell.writers.writer import Writer


class PromptRenderer:
    """Renders outcomes at the prompt, with the settings of `console`.

    Attributes:
        statement: The number of the current statement, from 1.
        format: The format that the current statement itself requests.
    """

    def __init__(self, console: Console, session: Session) -> None:
        self.statement = 1
        self.format: str | None = None
        self._console, self._session = console, session

    def wait(self, notice: WaitNotice) -> None:
        """Wait, with a status line that shows that the session is alive."""
        screen, home = open_screen(sys.stdout), self._session.home
        try:
            notice.wait(lambda progress: screen.status(f"{notice.text}  {alive_text(home, progress)}"))
        finally:
            screen.close()

    def message(self, text: str) -> None:
        """Print a message, which may quote names and paths."""
        print_text(escape_controls(text))

    def data(self, data: Data) -> None:
        r"""Write rows or a script through the pager, or to the outlet of `\o`."""
        statement = (data.statement if isinstance(data, results.Answer) else None) or self.statement
        self._write(data, statement)
        if isinstance(data, results.Answer) and data.remark and not self._console.quiet:
            self.message(data.remark)

    def _write(self, data: Data, statement: int) -> None:
        if self._console.outlet is not None:
            write_data(self._outlet_writer(), data, statement)
            return

        def draw(width: int) -> bytes:
            buffer = io.BytesIO()
            target = Target(buffer, one_query=True, colour=has_colour(sys.stdout), width=width - 1)
            write_data(open_writer(self._format(), target), data, statement)
            return buffer.getvalue()

        self._console.widen = lambda: page_sideways(draw)
        self._console.is_cut = page_output(draw, paged=self._console.pager)

    def follow(self, subscription: Subscription) -> None:
        r"""Show updates in the live view or as plain output, or send them to the outlet of `\o`."""
        screen = open_screen(sys.stdout)
        if self._console.outlet is not None:
            text = export(subscription, self._outlet_writer(), screen, self._console.outlet.name)
        elif self._format() == "table" and is_interactive(sys.stdout):
            text = watch(subscription, screen, self._scheme)
        else:
            text = drain(subscription, open_writer(self._format(), screen.target(one_query=True)))
        if text:
            self.message(text)

    def watch(self, feed: WatchFeed) -> None:
        """Show the dashboard. Raises `CommandLineError` if there is no terminal."""
        if not is_interactive(sys.stdout):
            raise watch_needs_terminal()
        self.message(show_dashboard(feed, self._scheme))

    def run(self, handle: RunHandle) -> bool:
        """Show a progress bar until the RUN is done."""
        text, finished = run_with_progress(self._session, handle, open_screen(sys.stdout))
        self.message(text)
        return finished

    def map(self, feed: MapFeed) -> None:
        """Show a map on the whole terminal, or write it."""
        # Only maps need the page, its server and what draws them.
        from stqsh.shell.map.dispatch import show_or_write

        self.message(show_or_write(feed, open_screen(sys.stdout), self._scheme))

    def repeat(self, block: StatementBlock, interval: WatchInterval, once: Callable[[], object]) -> None:
        r"""Repeat a statement (`\watch`): redrawn in place on a terminal, else by calling `once`.

        Raises:
            KeyboardInterrupt: The user leaves with Ctrl-C.
        """
        statement = block.statements[-1]
        self.format = statement.format
        format_ = self._format()
        is_drawn = format_ in watch_command.DRAWN and is_interactive(sys.stdout)
        if self._console.outlet is not None or not is_drawn:
            repeat(interval, once)
            return

        def lines() -> list[str]:
            outcomes = self._session.outcomes([statement], file=block.file)
            return watch_command.lines_of(outcomes, format_)

        title = " ".join(statement.text.split())
        watch_command.repeat_in_place(interval, title, lines, sys.stdout.buffer)

    @property
    def _scheme(self) -> str:
        return self._session.settings().text("shell.scheme")

    def _outlet_writer(self) -> Writer:
        outlet = self._console.outlet
        assert outlet is not None, "asked for where there is one"
        usual = "jsonl" if outlet.is_command else "table"
        wanted = self.format or outlet.format or self._console.format or usual
        return outlet.writer(wanted, one_query=True, asked=self.format is not None)

    def _format(self) -> str:
        return self.format or self._console.format or "table"
