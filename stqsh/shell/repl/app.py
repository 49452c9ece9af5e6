"""The shell: a loop that reads statements, executes them in the session, and shows what they answer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stqsh.errors import EngineDeadError, StqshError
from stqsh.shell.messages import colour_error, format_engine_death, format_error, format_internal_error
from stqsh.shell.renderer import Renderer
from stqsh.shell.repl.prompt import PromptTerminal
from stqsh.shell.repl.prompt_controller import PromptController
from stqsh.shell.repl.waiting import WaitIndicator
from stqsh.shell.scripting.backslash_commands import ExitShell, run_command
from stqsh.shell.scripting.console import Console, Stopwatch
from stqsh.shell.scripting.scripts import StatementBlock, is_command, read_scripts, script_text
from stqsh.shell.scripting.variables import given_variables
from stqsh.shell.terminal.interrupts import InterruptNotice, forcible, over_echo
from stqsh.shell.user_files import init_file, is_new_session, profile_script, write_traceback

if TYPE_CHECKING:
    from pathlib import Path

    from stqsh.client.api import Session
    from stqsh.shell.scripting.watch_command import WatchInterval

WELCOME = r"stqsh: continuous queries over streams that move.  HELP; for help, \? for commands, \q leaves."
SWITCH_S = 0.001
"""So long a key may have to wait for a thread behind the prompt; Python's own 5 ms add up."""


@dataclass(frozen=True, slots=True)
class ShellOptions:
    """What the command line says of a shell; `init`: whether the init file is read; `output`: as `\\o`."""

    session: str | None = None
    profile: str | None = None
    format: str | None = None
    variables: tuple[str, ...] = ()
    quiet: bool = False
    init: bool = True
    output: str | None = None


def run_shell(options: ShellOptions) -> int:
    """Run the shell until the user leaves it; its exit code. Raises `StqshError` where no session opens."""

    def opened() -> Session:
        from stqsh.client.api import connect
        from stqsh.lang.syntax import keywords  # noqa: F401  (here, before the user types the first word)
        from stqsh.lang.syntax.expected import expected

        expected("")  # reads the grammar's tables
        from stqsh.lang.syntax import highlight  # noqa: F401  (from here on the prompt uses it)

        return connect(options.session, profile=options.profile)

    sys.setswitchinterval(SWITCH_S)
    shell = Shell(options.session or "default", opened, options.format, quiet=options.quiet)
    if options.format is not None:
        shell.console.set_format(options.format)
    shell.console.variables.update(given_variables(options.variables))
    if options.output is not None:
        shell.console.direct(options.output)
    return shell.run(init=options.init, opening=profile_script(options.profile))


