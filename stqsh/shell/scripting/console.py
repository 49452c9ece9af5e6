"""The settings of a run: command-line options, and the state that backslash commands change."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from stqsh.shell.writers.writer import check_format

if TYPE_CHECKING:
    from stqsh.shell.scripting.blocks import StatementBlock
    from stqsh.shell.scripting.watch_interval import WatchInterval
    from stqsh.shell.writers.redirect import Redirect

SWITCHES = {"on": True, "off": False, "true": True, "false": False, "1": True, "0": False}


@dataclass(frozen=True, slots=True)
class ShellOptions:
    """The options of the command line, for the interactive shell and for scripts.

    Attributes:
        session: The session's name; by default, the shell and `-c` use `default`, and scripts use a temporary
            session.
        profile: The profile's name or file.
        format: The output format.
        variables: Variables of the form `NAME=VALUE`.
        quiet: Whether only results and errors are printed.
        init: Whether the shell reads its init file.
        output: The destination of results, as for `\\o`.
        allow_run: Whether scripts may run commands and Python code.
    """

    session: str | None = None
    profile: str | None = None
    format: str | None = None
    variables: tuple[str, ...] = ()
    quiet: bool = False
    init: bool = True
    output: str | None = None
    allow_run: bool = False


class PromptActions(Protocol):
    """Actions that only a prompt offers to commands.

    Attributes:
        last: The last statement that was typed.
    """

    last: str

    def execute(self, text: str) -> None:
        """Execute statements."""

    def connect(self, name: str) -> None:
        """Switch to another session; without a name, print the name of this one."""

    def run_command(self, command: str) -> None:
        """Run a command of the system, or its shell without one."""

    def include(self, file: str) -> None:
        """Run a script."""

    def edit(self, file: str) -> None:
        """Edit the last statement, or a file, and put the result at the prompt."""

    def restart(self) -> None:
        """Start the session's engine if it is not running."""


@dataclass
class Console:
    r"""The state behind backslash commands.

    Attributes:
        tell: Shows a message to the user.
        format: The format of results; None for the default format of the destination.
        timing: Whether the time of each statement is shown.
        pager: Whether long answers go through a pager on a terminal.
        outlet: The destination of results instead of standard output.
        variables: The variables of `\set`.
        prompting: The actions of the prompt, if there is one.
        quiet: Whether only results and errors are shown.
        usual: The format to which `\x` returns.
        last: The last statement.
        repeater: Repeats a statement, for `\watch`.
        tells_phases: Whether waits are reported from time to time if there is no status line.
        widen: Shows the last answer with all its columns, for `\wide`; None if there is none.
        is_cut: Whether the last answer was shown without some of its columns.
    """

    tell: Callable[[str], None]
    format: str | None = None
    timing: bool = False
    pager: bool = True
    outlet: Redirect | None = None
    variables: dict[str, str] = field(default_factory=dict)
    prompting: PromptActions | None = None
    quiet: bool = False
    usual: str | None = None
    last: StatementBlock | None = None
    repeater: Callable[[StatementBlock, WatchInterval], None] | None = None
    tells_phases: bool = False
    widen: Callable[[], None] | None = None
    is_cut: bool = False

    def note(self, text: str) -> None:
        """Show the effect of a command, unless the console is quiet."""
        if not self.quiet:
            self.tell(text)

    def set_format(self, name: str) -> None:
        """Set the format of results. Raises `CommandLineError`."""
        self.format = check_format(name)

    def direct(self, words: str) -> None:
        """Send results to a file, to `| command`, or without words to standard output again.

        Raises:
            StqshError: The new destination cannot be opened; then there is no outlet.
        """
        self.close()
        if words:
            from stqsh.shell.writers.redirect import open_outlet  # Arrow, for which no prompt waits

            self.outlet = open_outlet(words)

    def close(self) -> None:
        """Complete the output in the outlet. Raises `StqshError` if that fails."""
        outlet, self.outlet = self.outlet, None
        if outlet is not None:
            outlet.close()


class Stopwatch:
    """Shows the time of each statement if timing is on."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began: float | None = None

    def begin(self) -> None:
        """Record the start of a statement, and end the one before it."""
        self.done()
        self._began = time.monotonic()

    def done(self) -> None:
        """End the statement under way, if any."""
        began, self._began = self._began, None
        if began is not None and self._console.timing:
            self._console.tell(f"time: {time.monotonic() - began:.3f} s")
