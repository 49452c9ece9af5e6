"""What backslash commands set, in the shell and in scripts: format, timing, pager, outlet, variables."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from stqsh.shell.writers.formats import check_format

if TYPE_CHECKING:
    from stqsh.shell.scripting.blocks import StatementBlock
    from stqsh.shell.scripting.watch_interval import WatchInterval
    from stqsh.shell.writers.redirect import Redirect

SWITCHES = {"on": True, "off": False, "true": True, "false": False, "1": True, "0": False}


@dataclass(frozen=True, slots=True)
class ShellOptions:
    """The options of the command line, for the interactive shell and for scripts.

    Attributes:
        session: The session's name; without one, the shell takes `default` and scripts a temporary session.
        profile: The profile's name or file.
        format: The output format.
        variables: Variables of the form `NAME=VALUE`.
        quiet: Whether only results and errors are printed.
        init: Whether the shell reads its init file.
        output: Where results go, as for `\\o`.
    """

    session: str | None = None
    profile: str | None = None
    format: str | None = None
    variables: tuple[str, ...] = ()
    quiet: bool = False
    init: bool = True
    output: str | None = None


class PromptActions(Protocol):
    """What only a prompt can do for a command."""

    def include(self, file: str) -> None:
        """Run a script."""

    def edit(self, file: str) -> None:
        """Edit the last statement, or a file, and put what comes of it at the prompt."""

    def restart(self) -> None:
        """Start the session's engine where it has gone."""


@dataclass
class Console:
    r"""The state behind backslash commands. `tell` shows a message to the user.

    `format` is what results look like where nothing else says so (`None`: what suits the place), `outlet`
    where they go instead of standard output, `timing`: tell each statement's time, `pager`: long answers
    go through one on a terminal, `variables`: those of `\set`, `prompting`: the shell, where there is one,
    `quiet`: no more than was asked for, `last`: the last statement, `repeater`: who repeats one (`\watch`).
    """

    tell: Callable[[str], None]
    format: str | None = None
    timing: bool = False
    pager: bool = True
    outlet: Redirect | None = None
    variables: dict[str, str] = field(default_factory=dict)
    prompting: PromptActions | None = None
    quiet: bool = False
    last: StatementBlock | None = None
    repeater: Callable[[StatementBlock, WatchInterval], None] | None = None

    def note(self, text: str) -> None:
        """Tell what a command has set, unless the user wants it quiet."""
        if not self.quiet:
            self.tell(text)

    def set_format(self, name: str) -> None:
        """Show results in another format. Raises `CommandLineError`."""
        self.format = check_format(name)

    def direct(self, words: str) -> None:
        """Send results to a file, to `| command`, or with no words to standard output again.

        Raises `StqshError`; a new destination that cannot be opened leaves none.
        """
        self.close()
        if words:
            from stqsh.shell.writers.redirect import open_outlet  # Arrow, for which no prompt waits

            self.outlet = open_outlet(words)

    def close(self) -> None:
        """Complete what was written elsewhere. Raises `StqshError` where that fails."""
        outlet, self.outlet = self.outlet, None
        if outlet is not None:
            outlet.close()


class Stopwatch:
    """Tells how long each statement takes, where timing is on."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began: float | None = None

    def begin(self) -> None:
        """A statement begins, and the one before it, if any, is done."""
        self.done()
        self._began = time.monotonic()

    def done(self) -> None:
        """The statement under way, if any, is done."""
        began, self._began = self._began, None
        if began is not None and self._console.timing:
            self._console.tell(f"time: {time.monotonic() - began:.3f} s")
