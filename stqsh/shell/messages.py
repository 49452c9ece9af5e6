"""The texts of messages, errors and notices for users: colours, folding to the width, hints for files."""

from __future__ import annotations

import difflib
import errno
import sys
import textwrap
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from stqsh.control_characters import escape_controls
from stqsh.errors import CommandLineError, EngineDeadError, OtherVersionError, StqshError
from stqsh.program import program
from stqsh.shell.terminal.capabilities import (
    BOLD_RED,
    CYAN,
    RESET,
    has_colour,
    replace_undrawable,
    terminal_width,
)

RESTART_HINT = r"\restart starts it again, and so does the next statement; streams and queries continue"

_FILE_HINTS = {
    errno.EISDIR: "name a file in it",
    errno.EACCES: "change its permissions, or name another file",
    errno.EPERM: "change its permissions, or name another file",
    errno.EROFS: "name a place that is writable",
    errno.ENOSPC: "free some space, or name another place",
    errno.EDQUOT: "free some space, or name another place",
}

NOTICES: deque[str] = deque(maxlen=100)
"""Lines that arrived while no prompt was open, oldest first: live views show them, and the next prompt shows
the rest; if there are too many, only the last ones are kept. Control characters are escaped; a line that
rings starts with a bell."""


def take_notices() -> Iterator[str]:
    """Yield the notices that have not been shown yet, each once."""
    while NOTICES:
        yield NOTICES.popleft()


def print_message(text: str) -> None:
    """Print a message on standard error; it is lost if standard error is closed."""
    with suppress(OSError):
        print(fold(text, terminal_width(sys.stderr)), file=sys.stderr, flush=True)


def print_text(text: str) -> None:
    """Print a text on standard output, wrapped to the terminal; unsupported characters become `?`."""
    shown = replace_undrawable(fold(text, terminal_width(sys.stdout)))
    encoding = sys.stdout.encoding or "utf-8"  # a stream in memory has none
    print(shown.encode(encoding, "replace").decode(encoding), flush=True)


def format_error(error: StqshError, stream: TextIO) -> str:
    """Return the error's text for a stream, in colour where the stream supports it."""
    return colour_error(error.text(terminal_width(stream)), stream)


def format_engine_death(error: EngineDeadError) -> str:
    """Return the text for an engine that has died: the reason and the remedy."""
    message, other = escape_controls(error.message), OtherVersionError()
    if other.message in message:
        return f"{message}\nhint: {other.hint}"
    return f"{message}\nhint: {error.hint or f'{program()} logs shows its log'}\nhint: {RESTART_HINT}"


def format_internal_error(error: Exception, details: Path | str) -> str:
    """Return the text for an error that is a bug; `details` is the file with its traceback."""
    return f"internal error: {type(error).__name__}: {error}\nhint: details are in {details}"


def full_disk_text(error: Exception) -> str | None:
    """Return the text for a disk without room for more bytes or files; None for any other error."""
    if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return None
    where = f" at {error.filename}" if error.filename else ""
    hint = "free some space, or some files if df -i shows that none are left"
    return f"{file_error_reason(error)}{where}\nhint: {hint}"


def colour_error(text: str, stream: TextIO) -> str:
    """Return an error's text, folded, with the first line in red and carets and hints highlighted."""
    first, *rest = (fold(line, terminal_width(stream)) for line in text.split("\n"))
    if not has_colour(stream):
        return "\n".join([first, *rest])
    return "\n".join([f"{BOLD_RED}{first}{RESET}", *(_colour_line(line) for line in rest)])


def _colour_line(line: str) -> str:
    if line.strip(" ^~|") == "" and "^" in line:
        return f"{BOLD_RED}{line}{RESET}"
    return f"{CYAN}{line}{RESET}" if line.startswith(("hint:", "maybe you meant")) else line


def fold(text: str, width: int | None) -> str:
    """Wrap lines that are wider than the terminal between words.

    Indented lines (excerpts, tables) and lines with colours (already wrapped) stay unchanged.
    """
    if width is None or len(text) < width:
        return text
    return "\n".join(_fold_line(line, width) for line in text.split("\n"))


def _fold_line(line: str, width: int) -> str:
    if len(line) < width or line.startswith(" ") or "\x1b" in line:
        return line
    return textwrap.fill(line, width - 1, break_long_words=False, break_on_hyphens=False)


def watch_needs_terminal() -> CommandLineError:
    """Return the error for WATCH without a terminal."""
    return CommandLineError(
        "WATCH needs a terminal to draw on",
        hint="TAIL name; follows a query anywhere; SHOW QUERIES; lists the sizes of all answers",
    )


def file_error_hint(error: OSError, name: str) -> str | None:
    """Return the remedy for a file error of the operating system; None if none is known."""
    path = Path(name).expanduser()
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return _missing_file_hint(path)
    return _FILE_HINTS.get(error.errno or 0)


def file_error_reason(error: OSError) -> str:
    """Return the operating system's message for an error, in lower case."""
    return (error.strerror or str(error)).lower()


def _missing_file_hint(path: Path) -> str:
    """Name the folder that is missing, or a file in it with a similar name."""
    folder = path.parent
    if not folder.is_dir():
        return f"there is no folder {folder}"
    near = difflib.get_close_matches(path.name, [file.name for file in folder.iterdir()], n=1)
    return f"maybe you meant {folder / near[0]}" if near else f"looked in {folder.absolute()}"
