"""From exceptions to exit codes (language.md, "Output"): 0 done, 1 failed, 2 wrong input, 130 interrupted.

A user's error is one clear text on standard error. A defect of ours is one line too; its traceback goes
to a file that the line names.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn, TextIO

from stqsh.errors import StqshError

FAILED, WRONG, INTERRUPTED = 1, 2, 130
_DUMB = ("dumb", "unknown")


class CommandLineError(StqshError):
    """A word on the command line that is wrong."""

    exit_code = WRONG


def no_board() -> CommandLineError:
    """What to say of WATCH where there is no terminal that draws."""
    return CommandLineError(
        "WATCH draws on a terminal, and this is none",
        hint="TAIL name; follows a query anywhere, SHOW QUERIES; tells the sizes of all answers",
    )


def guarded(action: Callable[[], int]) -> int:
    """The exit code of `action`, whatever it raises but `SystemExit`."""
    try:
        return action()
    except StqshError as error:
        say(error_text(error, sys.stderr))
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        hush()
        return 0
    except Exception as error:
        say(f"internal error: {type(error).__name__}: {error}\nhint: details are in {write_traceback()}")
        return FAILED


def say(text: str) -> None:
    """A message to the user, on standard error; lost where nobody listens any more."""
    with suppress(OSError):
        print(folded(text, width_of(sys.stderr)), file=sys.stderr, flush=True)


def draws(stream: object) -> bool:
    """Whether `stream` is a terminal that can draw: move its cursor, and clear.

    A dumb one (`TERM=dumb`, as in an editor's shell) shows the codes for that as they are.
    """
    is_terminal = getattr(stream, "isatty", lambda: False)()
    return bool(is_terminal) and os.environ.get("TERM") not in _DUMB


def coloured(stream: object) -> bool:
    """Whether what is written to `stream` may carry colours: a terminal that draws, and no NO_COLOR."""
    return draws(stream) and not os.environ.get("NO_COLOR")


def error_text(error: StqshError, stream: TextIO) -> str:
    """The error's text for a stream; in colour the first line is red and carets and hints stand out."""
    return painted(error.text(width_of(stream)), stream)


def painted(text: str, stream: TextIO) -> str:
    """An error's text as `error_text` shows it."""
    first, *rest = (folded(line, width_of(stream)) for line in text.split("\n"))
    if not coloured(stream):
        return "\n".join([first, *rest])
    return "\n".join([f"\x1b[1;31m{first}\x1b[0m", *(_painted(line) for line in rest)])


def width_of(stream: TextIO) -> int | None:
    """The columns of the terminal that a stream writes to; None where it is none."""
    if not stream.isatty():
        return None
    with suppress(OSError, ValueError):
        return os.get_terminal_size(stream.fileno()).columns or None
    return None


def folded(text: str, width: int | None) -> str:
    """The text with lines that are longer than a terminal is wide folded between words.

    A line that is indented is an excerpt or a table, and one with colours is folded already: those stay.
    """
    if width is None or len(text) < width:
        return text
    return "\n".join(_folded(line, width) for line in text.split("\n"))


def _folded(line: str, width: int) -> str:
    if len(line) < width or line.startswith(" ") or "\x1b" in line:
        return line
    import textwrap

    return textwrap.fill(line, width - 1, break_long_words=False, break_on_hyphens=False)


def _painted(line: str) -> str:
    if line.strip(" ^~|") == "" and "^" in line:
        return f"\x1b[1;31m{line}\x1b[0m"
    return f"\x1b[36m{line}\x1b[0m" if line.startswith(("hint:", "maybe you meant")) else line


def hush() -> None:
    """After a closed pipe: what is still in Python's buffers goes nowhere, without a complaint at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            os.dup2(null, stream.fileno())


def exit_on_signals() -> None:
    """Let TERM and HUP end the program as an exit, so that temporary sessions are cleaned up."""

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGHUP, leave)


def state_folder() -> Path:
    """The folder for history and error reports, made if need be; the home directory's place for state.

    Raises `HomeError` where it cannot be made.
    """
    from stqsh.storage.home import made_root, sessions_root

    return made_root(sessions_root())


def init_file() -> Path:
    """The script that the shell reads first: `$STQSH_INIT`, else `init.stq` in the user's configuration."""
    said = os.environ.get("STQSH_INIT")
    if said:
        return Path(said).expanduser()
    import platformdirs

    return Path(platformdirs.user_config_dir("stqsh", appauthor=False)) / "init.stq"


def write_traceback() -> Path | str:
    """Append the current exception's traceback to `errors.log`; its path, or why there is none."""
    import traceback

    text = traceback.format_exc()
    try:
        path = state_folder() / "errors.log"
        with path.open("a", encoding="utf-8") as file:
            file.write(f"pid {os.getpid()}\n{text}\n")
    except (OSError, StqshError) as error:
        return f"no file ({error})"
    return path
