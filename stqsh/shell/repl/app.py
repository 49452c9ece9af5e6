"""The interactive shell: reads statements, executes them in the session, and shows their outcomes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from stqsh.errors import EngineDeadError, SessionNameError, StqshError
from stqsh.program import program
from stqsh.shell.messages import (
    colour_error,
    format_engine_death,
    format_error,
    format_internal_error,
    full_disk_text,
    print_text,
    take_notices,
)
from stqsh.shell.repl.editor import edited
from stqsh.shell.repl.guide import GuidedShell, is_question
from stqsh.shell.repl.help_text import answer_text, help_text
from stqsh.shell.repl.prompt_controller import PromptController
from stqsh.shell.repl.session_thread import import_in_thread, open_session
from stqsh.shell.scripting.backslash_commands import ExitShell, run_command
from stqsh.shell.scripting.blocks import StatementBlock, is_command
from stqsh.shell.scripting.console import Console, ShellOptions
from stqsh.shell.scripting.variables import given_variables
from stqsh.shell.terminal.interrupts import force_on_second_interrupt, ignore_interrupts, overwrite_echo
from stqsh.shell.terminal.pager import page_text
from stqsh.shell.user_files import init_file, is_new_session, profile_script, write_traceback
from stqsh.storage.home import list_sessions

if TYPE_CHECKING:
    from pathlib import Path

    from stqsh.client.api import Session
    from stqsh.shell.repl.executor import StatementExecutor
    from stqsh.shell.repl.guide import ShellGuide
    from stqsh.shell.repl.session_thread import SessionThread
    from stqsh.shell.scripting.watch_interval import WatchInterval

WELCOME = r"stqsh: continuous queries over streams that move.  HELP; for help, \? for commands, \q leaves."
SWITCH_S = 0.001
"""The maximum wait of a key press for another thread; Python's default of 5 ms adds up."""


def run_shell(options: ShellOptions, guide: ShellGuide | None = None) -> int:
    """Run the shell until the user leaves it; return its exit code.

    Raises:
        StqshError: No session opens.
    """
    sys.setswitchinterval(SWITCH_S)
    opening = partial(open_session, options.session, options.profile, allow_run=options.allow_run)
    name = options.session or ("default" if guide is None else "temporary")
    shell = Shell(
        name,
        opening if guide is None else guide.open,
        options.format,
        quiet=options.quiet,
        guide=guide,
        open_other=lambda other: partial(open_session, other, options.profile, allow_run=options.allow_run),
    )
    if options.format is not None:
        shell.console.set_format(options.format)
    shell.console.variables.update(given_variables(options.variables))
    if options.output is not None:
        shell.console.direct(options.output)
    return shell.run(init=options.init, opening=profile_script(options.profile))


class ShellActions:
    """The actions of commands and statements at the prompt.

    Attributes:
        console: The state that backslash commands change.
        last: The last statement that was typed, for `\\e`.
        draft: The text that the next prompt starts with.
    """

    def __init__(
        self,
        front: PromptController,
        format_: str | None,
        open_other: Callable[[str], Callable[[], Session]] | None,
        *,
        quiet: bool,
    ) -> None:
        self.console = Console(self.tell, format_, prompting=self, quiet=quiet, repeater=self.repeat)
        self.last = self.draft = ""
        self._front, self._open_other = front, open_other
        self._lazy_executor: StatementExecutor | None = None

    def tell(self, text: str) -> None:
        """Show a message, a long one in the pager."""
        page_text(text, paged=self.console.pager)

    def execute(self, text: str) -> None:
        """Execute statements. Raises `StqshError` at the first that fails."""
        self._executor.execute(text)

    def include(self, file: str) -> None:
        """Run a script. Raises `StqshError` at the first statement that fails."""
        self._executor.include(file)

    def repeat(self, block: StatementBlock, interval: WatchInterval) -> None:
        r"""Repeat a statement (`\watch`) until Ctrl-C."""
        self._executor.repeat(block, interval)

    def edit(self, file: str) -> None:
        """Edit the last statement, or a file, and put the result at the prompt."""
        self.draft = edited(self.last, file)

    def connect(self, name: str) -> None:
        """Switch to another session; without a name, print the name of this one.

        Raises:
            StqshError: There is no such session, or it cannot be opened; this one stays open.
        """
        here = self._backend.session().home
        if not name or name == here.name:
            print_text(f"this is session {here.name}")
            return
        names = [info.home.name for info in list_sessions(here.path.parent)]
        if name not in names or self._open_other is None:
            raise SessionNameError(
                f"there is no session '{name}'",
                hint=f"sessions: {', '.join(names)}; {program()} -s {name} makes it",
            )
        self._front.connect(name, self._open_other(name))
        self._lazy_executor = None
        print_text(f"this is session {name}")

    def run_command(self, command: str) -> None:
        """Run a command of the system, or its shell without one."""
        with ignore_interrupts():
            code = subprocess.call(command or os.environ.get("SHELL", "/bin/sh"), shell=True)
        if code:
            self.console.note(f"the command ended with code {code}")

    @property
    def _backend(self) -> SessionThread:
        return self._front.backend

    def restart(self) -> None:
        """Start the session's engine, which continues where it stopped; leave a running one alone."""
        self._backend.session().start_engine(wait=False)
        self._backend.look()
        print_text(f"session {self._backend.summary.session}: {self._backend.summary.engine}")

    @property
    def _executor(self) -> StatementExecutor:
        if self._lazy_executor is None:
            # Imports the language, the output formats and numpy; the first prompt must not wait for them.
            executor = import_in_thread("stqsh.shell.repl.executor")
            is_open = self.console.format is None
            self._lazy_executor = executor.StatementExecutor(
                self.console, self._backend, takes_session_format=is_open
            )
        return self._lazy_executor


