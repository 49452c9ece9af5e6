"""Show long answers in a pager: `$STQSH_PAGER`, else `$PAGER`, else `less`.

`less` is configured to exit if everything fits the screen, to keep colours, not to wrap lines, to leave its
output on the screen, and to show its keys (unless `$LESS` has other options).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

from stqsh.shell.messages import print_message
from stqsh.shell.terminal.capabilities import encode_for_terminal, is_interactive
from stqsh.shell.terminal.interrupts import ignore_interrupts

_SIDEWAYS = "RSXPsspace goes on, b back, right arrow sideways, / searches, q leaves$"
_LESS = f"F{_SIDEWAYS}"
_NONE = ("", "cat")
_NOT_RUN = (126, 127)
"""The exit codes by which a shell reports a command that does not exist or cannot be run."""
WIDE = 10_000
"""The width of output that can be scrolled sideways."""


def pager_command() -> str | None:
    """Return the pager to use; None if the user disabled it or there is none."""
    for name in ("STQSH_PAGER", "PAGER"):
        if name in os.environ:
            command = os.environ[name].strip()
            return None if command in _NONE else command
    return "less" if shutil.which("less") else None


def page_output(render: Callable[[int], bytes], *, paged: bool) -> bool:
    """Show the output of `render` for a width: directly if it fits the screen, else through the pager.

    Args:
        render: Returns the output for a number of columns.
        paged: Whether a pager may be used at all.

    Returns:
        Whether the output would differ with more columns.
    """
    size = shutil.get_terminal_size()
    data = render(size.columns)
    command = pager_command() if paged and is_interactive(sys.stdout) else None
    if command is None or data.count(b"\n") < size.lines:
        _write(data)
        return data != render(WIDE)
    scrolls = command == "less" and "LESS" not in os.environ
    if _through(command, render(WIDE) if scrolls else data) in _NOT_RUN:
        _write(data)
        print_message(f"the pager {command} cannot be run; \\pset pager off does without")
    return not scrolls and data != render(WIDE)


def page_sideways(render: Callable[[int], bytes]) -> None:
    """Show the output of `render` in its full width: in `less`, which scrolls sideways, else directly."""
    command = pager_command() if is_interactive(sys.stdout) else None
    if command != "less" or _through(command, render(WIDE), _SIDEWAYS) in _NOT_RUN:
        _write(render(WIDE))


def page_text(text: str, *, paged: bool) -> None:
    """Show a text, a long one through the pager."""
    page_output(lambda width: encode_for_terminal(text.rstrip("\n") + "\n"), paged=paged)


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.flush()


def _through(command: str, data: bytes, less: str | None = None) -> int:
    """Run the pager on the data, and return its exit code; Ctrl-C is for the pager while it runs.

    `less` has options for `less` that precede the user's options.
    """
    sys.stdout.flush()
    from stqsh.shell.terminal.type_ahead import kept_type_ahead  # prompt_toolkit, only where one pages

    with ignore_interrupts(), kept_type_ahead():
        environ = {"LESS": _LESS, "LESSCHARSET": "utf-8", **os.environ, **({"LESS": less} if less else {})}
        pager = subprocess.Popen(command, shell=True, stdin=subprocess.PIPE, env=environ)
        with suppress(BrokenPipeError):  # the reader closed the pager
            pager.communicate(data)
        return pager.wait()
