r"""Batch mode: scripts from files, from `-c` or from standard input, without a prompt.

Data goes to standard output (or to `--output` and `\o`), messages to standard error. The scripts are read
completely before any statement is executed; then the updates of every registered query are printed as the
engine delivers them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from stqsh.client.api import connect
from stqsh.client.engine_process import has_engine, stop_engine
from stqsh.client.stdin_pump import wait_for_stdin
from stqsh.errors import EngineDeadError, StqshError
from stqsh.lang.ast import statements
from stqsh.profile import load_profile
from stqsh.program import program
from stqsh.shell.exit_codes import INTERRUPTED
from stqsh.shell.messages import print_message, watch_needs_terminal
from stqsh.shell.scripting.blocks import CommandCall, StatementBlock, statements_in
from stqsh.shell.scripting.console import Console, ShellOptions
from stqsh.shell.scripting.output_choice import OutputChoice
from stqsh.shell.scripting.script_runner import ScriptRunner
from stqsh.shell.scripting.scripts import read_scripts
from stqsh.shell.scripting.variables import given_variables
from stqsh.shell.terminal.capabilities import is_interactive
from stqsh.shell.user_files import profile_script, script_text
from stqsh.shell.writers.redirect import open_outlet
from stqsh.shell.writers.writer import check_format
from stqsh.storage.control_log import ControlDb, last_seq
from stqsh.storage.home import DEFAULT_NAME, SessionHome, remove_home, sessions_root

if TYPE_CHECKING:
    from stqsh.client.api import Session


def run_batch(sources: Sequence[tuple[str, str]], options: ShellOptions) -> int:
    """Run scripts, (text, file) each, in sequence; return the exit code.

    Raises:
        StqshError: A script is wrong, or its run fails.
    """
    console = Console(print_message, options.format and check_format(options.format), quiet=options.quiet)
    console.variables.update(given_variables(options.variables))
    steps = read_scripts(sources, console.variables)
    _check_formats(steps)
    _check_views(steps)
    path = profile_script(options.profile)
    opening = [] if path is None else read_scripts([(script_text(str(path)), str(path))], {})
    if options.output is not None:
        console.outlet = open_outlet(options.output, options.format)
    is_there = options.session is None or _home(options).control_db.exists()
    try:
        return run_steps(lambda _: steps, opening, console, options)
    except StqshError:
        if not is_there:
            _remove_unused(_home(options))
        raise
    finally:
        console.close()


def _home(options: ShellOptions) -> SessionHome:
    """Return the existing or future home of the command line's session."""
    root = sessions_root(default=load_profile(options.profile).text("session.home_root") or None)
    return SessionHome(root / (options.session or DEFAULT_NAME))


def _remove_unused(home: SessionHome) -> None:
    """Remove a session created by a failed script, unless one of its statements has taken effect."""
    if not home.control_db.exists():
        return
    db = ControlDb(home.path, create=True)  # the script may have failed before the session was complete
    is_unused = last_seq(db) == 0
    db.close()
    if is_unused:
        stop_engine(home)
        remove_home(home)


def run_steps(
    steps_in: Callable[[Session], Sequence[StatementBlock | CommandCall]],
    opening: Sequence[StatementBlock | CommandCall],
    console: Console,
    options: ShellOptions,
) -> int:
    """Open a session, run steps in it, and return the exit code. Raises `StqshError`.

    Args:
        steps_in: Returns the steps for the session.
        opening: The steps that the profile runs first in a new session.
        console: Where output goes.
        options: The options with the session's name; without a name, the session is temporary.
    """
    temporary = options.session is None
    opened = connect(
        options.session,
        temporary=temporary,
        profile=options.profile,
        autoplay=False,
        allow_run=options.allow_run,
    )
    with opened as session:
        batch = ScriptRunner(session, steps_in(session), OutputChoice(sys.stdout.buffer, console))
        try:
            batch.run(opening)
            if not temporary:
                wait_for_stdin(print_message if not options.quiet else lambda _: None)
        except KeyboardInterrupt:
            batch.stop()
            session.close()  # close immediately, without waiting for sinks
            return INTERRUPTED
        except EngineDeadError as error:
            raise _with_kept_log(error, session.home) if temporary else error from None
        finally:
            batch.screen.close()
        if not temporary and not options.quiet and has_engine(session.home):
            print_message(
                f"session {session.home.name} goes on; {program()} stop --session {session.home.name} ends it"
            )
    return 0


def _check_formats(steps: list[StatementBlock | CommandCall]) -> None:
    for wanted in {one.format for one in statements_in(steps) if one.format}:
        check_format(wanted)


def _check_views(steps: list[StatementBlock | CommandCall]) -> None:
    """Raise `CommandLineError` if a script needs a full-screen view and there is no terminal.

    A frame is not data: a pipe cannot use it, and a script would wait for a key forever.
    """
    is_at_terminal = sys.stdin.isatty() and is_interactive(sys.stdout)
    if any(isinstance(one, statements.Watch) for one in statements_in(steps)) and not is_at_terminal:
        raise watch_needs_terminal()


def _with_kept_log(error: EngineDeadError, home: SessionHome) -> EngineDeadError:
    """Return the error with a copy of the log that outlives the temporary session."""
    kept = home.path.parent / "engine.log"
    try:
        kept.write_bytes(home.engine_log.read_bytes())
    except OSError:
        return EngineDeadError(error.message)
    return EngineDeadError(error.message, hint=f"the engine's log is {kept}")
