"""The command `stqsh`: shell (default), run, serve, sessions, stop, bench, version.

The plain shell must start fast, so it does without typer, whose import takes as long as the prompt itself;
everything else goes through `stqsh.cli.commands`.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from dataclasses import replace

from stqsh.garbage import collect_seldom
from stqsh.shell.exit_codes import exit_on_signals, run_guarded
from stqsh.shell.scripting.console import ShellOptions


def main() -> None:
    """Run the command line and leave with the exit code of language.md, "Output"."""
    collect_seldom()
    atexit.register(gc.freeze)  # for the collection with which Python ends
    _open_closed()
    plain = _plain_shell(sys.argv[1:])
    if plain is not None and sys.stdin.isatty() and sys.stdout.isatty():
        sys.exit(run_guarded(lambda: _shell(plain)))
    from stqsh.cli.commands import app  # typer takes as long as the prompt itself

    sys.exit(run_guarded(lambda: app(prog_name="stqsh") or 0))


def _open_closed() -> None:
    """Open /dev/null for closed standard streams (`<&-`), else the next opened file takes their number."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _plain_shell(words: Sequence[str]) -> ShellOptions | None:
    """Return the options of a plain interactive shell; None for any other command line."""
    options = ShellOptions()
    rest = iter(words)
    for word in rest:
        name, is_joined, value = word.partition("=")
        match name:
            case "--quiet" | "-q" if not is_joined:
                options = replace(options, quiet=True)
                continue
            case "--no-init" if not is_joined:
                options = replace(options, init=False)
                continue
        text = value if is_joined else next(rest, "")
        if not text or text.startswith("-"):
            return None
        match name:
            case "--session" | "-s":
                options = replace(options, session=text)
            case "--profile":
                options = replace(options, profile=text)
            case _:
                return None
    return options


def _shell(options: ShellOptions) -> int:
    # After the decision for a plain shell: other commands do without it.
    from stqsh.shell.repl.app import run_shell

    exit_on_signals()  # what has the terminal restores it
    return run_shell(options)
