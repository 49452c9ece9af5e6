"""The destination and format of output in batch mode."""

from __future__ import annotations

import sys
from typing import IO, TYPE_CHECKING

from stqsh.shell.terminal.capabilities import has_colour, is_interactive, table_width
from stqsh.shell.terminal.screen import Screen
from stqsh.shell.writers.opening import open_writer
from stqsh.shell.writers.writer import Target
from stqsh.storage.session_settings import session_settings

if TYPE_CHECKING:
    from stqsh.client.api import Session
    from stqsh.shell.scripting.console import Console
    from stqsh.shell.writers.writer import Writer


class OutputChoice:
    """Chooses the stream and the format of output: standard output unless the console has an outlet.

    A quiet console shows neither messages nor a status line.
    """

    def __init__(self, stream: IO[bytes], console: Console) -> None:
        self.console = console
        self.terminal = console.outlet is None and sys.stdout.isatty()
        self.live = self.terminal and console.format is None and is_interactive(sys.stdout)
        self._stream = stream
        self._writers: dict[str, Writer] = {}

    def screen(self) -> Screen:
        """Return the screen for the status line: on standard error if data goes elsewhere."""
        if self.live:
            return Screen(self._stream, colour=has_colour(sys.stdout))
        # A status line would mix with the lines of a format on the same terminal.
        visible = is_interactive(sys.stderr) and not self.terminal and not self.console.quiet
        return Screen(sys.stderr.buffer, colour=has_colour(sys.stderr), visible=visible)

    def writer(self, session: Session, *, one_query: bool, asked: str | None = None) -> Writer:
        """Return the writer for a result, in the format of its statement (`asked`) or of the whole run."""
        outlet = self.console.outlet
        wanted = asked or (outlet and outlet.format) or self.console.format
        wanted = wanted or session_settings(session.connection.db).text("shell.format")
        if wanted == "auto":
            wanted = "table" if self.terminal and outlet is None else "jsonl"
        if outlet is not None:
            return outlet.writer(wanted, one_query=one_query, asked=asked is not None)
        if wanted not in self._writers:
            self._writers[wanted] = open_writer(wanted, self._target(one_query))
        return self._writers[wanted]

    def _target(self, one_query: bool) -> Target:
        colour = self.terminal and has_colour(sys.stdout)
        return Target(self._stream, one_query, colour, table_width() if self.terminal else None)