class Shell:
    """What the user is in: a prompt with a session behind it. `quiet`: no greetings and farewells."""

    def __init__(
        self,
        name: str,
        open_session: Callable[[], Session],
        format_: str | None = None,
        terminal: PromptTerminal | None = None,
        *,
        quiet: bool = False,
    ) -> None:
        self.console = Console(self.tell, format_, prompting=self, quiet=quiet, repeater=self._repeat)
        self.showing = Renderer(self.console)
        self._last, self._draft = "", ""
        self._is_format_open = format_ is None
        self._front = PromptController(name, open_session, terminal, self.showing.text)
        self._backstage = self._front.backstage

    def run(self, *, init: bool = False, opening: Path | None = None) -> int:
        """The loop: until `\\q` or Ctrl-D; in a session that is new, `opening` is run first.

        Raises what opening the session raised.
        """
        self._greet(WELCOME)
        prompt = self._front.prompt()
        try:
            if opening is not None and is_new_session(self._backstage.session()):
                self._read(opening)
            if init and init_file().is_file():
                self._read(init_file())
            while True:
                try:
                    text = prompt.prompt(default=self._taken_draft())
                except KeyboardInterrupt:
                    continue  # the line is cleared
                except EOFError:
                    break
                self._handle(text)
        except ExitShell:
            pass
        finally:
            self._leave()
        return 0

    def execute(self, text: str, file: str | None = None) -> None:
        """Execute statements and commands, and show their answers. Raises at the first that fails."""
        for step in read_scripts([(text, file)], self.console.variables):
            if not isinstance(step, StatementBlock):
                step.run(self.console)
            elif not self._execute(step):
                break

    def tell(self, text: str) -> None:
        """Show a message, a long one in the pager."""
        self.showing.paged(text)

    def include(self, file: str) -> None:
        """Run a script. Raises `StqshError` at the first statement that fails."""
        self.execute(script_text(file), file)

    def edit(self, file: str) -> None:
        """Put at the prompt what an editor makes of the last statement, or of a file."""
        from stqsh.shell.repl.editor import edited

        self._draft = edited(self._last, file)

    def restart(self) -> None:
        """Start the session's engine, which goes on where it was; one that runs is left alone."""
        self._backstage.session().start_engine(wait=False)
        self._backstage.look()
        self.showing.text(f"session {self._backstage.glance.session}: {self._backstage.glance.engine}")

    def _repeat(self, block: StatementBlock, how: WatchInterval) -> None:
        r"""Do what `\watch` says, until Ctrl-C."""
        session = self._backstage.session()
        self._settle(session)

        def once() -> None:
            if not self._execute(block):
                raise KeyboardInterrupt

        try:
            self.showing.repeated(session, block, how, once)
        except KeyboardInterrupt:
            self.showing.text(r"left \watch; the session goes on")

    def _execute(self, block: StatementBlock) -> bool:
        """Execute statements; `False` where the user interrupted one and the rest is not to be run."""
        session = self._backstage.session()
        self._settle(session)
        self.console.last = replace(block, statements=block.statements[-1:])
        watch, numbers = Stopwatch(self.console), [1]
        interrupted = InterruptNotice(session)

        patience = WaitIndicator(self.showing.status_screen, self._alive)

        def begins(number: int) -> None:
            watch.begin()
            patience.begin(block.statements[number - 1].text)
            numbers.append(number)
            interrupted.begin(block.statements, number)

        goes_on = True
        try:
            with patience:
                for outcome in session.execute(block.statements, file=block.file, on_statement=begins):
                    patience.heard()
                    asked = block.statements[numbers[-1] - 1].format
                    goes_on = self.showing.outcome(session, outcome, numbers[-1], asked)
                    if not goes_on:
                        self._greet(interrupted.rest_text())
                        break
        except KeyboardInterrupt:
            self.showing.text(over_echo(interrupted.text()))
            goes_on = False
        watch.done()
        self._backstage.look()
        return goes_on

    def _alive(self) -> str:
        """What the session does, as of the last look: for a status line."""
        from stqsh.shell.status import READY, status_text

        glance = self._backstage.glance
        is_at_work = glance.engine == READY and glance.progress is not None
        return status_text(glance.progress) if is_at_work and glance.progress else glance.engine

    def _greet(self, text: str) -> None:
        if text and not self.console.quiet:
            self.showing.text(text)

    def _taken_draft(self) -> str:
        draft, self._draft = self._draft, ""
        return draft

    def _read(self, path: Path) -> None:
        """Run a script before the first prompt; an error in it is shown, and the shell goes on."""
        self._greet(f"reading {path}")
        self._guarded(lambda: self.include(str(path)))

    def _handle(self, text: str) -> None:
        """Run what was typed."""
        if text.strip() and not is_command(text):
            self._last = text
        self._guarded(lambda: self._dispatch(text.strip()))

    def _guarded(self, action: Callable[[], None]) -> None:
        """Do something; errors are shown and the shell goes on. A second Ctrl-C always gets out of it."""
        farewell = f"left by force; session {self._backstage.glance.session}, its queries and streams go on"
        try:
            with forcible(farewell):
                action()
        except EngineDeadError as error:
            self._front.is_death_told = True
            self.showing.text(colour_error(format_engine_death(error), sys.stdout))
        except StqshError as error:
            self.showing.text(format_error(error, sys.stdout))
        except KeyboardInterrupt:
            self.showing.text(over_echo("interrupted; queries and streams go on"))
        except ExitShell:
            raise
        except Exception as error:
            self.showing.text(format_internal_error(error, write_traceback()))

    def _dispatch(self, text: str) -> None:
        bare = text.lower().rstrip("; \n")
        if not bare:
            return
        if is_command(text) and "\n" not in text:
            run_command(self.console, text)
        elif bare in ("quit", "exit"):
            raise ExitShell
        elif bare.split()[0] == "help":
            from stqsh.shell.repl.help_text import help_text

            self.showing.paged(help_text(bare[4:]))
        else:
            self.execute(text)

    def _settle(self, session: Session) -> None:
        """Start the engine again where it has died; take over the session's format once."""
        if self._is_format_open:
            from stqsh.storage.session_settings import session_settings

            self._is_format_open = False
            wanted = session_settings(session.link.db).text("shell.format")
            self.console.format = None if wanted == "auto" else wanted
        if self._backstage.glance.failed:
            self.showing.text(f"{self._backstage.glance.engine}; starting it again")
            session.start_engine(wait=False)

    def _leave(self) -> None:
        session, name = self._backstage.ready_session, self._backstage.glance.session
        goes_on = session is not None and not session.home.temporary and not self._backstage.glance.failed
        self._backstage.close()
        self._guarded(self.console.close)
        if goes_on:
            option = "" if name == "default" else f" --session {name}"
            self._greet(f"session {name} goes on; stqsh stop{option} ends it")
