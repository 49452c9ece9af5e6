"""The command `stqsh`: shell (default), run, serve, sessions, stop, bench, version.

The plain shell must start fast, so it does without typer, whose import takes as long as the prompt itself;
everything else goes through `stqsh.cli.commands`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from stqsh.shell.exit_codes import run_guarded
from stqsh.shell.scripting.options import ShellOptions

_VALUES = {"--session": "session", "-s": "session", "--profile": "profile"}
_FLAGS = {"--quiet": ("quiet", True), "-q": ("quiet", True), "--no-init": ("init", False)}


def main() -> None:
    """Run the command line and leave with the exit code of language.md, "Output"."""
    _open_closed()
    plain = _plain_shell(sys.argv[1:])
    if plain is not None and sys.stdin.isatty() and sys.stdout.isatty():
        sys.exit(run_guarded(lambda: _shell(plain)))
    from stqsh.cli.commands import app

    app(prog_name="stqsh")


def _open_closed() -> None:
    """Open /dev/null for closed standard streams (`<&-`), else the next opened file takes their number."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _plain_shell(words: Sequence[str]) -> dict[str, Any] | None:
    """Return the options of a plain interactive shell; None for any other command line."""
    options: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        if word in _FLAGS:
            name, flag = _FLAGS[word]
            options[name] = flag
            continue
        name, is_joined, value = word.partition("=")
        text = value if is_joined else next(rest, "")
        if name not in _VALUES or not text or text.startswith("-"):
            return None
        options[_VALUES[name]] = text
    return options


def _shell(options: dict[str, Any]) -> int:
    from stqsh.shell.repl.app import run_shell

    return run_shell(ShellOptions(**options))