class Shell:
    """A prompt and its session. `quiet`: print no greeting and no farewell."""

    def __init__(
        self,
        name: str,
        open_session: Callable[[], Session],
        format_: str | None = None,
        *,
        quiet: bool = False,
        guide: ShellGuide | None = None,
        open_other: Callable[[str], Callable[[], Session]] | None = None,
    ) -> None:
        self._guide = guide
        self._front = PromptController(name, open_session, print_text, lambda: self.console.is_cut)
        self._actions = ShellActions(self._front, format_, open_other, quiet=quiet)
        self.console: Console = self._actions.console

    def run(self, *, init: bool = False, opening: Path | None = None) -> int:
        r"""Read and execute until `\q` or Ctrl-D; a new session runs `opening` first.

        Raises:
            StqshError: No session opens.
        """
        self._greet(WELCOME)
        prompt = self._front.prompt()
        try:
            if opening is not None and is_new_session(self._backend.session()):
                self._read(opening)
            if init and init_file().is_file():
                self._read(init_file())
            if self._guide is not None:
                guide = self._guide
                self._guard(lambda: guide.begin(self._guided))
            while True:
                for notice in take_notices():
                    print_text(notice)
                draft, self._actions.draft = self._actions.draft, ""
                try:
                    text = prompt.prompt(default=draft)
                except KeyboardInterrupt:
                    continue  # the line is cleared
                except EOFError:
                    break
                if text.strip() and not is_command(text):
                    self._actions.last = text
                self._guard(lambda text=text: self._handle(text.strip()))  # type: ignore[misc]
        except ExitShell:
            pass
        finally:
            self._leave()
        return 0

    @property
    def _backend(self) -> SessionThread:
        return self._front.backend

    @property
    def _guided(self) -> GuidedShell:
        return GuidedShell(self._backend.session, self._actions.execute, print_text)

    def _greet(self, text: str) -> None:
        if not self.console.quiet:
            print_text(text)

    def _read(self, path: Path) -> None:
        """Run a script before the first prompt; show its error, and continue."""
        self._greet(f"reading {path}")
        self._guard(lambda: self._actions.include(str(path)))

    def _guard(self, action: Callable[[], None]) -> None:
        """Run an action; show its error, and continue. A second Ctrl-C always ends the shell."""
        farewell = f"left by force; session {self._backend.summary.session}, its queries and streams go on"
        try:
            with force_on_second_interrupt(farewell):
                action()
        except EngineDeadError as error:
            self._front.is_death_shown = True
            print_text(colour_error(format_engine_death(error), sys.stdout))
        except StqshError as error:
            print_text(format_error(error, sys.stdout))
        except KeyboardInterrupt:
            print_text(overwrite_echo("interrupted; queries and streams go on"))
        except ExitShell:
            raise
        except Exception as error:
            print_text(full_disk_text(error) or format_internal_error(error, write_traceback()))

    def _handle(self, text: str) -> None:
        """Run the typed text: a command, a bare word, or statements."""
        if self._guide is not None and self._guide.take(text, self._guided):
            return
        bare = text.lower().rstrip("; \n")
        if not bare:
            return
        if is_command(text) and "\n" not in text:
            run_command(self.console, text)
        elif bare in ("quit", "exit"):
            raise ExitShell
        elif bare.split()[0] == "help":
            topic = bare[4:].strip()
            if topic.startswith("\\"):
                run_command(self.console, f"\\? {topic}")
            else:
                self._actions.tell(help_text(topic))
        elif is_question(text):
            self._actions.tell(answer_text(text))
        else:
            self._actions.execute(text)

    def _leave(self) -> None:
        """Close the session, and print a message if it continues."""
        session, name = self._backend.ready_session, self._backend.summary.session
        goes_on = session is not None and not session.home.temporary and not self._backend.summary.failed
        self._backend.close()
        self._guard(self.console.close)
        if goes_on:
            option = "" if name == "default" else f" --session {name}"
            self._greet(f"session {name} goes on; {program()} stop{option} ends it")
